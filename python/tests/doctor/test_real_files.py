"""Files of real machines and runs: what is wrong with each is named, and nothing above a note with the healthy ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.reading.inputs import Inputs, read_inputs
from busbw.machine.nccl.log import read_log

SHARED = Path(os.environ.get("BUSBW_SHARED", Path(__file__).parents[4] / "shared"))


def path(name: str) -> str:
    if not (SHARED / name).exists():
        pytest.skip(f"{SHARED / name} is not here; BUSBW_SHARED names the folder")
    return str(SHARED / name)


def findings(inputs: Inputs) -> list[Finding]:
    return list(examine(gather(*read_inputs(inputs))))


NC48, NC48_GRAPH = "topology/nc48v4-topo.xml", "topology/nc48v4-graph.xml"
H200, H200_GRAPH = "topology/h200-x4-topo.xml", "topology/h200-x4-graph.xml"
HEALTHY_LOG, GRAPH_LOG = "logs/nccl-info-h200-x4.log", "logs/nccl-info-h200-x2-graph-file.log"


def test_the_graph_file_of_nc48v4_is_named_beside_its_machine() -> None:
    [finding] = findings(Inputs(topology=path(NC48), graph=path(NC48_GRAPH)))
    assert finding.severity is Severity.WARNING
    assert finding.title == "2 ring channels of 12 GB/s, type SYS, where 12 NVLinks could carry about 10 times that"
    assert finding.cost.factor == pytest.approx(220 / 58, rel=0.1), "the published sweeps with and without it"


def test_beside_the_matrix_alone_the_same_is_said(tmp_path: Path) -> None:
    matrix = tmp_path / "matrix.txt"
    matrix.write_text(
        "        GPU0    GPU1    CPU Affinity\nGPU0     X      NV12    0-1\nGPU1    NV12     X      0-1\n"
    )
    [finding] = findings(Inputs(topology=str(matrix), graph=path(NC48_GRAPH)))
    assert finding.title == "2 ring channels of 12 GB/s, type SYS, where 12 NVLinks could carry about 10 times that"
    assert finding.cost.factor == pytest.approx(220 / 58, rel=0.1)


def test_configured_in_an_nccl_conf_it_is_found_with_the_line_to_remove(tmp_path: Path) -> None:
    conf = tmp_path / "nccl.conf"
    conf.write_text("NCCL_TOPO_FILE=/opt/microsoft/ncv4/topo.xml\nNCCL_GRAPH_FILE=/opt/microsoft/ncv4/graph.xml\n")
    inputs = Inputs(topology=path(NC48), graph=path(NC48_GRAPH), confs=(str(conf),))
    [finding] = [each for each in findings(inputs) if each.severity is not Severity.NOTE]
    assert finding.fix.startswith(f"remove line 2 of {conf}")


def test_a_log_under_that_graph_file_names_it_and_its_few_channels() -> None:
    loud = [each for each in findings(Inputs(logs=(path(GRAPH_LOG),))) if each.severity is not Severity.NOTE]
    assert [each.name for each in loud] == ["graph-file"]
    assert [each.line for each in loud[0].evidence] == [34, 59]
    assert loud[0].cost.factor == pytest.approx(332 / 82.4, rel=0.2), "what it cost when it was measured"


@pytest.mark.parametrize(
    "inputs",
    [
        {"topology": H200},
        {"topology": H200, "graph": H200_GRAPH},
        {"topology": H200, "graph": H200_GRAPH, "logs": (HEALTHY_LOG,)},
        {"logs": (HEALTHY_LOG,)},
        {"topology": NC48},
        {"topology": "topology/ndv4-topo.xml"},
        {"files": (H200, H200_GRAPH, HEALTHY_LOG)},
    ],
    ids=str,
)
def test_healthy_files_give_nothing_above_a_note(inputs: dict[str, str | tuple[str, ...]]) -> None:
    real = {
        name: path(value) if isinstance(value, str) else tuple(path(each) for each in value)
        for name, value in inputs.items()
    }
    assert [each.title for each in findings(Inputs(**real)) if each.severity is not Severity.NOTE] == []  # type: ignore[arg-type]


def test_files_of_two_machines_are_told_apart() -> None:
    mixed = findings(Inputs(topology=path(NC48), logs=(path(GRAPH_LOG),)))
    assert "topology-file" in {each.name for each in mixed}
    [finding] = findings(Inputs(topology=path(NC48), graph=path(H200_GRAPH)))
    assert finding.severity is Severity.ERROR and "names GPU 2, 3" in finding.evidence[1].fact


@pytest.mark.parametrize(("name", "ranks", "channels"), [(HEALTHY_LOG, 4, 24), (GRAPH_LOG, 2, 4)])
def test_every_message_of_the_logs_is_understood(name: str, ranks: int, channels: int) -> None:
    log = read_log(Path(path(name)).read_text(encoding="utf-8").splitlines(), name)
    assert log.unread == 0 and list(log.versions) == ["2.28.9+cuda13.0"]
    [communicator] = log.communicators
    assert (communicator.nranks, communicator.nnodes, len(communicator.ranks)) == (ranks, 1, ranks)
    assert len(communicator.rings) == channels and len(communicator.trees) == channels * ranks
    assert all(ring.ranks == tuple(range(ranks)) for ring in communicator.rings)
    assert communicator.counts is not None and communicator.counts.coll == channels
    pairs = {(each.sender, each.receiver): each for each in communicator.transports}
    assert all(pairs[rank, (rank + 1) % ranks].channels == channels for rank in range(ranks))
    assert {each.kind for each in communicator.transports} == {"P2P"}
    assert all(place.complete for place in communicator.ranks)
