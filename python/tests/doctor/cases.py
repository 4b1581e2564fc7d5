"""A healthy machine, and for every finding of the list a snapshot that must provoke it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from busbw.doctor.reading.snapshot import HostState, LibraryFile, ProcessState, Snapshot, TextFile
from busbw.machine.topology.gpu_state import GpuProcess, GpuState
from busbw.machine.topology.model import SWITCH, Gpu, Machine, Nic, NumaNode, NvLinks, PcieLink, with_generation
from busbw.machine.topology.paths import connections
from busbw.records import Case, Device, Library, Rank, Record, Run, Tool

from ..machine.nccl.samples import graph, topology

FULL = PcieLink(5, 16, 5, 16)


def machine(gpus: int = 4, links: int = 18, *, rdma: bool = True, pcie: PcieLink = FULL, sm: int = 90) -> Machine:
    """H200 GPUs on two NUMA nodes behind a switch, with an RDMA device and an Ethernet interface."""

    def gpu(i: int) -> Gpu:
        return with_generation(
            Gpu(
                i, f"{i + 1:04x}:00:00.0", "NVIDIA H200", sm, rank=i, numa=i % 2, pcie=pcie,
                cpus=tuple(range(8 * (i % 2), 8 * (i % 2) + 8)), bridges=(f"cpu{i % 2}", "s"),
                nvlinks=(NvLinks(SWITCH, links),) if links else (),
            )
        )  # fmt: skip

    made = tuple(gpu(i) for i in range(gpus))
    nics = [Nic("eth0", "0100:00:00.0", 100.0, interface="eth0", numa=0, bridges=("cpu0",), up=True),
            Nic("eth1", "0101:00:00.0", 10.0, interface="eth1", numa=0, bridges=("cpu0",), up=True)]  # fmt: skip
    if rdma:
        nics.append(Nic("mlx5_0", "0200:00:00.0", 200.0, rdma=True, numa=0, pcie=FULL, bridges=("cpu0", "s"), up=True))
        nics.append(Nic("mlx5_1", "0201:00:00.0", 200.0, rdma=True, numa=1, pcie=FULL, bridges=("cpu1", "s"), up=True))
    nodes = (NumaNode(0, tuple(range(8))), NumaNode(1, tuple(range(8, 16))))
    return Machine("this machine", made, tuple(nics), nodes, connections(made, nics))


def with_rates(*rates: float, storage: float = 0.0) -> Machine:
    """GPUs with a port of that rate below a switch of each, and one for storage elsewhere."""
    plain = machine(len(rates), rdma=False)
    gpus = tuple(replace(gpu, bridges=("cpu0", f"s{i}")) for i, gpu in enumerate(plain.gpus))
    ways = [("cpu0", f"s{i}") for i in range(len(rates))]
    nics = [Nic(f"mlx5_{i}", f"02{i:02}:00:00.0", rate, rdma=True, numa=0, pcie=FULL, bridges=ways[i], up=True)
            for i, rate in enumerate(rates)]  # fmt: skip
    if storage:
        nics.append(Nic("mlx5_9", "0300:00:00.0", storage, rdma=True, numa=0, pcie=FULL, bridges=("cpu0",), up=True))
    return replace(plain, gpus=gpus, nics=tuple(nics), connections=connections(gpus, nics))


def placed(gpus: tuple[str, ...], numa: int | None, nics: tuple[str, ...], other: int | None) -> Machine:
    """The machine with all GPUs below those bridges, and all RDMA devices below others."""
    made = machine()
    moved = tuple(replace(gpu, bridges=gpus, numa=numa, cpus=made.gpus[0].cpus) for gpu in made.gpus)
    devices = tuple(replace(nic, bridges=nics, numa=other) if nic.rdma else nic for nic in made.nics)
    return replace(made, gpus=moved, nics=devices, connections=connections(moved, devices))


def without_one(made: Machine) -> Machine:
    """The machine without its last RDMA device."""
    nics = made.nics[:-1]
    return replace(made, nics=nics, connections=connections(made.gpus, nics))


def state(index: int, **changes: Any) -> GpuState:
    """A GPU at rest."""
    made = GpuState(
        index, f"{index + 1:04x}:00:00.0", "NVIDIA H200", 90, pcie=FULL, utilisation_percent=0.0, memory_used_MiB=600.0,
        memory_total_MiB=143771.0, pstate=0, sm_clock_MHz=345.0, max_sm_clock_MHz=1980.0, application_clock_MHz=1980.0,
        default_application_clock_MHz=1980.0, slowdowns=("idle",), temperature_C=30.0, power_limit_W=700.0,
        default_power_limit_W=700.0, mig=False, ecc_uncorrected=0, row_remap_pending=False, row_remap_failed=False,
    )  # fmt: skip
    return replace(made, **changes)


def host(**changes: Any) -> HostState:
    """An unbound host with room."""
    made = HostState(
        online_cpus=tuple(range(16)), busy_cpus={str(cpu): 0.02 for cpu in range(16)}, shm_total_MiB=64000.0,
        shm_free_MiB=63000.0, peer_memory=True, numa_balancing=False,
    )  # fmt: skip
    return replace(made, **changes)


def healthy(**changes: Any) -> Snapshot:
    """A machine of which nothing above a note may be said."""
    made = Snapshot(
        source="this machine", live=True, machine=machine(), gpus=tuple(state(i) for i in range(4)), host=host(),
        processes=(ProcessState(1, "busbw", (), tuple(range(16))),),
        libraries=(LibraryFile("/usr/lib/libnccl.so.2", "2.28.9", "the system's folders"),),
    )  # fmt: skip
    return replace(made, **changes)


TWO_NODES = "comm 0x1 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 0"


def said(text: str, rank: int = 0, host: str = "n0") -> str:
    return f"{host}:10:{11 + rank} [{rank}] NCCL INFO {text}"


def log(*lines: str, hosts: int = 1, coll: int = 24) -> TextFile:
    """A log of two ranks on the healthy machine, with these lines besides."""
    ranks = [
        said(
            f"ncclCommInitRank comm 0x5{r} rank {r} nranks 2 cudaDev {r} nvmlDev {r} busId {r + 1}00000 commId 0xa - "
            f"Init {word}", r, f"n{r % hosts}",
        )
        for word in ("START", "COMPLETE") for r in range(2)
    ]  # fmt: skip
    counts = said(f"{coll} coll channels, {coll} collnet channels, 0 nvls channels, 32 p2p channels")
    sizes = said(f"comm 0x50 rank 0 nRanks 2 nNodes {hosts} localRanks {2 // hosts} localRank 0 MNNVL 0")
    return TextFile("job.log", "\n".join([said("NCCL version 2.28.9+cuda13.0"), *ranks, sizes, counts, *lines]) + "\n")


START = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1"
TABLE_HEAD = (
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw"
)


def flight(rank: int, calls: int, name: str = "nccl:all_reduce", size: int = 1024) -> TextFile:
    """A rank's dump of the flight recorder with that many collectives, of which the last did not end."""
    entries = [
        {"collective_seq_id": i, "profiling_name": "nccl:all_reduce" if i < calls else name, "pg_id": 0,
         "input_sizes": [[1024 if i < calls else size]], "state": "completed" if i < calls else "started", "frames": []}
        for i in range(1, calls + 1)
    ]  # fmt: skip
    return TextFile(f"trace_rank_{rank}.json", json.dumps({"version": "2.10", "entries": entries}))


