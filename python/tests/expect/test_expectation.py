"""The line under the table and the expected figures of a record."""

from __future__ import annotations

import json

import pytest

from busbw.expect import machines
from busbw.expect.expectation import explain, fabric_of, multicast, place_of
from busbw.machine.topology.model import SWITCH, Gpu, Machine, NvLinks
from busbw.records import Case, Device, End, Rank, Record, Run, Tool, read_record, save_records
from busbw.report.series import _expected

H200 = Machine(
    "this machine", tuple(Gpu(i, name="NVIDIA H200", sm=90, nvlinks=(NvLinks(SWITCH, 18, 4),)) for i in range(4))
)


def ranks(count, hosts=1, name="NVIDIA H200", kind="gpu"):
    return tuple(Rank(i, f"host{i % hosts}", device=Device(kind, i, name)) for i in range(count))


def record(busbw=355.0, size=1 << 30, environment=None, **run):
    given = {"ranks": ranks(4), "machine": None, **run}
    head = Run("r", None, Tool("busbw", "0"), None, environment=environment or {"NCCL_NVLS_ENABLE": "0"}, **given)
    cases = tuple(
        Case("r", i, "all_reduce", size, placement, "measured", 4500.0, busbw / 1.5, busbw, ranks=len(given["ranks"]))
        for i, placement in enumerate(("out_of_place", "in_place"))
    )
    return Record(head, cases, End("r", "completed", 2))


def explained(tmp_path, made, machine=H200):
    path = tmp_path / "record.jsonl"
    save_records([made], path)
    return explain(path, lambda: machine), path


def test_a_healthy_run_reaches_what_is_expected_and_says_so(tmp_path):
    said, _ = explained(tmp_path, record())
    assert said is not None
    assert "GB/s expected at 1 GiB (range " in said
    assert "4 x NVIDIA H200" in said
    assert "doctor" not in said
    share = int(said.split(" %")[0].split("%")[0])
    assert 95 <= share <= 108


def test_a_run_at_a_quarter_names_the_doctor(tmp_path):
    said, _ = explained(tmp_path, record(busbw=98.0))
    assert said is not None
    assert "busbw doctor" in said


def test_a_small_message_below_its_range_names_no_doctor(tmp_path):
    said, _ = explained(tmp_path, record(busbw=0.01, size=1024))
    assert said is not None
    assert "doctor" not in said


def test_every_case_of_the_record_carries_the_figure_and_the_report_finds_it(tmp_path):
    _, path = explained(tmp_path, record())
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["run", "case", "case", "end"]
    context = lines[1]["context"]
    assert context["expected_range_GBps"][0] < context["expected_busbw_GBps"] < context["expected_range_GBps"][1]
    assert _expected(read_record(path).cases) == context["expected_busbw_GBps"]


def test_a_run_on_processors_is_left_as_it_is(tmp_path):
    made = record(ranks=ranks(4, kind="cpu"))
    said, path = explained(tmp_path, made)
    assert said is None
    assert read_record(path) == made


@pytest.mark.parametrize("given", [{"ranks": ranks(3, hosts=2)}, {"ranks": ranks(1)}, {"ranks": ()}])
def test_unequal_hosts_or_one_rank_have_no_expectation(tmp_path, given):
    assert explained(tmp_path, record(**given))[0] is None


def test_a_cut_off_record_is_not_touched(tmp_path):
    made = record()
    said, path = explained(tmp_path, Record(made.run, made.cases, None))
    assert said is None
    assert "expected" not in path.read_text()


def test_a_record_that_is_none_costs_nothing(tmp_path):
    path = tmp_path / "record.jsonl"
    path.write_text("not a record\n")
    assert explain(path, lambda: H200) is None


def test_the_machine_is_its_type_by_name_then_what_is_here_then_what_its_gpus_are():
    assert fabric_of(record(machine="Standard_ND96asr_v4").run, lambda: None) == machines.require("ndv4")
    live = fabric_of(record().run, lambda: H200)
    assert live is not None
    assert live.nvlink_GBps == pytest.approx(370.8)
    named = fabric_of(record().run, lambda: None)
    assert named is not None
    assert named.nvlink_GBps == pytest.approx(370.8)
    assert fabric_of(record(ranks=ranks(4, name="Mystery")).run, lambda: None) is None


def test_ranks_of_several_hosts_are_nodes():
    place = place_of(record(ranks=ranks(16, hosts=2)).run)
    assert place is not None
    assert (place.gpus, place.nodes) == (8, 2)


@pytest.mark.parametrize(
    ("environment", "may"),
    [({}, True), ({"NCCL_NVLS_ENABLE": "0"}, False), ({"NCCL_ALGO": "Ring"}, False), ({"NCCL_ALGO": "NVLS,Ring"}, True),
     ({"NCCL_ALGO": "^NVLS"}, False)],
)  # fmt: skip
def test_nvlink_sharp_is_expected_where_the_variables_allow_it(environment, may):
    assert multicast(environment) is may
