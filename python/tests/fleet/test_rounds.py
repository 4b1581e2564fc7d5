"""What keeps rounds few: drift is no scatter, and what is open is not measured again where its parts tell more."""

from __future__ import annotations

import random

from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options
from busbw.fleet.plan import next_round
from busbw.fleet.scatter import Scatter
from busbw.fleet.simulate import make_fabric
from busbw.fleet.trial import ACROSS, WITHIN, Deviation, Outcome, Trial, beside, by_peers, observe


def test_groups_of_several_rounds_show_no_scatter_where_only_rounds_differ() -> None:
    chance, scatter = random.Random(1), Scatter()
    pairs = [(f"a{at}", f"b{at}") for at in range(24)]
    rounds = [(pairs[:12], 48.0), (pairs[12:], 49.0), (pairs[6:18], 47.0)]
    for groups, level in rounds:
        outcomes = [Outcome(Trial(ACROSS, pair, "rail0", 16), tuple(level * chance.gauss(1, 0.01) for _ in range(16)))
                    for pair in groups]  # fmt: skip
        for of, group in by_peers(outcomes).items():
            observe(beside(of, group), scatter)
    assert scatter.two_levels() == 0.0
    assert scatter.again[-1].shown < 2 * scatter.again[-1].own


def test_parts_of_a_group_that_seems_slow_are_measured_and_not_the_group_again() -> None:
    fabric, known, options = make_fabric(64, 16, 2), Knowledge(), Options(inside=())
    pods = list(fabric.pods().values())
    for rail in range(2):
        for nodes in pods:
            key = (WITHIN, nodes, f"rail{rail}")
            known.found[WITHIN][key], known.tries[key] = Deviation(0.0, 0.002), 1
    suspect = (WITHIN, pods[1], "rail0")
    for loss, parts in ((0.04, True), (0.02, False)):
        known.found[WITHIN][suspect] = Deviation(loss, 0.012)
        asked = {trial.nodes for trial in next_round(fabric, known, options) if not trial.control}
        assert asked == ({pods[1][:8], pods[1][8:]} if parts else {pods[1]})
