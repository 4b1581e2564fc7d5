"""Small messages: a link on which they are late is named, whatever its bandwidth, and nobody else is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.fleet.fabric import Fabric
from busbw.fleet.judge import judge
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options
from busbw.fleet.plan import next_round
from busbw.fleet.results import head_line, read, result_line
from busbw.fleet.show import amount, nodes_to_exclude
from busbw.fleet.simulate import Fault, World, make_fabric, run
from busbw.fleet.verdict import Verdict
from busbw.fleet.words import SMALL, Launching, launch

OPTIONS = Options(smallest_loss=0.1, inside=(), later=0.25)


def played(fabric: Fabric, *faults: Fault, options: Options = OPTIONS) -> tuple[list[Verdict], Knowledge]:
    world, known = World(fabric, faults, noise=0.03), Knowledge()
    while trials := next_round(fabric, known, options):
        known.learn(run(world, trials, known.rounds))
    return judge(fabric, known, options), known


@pytest.mark.parametrize("nodes", [3, 5, 7, 8, 64])
def test_a_late_link_is_named_with_its_rail(nodes: int) -> None:
    for late in {0, nodes // 2, nodes - 1}:
        fabric = make_fabric(nodes, 16, 2)
        found, known = played(fabric, Fault(f"delay1@{fabric.nodes[late]}", 0.3))
        assert [(v.kind, v.place, v.channel) for v in found] == [("latency", fabric.nodes[late], "latency1")]
        assert found[0].loss == pytest.approx(0.3, abs=0.03)
        assert amount(found[0]).startswith("later by 4") and found[0].name == f"latency1 link of {fabric.nodes[late]}"
        assert set(nodes_to_exclude(fabric, found)) == {fabric.nodes[late]}
    assert known.rounds <= 12


def test_bandwidth_and_latency_are_different_faults_of_one_link_and_a_dead_link_is_named_once() -> None:
    fabric = replace(make_fabric(8, 8, 1), pod_of={})
    faults = [Fault("cable0@node0001", 0.2), Fault("delay0@node0001", 0.5), Fault("cable0@node0005", 1.0)]
    found, _ = played(fabric, *faults)
    assert {(v.kind, v.place) for v in found} == {("link", "node0001"), ("latency", "node0001"), ("link", "node0005")}


def test_nobody_is_late_without_a_delay_and_nothing_is_asked_where_it_is_not_wanted() -> None:
    assert played(make_fabric(64, 16, 2))[0] == []
    _, known = played(make_fabric(8, 8, 1), options=replace(OPTIONS, later=0.0))
    assert not any(key[2].startswith("latency") for found in known.found.values() for key in found)


def test_small_messages_are_started_as_such_and_results_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fabric, known = make_fabric(4, 4, 1), Knowledge()
    lines, asked = [head_line(fabric, OPTIONS)], []
    while trials := next_round(fabric, known, OPTIONS):
        asked += trials
        outcomes = run(World(fabric, (Fault("delay0@node0002", 0.4),)), trials, known.rounds)
        lines += [result_line(known.rounds, each) for each in outcomes]
        known.learn(outcomes)
    late = next(each for each in asked if each.channel == "latency0")
    (line,) = launch(late, Launching(Path("engine"), devices=("mlx5_0",)), Path("out")).lines()
    assert f"-b {SMALL} -e {SMALL}" in line and "mlx5_0" in line
    file = tmp_path / "f.jsonl"
    file.write_text("\n".join(lines) + "\n")
    assert read(file.read_text(), "f")[1] == OPTIONS
    assert main(["fleet", "judge", str(file), "--json", "--page", str(tmp_path / "p.html")]) == 1
    (fault,) = json.loads(capsys.readouterr().out)["faults"]
    assert (fault["kind"], fault["place"]) == ("latency", "node0002")
    assert "latency0 link of node0002 later by 6" in (tmp_path / "p.html").read_text()


def test_so_much_later_is_so_many_messages_fewer() -> None:
    assert Options(later=0.25).on("latency3").smallest_loss == pytest.approx(0.2)
    assert Options(later=0.25).on("rail3").smallest_loss == 0.03
