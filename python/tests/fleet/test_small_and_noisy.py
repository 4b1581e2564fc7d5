"""Small fleets with much noise: no verdict from noise alone, and a large fault is still named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.fleet.plan import Options, inside_of
from busbw.fleet.score import play
from busbw.fleet.simulate import Fault, World, make_fabric

OPTIONS = Options(inside=inside_of(2))


@pytest.mark.parametrize("nodes", [4, 8])
def test_noise_of_five_percent_condemns_nobody(nodes: int) -> None:
    for seed in range(1, 9):
        score = play(World(make_fabric(nodes, 32, 2), noise=0.05, seed=seed), OPTIONS)
        assert (score.invented, score.accused) == ((), 0)


def test_a_fault_of_ten_percent_is_named_through_the_noise() -> None:
    world = World(make_fabric(8, 32, 2), noise=0.05, seed=3)
    score = play(replace(world, faults=(Fault("nic1@node0005", 0.10),)), OPTIONS)
    assert (score.named, score.accused) == (1, 0)