SHARED = "step 9 tps: 1,204\n" + "".join(
    f"|    {gpu}   N/A  N/A          {pid}      C   {name}         30200MiB |\n"
    for gpu, pid, name in ((0, 91200, "python3"), (1, 91201, "python3"), (1, 7331, "serve"))
)
"""The table of processes of a host where a stranger sits on one of the job's two GPUs."""


def training_line(step: int) -> str:
    """One step of a training that is twice as slow from the twentieth on."""
    return f"Training epoch 0, iteration {step}/999 | train_step_timing in s: {5.8 if step < 20 else 11.9}\n"


PERFTEST = (
    " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]",
    " 65536      5000             99.32             98.87                0.189",
)


def shown(*lines: str) -> TextFile:
    """A log in which somebody shows more than a job says."""
    return TextFile("shown.log", "".join(f"{line.rstrip()}\n" for line in lines))


def ping(size: int, back: int) -> tuple[str, str]:
    """A ping of which that many of three packets come back."""
    lost = 100 - 100 * back // 3
    return (
        f"PING n1 (10.0.0.2) {size - 28}({size}) bytes of data.",
        f"3 packets transmitted, {back} received, {lost}% packet loss",
    )


def ports(host: int, *, slow: bool) -> Iterator[str]:
    """Four ports of a host as ibstat lists them, each line behind the host's name."""
    for port in range(4):
        yield f"cn{host}: CA 'mlx5_{port}'"
        yield f"cn{host}: \t\tRate: {100 if slow and port == 2 else 400}"


