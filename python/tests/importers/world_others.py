"""Logs of every other writer with the facts that must come out, and texts that must be named instead of read."""

# ruff: noqa: E501 - the lines are as wide as the tools print them

from __future__ import annotations

import json
from collections.abc import Iterator

from world_corpus import Fact, Shape, fact, prefixed
from world_writers import (
    ELEMENT,
    SIZES,
    Job,
    algbw,
    busbw,
    flight,
    imb,
    inspector,
    kineto,
    nccl_tests,
    osu,
    param,
    row,
    time_of,
    ucc,
)  # fmt: skip

LARGEST = SIZES[-1]
JOB = Job()


def rccl_text(collective: str = "all_reduce", *, in_place_only: bool = False) -> str:
    job = Job(collective, 8)
    text = "# nThread 1 nGpus 8 minBytes 1048576 maxBytes 268435456 step: 16(factor) warmup iters: 5 iters: 20 agg iters: 1 "
    text += "validation: 1 graph: 0\n#\nrccl-tests: Version develop:448c4c7\n# Using devices\n"
    for rank in range(8):
        text += f"#   Rank {rank:2d} Pid  31337 on    mi300x-1 device {rank:2d} [0000:{rank + 12:02x}:00] AMD Instinct MI300X\n"
    group = "     time   algbw   busbw #wrong"
    text += "#\n#" + " " * 61 + ("in-place\n" if in_place_only else "out-of-place                       in-place\n")
    text += f"#       size         count      type   redop    root{group}{'' if in_place_only else group}\n"
    for size in SIZES:
        text += (" ".join(row(job, size).split()[:9]) if in_place_only else row(job, size)) + "\n"
    return text + ("# Errors with asterisks indicate errors that have exceeded the maximum threshold.\n"
                   "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 99.1 \n#\n")  # fmt: skip


def rccl_records(form: str) -> str:
    found = []
    for size in SIZES:
        for in_place in (0, 1):
            found.append({"numCycle": 0, "name": "AllReduce", "nodes": 1, "ranks": 8, "ranksPerNode": 8, "gpusPerRank": 1, "size": size,
                          "type": "float", "redop": "sum", "inPlace": in_place, "time": round(time_of(size), 2),
                          "algBw": round(algbw(size), 4), "busBw": round(busbw("all_reduce", 8, size), 4), "wrong": 0})  # fmt: skip
    if form == "csv":
        return (
            "\n".join([", ".join(found[0]), *(", ".join(str(value) for value in each.values()) for each in found)])
            + "\n"
        )
    return json.dumps(found, indent=2) if form == "json" else "".join(json.dumps(each) + "\n" for each in found)


def nccom(form: str) -> str:
    if form == "json":
        return json.dumps({"results": [{"size(B)": size, "count(elems)": size // 2, "type": "bf16", "time:avg(us)": time_of(size),
                           "algbw(GB/s)": algbw(size), "busbw(GB/s)": busbw("all_gather", 32, size)} for size in SIZES]})  # fmt: skip
    text = "$ nccom-test -r 32 --minbytes 1M --maxbytes 256M --stepfactor 16 --datatype bf16 allg\n"
    text += "     size(B)    count(elems)     type    time:avg(us)    algbw(GB/s)    busbw(GB/s)\n"
    for size in SIZES:
        text += f"{size:12d}{size // 2:16d}{'bf16':>9}{time_of(size):16.2f}{algbw(size):15.2f}{busbw('all_gather', 32, size):15.2f}\n"
    return text + "Avg bus bandwidth:      40.6901GB/s\n"


def superbench() -> str:
    nodes = []
    for node in ("gpu-a1", "gpu-a2"):
        found: dict[str, object] = {"node": node, "gpu-burn/time:0": 10.0}
        for size in SIZES:
            for name, value in (
                ("busbw", busbw("all_reduce", 8, size)),
                ("algbw", algbw(size)),
                ("time", time_of(size)),
            ):
                found[f"nccl-bw:nvlink/allreduce_{size}_{name}:0"] = value
        nodes.append(json.dumps(found))
    return "\n".join(nodes) + "\n"


