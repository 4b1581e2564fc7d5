"""Healthy logs of NCCL 2.18 to 2.32 as NCCL_DEBUG=INFO prints them: one and two nodes, plugins, sockets on one node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .load import shaped


@dataclass(frozen=True)
class Job:
    """What the log is of."""

    version: str
    gpus: int = 8
    hosts: int = 1
    network: str = "IB"
    plugin: str = "none"
    shape: str = "plain"
    nvls: int = 16
    table: bool = False


JOBS = (
    Job("2.18.3+cuda12.2"),
    Job("2.18.6+cuda12.1", gpus=2, network="Socket", nvls=0),
    Job("2.19.3+cuda12.3", hosts=2),
    Job("2.19.4+cuda12.2", hosts=2, plugin="hpcx", shape="mpi"),
    Job("2.20.5+cuda12.4", gpus=4, network="Socket", shape="torchrun"),
    Job("2.21.5+cuda12.4", hosts=2, shape="srun"),
    Job("2.21.5+cuda12.4", gpus=8, plugin="ofi", hosts=2, network="AWS Libfabric"),
    Job("2.22.3+cuda12.5", gpus=4, shape="kubernetes"),
    Job("2.23.4+cuda12.6", hosts=2, plugin="hpcx"),
    Job("2.24.3+cuda12.6", gpus=8, network="Socket", shape="carriage-returns"),
    Job("2.25.1+cuda12.8", hosts=2, shape="no-host"),
    Job("2.26.2+cuda12.2", gpus=2, network="Socket", nvls=0, shape="torchrun"),
    Job("2.26.5+cuda12.9", hosts=4),
    Job("2.27.3+cuda12.9", hosts=2, shape="own-times"),
    Job("2.27.7+cuda12.9", gpus=8, shape="colours"),
    Job("2.28.3+cuda13.0", hosts=2, shape="mpi"),
    Job("2.28.9+cuda13.0", gpus=4, network="Socket"),
    Job("2.29.7+cuda13.0", hosts=2, shape="kubernetes"),
    Job("2.30.7+cuda13.1", hosts=2),
    Job("2.32.3+cuda13.2", gpus=4, hosts=2, shape="srun"),
    Job("2.27.5+cuda12.9", gpus=8, table=True),
)


def logs() -> Iterator[tuple[str, str]]:
    """(name, text) of every healthy log."""
    for job in JOBS:
        lines = [line for rank in range(job.gpus * job.hosts) for line in rank_lines(job, rank)]
        text = shaped(lines, job.shape)
        name = f"{job.version.partition('+')[0]} {job.hosts}x{job.gpus} {job.network} {job.plugin} {job.shape}"
        yield name, (_header(job) + text + _table(job)) if job.table else text
    for name, text in BENIGN:
        yield name, shaped(text.splitlines(), "plain")
    yield from _of_the_field()


def _of_the_field() -> Iterator[tuple[str, str]]:
    """Healthy runs with the noise of containers, launchers and frameworks around NCCL's lines."""
    job = Job("2.21.5+cuda12.4", gpus=2, network="Socket", nvls=0)
    nccl = shaped([line for rank in range(2) for line in rank_lines(job, rank)], "plain").rstrip("\n")
    files = sorted(Path(__file__).parent.glob("healthy-*.txt"), key=lambda path: int(path.stem.split("-")[1]))
    assert len(files) >= 14, "the folder is not whole"
    # A file's own heading is no line of the log that stands before it.
    text = "".join(re.sub(r"\A(?:#.*\n)+", "", each.read_text(encoding="utf-8")) for each in files)
    for block in re.split(r"^@@ ", text, flags=re.MULTILINE)[1:]:
        name, _, body = block.partition("\n")
        yield name, body.replace("{NCCL}", nccl)