def called(rank: int, count: int) -> str:
    """A call of a collective as NCCL prints it."""
    what = f"sendbuff 0x7f recvbuff 0x7f count {count} datatype 7 op 0 root 0 comm 0x5{rank} [nranks=2] stream 0x1"
    return said(f"AllReduce: opCount 4 {what}", rank)


def half_init() -> TextFile:
    """A log of two ranks of which the second began and did not end."""
    comm = "ncclCommInitRank comm 0x5{0} rank {0} nranks 2 cudaDev {0} nvmlDev {0} busId {1}00000 commId 0xa - Init {2}"
    lines = [said(comm.format(0, 1, "START")), said(comm.format(1, 2, "START"), 1), said(comm.format(0, 1, "COMPLETE"))]
    return TextFile("job.log", "\n".join(lines) + "\n")


def with_gpu(**changes: Any) -> Snapshot:
    """The healthy machine, but for the state of GPU 2."""
    return healthy(gpus=tuple(state(i, **(changes if i == 2 else {})) for i in range(4)))


def environment(**variables: str) -> Snapshot:
    return healthy(environment=variables)


def conf(text: str, **changes: Any) -> Snapshot:
    return healthy(confs=(TextFile("/etc/nccl.conf", text),), **changes)


def graph_case() -> Snapshot:
    file = TextFile("/opt/graph.xml", graph([(0, 1, 2, 3)] * 2, 12, "SYS").decode())
    return conf("# made by the image\nNCCL_GRAPH_FILE=/opt/graph.xml\n", graph=file)


def far_rank() -> Snapshot:
    mine = ProcessState(1, "busbw", (), tuple(range(16)))
    return healthy(processes=(mine, ProcessState(7, "train", (1,), (0, 1, 2, 3))))


