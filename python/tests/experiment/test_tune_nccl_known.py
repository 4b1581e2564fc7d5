"""What a search makes of its stages' times: none is forgotten, channels are tried where they may help."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tune_nccl_machine import FACTS, MadeUpNccl

from busbw.experiment.clock import Clock
from busbw.experiment.plan import Plan
from busbw.experiment.trial import Outcome, Trial
from busbw.experiment.tune_nccl.known import Known, choose, leading, may_help, waves_of
from busbw.experiment.tune_nccl.rules import Way, read_table
from busbw.experiment.tune_nccl.search import Search, rules_of
from busbw.experiment.tune_nccl.ways import Asked, plan_of, plan_to_prove

KIB, MIB = 1 << 10, 1 << 20
TREE, RING = Way("tree/ll"), Way("ring/simple")


def test_what_a_later_stage_had_no_time_for_counts() -> None:
    known = Known()
    known.add({0: {KIB: [10.0]}, 1: {KIB: [10.1]}, 2: {KIB: [8.0]}}, [Way(), TREE])
    known.add({0: {KIB: [10.2]}, 1: {KIB: [9.9]}}, [Way(), TREE, Way("tree/ll", 4)])
    assert known.times[None] == {KIB: [10.0, 10.2]} and choose(known) == {KIB: TREE}
    known.add({0: {KIB: [10.0]}, 1: {KIB: [7.0]}}, [RING])
    assert choose(known) == {KIB: RING} and leading(known) == [RING]
    assert known.best(KIB) == RING and known.best(KIB, but=(RING, TREE)) == Way()


def test_the_own_choice_is_left_where_noise_hides_that_another_is_better() -> None:
    def found(own: float, scatter: float) -> Way | None:
        known = Known()
        values = {0: [30.0, 30.0], 1: [own - scatter, own + scatter], 2: [10.0 - scatter, 10.0 + scatter]}
        known.add({variant: {KIB: each} for variant, each in values.items()}, [Way(), TREE])
        return choose(known, loosened=True)[KIB]

    known = Known()
    known.add({0: {KIB: [30.0]}, 1: {KIB: [10.7, 10.8]}, 2: {KIB: [10.0, 10.05]}, 3: {KIB: [20.0, 60.0]},
               4: {KIB: [20.0, 20.1]}}, [Way(), TREE, RING, Way("ring/ll")])  # fmt: skip
    assert choose(known, loosened=True)[KIB] == TREE, "one wild trial hides nothing"
    assert found(10.8, 0.8) == Way() and found(10.8, 0.05) == TREE and found(14.0, 0.8) == TREE


def test_fewer_channels_are_tried_where_the_fewest_so_far_were_as_good_as_any() -> None:
    ways = [Way(), RING, *(Way(RING.name, channels) for channels in (32, 16, 8, 4))]
    assert waves_of(ways) == [{3, 4}, {5}, {6}]
    times = {0: {KIB: [9.0]}, 1: {KIB: [9.0]}, 2: {KIB: [10.0], MIB: [20.0]}, 3: {KIB: [10.0], MIB: [20.0]}}
    worse, better = {4: {KIB: [11.0], MIB: [22.0]}}, {4: {KIB: [11.0], MIB: [19.0]}}
    assert may_help(ways[2], times, ways) and may_help(ways[3], times, ways)
    assert not may_help(ways[4], {**times, **worse}, ways) and may_help(ways[4], {**times, **better}, ways)
    # Far from the best of all, it need not be the best of its own.
    far = {KIB: [9.0], MIB: [15.0]}
    assert not may_help(ways[4], {**times, **better, 1: far}, ways)


def test_a_gain_is_said_of_the_sizes_at_which_it_was_shown() -> None:
    chosen = {KIB: TREE, 4 * KIB: TREE, 16 * KIB: TREE}
    rules = rules_of("all_reduce", chosen, {16 * KIB: (1.2, 1.3)})
    assert [(rule.first, rule.last, rule.gain) for rule in rules] == [
        (KIB, 8 * KIB, None), (8 * KIB + 1, 16 * KIB, (1.2, 1.3)),
    ]  # fmt: skip
    assert len(rules_of("all_reduce", chosen)) == 1


def test_a_size_that_is_slower_without_what_hinders_gets_another_way(tmp_path: Path) -> None:
    nccl, refused = MadeUpNccl({"NCCL_BUFFSIZE": "4096"}), set()

    def measure(plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        trial = nccl.measure(plan, number, variant, folder, limit_s)
        if not folder.name.startswith("proof") or not variant:
            return trial
        path = Path(str(plan.variants[variant].environment["BUSBW_TUNER_TABLE"]))
        now = next((r.way for p in read_table(path) for r in p.rules if r.first <= MIB <= r.last), Way())
        refused.add(str(now))
        # The first way that a proof tries at 1 MiB is slower there than things were.
        was = nccl.taken("all_reduce", MIB, {})
        times = {p: 1.5 * was if p.bytes == MIB and folder.name == "proof" else us for p, us in trial.times_us.items()}
        return Trial(number, variant, Outcome.MEASURED, 1.0, times)

    asked = Asked(("all_reduce",), 4, KIB, 256 * MIB, loosened=tuple(nccl.hindered))
    search = Search(asked, FACTS, tmp_path, 3, Clock(1e6, lambda: nccl.now), measure)
    rules, proven = search.collective("all_reduce")
    assert rules and not any(each.judgement.verdict.value == "slower" for each in proven)
    assert len(refused) == 2


def test_in_graphs_both_sides_take_the_ways_of_calls_by_themselves(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("busbw-tuner 1\nend 0\n")
    asked = Asked(("all_reduce",), 4, KIB, MIB, graphs=10)
    plans = [plan_to_prove(asked, "all_reduce", tmp_path / "t", seed=1),
             plan_of(asked, "all_reduce", [TREE], FACTS, tmp_path)]  # fmt: skip
    for plan in plans:
        assert plan.words[plan.words.index("-G") + 1] == "10"
        # NCCL registers buffers of graphs, and may do those calls otherwise.
        assert [level.environment.get("NCCL_GRAPH_REGISTER") for level in plan.factors[0].levels] == ["0", "0"]
    alone = plan_to_prove(replace(asked, graphs=0), "all_reduce", tmp_path / "t", seed=1)
    assert "-G" not in alone.words
    assert not any("NCCL_GRAPH_REGISTER" in level.environment for level in alone.factors[0].levels)
