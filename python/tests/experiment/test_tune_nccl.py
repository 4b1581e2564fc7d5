"""The search finds what was planted, keeps what is proven, goes on where it was cut off, and slows no size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tune_nccl_machine import FACTS, MadeUpNccl

from busbw.base.errors import UserError
from busbw.base.files import replace_text
from busbw.experiment.clock import Clock
from busbw.experiment.plan import Plan
from busbw.experiment.trial import BESIDE, Outcome, Trial
from busbw.experiment.tune_nccl.known import Known, choose, is_clear
from busbw.experiment.tune_nccl.rules import (
    Place,
    Rule,
    Way,
    hash_of,
    merged,
    parse_facts,
    read_table,
    table_text,
)
from busbw.experiment.tune_nccl.search import Search, rules_of, sizes_of
from busbw.experiment.tune_nccl.stage import Stage
from busbw.experiment.tune_nccl.ways import Asked, environment_of, hindering, plan_to_prove, with_product
from busbw.records import Case, End, Library, Record, Run, Tool, record_lines
from busbw.runs.destination import RECORD_NAME

KIB, MIB = 1 << 10, 1 << 20


def asked(collective: str = "all_reduce", loosened: tuple[str, ...] = ()) -> Asked:
    return Asked((collective,), 4, KIB, 256 * MIB, loosened=loosened)


def search(nccl: MadeUpNccl, tmp_path: Path, collective: str = "all_reduce", budget: float = 1e6, **options) -> Search:
    return Search(asked(collective, tuple(nccl.hindered)), FACTS, tmp_path, 3, Clock(budget, lambda: nccl.now),
                  nccl.measure, **options)  # fmt: skip


# Twenty ways to have NCCL tuned badly: what stands in nccl.conf, or a tuner that chooses badly by itself.
PLANTED = [
    *(("all_reduce", {"NCCL_ALGO": algorithm}, None) for algorithm in ("Tree", "Ring")),
    *(("all_reduce", {"NCCL_PROTO": protocol}, None) for protocol in ("LL", "LL128", "Simple")),
    *(("all_gather", {"NCCL_PROTO": protocol}, None) for protocol in ("LL", "LL128")),
    *(("all_reduce", {"NCCL_MAX_NCHANNELS": channels}, None) for channels in ("1", "2", "4")),
    ("reduce_scatter", {"NCCL_MAX_NCHANNELS": "2"}, None),
    ("all_reduce", {"NCCL_BUFFSIZE": "4096"}, None),
    ("broadcast", {"NCCL_BUFFSIZE": "4096"}, None),
    ("all_reduce", {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}, None),
    ("all_reduce", {"NCCL_ALGO": "Tree", "NCCL_MAX_NCHANNELS": "1"}, None),
    ("all_reduce", {}, "ring/ll"),
    ("all_reduce", {}, "tree/simple"),
    ("all_gather", {}, "ring/ll"),
    ("reduce_scatter", {}, "pat/simple"),
    ("reduce", {}, "ring/simple"),
]


def share_won_back(number: int, nccl: MadeUpNccl, folder: Path) -> float:
    """Mean over sizes of the best time over the table's time; no size may get slower."""
    collective = PLANTED[number][0]
    looking = search(nccl, folder / "trials", collective)
    rules, _ = looking.collective(collective)
    path = folder / "table.txt"
    replace_text(path, table_text([Place(FACTS, tuple(rules))]))
    # Where no rule pays, nobody is told to empty what hinders.
    environment = environment_of(looking.asked, path) if rules else {}
    shares = []
    for size in sizes_of(looking.asked):
        taken = nccl.taken(collective, size, environment)
        shares.append(nccl.best_us(collective, size) / taken)
        assert taken <= 1.005 * nccl.taken(collective, size, {}), f"{size} got slower"
    return sum(shares) / len(shares)


def mis_tuned(number: int, seed: int, **options: float) -> MadeUpNccl:
    collective, hindered, worse = PLANTED[number]
    return MadeUpNccl(hindered, worse={collective: worse} if worse else None, seed=seed, **options)