def comms_logger(*, verbose: bool = False) -> str:
    if verbose:
        return "".join(f"[2026-01-02 03:04:05,123] [INFO] [logging.py:96:log_dist] [Rank 0] comm op: all_reduce | time (ms): {ms:.2f} | "
                       f"msg size: 256.0 MB | algbw (Gbps): 1500.00 | busbw (Gbps): 1312.50\n" for ms in (2.7, 2.8, 2.9))  # fmt: skip
    head = (
        "Comm. Op",
        "Message Size",
        "Count",
        "Total Latency(ms)",
        "Avg Latency(ms)",
        "tput_avg (Gbps)",
        "busbw_avg (Gbps)",
    )
    text = "".join(f"{each:<20}" for each in head) + "\nall_reduce\n"
    for shown, count, ms, busgbps in (("1.0 MB", 100, 0.03, 400.0), ("256.0 MB", 10, 2.7, 1312.5)):
        text += (
            "".join(f"{each!s:<20}" for each in ("", shown, count, count * ms, ms, 2 * busgbps / 1.75, busgbps)) + "\n"
        )
    text += "all_gather_into_tensor\n"
    return text + "".join(f"{each!s:<20}" for each in ("", "16.0 MB", 50, 62.5, 1.25, 859.0, 751.62)) + "\n"


def osu_shapes() -> Iterator[Shape]:
    run = "$ mpirun -np 8 ./osu_{}\n"
    full = [f"{size:<10d}{20.5:>18.2f}{15.5:>18.2f}{30.5:>18.2f}{1000:>12d}" for size in (1024, 65536, 1 << 20)]
    columns = "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations"
    yield Shape("osu-7-full-cuda", run.format("allreduce -d cuda -f") + osu("OSU MPI-CUDA Allreduce Latency Test v7.4", full, columns, "MPI_FLOAT"),
                (Fact("all_reduce", 8),))  # fmt: skip
    checked = [f"{line}{'Pass':>18}" for line in full]
    yield Shape("osu-7-validation", run.format("allgather -c -f") + osu("OSU MPI Allgather Latency Test v7.3", checked, columns + "        Validation",
                "MPI_CHAR"), (Fact("all_gather", 8),))  # fmt: skip
    tails = [f"{size:<10d}{20.5:>18.2f}{21.1:>18.2f}{25.0:>18.2f}{30.0:>18.2f}" for size in (1024, 65536)]
    yield Shape("osu-7-tail-latency", run.format("bcast") + osu("OSU MPI Broadcast Latency Test v7.5", tails,
                "# Size       Avg Latency(us)  P50 Tail Lat(us)  P90 Tail Lat(us)  P99 Tail Lat(us)", "MPI_CHAR"),
                (Fact("broadcast", 8, 2),))  # fmt: skip
    overlap = [f"{size:<10d}{60.1:>18.2f}{30.2:>18.2f}{28.3:>18.2f}{97.5:>18.2f}" for size in (1024, 65536)]
    yield Shape("osu-7-non-blocking", run.format("iallreduce") + osu("OSU MPI Non-blocking Allreduce Latency Test v7.3", overlap,
                "# Size           Overall(us)       Compute(us)    Pure Comm.(us)        Overlap(%)", "MPI_CHAR"),
                (Fact("all_reduce", 8, 2),))  # fmt: skip
    simple = [f"{size:<10d}{20.5:>18.2f}" for size in (1024, 65536)]
    for title, name in (("Allgatherv", "all_gather"), ("Gatherv", "gather"), ("Scatterv", "scatter"), ("Reduce_scatter", "reduce_scatter"),
                        ("All-to-Allv Personalized Exchange", "alltoallv")):  # fmt: skip
        yield Shape(f"osu-7-{title.split()[0].lower()}", run.format(title.lower().split()[0].replace("-", "")) +
                    osu(f"OSU MPI {title} Latency Test v7.3", simple), (Fact(name, 8, 2),))  # fmt: skip
    yield Shape("osu-7-nccl", "+ srun -N2 --ntasks-per-node=8 osu_xccl_allreduce\n" + osu("OSU NCCL-CUDA Allreduce Latency Test v7.4", simple),
                (Fact("all_reduce", 16, 2),))  # fmt: skip
    yield Shape("osu-7-persistent", run.format("allreduce_persistent") + osu("OSU MPI Allreduce Persistent Latency Test v7.4", simple),
                (Fact("all_reduce", 8, 2),))  # fmt: skip
    yield Shape(
        "osu-7-neighbor", osu("OSU MPI Neighborhood Allgather Latency Test v7.4", simple), (), says="Neighborhood"
    )
    yield Shape(
        "osu-7-pt2pt",
        osu("OSU MPI-CUDA Bandwidth Test v7.4", simple, "# Size      Bandwidth (MB/s)"),
        (),
        says="Bandwidth",
    )


