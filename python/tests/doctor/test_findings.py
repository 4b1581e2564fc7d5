"""Every finding: found where it is, silent on a healthy machine, with evidence, cost, fix and a proof that mends it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.doctor.examine import examine, worst
from busbw.doctor.facts import gather
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.findings import FINDINGS
from busbw.doctor.findings.network.network_interface import matches
from busbw.doctor.reading.snapshot import Snapshot, TextFile
from busbw.doctor.remedy import without
from busbw.doctor.text import describe
from busbw.machine.nccl.conf import Origin, Setting
from busbw.records import Library, Record

from ..machine.nccl.samples import graph, topology
from .cases import (
    CASES,
    RECORDS,
    conf,
    environment,
    graph_case,
    healthy,
    log,
    machine,
    said,
    slow_record,
    with_gpu,
)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "doctor.md"


def found(snapshot: Snapshot, name: str = "", records: tuple[Record, ...] = ()) -> list[Finding]:
    return [each for each in examine(gather(snapshot, records)) if not name or each.name == name]


def loud(snapshot: Snapshot, records: tuple[Record, ...] = ()) -> set[str]:
    return {each.name for each in found(snapshot, records=records) if each.severity is not Severity.NOTE}


def test_every_file_of_a_finding_is_in_the_list() -> None:
    folder = Path(__file__).resolve().parents[2] / "busbw" / "doctor" / "findings"
    files = {path.stem.replace("_", "-") for path in folder.glob("*/[!_]*.py")}
    assert files == set(FINDINGS)


@pytest.mark.parametrize("name", FINDINGS)
def test_every_finding_has_its_part_of_the_page(name: str) -> None:
    assert f"\n### {name}\n" in PAGE.read_text(encoding="utf-8"), f"docs/reference/doctor.md says nothing of {name}"


ONLY_NOTES = {"nvlink-errors"}


@pytest.mark.parametrize("name", FINDINGS)
def test_every_finding_is_found_where_it_is_and_alone(name: str) -> None:
    snapshot, records = CASES[name](), RECORDS.get(name, ())
    mine = found(snapshot, name, records)
    assert mine and all(each.severity is Severity.NOTE for each in mine) == (name in ONLY_NOTES)
    allowed = {
        "shared-memory": {"shared-memory"},
        "suspect-setting": {"suspect-setting", "below-expected"},
        "shm-disabled": {"shm-disabled", "p2p-disabled"},
        "hca-not-found": {"hca-not-found", "network-interface"},
        "slowed-by": {"slowed-by", "steps-slower"},
        "containers-apart": {"containers-apart", "network-interface"},
        "no-multicast": {"no-multicast", "below-expected"},
        "nvlink-domain": {"nvlink-domain", "below-expected"},
    }
    assert loud(snapshot, records) == allowed.get(name, {name} - ONLY_NOTES), "false alarms beside it"
    for each in mine:
        assert each.evidence and all(fact.fact and fact.where for fact in each.evidence)
        assert each.title and each.fix and each.cost.text
        assert each.proof.runnable or each.proof.instruction
        lines = describe(each)
        assert max(map(len, lines)) <= 80 and {line.split()[0] for line in lines} >= {"cost", "fix", "proof", "seen"}


@pytest.mark.parametrize("name", FINDINGS)
def test_a_healthy_machine_gives_no_finding_at_all(name: str) -> None:
    assert list(FINDINGS[name](gather(healthy()))) == []
    assert list(FINDINGS[name](gather(Snapshot("nothing")))) == []


def test_a_healthy_log_and_conf_give_nothing_above_a_note() -> None:
    snapshot = conf("NCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME=eth0\n", logs=(log(),))
    assert worst(found(snapshot)) is Severity.NOTE


BY_SETTING = [name for name, case in CASES.items() if case().environment or case().graph]


@pytest.mark.parametrize("name", BY_SETTING)
def test_the_proof_of_a_setting_mends_it(name: str) -> None:
    snapshot = CASES[name]()
    proof = next(each.proof for each in found(snapshot, name) if each.severity is not Severity.NOTE)
    assert proof.runnable
    after = proof.environment(snapshot.environment, "/scratch")
    graph_text = proof.files.get("no-channels.xml")
    mended = replace(
        snapshot,
        environment=after,
        graph=TextFile("/scratch/no-channels.xml", graph_text) if graph_text else None,
        topology=snapshot.topology if "NCCL_TOPO_FILE" in after else None,
    )
    assert name not in loud(mended)


def test_a_graph_file_in_nccl_conf_is_found_before_anything_runs() -> None:
    [finding] = [each for each in found(graph_case()) if each.name == "graph-file"]
    assert finding.title == "2 ring channels of 12 GB/s, type SYS, where 18 NVLinks could carry about 15 times that"
    assert [(each.where, each.line) for each in finding.evidence[:2]] == [("/etc/nccl.conf", 2), ("/opt/graph.xml", 2)]
    assert finding.fix.startswith("remove line 2 of /etc/nccl.conf")
    assert finding.cost.factor == pytest.approx(4.0, abs=0.1)
    assert dict(finding.proof.neutral) == {"NCCL_GRAPH_FILE": "{scratch}/no-channels.xml"}


def test_a_graph_file_is_judged_by_the_gpus_that_are_visible() -> None:
    file = TextFile("g.xml", graph([(0, 1)] * 12, 30).decode())
    snapshot = healthy(graph=file, environment={"NCCL_GRAPH_FILE": "g.xml"})
    assert found(snapshot, "graph-file")[0].severity is Severity.ERROR, "its rings leave out two GPUs"
    visible = replace(snapshot, environment={"NCCL_GRAPH_FILE": "g.xml", "CUDA_VISIBLE_DEVICES": "0,1"})
    [note] = found(visible, "graph-file")
    assert note.severity is Severity.NOTE and "the links carry them" in note.title


def test_a_graph_file_that_cannot_be_read_or_is_a_bomb_is_an_error_not_a_traceback() -> None:
    bomb = '<!DOCTYPE a [<!ENTITY a "x">]><graphs version="1">&a;</graphs>'
    for file in (TextFile("/g", None, "No such file"), TextFile("/g", bomb), TextFile("/g", "<graphs")):
        [finding] = found(healthy(graph=file, environment={"NCCL_GRAPH_FILE": "/g"}), "graph-file")
        assert finding.severity is Severity.ERROR


def test_channels_over_pcie_are_right_where_there_are_no_links() -> None:
    file = TextFile("g.xml", graph([(0, 1, 2, 3)] * 2, 12, "SYS").decode())
    snapshot = healthy(machine=machine(links=0), graph=file, environment={"NCCL_GRAPH_FILE": "g.xml"})
    assert [each.severity for each in found(snapshot, "graph-file")] == [Severity.NOTE]


def test_a_topology_file_of_this_machine_is_no_finding() -> None:
    mine = TextFile("/t.xml", topology(4, 18, 90).decode().replace('numaid="2"', 'numaid="0"'))
    shaped = healthy(environment={"NCCL_TOPO_FILE": "/t.xml"}, topology=mine)
    titles = [each.title for each in found(shaped, "topology-file")]
    assert not any("another machine" in title for title in titles)


def test_a_log_whose_gpus_are_elsewhere_is_of_another_machine() -> None:
    elsewhere = TextFile("job.log", (log().text or "").replace("busId 100000", "busId 60"))
    [finding] = found(healthy(logs=(elsewhere,)), "topology-file")
    assert finding.evidence[0].where == "job.log" and finding.evidence[0].line == 2


def test_hidden_and_silent_variables_of_conf_files_are_notes() -> None:
    snapshot = conf("NCCL_ALGO=Ring\nNCCL_MIN_NCHANNELS=8\n", environment={"NCCL_ALGO": "Ring,Tree"})
    notes = found(snapshot, "conf-files")
    assert {each.severity for each in notes} == {Severity.NOTE} and len(notes) == 2
    assert any("has no effect: environment sets Ring,Tree" in fact.fact for each in notes for fact in each.evidence)


@pytest.mark.parametrize(("level", "severity"), [("LOC", "warning"), ("NVL", None), ("0", "warning"), ("SYS", None)])
def test_a_p2p_level_counts_only_where_it_bars_something(level: str, severity: str | None) -> None:
    said_of = [each.severity.value for each in found(environment(NCCL_P2P_LEVEL=level), "p2p-disabled")]
    assert said_of == ([severity] if severity else [])


def test_a_p2p_level_below_the_switch_bars_gpus_without_links() -> None:
    snapshot = replace(environment(NCCL_P2P_LEVEL="NVL"), machine=machine(links=0))
    assert "GPU0-GPU2 (PIX)" in found(snapshot, "p2p-disabled")[0].title


def test_costs_agree_with_what_was_measured_on_4_h200() -> None:
    assert found(environment(NCCL_P2P_DISABLE="1"), "p2p-disabled")[0].cost.factor == pytest.approx(355 / 23.7, rel=0.2)
    assert found(environment(NCCL_MAX_NCHANNELS="4"), "few-channels")[0].cost.factor == pytest.approx(355 / 98, rel=0.2)


@pytest.mark.parametrize(
    ("value", "severity"),
    [("LL", "warning"), ("LL128", "warning"), ("Simple", "note"), ("^LL", "note"), ("^Simple", "warning"), ("", None)],
)
def test_a_protocol_without_simple_costs_bandwidth(value: str, severity: str | None) -> None:
    said_of = [each.severity.value for each in found(environment(NCCL_PROTO=value), "forced-protocol")]
    assert said_of == ([severity] if severity else [])


def test_many_channels_or_garbage_are_no_limit() -> None:
    for value in ("64", "garbage", "", "-2"):
        assert "few-channels" not in loud(environment(NCCL_MAX_NCHANNELS=value))


def test_few_channels_in_a_log_are_found_without_a_setting_that_explains_them() -> None:
    [finding] = found(healthy(logs=(log(coll=2),)), "few-channels")
    assert finding.title == "only 2 channels for 18 NVLinks"


@pytest.mark.parametrize(
    ("variables", "logs", "says"),
    [
        ({"NCCL_IB_HCA": "mlx5_1"}, (), "leaves 1 of 2 RDMA device unused"),
        ({"NCCL_IB_HCA": "bnxt"}, (), "leaves every RDMA device unused"),
        ({}, (log(said("Using network Socket"), hosts=2),), "2 nodes talk over sockets"),
        ({"NCCL_SOCKET_IFNAME": "=eth1"}, (log(hosts=2),), "chooses a slow interface"),
    ],
)
def test_interfaces_that_are_wrong_or_slow(variables: dict[str, str], logs: tuple[TextFile, ...], says: str) -> None:
    [finding] = found(healthy(environment=variables, logs=logs), "network-interface")
    assert says in finding.title and finding.severity is not Severity.NOTE


@pytest.mark.parametrize(
    ("pattern", "name", "taken"),
    [("eth", "eth0", True), ("=eth", "eth0", False), ("^docker,lo", "eth0", True), ("^docker,lo", "lo", False),
     ("mlx5_0:1,mlx5_2", "mlx5_0", True), ("=mlx5_1", "mlx5_10", False), ("mlx5_1", "mlx5_10", True)],
)  # fmt: skip
def test_lists_of_names_are_read_as_nccl_reads_them(pattern: str, name: str, taken: bool) -> None:
    assert matches(pattern, name) is taken


def test_pairs_over_ib_without_gdr_are_found_with_their_line() -> None:
    lines = [
        said("Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0"),
        said("Channel 00/0 : 1[0] -> 0[0] via NET/IB/0/GDRDMA"),
    ]
    [finding] = found(healthy(logs=(log(*lines, hosts=2),)), "no-gdr")
    assert "1 of 2 pairs" in finding.evidence[0].fact and finding.evidence[0].line == 8


def test_versions_are_compared_over_the_logs_of_one_job_and_not_of_two() -> None:
    other = TextFile("rank1.log", (log().text or "").replace("2.28.9", "2.19.3"))
    assert len(found(healthy(logs=(log(), other)), "library-versions")) == 1
    elsewhere = TextFile("other.log", (other.text or "").replace("commId 0xa", "commId 0xb"))
    assert found(healthy(logs=(log(), elsewhere)), "library-versions") == []


def test_one_log_per_rank_makes_one_machine() -> None:
    limit = said("NCCL_MAX_NCHANNELS set by environment to 4.")
    lines = ["# Rank  0 Group 0 Pid 1 on n0 device  0 [0000:01:00] NVIDIA H200", *(log(limit).text or "").splitlines()]
    files = [
        TextFile(f"rank{r}.log", "\n".join(line for line in lines if f"rank {1 - r} nranks" not in line))
        for r in (0, 1)
    ]
    [finding] = found(Snapshot("files", logs=tuple(files)), "few-channels")
    assert finding.severity is Severity.WARNING and "18 NVLinks" in finding.evidence[1].fact


def test_a_healthy_log_of_two_nodes_is_no_finding() -> None:
    lines = ["#  Rank  0 Group  0 Pid 1 on n0 device  0 [0000:01:00] NVIDIA H100 80GB HBM3", said("Using network IB")]
    for rank in range(16):
        node, gpu = divmod(rank, 8)
        for word in ("START", "COMPLETE"):
            text = (
                f"ncclCommInitRankConfig comm 0x{rank + 1:x} rank {rank} nranks 16 cudaDev {gpu} nvmlDev {gpu} "
                f"busId {gpu + 1}00000 commId 0xb - Init {word}"
            )
            lines.append(said(text, gpu, f"n{node}"))
        after = (rank + 1) % 16
        way = "P2P/CUMEM" if after // 8 == node else f"NET/IB/{gpu}({gpu})/GDRDMA"
        lines.append(said(f"Channel 00/0 : {rank}[{gpu}] -> {after}[{after % 8}] [send] via {way}", gpu, f"n{node}"))
    lines.append(
        said("16 coll channels, 16 collnet channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per peer")
    )
    assert found(Snapshot("files", logs=(TextFile("l", "\n".join(lines)),))) == []


def test_ranks_that_never_finished_are_named() -> None:
    text = "\n".join(
        line for line in (log().text or "").splitlines() if "rank 1 nranks 2" not in line or "START" in line
    )
    [finding] = found(healthy(logs=(TextFile("l", text),)), "init-incomplete")
    assert (
        finding.title
        == "init began on 2 of 2 ranks and ended on 1: rank 1 never ended, unless the log was cut off there"
    )


def test_findings_are_sorted_by_severity_and_then_by_cost() -> None:
    both = healthy(environment={"NCCL_MAX_NCHANNELS": "4", "NCCL_P2P_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"})
    assert [each.name for each in found(both)] == ["p2p-disabled", "few-channels", "slow-settings"]


def test_a_variable_of_a_conf_file_is_undone_by_a_value_without_effect() -> None:
    of_conf = Setting("NCCL_P2P_DISABLE", "1", Origin("/etc/nccl.conf", 3, conf=True))
    of_shell = Setting("NCCL_P2P_DISABLE", "1", Origin("environment"))
    hidden = Setting("NCCL_P2P_DISABLE", "1", Origin("environment"), (("1", Origin("/etc/nccl.conf", 3, conf=True)),))
    assert without(of_conf).environment({"A": "b"}, "/s") == {"A": "b", "NCCL_P2P_DISABLE": ""}
    assert without(of_shell).environment({"NCCL_P2P_DISABLE": "1"}, "/s") == {}
    assert without(hidden).environment({"NCCL_P2P_DISABLE": "1"}, "/s") == {"NCCL_P2P_DISABLE": ""}


def test_a_record_alone_tells_its_settings_machine_and_loss() -> None:
    saved = Snapshot("files")
    findings = found(saved, records=(slow_record(98.0, NCCL_MAX_NCHANNELS="4"),))
    assert {each.name for each in findings} == {"few-channels", "below-expected"}
    limit = next(each for each in findings if each.name == "few-channels")
    assert limit.severity is Severity.WARNING and limit.evidence[0].where == "the record r1"
    assert found(saved, records=(slow_record(355.0),)) == []


def test_records_of_different_versions_are_told_apart() -> None:
    other = slow_record(355.0)
    other = replace(other, run=replace(other.run, run="r2", library=Library("NCCL", version="2.19.3")))
    [finding] = found(Snapshot("files"), records=(slow_record(355.0), other))
    assert finding.name == "library-versions"


def test_a_dead_infiniband_port_is_a_rail_and_an_unused_ethernet_port_is_none() -> None:
    made = machine()
    for layer, severity in (("InfiniBand", Severity.WARNING), ("Ethernet", Severity.NOTE)):
        nics = (*made.nics[:-1], replace(made.nics[-1], up=False, link_layer=layer))
        findings = found(healthy(machine=replace(made, nics=nics)), "network-interface")
        assert [each.severity for each in findings] == [severity]


def test_errors_that_were_counted_on_links_are_a_note() -> None:
    assert [each.severity for each in found(with_gpu(nvlink_errors=10**6), "nvlink-errors")] == [Severity.NOTE]
    assert not found(with_gpu(nvlink_errors=10**6), "nvlinks-down")


def test_a_log_with_absurdly_many_ranks_on_one_host_is_judged_in_bounded_time() -> None:
    begun = "ncclCommInitRank comm 0x1 rank {0} nranks 9000 cudaDev 0 nvmlDev {0} busId {0:x}0 commId 0xa - Init START"
    text = "\n".join(said(begun.format(rank), rank) for rank in range(9000))
    started = time.process_time()
    found(Snapshot("files", logs=(TextFile("l", "#  Rank  0 x device  0 [0000:00:06] NVIDIA H200\n" + text),)))
    assert time.process_time() - started < 20


def small_record(times: dict[int, float]) -> Record:
    """All-reduce of small messages on 4 H200 of one host: bytes and microseconds."""
    large = slow_record()
    cases = tuple(
        replace(large.cases[0], case=i, bytes=size, time_us=time, algbw_GBps=size / time / 1e3,
                busbw_GBps=1.5 * size / time / 1e3)
        for i, (size, time) in enumerate(times.items())
    )  # fmt: skip
    return replace(large, cases=cases)


# Measured on 4 H200 with NCCL 2.28.9.
SMALL = {1 << 10: 11.03, 8 << 10: 10.85, 64 << 10: 11.89, 1 << 20: 18.98, 16 << 20: 100.0}


def test_short_messages_that_take_far_too_long_are_named_and_healthy_ones_are_not() -> None:
    assert found(Snapshot("files"), records=(small_record(SMALL),)) == []
    late = {size: 8 * time if size < 1 << 20 else time for size, time in SMALL.items()}
    (finding,) = found(Snapshot("files"), records=(small_record(late),))
    assert finding.name == "below-expected" and finding.severity is Severity.WARNING
    assert "short messages of all_reduce take up to" in finding.title and len(finding.evidence) == 3
    one = {size: 8 * time if size == 1 << 10 else time for size, time in SMALL.items()}
    assert found(Snapshot("files"), records=(small_record(one),)) == []


def test_a_process_that_serves_several_gpus_by_turns_may_take_longer() -> None:
    record = small_record({size: 5 * time if size < 1 << 20 else time for size, time in SMALL.items()})
    for pids, names in (({}, ["below-expected"]), ({"pid": 70}, [])):
        ranks = tuple(replace(each, **pids) for each in record.run.ranks)
        mine = replace(record, run=replace(record.run, ranks=ranks))
        assert [each.name for each in found(Snapshot("files"), records=(mine,))] == names


@pytest.mark.parametrize(("second", "names"), [("n0", []), ("n1", ["network-interface"])])
def test_ranks_of_one_host_that_count_as_several_nodes_are_told_apart_on_purpose(second: str, names: list[str]) -> None:
    """NCCL_HOSTID lets ranks share a GPU: they talk over sockets, on loopback, and that is no fault."""

    def place(rank: int) -> str:
        return f"comm 0x{rank + 1} rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 60"

    lines = [
        f"{host}:{7 + rank}:{7 + rank} [0] NCCL INFO {words}"
        for rank, host in enumerate(("n0", second))
        for words in (
            "Bootstrap: Using lo:127.0.0.1<0>",
            "Using network Socket",
            f"ncclCommInitRank {place(rank)} commId 0x3 - Init START",
            f"comm 0x{rank + 1} rank {rank} nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0",
            f"Channel 00/0 : {rank}[0] -> {1 - rank}[0] [send] via NET/Socket/0",
            f"ncclCommInitRank {place(rank)} commId 0x3 - Init COMPLETE",
        )
    ]
    bare = Snapshot(source="logs", logs=(TextFile("job.log", "\n".join(lines) + "\n"),))
    assert [each.name for each in examine(gather(bare)) if each.severity is not Severity.NOTE] == names


def test_sockets_that_somebody_asked_for_matter_where_ranks_use_them() -> None:
    asked = said("NCCL_IB_DISABLE set by environment to 1.")
    channel = said("Channel 00/0 : 1[1] -> 2[0] [send] via NET/Socket/0")

    def severity(*lines: str) -> Severity:
        text = "\n".join(lines) + "\n"
        bare = Snapshot(source="logs", logs=(TextFile("job.log", text),))
        return found(bare, "ib-disabled")[0].severity

    assert severity(asked, channel) is Severity.WARNING
    assert severity(asked) is Severity.NOTE
