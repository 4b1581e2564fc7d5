"""What peers cannot show: all nodes slower than expected or than earlier, one part slower than it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.level import Before, judge_levels
from busbw.fleet.options import Options, inside_of
from busbw.fleet.plan import next_round
from busbw.fleet.results import Results, head_line, result_line
from busbw.fleet.simulate import Fault, World, make_fabric, run
from busbw.fleet.trial import INSIDE, WITHIN, Outcome, Trial
from busbw.fleet.verdict import Verdict


def write(path: Path, seed: int, scale: float = 1.0, faults: tuple[Fault, ...] = ()) -> str:
    """Results of 16 nodes on two rails; all are `scale` times as fast."""
    world = World(make_fabric(16, 8, 2), faults, drift=0.0, seed=seed)
    options, known = Options(inside=inside_of(2)), Knowledge()
    lines = [head_line(world.fabric, options)]
    while trials := next_round(world.fabric, known, options):
        outcomes = [one._replace(samples=tuple(sample * scale for sample in one.samples))
                    for one in run(world, trials, known.rounds)]  # fmt: skip
        lines += [result_line(known.rounds, outcome) for outcome in outcomes]
        known.learn(outcomes)
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def judged(capsys: pytest.CaptureFixture[str], *words: str) -> list[tuple[str, str, str, float]]:
    main(["fleet", "judge", *words, "--json"])
    faults = json.loads(capsys.readouterr().out)["faults"]
    return sorted((each["kind"], each["place"], each["channel"], round(each["loss"], 2)) for each in faults)


def test_all_nodes_slower_than_expected_is_a_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = write(tmp_path / "now", 1, 0.9)
    assert judged(capsys, now) == []
    assert judged(capsys, now, "--expected", "rail=48,nvlink=40") == [("level", "all nodes", "rail", 0.1)]


def test_all_nodes_slower_than_earlier_is_a_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    then, now = write(tmp_path / "then", 1), write(tmp_path / "now", 2, 0.9)
    found = judged(capsys, now, "--earlier", then)
    assert {(kind, place, channel) for kind, place, channel, _ in found} == {
        ("level", "all nodes", channel) for channel in ("nvlink", "pcie", "nic", "rail")
    }
    assert all(0.08 < loss < 0.12 for *_, loss in found)
    assert judged(capsys, then, "--earlier", now) == []


def test_a_part_slower_than_it_was_is_named_though_its_peers_hide_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    then = write(tmp_path / "then", 1)
    now = write(tmp_path / "now", 2)
    lines = Path(then).read_text().splitlines()  # it was better than its peers, and is as they are now
    for at, line in enumerate(lines):
        each = json.loads(line)
        if each.get("channel") == "nic1" and each["nodes"] == ["node0005"]:
            each["samples"] = [sample * 1.06 for sample in each["samples"]]
            lines[at] = json.dumps(each)
    Path(then).write_text("\n".join(lines))
    assert judged(capsys, now) == []
    found = judged(capsys, now, "--earlier", then)
    assert [(kind, place, channel) for kind, place, channel, _ in found] == [("nic", "node0005", "nic1")]


def results(*medians: float, channel: str = "rail0", nodes: int = 2, noise: float = 0.001) -> Results:
    """One round of groups (of single nodes inside) with eight samples around each median."""
    kind = WITHIN if channel.startswith("rail") else INSIDE
    trials = [Trial(kind, tuple(f"n{at}x{each}" for each in range(nodes)), channel, 8) for at in range(len(medians))]
    return Results([[Outcome(t, tuple(m * (1 + noise * (at - 3.5)) for at in range(8)))
                     for t, m in zip(trials, medians, strict=True)]])  # fmt: skip


def told(now: Results, before: Before, *named: Verdict) -> list[str]:
    return [v.name for v in judge_levels(now, before, Options(), named)]


def test_what_noise_may_be_is_not_slower_than_expected() -> None:
    assert told(results(9.6, 9.6, 9.6), Before({"rail": 10.0})) == ["rail level of all nodes"]
    assert told(results(9.6, 9.6, 9.6, noise=0.02), Before({"rail": 10.0})) == []


def test_the_best_groups_say_what_is_reached() -> None:
    pairs, rings = results(10.0, 10.0, 10.0), results(9.0, 9.0, 9.0, nodes=8)
    assert told(Results([*pairs.rounds, *rings.rounds]), Before({"rail": 10.0})) == []


def test_a_part_is_compared_beyond_its_noise_and_named_once() -> None:
    then, now = [results(*[10.0] * 9, last, channel="nic0", nodes=1, noise=0.001) for last in (10.8, 10.0)]
    assert told(now, Before(earlier=[("then", then)])) == ["nic0 of n9x0"]
    assert told(now, Before(earlier=[("then", then)]), Verdict("nic", "n9x0", "nic0", 0.3, 0.01)) == []
    then, now = [results(*[10.0] * 9, last, channel="nic0", nodes=1, noise=0.03) for last in (10.8, 10.0)]
    assert told(now, Before(earlier=[("then", then)])) == []


@pytest.mark.parametrize("words", ["rail", "rail=fast", "gpu=3", "rail=-1", "rail=nan"])
def test_an_expectation_that_is_none_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    now = write(tmp_path / "now", 1)
    capsys.readouterr()
    assert main(["fleet", "judge", now, "--expected", words]) == 2
    assert "--expected takes GB/s for nvlink, pcie, nic, rail" in capsys.readouterr().err