CASES: Mapping[str, Callable[[], Snapshot]] = {
    "graph-file": graph_case,
    "topology-file": lambda: healthy(
        environment={"NCCL_TOPO_FILE": "/opt/topo.xml"},
        topology=TextFile("/opt/topo.xml", topology(2, 12, bus="00f{}:00:00.0").decode()),
    ),
    "conf-files": lambda: conf("NCCL_DEBUG = INFO\n"),
    "setting-misread": lambda: environment(NCCL_BUFFSIZE="8M"),
    "p2p-disabled": lambda: environment(NCCL_P2P_DISABLE="1"),
    "shm-disabled": lambda: environment(NCCL_SHM_DISABLE="1", NCCL_P2P_DISABLE="1"),
    "ib-disabled": lambda: environment(NCCL_IB_DISABLE="1"),
    "hca-not-found": lambda: healthy(
        environment={"NCCL_IB_HCA": "mlx5_9"}, logs=(log("n0:1:2 [0] NCCL INFO Using network Socket", hosts=2),)
    ),
    "few-channels": lambda: environment(NCCL_MAX_NCHANNELS="4"),
    "forced-algorithm": lambda: environment(NCCL_ALGO="Tree"),
    "forced-protocol": lambda: environment(NCCL_PROTO="LL"),
    "forced-sizes": lambda: environment(NCCL_BUFFSIZE="65536"),
    "slow-settings": lambda: environment(CUDA_LAUNCH_BLOCKING="1"),
    "network-interface": lambda: environment(NCCL_SOCKET_IFNAME="bond0"),
    "no-gdr": lambda: healthy(host=host(peer_memory=False)),
    "slow-transport": lambda: healthy(logs=(log(said("Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct")),)),
    "init-incomplete": lambda: healthy(logs=(half_init(),)),
    "settings-differ": lambda: healthy(
        logs=(log(said("NCCL_IB_TC set by environment to 106."), said("NCCL_IB_TC set by environment to 0.", 1)),)
    ),
    "setting-breaks": lambda: healthy(
        environment={"NCCL_HOSTID": "pool-a"},
        logs=(log("n0:1:2 [0] x.cc:9 NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-T"),),
    ),
    "choices-differ": lambda: healthy(
        logs=(log(*(f"n0:{9 + rank}:{11 + rank} [{rank}] NCCL INFO AllReduce: 4096 Bytes -> Algo {algo} proto LL"
                    for rank, algo in enumerate(("TREE", "RING")))),)
    ),
    "networks-differ": lambda: healthy(
        logs=(log(*(f"n{host}:1:2 [0] NCCL INFO Using network {net}" for host, net in enumerate(("IB", "Socket")))),)
    ),
    "flight-recorder": lambda: healthy(logs=tuple(flight(rank, 6 - (rank == 2)) for rank in range(4))),
    "port-speeds": lambda: healthy(machine=with_rates(400.0, 400.0, 200.0)),
    "p2p-matrix": lambda: healthy(
        logs=(log("P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)", "     0 831.22   0.31", "     1   0.31 829.10"),)
    ),
    "stuck-in-collective": lambda: healthy(logs=(log(TABLE_HEAD),)),
    "calls-differ": lambda: healthy(logs=(log(*map(called, (0, 1), (512, 256))),)),
    "built-without-mpi": lambda: healthy(logs=(log(*[START] * 2),)),
    "nccl-warnings": lambda: healthy(logs=(log("n0:1:2 [0] net.cc:9 NCCL WARN The moon is in the wrong phase"),)),
    "below-expected": healthy,
    "suspect-setting": healthy,
    "steps-slower": lambda: healthy(logs=(TextFile("t.log", "".join(map(training_line, range(40)))),)),
    "impossible": healthy,
    "one-rail": healthy,
    "far-below": healthy,
    "nvlink-domain": healthy,
    "slow-host": lambda: healthy(logs=(shown(*(f"node{n} {450 if n == 3 else 690} TFLOPS" for n in range(6))),)),
    "perftest-slow": lambda: healthy(logs=(shown("\t\tRate: 400", *PERFTEST),)),
    "containers-apart": lambda: healthy(machine=machine(rdma=False), logs=(shown(*(
        line for at in (2, 3) for line in (
            f"c{at}aa0123bb4f:31:40 [0] NCCL INFO Bootstrap : Using eth0:172.17.0.{at}<0>",
            f"c{at}aa0123bb4f:31:40 [0] NCCL INFO Channel 00/0 : 0[1a000] -> 1[1c000] [send] via NET/Socket/0"))),)
    ),
    "device-buffers": lambda: healthy(
        logs=(shown(*(each for at, rate in (("H", 24100.55), ("D", 1790.02)) for each in (
            f"$ mpirun -np 2 osu_bw {at} {at}", "# OSU MPI-CUDA Bandwidth Test v7.2", f"4194304    {rate}"))),)
    ),
    "data-bound": lambda: healthy(logs=(shown(*(f"step {n} time: 0.91 data: 0.7{n}" for n in range(9))),)),
    "rank-waits-for-data": lambda: healthy(logs=(shown(*(
        f"[rank{r}] step {n} data_wait {700 * r} ms reduce {700 - 700 * r} ms" for n in range(6) for r in range(2))),)),
    "same-data": lambda: healthy(logs=(shown(
        *(f"[rank{rank}] epoch {n} first ids [9{n}, 14, 7{n}, 311]" for n in range(3) for rank in range(2))),)),
    "ray-pending": lambda: healthy(logs=(shown(
        "Active:", " 1 node_7d", "Usage:", " 4.0/4.0 GPU (2.0 used of 4.0 reserved in placement groups)", "",
        "Demands:", " {'GPU': 2.0, 'CPU': 2.0} * 1 (PACK): 1+ pending placement groups"),)),
    "outside-container": lambda: healthy(logs=(shown("$ srun -N 2 --container-image=/a.sqsh cat /etc/os-release",
        'PRETTY_NAME="Rocky Linux 9.4 (Blue Onyx)"', 'PRETTY_NAME="Ubuntu 22.04.4 LTS"', "$ exit"),)),
    "p2p-hangs": lambda: healthy(logs=(log(
        *(f"n0:{9 + rank}:{11 + rank} [{rank}] NCCL INFO comm 0x5 rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} "
          f"busId {rank + 1}000 commId 0x9 - Init {state}" for state in ("START", "COMPLETE") for rank in range(2)),
        "n0:9:11 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC", "Then it just hangs.",
        "$ cat /proc/cmdline", "BOOT_IMAGE=/vmlinuz ro amd_iommu=on quiet"),)),
    "loss-nan": lambda: healthy(logs=(log(
        *(f"step {n} loss {2.5 if n < 9 else 'nan'} time 0.4 s" for n in range(30))),)),
    "ranks-alone": lambda: healthy(logs=(shown(
        *(f"[1,{n}]<stdout>:rank 0 of 1 on cuda:0, one of DDP" for n in range(2))),)),
    "build-lock": lambda: healthy(
        logs=(shown(*(each for pid in (411, 412) for each in (
            f'Thread {pid} (idle): "MainThread"', "    wait (torch/utils/file_baton.py:52)"))),)
    ),
    "lock-and-barrier": lambda: healthy(logs=(shown(
        'Thread 411 (idle): "MainThread"', "    barrier (torch/distributed/distributed_c10d.py:4159)",
        'Thread 412 (idle): "MainThread"', "    acquire (filelock/_api.py:344)"),)),
    "custom-all-reduce": lambda: healthy(logs=(shown(
        "driver of the p2p fork", "INFO [custom_all_reduce.py:216] Registering 510 cuda graph addresses", "!" * 24),)),
    "thin-link": lambda: Snapshot("n0", live=True, logs=(log(
        said("NET/Socket : Using [0]eth0:10.0.0.1<0>"), said("Channel 00/0 : 0[0] -> 4[0] [send] via NET/Socket/0"),
        "$ ethtool eth0", "\tSpeed: 1000Mb/s"),)),
    "bond-members": lambda: healthy(logs=(shown("$ cat /proc/net/bonding/bond0",
        "Bonding Mode: IEEE 802.3ad Dynamic link aggregation", "Active Aggregator Info:",
        "\tAggregator ID: 1", *(line for port, mac in ((1, "44:38"), (2, "00:00")) for line in (
            f"Slave Interface: eth{port}", "MII Status: up", f"Aggregator ID: {port}", "details partner lacp pdu:",
            "    system priority: 65535", f"    system mac address: {mac}:00:00:00:00"))),)),
    "slowed-by": lambda: healthy(logs=(shown("$ make -j src.build DEBUG=1", *map(training_line, range(40))),)),
    "mtu-path": lambda: healthy(logs=(shown(*ping(9000, 0), *ping(84, 3)),)),
    "uplinks-uneven": lambda: healthy(logs=(shown(
        *(f"Et{n}/1  spine-{n}  0:30  1.0  {99.1 if n == 2 else 0.1}%  3  1.0  0.2%" for n in range(5))),)),
    "port-slower": lambda: healthy(logs=(shown(*(each for n in range(3) for each in ports(n, slow=n == 1))),)),
    "ports-left-out": lambda: Snapshot("n0", live=True, logs=(log(
        said("NCCL_IB_HCA set to ^mlx5_0"), said("NET/IB : Using [0]mlx5_9:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"),
        said(TWO_NODES), *(line for name, rate in (("mlx5_0", 400), ("mlx5_9", 100)) for line in (
            f"Infiniband device '{name}' port 1 status:", f"\trate:\t\t {rate} Gb/sec (4X NDR)"))),)),
    "once-faster": lambda: healthy(logs=(shown(
        "(last week it ran at 310 samples/s)", *(f"step {n} loss 2.1 {140 + n} samples/s" for n in range(4))),)),
    "more-gpus-slower": lambda: healthy(logs=(shown(
        *(line for n in (1, 4) for line in (f"{n} GPU", *[f", time: {n}.1, data_time: 0.1"] * 2))),)),
    "nic-shared": lambda: healthy(logs=(shown("busbw", *(
        f"cn{host}:10:11 [{gpu}] NCCL INFO Channel 00/0 : {host}[1b000] -> {host + 1}[1b000] [send] via "
        f"NET/IB/{0 if host == 1 and gpu == 1 else gpu}/GDRDMA" for host in range(3) for gpu in range(4))),)),
    "routes-overlap": lambda: healthy(logs=(shown(
        said("NET/Socket : Using [0]eth9:10.0.0.9<0>"), "limit: 25 Gb/s",
        "10.0.0.0/16 dev eth1 proto kernel scope link src 10.0.7.9 metric 100",
        "10.0.0.0/16 dev eth9 proto kernel scope link src 10.0.0.9 metric 100"),)),
    "runs-differ": lambda: healthy(logs=(shown(*(
        line for version, rate in (("2.20.5", 10.0), ("2.18.5", 30.0)) for line in (
            f"NCCL version {version}+cuda12.2", *(
                f" {8 << n} {2 << n} float sum -1 900.0 {rate:.2f} {rate:.2f} 0 900.0 {rate:.2f} {rate:.2f} 0"
                for n in (24, 25, 26)), "# Avg bus bandwidth : 1.0"))),)),
    "service-level": lambda: healthy(logs=(log(
        said("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>"), said(TWO_NODES),
        "ar_sl_mask 0x0004"),)),
    "pci-narrow": lambda: healthy(logs=(log(said("+ PCI[12.0] - GPU/1000 (0)"), said("+ PCI[0.8] - GPU/2000 (1)")),)),
    "gpu-missing": lambda: healthy(listed_gpus=5),
    "flat-topology": lambda: healthy(machine=placed(*(("cpu0",), None) * 2)),
    "nic-far": lambda: healthy(machine=placed(("cpu0", "s"), 0, ("cpu1", "t"), 1)),
    "nic-missing": lambda: healthy(machine=without_one(with_rates(400.0, 400.0, 400.0, 400.0))),
    "nics-unused": lambda: healthy(
        machine=with_rates(400.0, 400.0, 400.0, 400.0),
        logs=(log(said("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB ; OOB eth0:10.0.0.1<0>"), said(TWO_NODES)),),
    ),
    "no-multicast": lambda: Snapshot(
        "n0", live=True, logs=(log(said("NVLS multicast support is not available on dev 0")),)
    ),
    "pcie-link": lambda: healthy(machine=machine(pcie=PcieLink(5, 8, 5, 16))),
    "nvlinks-down": lambda: healthy(machine=machine(links=17)),
    "nvlink-errors": lambda: with_gpu(nvlink_errors=3),
    "acs": lambda: healthy(host=host(acs_redirects=("0000:10:01.0",))),
    "iommu": lambda: healthy(host=host(iommu="translated")),
    "cpu-binding": far_rank,
    "gpu-busy": lambda: with_gpu(utilisation_percent=100.0, processes=(GpuProcess(99, "train", 4000.0),)),
    "gpu-shared": lambda: healthy(logs=(TextFile("smi.log", SHARED),)),
    "gpu-throttled": lambda: with_gpu(slowdowns=("hw_thermal",), temperature_C=92.0),
    "gpu-faults": lambda: with_gpu(mig=True),
    "library-versions": lambda: healthy(logs=(log(said("NCCL version 2.19.3+cuda12.2", 1)),)),
    "shared-memory": lambda: healthy(machine=machine(links=0), host=host(shm_total_MiB=64.0, shm_free_MiB=60.0)),
    "locked-memory": lambda: healthy(host=host(memlock_KiB=64.0)),
}  # fmt: skip