BENIGN = (
    (
        "single node beside docker",
        """\
I0|Bootstrap : Using docker0:172.17.0.1<0>
I0|NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared object file: No such file
I0|NET/Plugin : No plugin found, using internal implementation
I0|Failed to open libibverbs.so[.1]
I0|NET/Socket : Using [0]docker0:172.17.0.1<0> [1]virbr0:192.168.122.1<0>
I0|Using network Socket
I0|ncclCommInitRank comm 0x1 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 41000 commId 0xa - Init START
I0|ncclCommInitRank comm 0x1 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 41000 commId 0xa - Init COMPLETE
""",
    ),
    (
        "torch's usual warnings",
        """\
[rank0]:[W1122 ProcessGroupNCCL.cpp:4115] [PG ID 0 Rank 0]  using GPU 0 to perform barrier as devices used are unknown.
[I ProcessGroupWrapper.cpp:562] [Rank 0] Running collective: CollectiveFingerPrint(SequenceNumber=0, OpType=BARRIER)
[I1122 ProcessGroupNCCL.cpp:666] [Rank 0] ProcessGroupNCCL initialized: NCCL_ASYNC_ERROR_HANDLING: 1, TIMEOUT(ms): 60
I0|ncclCommInitRank comm 0x1 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 41000 commId 0xa - Init START
I0|ncclCommInitRank comm 0x1 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 41000 commId 0xa - Init COMPLETE
W0|net_fastsocket.cc:765|Cannot get incoming CPU.
I0|[Service thread] Connection closed by localRank 0
[rank0]:[W1122 ProcessGroupNCCL.cpp:1250] Warning: process group has NOT been destroyed before we destruct it.
""",
    ),
    (
        "a storage NIC without GPU Direct RDMA",
        """\
I0|NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'
I0|NET/IB : GPU Direct RDMA Disabled for HCA 8 'mlx5_bond_0'
I0|GPU Direct RDMA Disabled for GPU 0 / HCA 4 (distance 7 > 5)
I0|Topology detection : could not read /sys/devices/pci0001:00/0001:00:00.0/max_link_speed, ignoring
I0|cuMem host allocations do not appear to be working; falling back to a /dev/shm/ based implementation
I0|Call to connect returned Connection refused, retrying
I0|ncclCommInitRank comm 0x1 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 41000 commId 0xa - Init START
I0|ncclCommInitRank comm 0x1 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 41000 commId 0xa - Init COMPLETE
""",
    ),
)
"""Lines that look bad and are not."""


def _minor(job: Job) -> int:
    return int(job.version.split(".")[1])


def rank_lines(job: Job, rank: int) -> Iterator[str]:
    """What one rank prints, in the notation of the corpus."""
    gpu, host, size, minor = rank % job.gpus, rank // job.gpus, job.gpus * job.hosts, _minor(job)
    start = f"I{gpu}@node{host}|"
    comm = f"comm 0x55e{rank:04x} rank {rank} nranks {size} cudaDev {gpu} nvmlDev {gpu} busId {gpu + 1:x}b000"
    call = "ncclCommInitRankConfig" if minor >= 24 else "ncclCommInitRank"
    said = f"[Rank {rank}] {call}" if minor >= 30 else call
    yield f"{start}Bootstrap {'' if minor >= 24 else ' '}: Using eth0:10.0.0.{host + 1}<0>"
    if rank == 0:
        yield f"{start}cudaDriverVersion 12080"
        yield f"NCCL version {job.version}" if minor < 21 else f"{start}NCCL version {job.version}"
    yield from (start + line for line in _network(job, host, gpu, minor))
    yield f"{start}{said} {comm} commId 0x3f2ad1d0f7c8e1a - Init START"
    if minor >= 24:
        yield f"{start}RAS client listening socket at 127.0.0.1<28028>"
        yield f"{start}Bootstrap timings total 0.02 (create 0.00, send 0.00, recv 0.01, ring 0.00, delay 0.00)"
    yield f"{start}Setting affinity for GPU {gpu} to ffffffff,00000000,ffffffff"
    if job.nvls:
        yield f"{start}NVLS multicast support is available on dev {gpu} (NVLS_NCHANNELS {job.nvls})"
    own = f"{start}comm 0x55e{rank:04x} rank {rank}"
    if minor >= 21:
        yield f"{own} nRanks {size} nNodes {job.hosts} localRanks {job.gpus} localRank {gpu} MNNVL 0"
    yield from (start + line for line in _channels(job, rank))
    yield f"{start}Connected all rings" + (", use ring PXN 0 GDR 1" if minor >= 26 else "")
    yield f"{start}Connected all trees"
    yield f"{start}threadThresholds 8/8/64 | {8 * size}/8/64 | 512 | 512"
    counts = f"24 coll channels, 24 collnet channels, {job.nvls} nvls channels, 32 p2p channels"
    yield f"{start}{counts}, 4 p2p channels per peer"
    if minor >= 22:
        yield f"{start}TUNER/Plugin: Could not find: libnccl-tuner.so. Using internal tuner plugin."
    yield f"{start}{call} {comm} commId 0x3f2ad1d0f7c8e1a - Init COMPLETE"
    yield f"{own} nranks {size} cudaDev {gpu} busId {gpu + 1:x}b000 - Destroy COMPLETE"