def mpi_shapes() -> Iterator[Shape]:
    head = "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]"
    body = [f"{size:13d}{1000:13d}{10.5:13.2f}{12.5:13.2f}{11.5:13.2f}" for size in (0, 1024, 1 << 20)]
    yield Shape("imb-allreduce", imb("Allreduce", 16, body, head), (Fact("all_reduce", 16),))
    yield Shape("imb-allgather", imb("Allgather", 4, body, head), (Fact("all_gather", 4),))
    yield Shape(
        "imb-alltoall-check",
        imb("Alltoall", 4, [f"{line}{0.0:13.2f}" for line in body], head + "      defects"),
        (Fact("alltoall", 4),),
    )
    bcast = imb("Bcast", 2, body, head) + imb("Bcast", 4, body, head)
    yield Shape("imb-two-process-counts", bcast, (Fact("broadcast", 2), Fact("broadcast", 4)))
    barrier = [f"{1000:13d}{1.5:13.2f}{2.5:13.2f}{2.0:13.2f}"]
    yield Shape(
        "imb-barrier",
        imb("Barrier", 4, barrier, " #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]"),
        (Fact("barrier", 4, 1),),
    )
    nbc = [f"{size:13d}{100:13d}{30.0:13.2f}{16.0:13.2f}{15.0:13.2f}{93.3:13.2f}" for size in (1024, 1 << 20)]
    yield Shape("imb-nbc", imb("Iallreduce", 8, nbc, "       #bytes #repetitions t_ovrl[usec] t_pure[usec]  t_CPU[usec]   overlap[%]", "IMB-NBC"),
                (Fact("all_reduce", 8, 2),))  # fmt: skip
    exchange = [f"{0:13d}{1000:13d}{1.2:13.2f}{0.0:13.2f}"]
    yield Shape(
        "imb-pingpong",
        imb("PingPong", 2, exchange, "       #bytes #repetitions      t[usec]   Mbytes/sec"),
        (),
        says="PingPong",
    )
    for name, ours in (("Allreduce", "all_reduce"), ("Allgather", "all_gather"), ("Bcast", "broadcast")):
        run = f"+ mpirun -np 8 ucc_perftest -c {name.lower()} -m cuda -F\n"
        time = time_of(LARGEST)
        moved, scale = (LARGEST * 8, 7 / 8) if name == "Allgather" else (LARGEST, {"Allreduce": 1.75}.get(name, 1.0))
        yield Shape(
            f"ucc-{name.lower()}", ucc(name, 8, command=run), (Fact(ours, 8, 3, round(moved / time / 1000 * scale, 2)),)
        )
    yield Shape("ucc-short", ucc("Allreduce", 8, full=False), (Fact("all_reduce", None),))