def slow_record(busbw: float = 98.0, **variables: str) -> Record:
    """All-reduce of 1 GiB on 4 H200 of one host."""
    ranks = tuple(Rank(i, "n0", device=Device("gpu", i, "NVIDIA H200", f"{i + 1:04x}:00:00.0")) for i in range(4))
    run = Run("r1", None, Tool("busbw"), Library("NCCL", version="2.28.9"), ranks, variables)
    case = Case(
        "r1", 0, "all_reduce", 1 << 30, "out_of_place", "measured", algbw_GBps=busbw / 1.5, busbw_GBps=busbw, ranks=4,
        time_us=(1 << 30) / (busbw / 1.5) / 1e3,
    )  # fmt: skip
    return Record(run, (case,))


def rail_record(busbw: float = 49.0, gpus: int = 8, name: str = "NVIDIA H100 80GB HBM3", hosts: int = 2) -> Record:
    """All-reduce of 1 GiB over hosts with eight GPUs each."""
    ranks = tuple(Rank(i, f"n{i // gpus}", device=Device("gpu", i % gpus, name)) for i in range(gpus * hosts))
    run = Run("r2", None, Tool("busbw"), Library("NCCL", version="2.28.9"), ranks, {})
    case = Case("r2", 0, "all_reduce", 1 << 30, "out_of_place", "measured", busbw_GBps=busbw, ranks=gpus * hosts)
    return Record(run, (case,))


def broadcast_record() -> Record:
    """A broadcast as over sockets of ten gigabit."""
    return replace(slow := rail_record(1.1), cases=tuple(replace(each, collective="broadcast") for each in slow.cases))


RECORDS: Mapping[str, tuple[Record, ...]] = {
    "below-expected": (slow_record(),),
    "suspect-setting": (slow_record(98.0, NCCL_CTA_POLICY="1"),),
    "impossible": (slow_record(900.0),),
    "one-rail": (rail_record(),),
    "far-below": (broadcast_record(),),
    "no-multicast": (rail_record(368.0, hosts=1),),
    "nvlink-domain": (rail_record(180.0, 4, "NVIDIA GB200"),),
}
"""What some cases need beside their snapshot."""
