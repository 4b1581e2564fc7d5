"""A table for the tuner plugin: read as the plugin reads it, and proven with one chance of a false claim in it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from busbw.analysis.verdict import ALPHA, of_rounds
from busbw.base.errors import UsageError, UserError
from busbw.cli.tune_nccl import _use_lines
from busbw.experiment.clock import Clock
from busbw.experiment.tune_nccl.rules import Way, read_table
from busbw.experiment.tune_nccl.search import Proven, Search, prove
from busbw.experiment.tune_nccl.ways import Asked, loosening

FACTS = "measured\nnccl 2.28.9\ngpu NVIDIA H200\ndriver 580.95.05\ntopology 1f0c5a7be39d2c44\nranks 4\nnodes 1\n"


def table(*rules: str, facts: str = FACTS) -> str:
    return "busbw-tuner 1\n" + facts + "".join(f"rule {rule}\n" for rule in rules) + f"end {len(rules)}\n"


@pytest.mark.parametrize("rule", [
    "all_reduce 0 18446744073709551615 tree/ll ", "broadcast 0 9 default channels=64 chunk=1073741824 gain=1.0..1.2",
])  # fmt: skip
def test_what_the_plugin_takes_is_a_table(tmp_path: Path, rule: str) -> None:
    (tmp_path / "t").write_text(table(rule))
    (place,) = read_table(tmp_path / "t")
    assert len(place.rules) == 1


@pytest.mark.parametrize("text", [
    table("all_reduce 0 9 tree/ll channels=65"), table("all_reduce 0 9 tree/ll channels=0"),
    table("all_reduce 0 9 tree/ll channels=-1"), table("all_reduce 0 9 tree/ll channels=1_0"),
    table("all_reduce 0 9 tree/ll chunk=1073741825"), table("all_reduce 0 9 tree/ll threads=5"),
    table("all_reduce 0 9 tree/ll channels=1 channels=2"), table("all_reduce 0 9 default"),
    table("all_reduce 0 9 collnet_chain/simple channels=2"), table("all_reduce 0 18446744073709551616 tree/ll"),
    table("all_reduce +0 9 tree/ll"), table("all_reduce 9 0 tree/ll"), table("alltoall 0 9 tree/ll"),
    table(facts=FACTS.replace("H200", "\x1b[31mH200")), table(facts=FACTS.replace("H200", "H" * 300)),
    table(facts=FACTS.replace("ranks 4", "ranks 0")), table(facts=FACTS.replace("nodes 1", "nodes one")),
    table(facts=FACTS.replace("gpu", "gpu A100\ngpu")),
])  # fmt: skip
def test_what_the_plugin_refuses_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(UserError, match=r"t:\d+: .* is no line of a table"):
        read_table(tmp_path / "t")


class Rounds:
    """A stage whose rounds are known: `logs` by size, one value a round."""

    def __init__(self, logs: Mapping[int, Sequence[float]]) -> None:
        self.logs, self.done = logs, 0
        self.told: list[str] = []

    def round(self, number: int, among: Iterable[int], share: float) -> bool:
        assert set(among) == {0, 1} and share == 1.0
        self.done = number + 1
        return True

    def pairs(self, before: int) -> dict[int, dict[str, list[float]]]:
        return {size: {"out_of_place": list(values[: self.done])} for size, values in self.logs.items()}

    def tell(self, text: str) -> None:
        self.told.append(text)


def proof(logs: Mapping[int, Sequence[float]], rounds: int) -> tuple[dict[int, Proven], int]:
    stage = Rounds(logs)
    found = prove("all_reduce", dict.fromkeys(logs, Way("tree/ll")), stage, rounds, 1.0)  # type: ignore[arg-type]
    return {each.size: each for each in found}, stage.done


def test_the_chance_of_a_false_claim_is_shared_among_the_sizes_of_a_table() -> None:
    chance = random.Random(7)
    noise = {1 << power: [chance.gauss(0.01, 0.02) for _ in range(10)] for power in range(10, 26)}
    alone, _ = proof({1024: noise[1024]}, 10)
    among, _ = proof(noise, 10)
    one, many = alone[1024].judgement.interval, among[1024].judgement.interval
    assert one and many and many.low < one.low and one.high < many.high
    expected = of_rounds(noise[1024], alpha=ALPHA / len(noise)).interval
    assert expected and (many.low, many.high) == (expected.low, expected.high)


def test_no_table_is_proven_in_fewer_than_three_rounds() -> None:
    # A gain of 30 % with next to no noise.
    found, rounds = proof({1024: [0.3, 0.3001, 0.2999, 0.3, 0.3001, 0.3]}, 6)
    assert found[1024].holds and rounds >= 3


def test_noise_alone_proves_nothing() -> None:
    sizes = [1 << power for power in range(10, 31, 2)]
    false = 0
    for seed in range(60):
        chance = random.Random(seed)
        found, _ = proof({size: [chance.gauss(0, 0.05) for _ in range(12)] for size in sizes}, 12)
        false += any(each.holds for each in found.values())
    assert false <= 3  # 5 % of the tables


def test_a_table_without_its_last_newline_was_cut_off(tmp_path: Path) -> None:
    whole = table("all_reduce 0 9 tree/ll")
    for end in ("", "x", " "):
        (tmp_path / "t").write_text(whole.rstrip("\n") + end)
        with pytest.raises(UserError):
            read_table(tmp_path / "t")
    (tmp_path / "t").write_text(whole)
    assert read_table(tmp_path / "t")


@pytest.mark.parametrize(("text", "sentence"), [
    ("busbw-tuner 2\nend 0\n", "it is of version 2, and this busbw reads version 1"),
    ("busbw-tuner 10\nend 0\n", "it is of version 10, and"), ("busbw-tuner 1.1\nend 0\n", "its first line is not"),
    ("\ufeff" + table(), "it begins with a byte order mark"),
    (table().replace("\n", "\r\n"), "its lines end with CR and LF"),
    ("# coll,min,max\nallreduce,0,65536,tree,simple\n", "its first line is not 'busbw-tuner 1'"),
    (table("all_to_all 0 9 tree/ll"), "no tuner is asked about 'all_to_all'"),
    (table("all_reduce 0"), "a rule has a collective"),
    (table("all_reduce 9 0 tree/ll"), "the first size is larger"),
    (table("all_reduce 128K 1M tree/ll"), "'128K' is no number"),
    ("PK\x03\x04\udc80", "is no text in UTF-8"),
])  # fmt: skip
def test_a_table_from_elsewhere_is_refused_in_a_right_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "t").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match=sentence):
        read_table(tmp_path / "t")


def test_a_table_that_is_surely_slower_at_a_size_needs_no_more_rounds_where_it_is_worth_nothing_then() -> None:
    logs = {1024: [-0.2, -0.201] * 10, 2048: [-0.3, 0.3] * 10}
    rounds = {}
    for until_slower in (False, True):
        stage = Rounds(logs)
        prove("all_reduce", dict.fromkeys(logs, Way("tree/ll")), stage, 20, 1.0, until_slower=until_slower)  # type: ignore[arg-type]
        rounds[until_slower] = stage.done
    assert rounds[False] == 20 and rounds[True] <= 5


def test_only_what_hinders_ends_a_proof_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for = []

    def proving(*_: object, until_slower: bool, **__: object) -> list[Proven]:
        asked_for.append(until_slower)
        return []

    monkeypatch.setattr("busbw.experiment.tune_nccl.search.prove", proving)
    facts = dict(line.split(" ", 1) for line in FACTS.splitlines()[1:])
    for loosened in ((), ("NCCL_ALGO",)):
        asked = Asked(("all_reduce",), 4, 1024, 4096, loosened=loosened)
        search = Search(asked, facts, tmp_path, 3, Clock(1.0))
        search._proof("all_reduce", {1024: Way("tree/ll")}, 1.0)
    assert asked_for == [False, True]


def test_what_the_environment_sets_is_unset_and_a_file_gets_a_value_that_is_none(
    tmp_path: Path,
) -> None:
    conf = tmp_path / "nccl.conf"
    conf.write_text("NCCL_ALGO=Tree\nNCCL_PROTO=LL\nNCCL_MAX_NCHANNELS=4\n")
    names = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_MAX_NCHANNELS")
    alone = {"NCCL_CONF_FILE": str(tmp_path / "none"), "NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}
    # Up to 2.23 an empty list leaves none of them; the library would compute nothing.
    assert loosening(names[:2], alone, "2.21.5") == {"NCCL_ALGO": None, "NCCL_PROTO": None}
    by_file = {**alone, "NCCL_CONF_FILE": str(conf)}
    assert loosening(names, by_file, "2.24.3") == {"NCCL_ALGO": "^", "NCCL_PROTO": "", "NCCL_MAX_NCHANNELS": ""}
    assert loosening(names, by_file, "2.23.4") == {"NCCL_ALGO": "^", "NCCL_PROTO": None, "NCCL_MAX_NCHANNELS": ""}


def test_what_a_file_of_the_system_sets_for_good_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = tmp_path / "nccl.conf"
    conf.write_text("NCCL_PROTO=LL\n")
    for module in ("machine.nccl.conf", "experiment.own_conf"):
        monkeypatch.setattr(f"busbw.{module}.SYSTEM_CONF", str(conf))
    given = {"NCCL_CONF_FILE": str(tmp_path / "none")}
    assert loosening(("NCCL_PROTO",), given, "2.27.3") == {"NCCL_PROTO": ""}
    with pytest.raises(UsageError, match="NCCL_PROTO cannot be unset"):
        loosening(("NCCL_PROTO",), given, "2.21.5")


def test_the_job_is_told_to_unset_what_was_unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = tmp_path / "nccl.conf"
    conf.write_text("NCCL_PROTO=LL\n")
    monkeypatch.setenv("NCCL_CONF_FILE", str(conf))
    asked = Asked(("all_reduce",), 4, 1024, 4096, loosened=("NCCL_ALGO", "NCCL_PROTO", "NCCL_BUFFSIZE"),
                  loosening={"NCCL_BUFFSIZE": ""})  # fmt: skip
    said = "\n".join(_use_lines(asked, {"nodes": "1"}, tmp_path / "table", ""))
    assert "unset NCCL_ALGO\n" in said and "NCCL_ALGO=" not in said
    assert f"line 1 of {conf} removed, which sets NCCL_PROTO" in said and "NCCL_BUFFSIZE=''" in said