def torch_shapes() -> Iterator[Shape]:
    for name, ours in (("all_reduce", "all_reduce"), ("all_to_all", "alltoall"), ("all_gather_base", "all_gather")):
        yield Shape(f"param-{name}", param(name, 16), (Fact(ours, 16, 3, round(busbw(ours, 16, LARGEST), 2)),))
    yield Shape("param-prefixed", prefixed(param("all_reduce", 8), lambda _: "[default0]:"), (Fact("all_reduce", 8),))
    yield Shape(
        "deepspeed-comms-logger", comms_logger(), (Fact("all_reduce", 8, 2, 164.06), Fact("all_gather", 8, 1, 93.95))
    )
    yield Shape("deepspeed-comms-verbose", comms_logger(verbose=True), (Fact("all_reduce", 8, 1),))
    calls = [("AllReduce", LARGEST, 2700), ("AllReduce", LARGEST, 2800), ("AllGather", 1 << 20, 30)]
    yield Shape(
        "inspector-one-rank",
        inspector(2, 8, calls),
        (Fact("all_reduce", 8, 1), Fact("all_gather", 8, 1)),
        "nccl-inspector-0.log",
    )
    pretty = "".join(json.dumps(json.loads(line), indent=2) + "\n" for line in inspector(2, 8, calls).splitlines())
    yield Shape("inspector-as-its-readme-shows", pretty, (Fact("all_reduce", 8, 1), Fact("all_gather", 8, 1)), "x.json")
    both = inspector(0, 2, calls) + inspector(1, 2, calls, wait=500)
    yield Shape(
        "inspector-two-ranks",
        both,
        (Fact("all_reduce", 2, 1), Fact("all_gather", 2, 1)),
        "nccl-inspector.log",
        says="rank 1",
    )
    kernels = [("allreduce", 1 << 26, "Float", 2700.0), ("allreduce", 1 << 26, "Float", 2710.0), ("_allgather_base", 1 << 20, "BFloat16", 60.0),
               ("_reduce_scatter_base", 1 << 23, "BFloat16", 70.0), ("broadcast", 1 << 20, "Float", 50.0)]  # fmt: skip
    yield Shape("kineto-trace", kineto(8, kernels), (Fact("all_reduce", 8, 1), Fact("all_gather", 8, 1), Fact("reduce_scatter", 8, 1),
                Fact("broadcast", 8, 1)), "rank0.pt.trace.json", says="compute")  # fmt: skip
    timed = [
        ("all_reduce", [1 << 20, 64], "Float", 2.7),
        ("all_gather_into_tensor", [1 << 16], "BFloat16", 0.06),
        ("all_reduce", [4], "Float", None),
    ]
    yield Shape(
        "flight-recorder",
        flight(16, timed),
        (Fact("all_reduce", 16, 1), Fact("all_gather", 16, 1)),
        "nccl_trace_rank_0.json",
        says="1 ",
    )
    untimed = [("all_reduce", [1 << 20], "Float", None)]
    yield Shape(
        "flight-recorder-untimed", flight(16, untimed), (), "nccl_trace_rank_0.json", says="TORCH_NCCL_ENABLE_TIMING"
    )
    lines = ""
    for rank in range(64):
        lines += f"[default{rank % 8}]:node-{rank // 8}:{rank % 8}:\n[default{rank % 8}]: duration: {0.064 + (rank == 13) * 0.03:.4f} sec\n"
        lines += f"[default{rank % 8}]: algo throughput: {1e12 - (rank == 13) * 3e11:.4f} bps, {1000 - (rank == 13) * 300:.4f} Gbps\n"
        lines += f"[default{rank % 8}]: busbw: {984.375 - (rank == 13) * 295.3125:.4f}  Gbps\n"
    yield Shape("torch-64-ranks", lines, (Fact("all_reduce", 64, 1),), says="node-1:5")


