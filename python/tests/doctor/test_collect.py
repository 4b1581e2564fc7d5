"""A snapshot of a made-up host: the files that NCCL would read, limits, memory, processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.host import collect as collecting
from busbw.doctor.host.collect import collect, conf_files, host_state, processes
from busbw.doctor.host.libraries import find_libraries
from busbw.doctor.reading.snapshot import LibraryFile
from busbw.machine.nccl import conf
from busbw.machine.topology.gpu_state import Driver, GpuProcess, GpuState
from busbw.machine.topology.live import Reading

from ..machine.nccl.samples import graph
from .cases import machine, state


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "LOOK_S", 0.0)
    monkeypatch.setattr(collecting, "command_output", lambda _: None)


def put(root: Path, path: str, text: str) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_graph_file_named_in_an_nccl_conf_is_found_unaided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "/etc/nccl.conf", "NCCL_GRAPH_FILE=/opt/graph.xml\n")
    put(tmp_path, "/opt/graph.xml", graph([(0, 1, 2, 3)] * 2, 12, "SYS").decode())
    reading = Reading(machine(), tuple(state(i) for i in range(4)), Driver("580", "NVML"))
    monkeypatch.setattr(collecting, "read_live", lambda _: reading)
    snapshot = collect({"HOME": "/nowhere", "NCCL_DEBUG": "WARN", "SECRET_TOKEN": "x"}, tmp_path)
    assert dict(snapshot.environment) == {"NCCL_DEBUG": "WARN"} and snapshot.live
    first = examine(gather(snapshot))[0]
    assert first.name == "graph-file" and first.fix.startswith("remove line 1 of /etc/nccl.conf")


def test_conf_files_come_in_the_order_of_nccl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conf, "_home", lambda: "/home/me")
    for path in ("/etc/nccl.conf", "/home/me/.nccl.conf", "/opt/mine.conf"):
        put(tmp_path, path, "NCCL_ALGO=Ring\n")
    assert [each.path for each in conf_files({}, tmp_path)] == ["/home/me/.nccl.conf", "/etc/nccl.conf"]
    named = conf_files({"NCCL_CONF_FILE": "/opt/mine.conf"}, tmp_path)
    assert [each.path for each in named] == ["/opt/mine.conf", "/etc/nccl.conf"]


def test_a_file_that_is_named_and_absent_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "read_live", lambda _: Reading(machine(), (), Driver()))
    snapshot = collect({"NCCL_GRAPH_FILE": "/no/graph.xml"}, tmp_path)
    assert snapshot.graph is not None and snapshot.graph.why == "No such file or directory"
    assert examine(gather(snapshot))[0].name == "graph-file"


def test_the_virtual_topology_is_read_without_being_configured(tmp_path: Path) -> None:
    put(tmp_path, collecting.VIRTUAL_TOPOLOGY, "<system")
    snapshot = collect({}, tmp_path)
    assert snapshot.topology is not None and snapshot.topology.path == collecting.VIRTUAL_TOPOLOGY


def test_the_host_tells_busy_processors_iommu_and_modules(tmp_path: Path) -> None:
    put(tmp_path, "/sys/devices/system/cpu/online", "0-1\n")
    put(tmp_path, "/proc/modules", "nvidia_peermem 16384 0 - Live 0x0\n")
    put(tmp_path, "/proc/sys/kernel/numa_balancing", "1\n")
    device = tmp_path / "sys/kernel/iommu_groups/3/devices/0000:01:00.0"
    put(device.parent, device.name + "/class", "0x030200\n")
    put(tmp_path, "/sys/kernel/iommu_groups/3/type", "DMA-FQ\n")
    put(tmp_path, "/run/.containerenv", "")
    host = host_state(tmp_path)
    assert (host.online_cpus, host.iommu, host.peer_memory, host.numa_balancing, host.container) == (
        (0, 1), "translated", True, True, True,
    )  # fmt: skip
    put(tmp_path, "/sys/kernel/iommu_groups/3/type", "identity\n")
    put(tmp_path, "/proc/modules", "nvidia 1 0\n")
    assert (host_state(tmp_path).iommu, host_state(tmp_path).peer_memory) == ("identity", False)


def test_busy_shares_are_of_the_time_between_two_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "/proc/stat", "cpu 1 1\ncpu0 10 0 0 90 0 0 0 0\ncpu1 0 0 0 100 0 0 0 0\n")
    later = "cpu0 60 0 0 140 0 0 0 0\ncpu1 0 0 0 200 0 0 0 0\n"
    monkeypatch.setattr(collecting.time, "sleep", lambda _: put(tmp_path, "/proc/stat", later))
    assert host_state(tmp_path).busy_cpus == {"0": 0.5, "1": 0.0}


def test_processes_on_gpus_come_with_their_processors(tmp_path: Path) -> None:
    put(tmp_path, "/proc/77/status", "Name:\ttrain\nCpus_allowed_list:\t4-5\n")
    gpus = [GpuState(i, processes=(GpuProcess(77, "train"),)) for i in (0, 2)]
    mine, rank = processes(gpus, tmp_path)
    assert mine.gpus == () and mine.cpus
    assert (rank.pid, rank.name, rank.gpus, rank.cpus) == (77, "train", (0, 2), (4, 5))


def test_libraries_are_found_with_the_version_in_their_name_or_text(tmp_path: Path) -> None:
    for folder, name, text in (
        ("a", "libnccl.so.2.28.9", b""),
        ("b", "libnccl.so.2", b"\0NCCL version 2.19.3+cuda12\0"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(text)
    (tmp_path / "a/libnccl.so.2").symlink_to("libnccl.so.2.28.9")
    found = find_libraries({"LD_LIBRARY_PATH": f"{tmp_path}/a:{tmp_path}/b:{tmp_path}/none"})
    mine = [(each.version, each.found_by) for each in found if str(tmp_path) in each.path]
    assert mine == [("2.28.9", "LD_LIBRARY_PATH"), ("2.19.3", "LD_LIBRARY_PATH")]


def test_a_load_without_a_process_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = [99.0, 0.0]
    looks = [Reading(machine(), (state(0, utilisation_percent=load),), Driver()) for load in loads]
    monkeypatch.setattr(collecting, "read_live", lambda _: looks.pop(0))
    monkeypatch.setattr(collecting, "SETTLE_S", 0.0)
    assert collect({}, tmp_path).gpus[0].utilisation_percent == 0.0 and looks == []


def test_where_nobody_knows_the_version_the_file_of_either_home_is_looked_at_and_a_note_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "read_live", lambda _: Reading(machine(), (), Driver()))
    monkeypatch.setattr(conf, "_home", lambda: "/home/me")
    put(tmp_path, "/scratch/.nccl.conf", "NCCL_PROTO=LL\r\n")
    libraries: list[tuple[LibraryFile, ...]] = [(), *((LibraryFile("/l", each, "x"),) for each in ("2.30.7", "2.29.7"))]
    told = []
    for each in libraries:
        monkeypatch.setattr(collecting, "find_libraries", lambda _, found=each: found)
        snapshot = collect({"HOME": "/scratch"}, tmp_path)
        told.append(([file.path for file in snapshot.confs], [file.problems for file in gather(snapshot).confs]))
        said = "NCCL 2.30 and later read /scratch/.nccl.conf (of $HOME), earlier ones /home/me/.nccl.conf"
        assert [note.startswith(said) for note in snapshot.notes] == [True] * (not each)
    assert [paths for paths, _ in told] == [["/scratch/.nccl.conf"], ["/scratch/.nccl.conf"], []]
    assert [len(problems[0]) for _, problems in told[:2]] == [1, 0]
