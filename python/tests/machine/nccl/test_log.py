"""NCCL's log of any 2.x becomes structure; garbage, mixed ranks and cut lines do no harm."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.machine.nccl.log import _HANDLERS, read_log
from busbw.machine.nccl.log_communicator import bus_id_of
from busbw.machine.nccl.log_model import Choice, NcclLog, TreeNode


def read(*lines: str) -> NcclLog:
    return read_log(lines, "log")


def said(text: str, *, host: str = "n0", pid: int = 10, tid: int = 11, dev: int = 0) -> str:
    return f"{host}:{pid}:{tid} [{dev}] NCCL INFO {text}"


def begin(rank: int, nranks: int = 2, state: str = "START", **who: object) -> str:
    text = (
        f"ncclCommInitRank comm 0x55{rank} rank {rank} nranks {nranks} cudaDev {rank} nvmlDev {rank} "
        f"busId {rank + 1}00000 commId 0xabc - Init {state}"
    )
    return said(text, tid=11 + rank, dev=rank, **who)  # type: ignore[arg-type]


def test_ranks_come_with_host_device_and_bus() -> None:
    log = read(begin(0), begin(1, host="n1"), begin(0, state="COMPLETE"))
    [communicator] = log.communicators
    assert (communicator.id, communicator.nranks, communicator.hosts) == ("0xabc", 2, ("n0", "n1"))
    first, second = communicator.ranks
    assert (first.bus_id, first.complete, second.nvml_device, second.complete) == ("0001:00:00.0", True, 1, False)


@pytest.mark.parametrize(
    ("text", "kind", "detail", "gdr"),
    [
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read", "P2P", "CUMEM/read", False),
        ("Channel 00/0 : 0[100000] -> 1[200000] via P2P/IPC/read", "P2P", "IPC/read", False),
        ("Ring 00 : 0[0] -> 1[1] via P2P/IPC", "P2P", "IPC", False),
        ("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", "SHM", "direct/direct", False),
        ("Ring 00 : 0[0] -> 1[1] via direct shared memory", "SHM", "direct", False),
        ("Channel 01/0 : 0[0] -> 1[0] [send] via NET/IB/3/GDRDMA(PCI)/Shared", "NET", "IB", True),
        ("Channel 01/0 : 0[0] -> 1[0] [receive] via NET/Socket/0", "NET", "Socket", False),
        ("Channel 00/0 : 0[0] -> 1[0] [send] via NET/AWS Libfabric/2(1)/GDRDMA", "NET", "AWS Libfabric", True),
    ],
)
def test_transports_of_every_version_are_read(text: str, kind: str, detail: str, gdr: bool) -> None:
    log = read(begin(0), said(text))
    [pair] = log.communicators[0].transports
    assert (pair.sender, pair.receiver, pair.kind, pair.detail, pair.gdr) == (0, 1, kind, detail, gdr)
    assert log.unread == 0


def test_channels_of_a_pair_are_counted_once_each_and_devices_kept() -> None:
    lines = [said(f"Channel {c:02d}/0 : 0[0] -> 1[0] [send] via NET/IB/{c % 2}/GDRDMA") for c in (0, 1, 2, 1)]
    [pair] = read(begin(0), *lines).communicators[0].transports
    assert pair.channels == 3 and pair.devices == ("0", "1")


def test_a_pair_uses_gpu_direct_rdma_where_any_of_its_channels_does() -> None:
    text = "Channel 0{0}/0 : 0[0] -> 1[1] [send] via NET/IB/{0}{1}"
    for suffixes in (("/GDRDMA", ""), ("", "/GDRDMA/flush=None")):
        log = read(begin(0), *(said(text.format(channel, suffix)) for channel, suffix in enumerate(suffixes)))
        [pair] = log.communicators[0].transports
        assert (pair.gdr, pair.channels, pair.devices) == (True, 2, ("0", "1"))


def test_rings_and_trees_are_read_in_old_and_new_order() -> None:
    log = read(
        begin(0),
        said("Channel 00/02 : 0 1"),
        said("Channel 01/02 :    1 0"),
        said("Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1"),
    )
    communicator = log.communicators[0]
    assert [ring.ranks for ring in communicator.rings] == [(0, 1), (1, 0)]
    assert communicator.trees == (TreeNode(0, 0, None, (1,), 4), TreeNode(1, 0, 1, (), 4))
    old = read(begin(0), said("Trees [0] -1->0->1/-1/-1")).communicators[0]
    assert old.trees == (TreeNode(0, 0, None, (1,), 2),)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (
            "24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer",
            (24, 32, 0),
        ),
        ("8 coll channels, 16 nvls channels, 8 p2p channels, 2 p2p channels per peer", (8, 8, 16)),
        ("2 coll channels, 2 p2p channels, 1 p2p channels per peer", (2, 2, None)),
    ],
)
def test_channel_counts_of_every_version_are_read(text: str, counts: tuple[int, int, int | None]) -> None:
    found = read(begin(0), said(text)).communicators[0].counts
    assert found is not None and (found.coll, found.p2p, found.nvls) == counts


def test_versions_networks_plugins_variables_and_choices_are_read() -> None:
    log = read(
        said("NCCL version 2.19.3+cuda12.2"),
        said("NCCL version 2.18.5+cuda12.2", host="n1"),
        said("NET/Plugin: Failed to find ncclNetPlugin_v6 symbol."),
        said("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"),
        said("Using network IB"),
        said("NCCL_IB_DISABLE set by environment to 0."),
        said("NCCL_TOPO_FILE set by environment to /opt/a.b/topo.xml"),
        said("NCCL_NET_GDR_LEVEL set by environment to SYS"),
        said("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'"),
        said("threadThresholds 8/8/64 | 16/8/64 | 512 | 512"),
        said("AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..7}"),
        said("AllReduce: 256 Bytes -> Algo 0 proto 1 time 12.500000"),
        said("something nobody has seen before"),
        said("NCCL_IB_HCA set to mlx5_0"),
        said("AllGather [Symmetric]: 4096 Bytes -> Kernel AllGather_LL nchannels 8 nthreads 512 nWorks 1"),
        said("64 Bytes -> Algo 1 proto 2 time 7.0"),
        said("Invalid value many for NCCL_MAX_NCHANNELS, using default -2."),
    )
    assert list(log.versions) == ["2.19.3+cuda12.2", "2.18.5+cuda12.2"]
    assert log.net_devices == ("IB mlx5_0:1/IB", "IB mlx5_1:1/RoCE")
    assert log.network is not None and (log.network.text, log.network.line) == ("IB", 5)
    assert [(each.name, each.value) for each in log.variables] == [
        ("NCCL_IB_DISABLE", "0"), ("NCCL_TOPO_FILE", "/opt/a.b/topo.xml"), ("NCCL_NET_GDR_LEVEL", "SYS"),
        ("NCCL_IB_HCA", "mlx5_0"),
    ]  # fmt: skip
    assert log.gdr["disabled"].line == 9 and log.thresholds == "8/8/64 | 16/8/64 | 512 | 512"
    assert log.choices == (
        Choice("AllReduce", 1048576, "ring", "simple", (0, 7), 11), Choice("AllReduce", 256, "0", "1", None, 12),
        Choice("AllGather", 4096, "symmetric", "allgather_ll", None, 15), Choice("?", 64, "1", "2", None, 16),
    )  # fmt: skip
    assert "Invalid value many" in log.warnings[0].text
    assert (log.messages, log.unread) == (17, 1)


def test_warnings_of_all_ranks_are_one_message_with_a_count() -> None:
    lines = [f"n{i}:1:2 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-x" for i in range(3)]
    [warning] = read(*lines, "n0:1:2 [0] init.cc:5 (init) NCCL WARN other").warnings[:1]
    assert (warning.count, warning.line) == (3, 1) and "failed to extend" in warning.text


def test_prefixes_of_launchers_and_rows_between_are_no_hindrance() -> None:
    log = read(
        "[1,0]<stdout>:" + begin(0),
        "3: " + begin(1),
        "2024-05-10T12:30:50.123Z " + said("Using network Socket"),
        "        1024           256     float     sum      -1    18.96    0.05",
        "[2024-05-10 12:30:50] n0:10:11 [0] NCCL INFO Channel 00/02 : 0 1",
    )
    assert len(log.communicators[0].ranks) == 2 and len(log.communicators[0].rings) == 1
    assert log.network is not None


def test_several_communicators_stay_apart() -> None:
    second = begin(0, nranks=8).replace("0xabc", "0xdef").replace("0x550", "0x770")
    log = read(begin(0), said("4 coll channels, 4 p2p channels"), second, said("Channel 00/08 : 0 1 2 3 4 5 6 7"))
    found = [(each.id, each.nranks, len(each.rings)) for each in log.communicators]
    assert found == [("0xabc", 2, 0), ("0xdef", 8, 1)]
    assert log.largest is not None and log.largest.id == "0xdef"


def test_before_2_18_communicators_have_no_name_and_are_told_apart_by_their_ranks() -> None:
    old = "comm 0x{0} rank {1} nranks 2 cudaDev {1} busId {1}00000 - Init COMPLETE"
    log = read(*(said(old.format(c, r), dev=r) for c in ("aa", "bb") for r in (0, 1)))
    assert [(each.id, len(each.ranks)) for each in log.communicators] == [("2 ranks", 2), ("2 ranks #2", 2)]


def test_bus_ids_of_nccl_become_pci_addresses() -> None:
    assert [bus_id_of(each) for each in ("100000", "60", "d00000", "1b000")] == [
        "0001:00:00.0", "0000:00:06.0", "000d:00:00.0", "0000:1b:00.0",
    ]  # fmt: skip


def test_an_absurd_log_takes_bounded_time_and_memory() -> None:
    hostile = [
        said("Channel 00/99 : " + "1 " * 30000),
        said("Trees " + "[0] 1/-1/-1->0->-1 " * 3000),
        said("Channel 99999999999999999999/0 : 0[0] -> 1[1] via P2P"),
        said("NCCL_X set by environment to " + "y" * 60000),
        "NCCL INFO" * 5000,
        said("9" * 60000 + " coll channels"),
        *(said(f"NCCL version {i}") for i in range(1000)),
        *(said(f"NCCL_V{i} set by environment to 1") for i in range(5000)),
        *(begin(0).replace("0xabc", f"0x{i:x}") for i in range(5000)),
    ]
    started = time.process_time()
    log = read(*hostile)
    assert time.process_time() - started < 5
    assert len(log.versions) <= 100 and len(log.variables) <= 2000 and len(log.communicators) <= 4096
    assert log.notes and "communicators" in log.notes[0]


_WORDS = ("NCCL INFO", "NCCL WARN", "n0:1:2 [0]", "Channel 00/04 :", "->", "via", "Trees [0]", "cudaDev", "0", "[0]",
          "comm 0x1 rank 0 nranks 2", "- Init START", "-1/-1", "coll channels,", "set by environment to")  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(_WORDS), st.text(max_size=20)), max_size=30).map(" ".join))
def test_garbage_never_fails(text: str) -> None:
    log = read_log(text.splitlines(), "x")
    assert log.unread <= log.messages


def test_every_line_is_for_one_handler_alone() -> None:
    lines = [
        "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", "Channel 00/02 : 0 1", "Channel 00 : 0 1", "Trees [0] 1->0->-1",
        "NCCL_ALGO set by environment to Ring", "24 coll channels, 32 p2p channels", "Using network IB",
        "NET/IB : Using [0]mlx5_0:1/IB", "NET/IB : No device found.", "NET/IB : GPU Direct RDMA Disabled for HCA 0",
        "NET/IB: Dev 0 Port 1 qpn 2", "NET/Socket: Using 1 threads", "Ring 00 : 0 -> 1 -> 2", "Tree 0 : -1 -> 0 -> 1",
        "comm 0x1 rank 0 nranks 2 cudaDev 0 busId 60 - Init COMPLETE",
        "comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0",
        "comm 0x1 rank 0 nranks 2 cudaDev 0 busId 60 - Destroy COMPLETE", "Using 512 threads, Min Comp Cap 7",
        "AllReduce: 8 Bytes -> Algo 0 proto 0", "    AllReduce |     1.0/   2.0 |", "TUNER/Plugin: x", "NET/Plugin: x",
        "8 Bytes -> Algo 0 proto 0 time 1.0", "AllReduce [Symmetric]: 8 Bytes -> Kernel x", "NCCL_IB_HCA set to x",
        "Invalid value x for NCCL_X, using default 1.", "CollNet 00/0 : 1 [send] via COLLNET/SHARP/0",
    ]  # fmt: skip
    for line in lines:
        assert sum(bool(pattern.match(line)) for pattern, _ in _HANDLERS) == 1, line