@pytest.mark.parametrize("number", range(len(PLANTED)))
def test_a_planted_mis_tuning_is_won_back(number: int, tmp_path: Path) -> None:
    assert share_won_back(number, mis_tuned(number, number), tmp_path) >= 0.98


def test_noise_is_answered_by_more_rounds(tmp_path: Path) -> None:
    # Each third of the planted ones, under noise of 5 % of a trial and 5 % of a size.
    won, trials = 0, []
    for number in range(0, len(PLANTED), 3):
        nccl, folder = mis_tuned(number, 200 + number, noise=0.05), tmp_path / str(number)
        folder.mkdir()
        won += share_won_back(number, nccl, folder) >= 0.98
        trials.append(nccl.trials)
    assert won >= 6 and max(trials) < 1000, (won, trials)


def test_ways_are_clear_where_their_times_repeat() -> None:
    steady = {0: {KIB: [9.0, 1.0]}, 1: {KIB: [10.0, 10.1, 10.0]}, 2: {KIB: [11.0, 11.1, 11.0]}}
    assert is_clear(steady, {0, 1, 2}) and is_clear({}, {1}) and is_clear({1: {KIB: [10.0]}}, {1})
    noisy = {1: {KIB: [10.0, 11.0, 9.0]}, 2: {KIB: [11.0, 12.5, 10.0]}}
    assert not is_clear(noisy, {0, 1, 2})
    assert is_clear({each: {KIB: values[KIB] * 200} for each, values in noisy.items()}, {1, 2})


@pytest.mark.parametrize(("version", "chunks"), [("2.28.9", {0}), ("2.30.7", {0, 256 * KIB})])
def test_a_chunk_that_pays_is_found_where_nccl_asks_for_it(version: str, chunks: set[int], tmp_path: Path) -> None:
    nccl = MadeUpNccl(best_chunk=256 * KIB)
    wanted = Asked(("all_reduce",), 4, 64 * MIB, 256 * MIB)
    one = Search(wanted, {**FACTS, "nccl": version}, tmp_path, 3, Clock(1e6, lambda: nccl.now), nccl.measure)
    rules, _ = one.collective("all_reduce")
    assert {rule.way.chunk for rule in rules} | {0} == chunks
    path = tmp_path / "table.txt"
    replace_text(path, table_text([Place(FACTS, tuple(rules))]))
    assert {rule.way.chunk for rule in read_table(path)[0].rules} | {0} == chunks