def table_shapes() -> Iterator[Shape]:
    yield Shape("rccl-text", rccl_text(), (fact(JOB),), "all_reduce.log")
    yield Shape("rccl-in-place-only", rccl_text(in_place_only=True), (fact(JOB),), "all_reduce.log")
    for form, file in (("csv", "out.csv"), ("json", "out.json"), ("lines", "out.jsonl")):
        yield Shape(f"rccl-{form}", rccl_records(form), (fact(JOB),), file, says="")
    yield Shape("nccom-text", nccom("text"), (fact(Job("all_gather", 32)),))
    yield Shape("nccom-json", nccom("json"), (fact(Job("all_gather", 32)),), "allgather.json")
    yield Shape("superbench-jsonl", superbench(), (fact(JOB), fact(JOB)), "results-summary.jsonl")
    fp8 = nccl_tests(JOB).replace("   float", "fp8_e4m3")
    yield Shape("rccl-fp8", fp8, (Fact("all_reduce", 8),))
    msccl = "".join(json.dumps({"name": "allreduce", "kernel": 2, "ranks": 8, "ranksPerNode": 8, "algBw": algbw(size),
                    "busBw": busbw("all_reduce", 8, size), "size": size, "time": time_of(size), "target": 1.0}) + "\n" for size in SIZES)  # fmt: skip
    yield Shape("mscclpp-lines", msccl, (fact(JOB),), "perf.jsonl")


NVBANDWIDTH = """\
nvbandwidth Version: v0.8
Built from Git version: v0.8

CUDA Runtime Version: 12080
CUDA Driver Version: 12080
Driver Version: 570.86.15

Device 0: NVIDIA H100 80GB HBM3 (00000000:1b:00)

Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0       N/A    371.63
 1    371.70       N/A

SUM device_to_device_memcpy_read_ce 743.33
"""
PERFTEST = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF          Device         : mlx5_0
 Number of qps   : 1            Transport type : IB
 Link type       : IB
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             394.50             394.44               0.752334
---------------------------------------------------------------------------------------
"""
P2P = """\
[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Device: 0, NVIDIA H100 80GB HBM3, pciBusID: 1b, pciDeviceID: 0, pciDomainID:0
P2P Connectivity Matrix
     D\\D     0     1
     0       1     1
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1
     0 2515.92 391.17
"""
OTHERS = {
    "nvbandwidth": (NVBANDWIDTH, "nvbandwidth"), "perftest": (PERFTEST, "perftest"), "p2p": (P2P, "p2pBandwidthLatencyTest"),
    "nvidia-smi": ("+-----------------------------------------------------------------------------+\n| NVIDIA-SMI 550.54.15    "
                   "Driver Version: 550.54.15    CUDA Version: 12.4     |\n", "nvidia-smi"),
    "nccl-log": ("gpu-a1:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.4<0>\ngpu-a1:1:2 [0] NCCL INFO Channel 00/02 : 0 1\n", "NCCL"),
    "topology": ('<system version="1">\n  <cpu numaid="0" affinity="ff"/>\n</system>\n', "topology"),
    "sbatch-script": ("#!/bin/bash\n#SBATCH -N 2\nsrun ./all_reduce_perf -b 8\n", "script"),
    "traceback": ('Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nRuntimeError: NCCL error\n', "traceback"),
    "yaml": ("apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata:\n  name: nccl\n", "YAML"),
    "json": ('{"experiment": "x", "loss": [1.0, 2.0]}\n', "JSON"), "csv": ("epoch,loss,accuracy\n1,0.5,0.9\n2,0.4,0.91\n", "CSV"),
    "html": ("<!DOCTYPE html>\n<html><body><p>Hello</p></body></html>\n", "HTML"),
    "no-mpi-fail": ("gpu-a1: Test NCCL failure common.cu:1279 'unhandled system error / '\n .. gpu-a1 pid 77: Test failure common.cu:1100\n", "unhandled system error"),
    "prose": ("Dear all,\nthe job ran well.\n", "text"),
    "prometheus": ('nccl_bus_bandwidth_gbs{version="v5.1",slurm_job_id="1",node="n",gpu="GPU0",n_nodes="1",nranks="4",collective="AllReduce",'
                   'message_size="4-5GB",algo_proto="Ring_ll"} 678.263\n', "Prometheus"),
}  # fmt: skip


def named_shapes() -> Iterator[Shape]:
    for name, (text, says) in OTHERS.items():
        yield Shape(f"named-{name}", text, (), "x.txt", says=says)


def other_shapes() -> Iterator[Shape]:
    assert ELEMENT
    for part in (osu_shapes, mpi_shapes, torch_shapes, table_shapes, named_shapes):
        yield from part()
