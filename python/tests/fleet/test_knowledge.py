"""What is known decides what is asked: classes of groups, known good ones, the pair that is measured again, limits."""

from __future__ import annotations

import pytest

from busbw.fleet.doubts import Judged, doubts
from busbw.fleet.fabric import Fabric
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options
from busbw.fleet.plan import next_round
from busbw.fleet.results import Results
from busbw.fleet.scatter import Scatter
from busbw.fleet.simulate import make_fabric
from busbw.fleet.trial import ACROSS, INSIDE, WITHIN, Deviation, Outcome, Trial, by_peers
from busbw.fleet.verdict import Verdict

PODS = make_fabric(32, 16, 1)
NOTHING = Options(inside=())


def within(*nodes: str, control: bool = False) -> Trial:
    return Trial(WITHIN, nodes, "rail0", 4, control)


def measured(trial: Trial, level: float, slow: int = 0) -> Outcome:
    """Eight samples near this level, of which some are far below it."""
    return Outcome(trial, tuple(level * (0.5 if at < slow else 1 + 0.001 * (at % 3 - 1)) for at in range(8)))


def test_groups_of_other_sizes_are_no_peers() -> None:
    outcomes = [measured(within(*(f"n{at}" for at in range(size))), 10.0) for size in (2, 3, 4, 5, 8, 9)]
    assert [len(group) for group in by_peers(outcomes).values()] == [1, 2, 2, 1]


def test_a_known_good_group_is_not_judged_anew_beside_few() -> None:
    known, pairs = Knowledge(), [within(f"n{at}", f"m{at}") for at in range(20)]
    known.learn([measured(pair, 10.0) for pair in pairs])
    before = known.found[WITHIN][pairs[0].key]
    known.learn([measured(pairs[0]._replace(control=True), 7.0)])
    assert known.found[WITHIN][pairs[0].key] == before


def test_of_three_groups_the_scatter_is_more_than_their_middle_shows() -> None:
    scatter = Scatter()
    keys = [(WITHIN, (name,), "rail0") for name in "abc"]
    scatter.compare(dict.fromkeys(keys, 10.0), 0.001)
    scatter.compare(dict(zip(keys, (10.2, 10.0, 9.8), strict=True)), 0.001)
    assert scatter.again[0].shown == pytest.approx(1.4826 * 0.02 / 2**0.5 * 3 / 2.2, rel=0.02)


def test_nothing_is_planned_after_the_last_round() -> None:
    assert next_round(PODS, Knowledge(rounds=39), Options())
    assert next_round(PODS, Knowledge(rounds=40), Options()) == ()


def test_many_parts_that_are_measured_again_are_each_others_peers() -> None:
    # Sixteen that are hardly slower are each other's peers; of sixteen slow ones known good nodes say what is usual.
    for doubtful, loss, controls in ((15, 0.012, 6), (16, 0.012, 0), (16, 0.02, 6)):
        known = Knowledge(rounds=1)
        for at, node in enumerate(PODS.nodes):
            key = (INSIDE, (node,), "nvlink")
            known.found[INSIDE][key] = Deviation(loss if at < doubtful else 0.0, 0.003)
            known.tries[key] = 1
        assert sum(t.control for t in next_round(PODS, known, Options())) == controls


def test_a_pair_that_is_open_is_measured_again_with_the_same_partner() -> None:
    known, nodes = Knowledge(rounds=1), PODS.pods()["pod00"]
    good = [(*PODS.pods()["pod01"],), nodes[8:], nodes[4:8]]
    for group in (*good, nodes, nodes[:8], nodes[:4]):
        known.found[WITHIN][WITHIN, group, "rail0"] = Deviation(0.0 if group in good else 0.2, 0.002)
        known.tries[WITHIN, group, "rail0"] = 1
    fabric = make_fabric(64, 16, 1)
    for pod in ("pod02", "pod03"):
        known.found[WITHIN][WITHIN, fabric.pods()[pod], "rail0"] = Deviation(0.0, 0.002)
        known.tries[WITHIN, fabric.pods()[pod], "rail0"] = 1
    first = [t for t in next_round(fabric, known, NOTHING) if not t.control]
    assert [t.nodes[1] for t in first] == list(nodes[:4])
    for t, one in zip(first, (Deviation(0.2, 0.002), *[Deviation(0.015, 0.01)] * 3), strict=True):
        known.found[WITHIN][t.key] = one
        known.tries[t.key] = 1
    second = [t for t in next_round(fabric, known, NOTHING) if not t.control]
    assert [t.nodes for t in second] == [t.nodes for t in first[1:]]