def test_beside_a_product_what_counts_is_the_time_of_both(tmp_path: Path) -> None:
    nccl, words = MadeUpNccl(worse={"all_reduce": "ring/simple"}), set()

    def beside(plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        trial = nccl.measure(plan, number, variant, folder, limit_s)
        words.add(plan.words[-2:])
        settings = plan.variants[variant].environment
        way = next((rule.way for place in _of(settings) for rule in place.rules), Way("ring/simple"))
        # The product takes 10 ms, and each channel takes a tenth of its multiprocessors: more than 1 only hurt.
        slower = 1 + 0.1 * (way.channels or 16)
        times = {replace(point, placement=BESIDE): max(value, 1e4 * slower) for point, value in trial.times_us.items()}
        return replace(trial, times_us=times)

    def _of(settings: Mapping[str, str | None]) -> list[Place]:
        return read_table(Path(path)) if (path := settings.get("BUSBW_TUNER_TABLE")) else []

    more = {"all_reduce": ("--beside-amounts", "1:2:3")}
    wanted = Asked(("all_reduce",), 4, KIB, MIB, beside="product", more=more)
    one = Search(wanted, FACTS, tmp_path, 3, Clock(1e6, lambda: nccl.now), beside)
    rules, _ = one.collective("all_reduce")
    assert words == {more["all_reduce"]}
    assert {rule.way.channels for rule in rules} == {1}
    alone, _ = search(nccl, tmp_path / "alone").collective("all_reduce")
    assert not {rule.way.channels for rule in alone if rule.last < MIB} & {1}


def test_the_amounts_of_a_product_are_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = []

    def trial(plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        count.append(plan.words)
        path = folder / "trials" / "r0000-v000" / RECORD_NAME
        path.parent.mkdir(parents=True, exist_ok=True)
        both = {f"{what}_us": [9.0] for what in ("products_alone", "calls_alone", "products_beside", "calls_beside")}
        case = Case("r", 0, "all_reduce", KIB, "out_of_place", "measured", 3.0,
                    beside={"product": "8x8x8", "calls": 7, "products": 5, **both})  # fmt: skip
        run = Run("r", "2026-01-01T00:00:00+00:00", Tool("busbw", "1"), Library("NCCL"))
        end = End("r", "completed" if len(count) > 1 else "interrupted", 1)
        path.write_text("".join(record_lines(Record(run, (case,), end))))
        return Trial(number, variant, Outcome.MEASURED, limit_s)

    monkeypatch.setattr("busbw.experiment.beside.run_trial", trial)
    wanted = asked()
    for _ in range(3):
        with_it = with_product(wanted, "product:8x8x8", tmp_path)
        assert with_it.more["all_reduce"][-1] == f"{KIB}:7:5"
    # A trial that was cut off is measured again; one that was not tells the third time.
    assert len(count) == 2 and "product:8x8x8" in count[0]
    with pytest.raises(UserError, match="was measured beside a product of 8x8x8"):
        with_product(wanted, "product", tmp_path)
    table = tmp_path / "t"
    table.write_text("busbw-tuner 1\nend 0\n")
    plan = plan_to_prove(with_it, "all_reduce", table, seed=1)
    # Without it the plugin applies nothing on several nodes.
    assert plan.factors[0].levels[1].environment["BUSBW_TUNER_ALIKE"] == hash_of(table.read_text())
    assert plan.words[-2:] == ("--beside-amounts", f"{KIB}:7:5")


def test_a_healthy_machine_gets_no_rules(tmp_path: Path) -> None:
    found = []
    for seed in range(10):
        nccl = MadeUpNccl(seed=seed, noise=0.02)
        nccl.time_us = lambda way, size, _: 10.0 + size / 1e5  # type: ignore[method-assign] # every way is alike
        found += search(nccl, tmp_path / str(seed)).collective("all_reduce")[0]
    assert found == []


def test_a_rule_that_falls_back_in_the_proof_is_dropped(tmp_path: Path) -> None:
    nccl = MadeUpNccl(worse={"all_reduce": "ring/ll"})

    def measure(plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        trial = nccl.measure(plan, number, variant, folder, limit_s)
        if folder.name != "proof" or variant == 0:
            return trial
        # What looked good in the search is no better when it counts, from 1 MiB on.
        times = {
            p: t if p.bytes < MIB else 1.02 * nccl.taken("all_reduce", p.bytes, {}) for p, t in trial.times_us.items()
        }
        return Trial(number, variant, Outcome.MEASURED, 1.0, times)

    looking = search(nccl, tmp_path)
    looking.measure = measure
    rules, proven = looking.collective("all_reduce")
    assert rules and all(rule.last < MIB for rule in rules)
    assert {each.size for each in proven if not each.holds} >= {MIB, 4 * MIB}


def test_a_rule_slows_no_call_in_place(tmp_path: Path) -> None:
    nccl = MadeUpNccl(worse={"all_reduce": "ring/ll128"})
    slow = ("tree", "nvls")

    def measure(plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        trial = nccl.measure(plan, number, variant, folder, limit_s)
        path = plan.variants[variant].environment.get("BUSBW_TUNER_TABLE")
        ruled = [rule for place in read_table(Path(path)) for rule in place.rules] if path else []
        times = dict(trial.times_us)
        for point, value in trial.times_us.items():
            way = next((rule.way.name for rule in ruled if rule.first <= point.bytes <= rule.last), "")
            times[replace(point, placement="in_place")] = value * (1.5 if way.startswith(slow) else 1.0)
        return replace(trial, times_us=times)

    looking = search(nccl, tmp_path)
    looking.measure = measure
    rules, _ = looking.collective("all_reduce")
    assert rules and not any(rule.way.name.startswith(slow) for rule in rules)


def test_what_pays_on_the_mean_and_costs_in_place_is_dropped(tmp_path: Path) -> None:
    nccl = MadeUpNccl(worse={"all_reduce": "ring/ll"})

    def measure(plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        trial = nccl.measure(plan, number, variant, folder, limit_s)
        # Only in the proof it comes to light.
        worse = 1.05 if folder.name == "proof" and variant else 1.0
        more = {replace(p, placement="in_place"): worse * nccl.taken("all_reduce", p.bytes, {}) for p in trial.times_us}
        return replace(trial, times_us={**trial.times_us, **(more if folder.name == "proof" else {})})

    looking = search(nccl, tmp_path)
    looking.measure = measure
    rules, proven = looking.collective("all_reduce")
    assert rules == [] and proven and all(each.hurts for each in proven)


def test_no_size_between_those_that_were_searched_is_slower(tmp_path: Path) -> None:
    nccl = MadeUpNccl({"NCCL_ALGO": "Ring"})
    looking = search(nccl, tmp_path / "trials", "all_gather")
    rules, _ = looking.collective("all_gather")
    path = tmp_path / "table.txt"
    replace_text(path, table_text([Place(FACTS, tuple(rules))]))
    environment = environment_of(looking.asked, path)
    for size in sizes_of(looking.asked)[:-1]:
        for share in (1.3, 1.7, 2.0, 2.5, 3.3):
            among = int(size * share)
            taken, own = (nccl.taken("all_gather", among, each) for each in (environment, {}))
            assert rules and taken <= 1.005 * own, among


def test_a_search_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    nccl = MadeUpNccl(worse={"all_reduce": "ring/ll"})

    def cut_off(plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        if nccl.trials == 17:
            raise KeyboardInterrupt
        return nccl.measure(plan, number, variant, folder, limit_s)

    first = search(nccl, tmp_path)
    first.measure = cut_off
    with pytest.raises(KeyboardInterrupt):
        first.collective("all_reduce")
    rules, _ = search(nccl, tmp_path).collective("all_reduce")
    again = nccl.trials
    whole = MadeUpNccl(worse={"all_reduce": "ring/ll"})
    search(whole, tmp_path / "whole").collective("all_reduce")
    assert rules and again <= whole.trials + 3
    # A third time nothing is measured again.
    assert search(nccl, tmp_path).collective("all_reduce")[0] == rules
    assert nccl.trials == again


def test_a_way_leaves_when_it_is_wrong_once_or_crashes_twice(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("busbw-tuner 1\nend 0\n")
    plan, nccl = plan_to_prove(asked(), "all_reduce", tmp_path / "t", seed=1), MadeUpNccl()
    stage = Stage(plan, tmp_path, nccl.measure, Clock(1e6), lambda _: None)
    outcomes = [(0, 1, Outcome.CRASHED), (0, 2, Outcome.WRONG), (0, 3, Outcome.CRASHED), (1, 1, Outcome.CRASHED)]
    stage.trials = [Trial(number, variant, outcome, 1.0) for number, variant, outcome in outcomes]
    assert stage.failed() == {1, 2}


def test_the_library_that_was_asked_for_is_measured(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("busbw-tuner 1\nend 0\n")
    for library, words in (("/nccl.so", ("--library", "/nccl.so")), ("auto", ())):
        plan = plan_to_prove(replace(asked(), library=library), "all_reduce", tmp_path / "t", seed=1)
        assert plan.words[-2:] == words or (not words and "--library" not in plan.words)


def test_half_of_the_ways_leave_after_each_round_and_fewer_channels_are_tried_where_they_may_help(
    tmp_path: Path,
) -> None:
    nccl = MadeUpNccl()
    search(nccl, tmp_path).collective("all_reduce")

    def rounds(stage: str) -> list[int]:
        lines = (tmp_path / "all_reduce" / stage / "trials.jsonl").read_text().splitlines()
        return [sum(f'"round": {number},' in line for line in lines) for number in range(3)]

    first, second, third = rounds("ways")
    assert first > second > third
    ways = json.loads((tmp_path / "all_reduce" / "channels" / "stage.json").read_text())["ways"]
    assert rounds("channels")[0] <= 0.75 * len(ways)


def test_a_budget_ends_it(tmp_path: Path) -> None:
    nccl = MadeUpNccl(worse={"all_reduce": "ring/ll"})
    search(nccl, tmp_path, budget=40.0).collective("all_reduce")
    assert nccl.trials <= 42


def test_a_baseline_that_fails_is_told(tmp_path: Path) -> None:
    looking = search(MadeUpNccl(), tmp_path)
    looking.measure = lambda _, number, variant, *rest: Trial(number, variant, Outcome.CRASHED, 1.0, reason="no GPU")
    with pytest.raises(UserError, match="cannot be measured as things are: no GPU"):
        looking.collective("all_reduce")


def test_rules_meet_half_way_join_and_end_where_none_follows() -> None:
    tree, ring = Way("tree/ll"), Way("ring/simple", 8)
    found = rules_of(
        "all_reduce", {KIB: tree, 4 * KIB: tree, 16 * KIB: None, 64 * KIB: ring, 256 * KIB: tree, MIB: Way()},
        {KIB: (1.1, 1.2), 4 * KIB: (1.05, 1.1), 64 * KIB: (1.3, 1.4), 256 * KIB: (1.1, 1.3)},
    )  # fmt: skip
    # Nobody knows what pays between a size with a rule and one without.
    assert [str(rule) for rule in found] == [
        "rule all_reduce 1024 4096 tree/ll gain=1.050..1.200",
        "rule all_reduce 65536 131072 ring/simple channels=8 gain=1.300..1.400",
        "rule all_reduce 131073 262144 tree/ll gain=1.100..1.300",
    ]


def test_a_table_is_read_as_it_is_written(tmp_path: Path) -> None:
    rule = Rule("all_gather", 1, 100, Way("default", 16), (1.02, 1.04))
    replace_text(tmp_path / "t", table_text([Place(FACTS, (rule,))], ["a remark"]))
    assert read_table(tmp_path / "t") == [Place(FACTS, (rule,))]
    other = Place({**FACTS, "ranks": "8"}, (Rule("broadcast", 1, 100, Way("ring/ll")),))
    new = Place(FACTS, (Rule("all_reduce", 1, 2, Way("tree/ll")),))
    both = merged([*read_table(tmp_path / "t"), other], new)
    assert both == [Place(FACTS, (*new.rules, rule)), other]
    # What was measured again is gone, also where no rule of it was found again.
    again = Place(FACTS, (Rule("all_gather", 1, 100, Way("ring/ll")),))
    assert merged(both, again) == [Place(FACTS, (*again.rules, *new.rules)), other]


def test_where_what_hinders_nccl_is_taken_away_each_size_has_its_best_way() -> None:
    times = {0: {KIB: [100.0], MIB: [100.0]}, 1: {KIB: [99.5], MIB: [50.0]}, 2: {KIB: [100.4], MIB: [80.0]}}
    ways = [Way("tree/ll"), Way("ring/ll")]
    known = Known()
    known.add(times, ways)
    assert choose(known) == {KIB: None, MIB: ways[0]}
    assert choose(known, loosened=True) == {KIB: ways[0], MIB: ways[0]}


@pytest.mark.parametrize("text", [
    "", "busbw-tuner 2\n", "busbw-tuner 1\nmeasured\nend 0\n", "busbw-tuner 1\nend 1\n",
    "busbw-tuner 1\nrule x\nend 1\n",
    table_text([Place(FACTS, (Rule("all_reduce", 1, 2, Way("tree/ll")),))])[:-6],
])  # fmt: skip
def test_what_is_no_table_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(UserError):
        read_table(tmp_path / "t")


def test_facts_and_hash() -> None:
    text = "\n".join(Place(FACTS).lines()) + "\n"
    assert parse_facts(text) == FACTS
    with pytest.raises(UserError, match="cannot find out driver"):
        parse_facts(text.replace("driver 1.2", "driver "))
    # FNV-1a's published values.
    assert hash_of("") == "cbf29ce484222325" and hash_of("foobar") == "85944171f73967e8"


def test_what_hinders_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "NCCL_ALGO" in hindering({"NCCL_ALGO": "Tree"})
    assert hindering({"NCCL_NVLS_ENABLE": "0"}) == ()
    assert "NCCL_ALGO" not in hindering({"NCCL_ALGO": ""})