def _network(job: Job, host: int, gpu: int, minor: int) -> Iterator[str]:
    if job.plugin == "hpcx":
        yield "NET/Plugin: Failed to find ncclNetPlugin_v9 symbol."
        yield "NET/Plugin: Loaded net plugin NCCL RDMA Plugin v8 (v8)"
        yield "NET/Plugin: Failed to find ncclCollNetPlugin_v9 symbol."
        yield "Plugin Path : /opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so"
        yield "P2P plugin v8 IBext_v8"
    elif job.plugin == "ofi":
        yield "NET/Plugin: Failed to find ncclNetPlugin_v10 symbol."
        yield "NET/OFI Initializing aws-ofi-nccl 1.13.2-aws"
        yield "NET/OFI Using Libfabric version 1.22"
        yield "NET/OFI Selected Provider is efa (found 32 nics)"
        yield "NET/OFI Configuring AWS-specific options"
        yield "NET/OFI Support for global registrations: true"
    elif minor >= 24:
        yield "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin."
    elif minor >= 20:
        yield (
            "NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory "
            "No plugin found (libnccl-net.so), using internal implementation"
        )
    else:
        yield "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation"
    if job.network == "Socket":
        yield "NET/IB : No device found."
        if minor >= 27:
            yield "NET/IB : Using [RO]; OOB eth0:10.0.0.1<0>"
            yield "Failed to initialize NET plugin IB"
        yield f"NET/Socket : Using [0]eth0:10.0.0.{host + 1}<0>"
    elif job.network == "IB":
        devices = " ".join(f"[{i}]mlx5_{i}:1/IB" for i in range(8))
        yield f"NET/IB : Using {devices} [RO]; OOB eth0:10.0.0.{host + 1}<0>"
        if gpu == 0:
            yield "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'"
    yield f"Using network {job.network}"
    if minor >= 23:
        yield "DMA-BUF is available on GPU device 0"


def _channels(job: Job, rank: int) -> Iterator[str]:
    size, gpu = job.gpus * job.hosts, rank % job.gpus
    following = (rank + 1) % size
    for channel in range(8):
        if rank == 0:
            yield f"Channel {channel:02}/08 : " + " ".join(f"{each:2}" for each in range(size))
    yield "Trees " + " ".join(f"[{channel}] {following}/-1/-1->{rank}->{rank - 1}" for channel in range(8))
    yield "P2P Chunksize set to 524288"
    for channel in range(8):
        if following // job.gpus == rank // job.gpus:
            yield f"Channel {channel:02}/0 : {rank}[{gpu}] -> {following}[{following % job.gpus}] via P2P/CUMEM/read"
        else:
            by = f"{job.network}/{channel}" + ("" if job.network == "Socket" else "/GDRDMA")
            yield f"Channel {channel:02}/0 : {rank}[{gpu}] -> {following}[{following % job.gpus}] [send] via NET/{by}"


def _header(job: Job) -> str:
    lines = [
        "# nThread 1 nGpus 8 minBytes 67108864 maxBytes 1073741824 step: 4(factor) "
        "warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0",
        "#",
        "# Using devices",
    ]
    lines += [
        f"#  Rank {i:2} Group  0 Pid   1000 on      node0 device {i:2} [0x{i + 1:x}b] NVIDIA H100 80GB HBM3"
        for i in range(job.gpus)
    ]
    return "\n".join(lines) + "\n"


def _table(_job: Job) -> str:
    rows = [(1 << 26, 330.0), (1 << 28, 430.0), (1 << 30, 475.0)]
    text = (
        "#\n"
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algb"
        "w   busbw #wrong\n"
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s"
        ")  (GB/s)\n"
    )
    for size, busbw in rows:
        algbw = busbw / 1.75
        part = f"{size / algbw / 1e3:9.1f} {algbw:7.2f} {busbw:7.2f}      0"
        text += f"{size:12} {size // 4:13}     float     sum      -1 {part} {part}\n"
    return text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 411.67\n#\n"