@pytest.mark.parametrize(("nodes", "sizes"), [(64, [64]), (65, [32, 33]), (130, [43, 43, 44])])
def test_nodes_without_a_pod_are_cut_into_parts_that_are_alike(nodes: int, sizes: list[int]) -> None:
    fabric = Fabric(tuple(f"n{at}" for at in range(nodes)))
    assert [len(group) for group in fabric.groups(64).values()] == sizes


def heard(
    rounds: list[list[Outcome]], *verdicts: Verdict, fabric: Fabric = PODS, known: Knowledge | None = None
) -> str:
    judged = Judged(fabric, known or Knowledge(), NOTHING, verdicts)
    return " ".join(doubts(Results(rounds), judged, False))


A, B, C, D = (within(f"{name}1", f"{name}2") for name in "abcd")


def test_a_round_of_suspects_beside_known_good_ones_is_no_change_of_load() -> None:
    pairs = [within(f"n{at}", f"m{at}") for at in range(8)]
    first, slow = ([measured(each, level) for each in pairs] for level in (10.0, 8.0))
    assert "the load changed" in heard([first, slow])
    assert "the load changed" not in heard([first, [*slow, measured(D._replace(control=True), 8.0)]])


def test_slow_at_times_is_told_of_a_node_only_where_others_are_not_and_samples_are_enough() -> None:
    good = [measured(each, 10.0) for each in (B, C, D)]
    assert "a1 is slow at times" in heard([[measured(A, 10.0, slow=3), *good], [measured(A, 10.0, slow=3), *good]])
    assert "slow at times" not in heard([[measured(A, 10.0, slow=3), *good]]), "eight samples are too few"
    all_of_them = [measured(each, 10.0, slow=3) for each in (A, B, C, D)]
    assert "slow at times" not in heard([all_of_them, all_of_them])


def test_what_failed_once_is_told_unless_its_node_is_named() -> None:
    rounds = [[Outcome(A, (), "it died"), measured(B, 10.0), measured(C, 10.0)], [measured(A, 10.0)]]
    assert "failed and went well another time" in heard(rounds)
    assert "failed and went well" not in heard(rounds, Verdict("link", "a1", "rail0", 0.3, 0.01))


def test_what_failed_and_was_not_tried_again_is_told_until_somebody_is_named() -> None:
    known, rounds = Knowledge(), [[Outcome(A, (), "it died"), *(measured(each, 10.0) for each in (B, C, D))]]
    known.learn(rounds[0])
    assert "nothing is known of a1,a2: it died" in heard(rounds, known=known).replace("a[1-2]", "a1,a2")
    assert "nothing is known" not in heard(rounds, Verdict("link", "a1", "rail0", 1.0, 0.0), known=known)
    known.learn([Outcome(A, (), "it died")])
    assert "nothing is known" not in heard(rounds, known=known)


def test_a_slow_group_is_explained_by_what_it_passed_on_its_rail_or_above_its_pods() -> None:
    fabric = Fabric(("a1", "a2", "b1"), {"a1": "p", "a2": "p", "b1": "q"}, 2, {"p": "top"})
    known, rounds = Knowledge(), [[measured(each, 10.0) for each in (A, B, C)]]
    known.found[WITHIN][A.key], known.tries[A.key] = Deviation(0.3, 0.002), 3
    elsewhere, here = (Verdict("cable", "a1", f"rail{rail}", 0.3, 0.01) for rail in (1, 0))
    assert "which no fault here explains" in heard(rounds, elsewhere, fabric=fabric, known=known)
    assert heard(rounds, here, fabric=fabric, known=known) == ""
    across = (ACROSS, ("a1", "b1"), "rail0")
    known = Knowledge()
    known.found[ACROSS][across], known.tries[across] = Deviation(0.3, 0.002), 3
    assert heard(rounds, Verdict("uplink", "top", "rail0", 0.3, 0.01), fabric=fabric, known=known) == ""
    assert heard(rounds, Verdict("uplink", "other", "rail0", 0.3, 0.01), fabric=fabric, known=known)
