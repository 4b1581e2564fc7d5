"""Writes what other tools write, in their own formats with invented figures: the logs that the importers are tried on."""

# ruff: noqa: E501, W291 - the lines are as wide as the tools print them

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

ELEMENT = {"float": 4, "half": 2, "bfloat16": 2, "int8": 1, "double": 8}
SCALE = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "alltoall": 1.0, "gather": 1.0, "scatter": 1.0}
PER_RANK = ("all_gather", "reduce_scatter", "alltoall", "gather", "scatter")
COLUMNS = {"all_reduce": ("sum", -1), "all_gather": ("none", -1), "reduce_scatter": ("sum", -1), "broadcast": ("none", 0),
           "reduce": ("sum", 0), "alltoall": ("none", -1), "sendrecv": ("sum", -1), "gather": ("none", 0),
           "scatter": ("none", 0)}  # fmt: skip
SIZES = (1 << 20, 1 << 24, 1 << 28)


def factor(collective: str, ranks: int) -> float:
    """Bus over algorithm bandwidth."""
    return SCALE[collective] * (ranks - 1) / ranks if collective in SCALE else 1.0


def time_of(size: int) -> float:
    """An invented time in microseconds: a latency and 100 GB/s."""
    return 20.0 + size / 100e3


def algbw(size: int) -> float:
    return size / time_of(size) / 1000


def busbw(collective: str, ranks: int, size: int) -> float:
    return algbw(size) * factor(collective, ranks)


@dataclass(frozen=True)
class Job:
    """One run of nccl-tests."""

    collective: str = "all_reduce"
    ranks: int = 8
    hosts: tuple[str, ...] = ("gpu-a1",)
    sizes: tuple[int, ...] = SIZES
    per_process: int = 1
    dtype: str = "float"
    check: bool = True
    named: bool = True


def device_lines(job: Job, *, cut_at: int = 2048) -> list[str]:
    """The list of ranks as rank 0 prints it: at most `cut_at` bytes of each process."""
    lines = []
    for first in range(0, job.ranks, job.per_process):
        text = ""
        for rank in range(first, first + job.per_process):
            host = job.hosts[rank * len(job.hosts) // job.ranks]
            local = rank % (job.ranks // len(job.hosts))
            text += (f"#  Rank {rank:2d} Group  0 Pid {4000 + first:6d} on {host:>10} device {local:2d} "
                     f"[0000:{0x10 + local:02x}:00] NVIDIA H100 80GB HBM3\n")  # fmt: skip
        lines += text[: cut_at - 1].split("\n")
    return [line for line in lines if line]


def row(job: Job, size: int, *, root: bool = True) -> str:
    """A row as every version since 2.13 prints it."""
    op, at = COLUMNS[job.collective]
    count = size // ELEMENT[job.dtype] // (job.ranks if job.collective in PER_RANK else 1)
    figures = f"  {time_of(size):7.1f}  {algbw(size):6.2f}  {busbw(job.collective, job.ranks, size):6.2f}"
    out = f"{figures}  {'0' if job.check else 'N/A':>6}"
    unchecked = not job.check or job.collective in ("alltoall", "sendrecv")
    return f"{size:12d}  {count:12d}  {job.dtype:>8}  {op:>6}  {at if root else '':>6}{out}{figures}  {'N/A' if unchecked else '0':>6}"


HEADER = """\
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong 
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         
"""


def parameters(job: Job) -> str:
    check = int(job.check)
    return (f"# nThread 1 nGpus {job.per_process} minBytes {job.sizes[0]} maxBytes {job.sizes[-1]} step: 16(factor) "
            f"warmup iters: 1 iters: 20 agg iters: 1 validation: {check} graph: 0 unalign: 0\n")  # fmt: skip


def preamble(job: Job, *, cut_at: int = 2048, devices: bool = True) -> str:
    head = "# nccl-tests version 2.17.6 nccl-headers=22703 nccl-library=22703\n" if job.named else ""
    named = f"# Collective test starting: {job.collective}_perf\n" if job.named else ""
    listed = "".join(f"{line}\n" for line in device_lines(job, cut_at=cut_at)) if devices else ""
    return f"{head}{named}{parameters(job)}#\n# Using devices\n{listed}#\n"


def footer(job: Job) -> str:
    mean = sum(busbw(job.collective, job.ranks, size) for size in job.sizes) / len(job.sizes)
    named = f"# Collective test concluded: {job.collective}_perf\n" if job.named else ""
    return f"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {mean:g} \n#\n{named}\n"


def rows(job: Job) -> str:
    return "".join(f"{row(job, size)}\n" for size in job.sizes)


def nccl_tests(job: Job = Job(), *, cut_at: int = 2048, devices: bool = True) -> str:
    """The whole output of one run."""
    return preamble(job, cut_at=cut_at, devices=devices) + HEADER + rows(job) + footer(job)


def nccl_2_4(collective: str, ranks: int) -> str:
    """The layout of 2.4 to 2.12: the columns differ from program to program, and none is named."""
    op, root = COLUMNS[collective]
    lead = {"all_gather": (), "broadcast": ("root",), "reduce": ("redop", "root")}.get(collective, ("redop",))
    names = "".join(f"  {name:>6}" for name in lead)
    text = parameters(Job(collective, ranks)).replace(" agg iters: 1", "").replace(" graph: 0 unalign: 0", " ")
    text += "#\n# Using devices\n"
    for rank in range(ranks):
        text += f"#   Rank {rank:2d} Pid {900 + rank:6d} on     node-1 device {rank:2d} [0x{rank:02x}] Tesla V100-SXM2-32GB\n"
    text += f"#\n#       size         count    type{names}     time   algbw   busbw  error     time   algbw   busbw  error\n"
    for size in SIZES:
        count = size // 4 // (ranks if collective in PER_RANK else 1)
        cells = "".join(f"  {op if name == 'redop' else root:>6}" for name in lead)
        group = f"  {time_of(size):7.1f}  {algbw(size):6.2f}  {busbw(collective, ranks, size):6.2f}  0e+00"
        text += f"{size:12d}  {count:12d}   float{cells}{group}{group}\n"
    return text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 90.1 \n#\n"


def as_json(job: Job = Job(), *, infinite: bool = False) -> str:
    """nccl-tests' -J file."""
    results = []
    op, root = COLUMNS[job.collective]
    for size in job.sizes:
        count = size // 4 // (job.ranks if job.collective in PER_RANK else 1)
        group = {
            "time": time_of(size),
            "alg_bw": algbw(size),
            "bus_bw": busbw(job.collective, job.ranks, size),
            "nwrong": 0,
        }
        results.append({"size": size, "count": count, "type": job.dtype, "redop": op, "root": f"{root:6d}",
                        "out_of_place": group, "in_place": group, "actual_iterations": 20, "experiment_name": ""})  # fmt: skip
    devices = [{"rank": rank, "group": 0, "pid": 77 + rank, "hostname": job.hosts[0], "device": rank, "device_hex": "0000:1b:00",
                "device_info": "NVIDIA H100"} for rank in range(0, job.ranks, job.per_process)]  # fmt: skip
    text = json.dumps({"version": 3, "start_time": "2026-01-02 03:04:05", "args": [f"./build/{job.collective}_perf", "-b", "1M"],
                       "env": ["NCCL_DEBUG=WARN"], "nccl_version": 22703,
                       "config": {"nthreads": 1, "ngpus": job.per_process, "devices": devices}, "results": results,
                       "out_of_bounds": {"count": 0, "okay": "true"}, "average_bus_bandwidth": {"bandwidth": 90.5, "okay": "true"},
                       "errors": [""], "end_time": "2026-01-02 03:04:09"})  # fmt: skip
    return (
        text.replace('"bandwidth": 90.5', '"bandwidth": -nan').replace('"nwrong": 0', '"nwrong": inf')
        if infinite
        else text
    )


def info_lines(ranks: int, host: str = "gpu-a1", nodes: int = 1) -> str:
    """What NCCL says of a communicator with NCCL_DEBUG=INFO."""
    text = f"{host}:4000:4000 [0] NCCL INFO cudaDriverVersion 12040\nNCCL version 2.27.3+cuda12.4\n"
    for rank in range(min(ranks, 8)):
        text += (f"{host}:{4000 + rank}:{4100 + rank} [{rank}] NCCL INFO comm 0x55d{rank} rank {rank} nRanks {ranks} nNodes {nodes} "
                 f"localRanks {ranks // nodes} localRank {rank} MNNVL 0\n")  # fmt: skip
    return text


def osu(
    title: str, lines: Sequence[str], header: str = "# Size       Avg Latency(us)", datatype: str | None = None
) -> str:
    """A table of the OSU micro-benchmarks."""
    kind = f"# Datatype: {datatype}.\n" if datatype else ""
    return f"\n# {title}\n{kind}{header}\n" + "".join(f"{line}\n" for line in lines)


def imb(name: str, ranks: int, body: Sequence[str], header: str, command: str = "IMB-MPI1") -> str:
    """A table of the Intel MPI Benchmarks."""
    line = "#" + "-" * 80
    return (
        f"""\
#------------------------------------------------------------
#    Intel(R) MPI Benchmarks 2021.7, MPI-1 part
#------------------------------------------------------------
# Date                  : Fri Jan  2 03:04:05 2026
# Machine               : x86_64
# System                : Linux
# Release               : 5.15.0
# MPI Version           : 4.0
# Calling sequence was: 

# {command} {name}

# Minimum message length in bytes:   0
# Maximum message length in bytes:   4194304
#
# MPI_Datatype                   :   MPI_BYTE 
# MPI_Datatype for reductions    :   MPI_FLOAT
# MPI_Op                         :   MPI_SUM  
#
# List of Benchmarks to run:

# {name}

{line}
# Benchmarking {name} 
# #processes = {ranks} 
{line}
{header}
"""
        + "".join(f"{each}\n" for each in body)
        + "\n\n# All processes entering MPI_Finalize\n\n"
    )


def ucc(collective: str, ranks: int, *, full: bool = True, command: str = "") -> str:
    """ucc_perftest."""
    text = f"{command}{'Collective:':<24}{collective}\n{'Memory type:':<24}cuda\n{'Datatype:':<24}float32\n{'Reduction:':<24}sum\n"
    text += f"{'Inplace:':<24}0\n{'Warmup:':<24}\n{'  small':<24}100\n{'  large':<24}20\n"
    text += f"{'Iterations:':<24}\n{'  small':<24}1000\n{'  large':<24}200\n\n"
    text += f"{'Count':>12}{'Size':>12}{'Time, us':>24}" + (f"{'Bus Bandwidth, GB/s':>42}" if full else "") + "\n"
    text += f"{'avg':>36}{'min':>12}{'max':>12}" + (f"{'avg':>12}{'max':>12}{'min':>12}" if full else "") + "\n"
    for size in SIZES:
        time = time_of(size)
        figures = [time, time * 0.9, time * 1.2]
        # The size is one rank's part for an all-gather.
        moved = size * ranks if collective == "Allgather" else size
        scale = {"Allreduce": 2 * (ranks - 1) / ranks, "Allgather": (ranks - 1) / ranks, "Bcast": 1.0}[collective]
        text += f"{size // 4:12d}{size:12d}" + "".join(f"{each:12.2f}" for each in figures)
        text += "".join(f"{moved / each / 1000 * scale:12.2f}" for each in figures) if full else ""
        text += "\n"
    return text + "Total time: 12.5 ms\n"


def param(collective: str, ranks: int, dtype: str = "float32") -> str:
    """PARAM's comms.py: total size, elements of a rank, percentiles over ranks."""
    text = f"\t MPI environment: {{'world_size': {ranks}, 'local_size': 8, 'global_rank': 0, 'local_rank': 0}}\n"
    text += f"[Rank   0] allSizes: [1048576] element_size: 4 local_rank: 0, num_pg 1, groupSize {ranks}\n"
    text += "\n\tCOMMS-RES" + "".join(f"{name:>{width}}" for name, width in (
        ("total-size (B)", 40), ("nElementsPerRank", 18), ("Time(us):p50", 18), ("p75", 12), ("p95", 12), ("Min", 12), ("Max", 12),
        ("AlgBW(GB/s)", 15), ("BusBW(GB/s)", 12), ("TotalTime(us):p50", 18))) + "\n"  # fmt: skip
    ours = {"all_to_all": "alltoall", "all_gather_base": "all_gather"}.get(collective, collective)
    for size in SIZES:
        time = time_of(size)
        text += (f"\tCOMMS-RES-{collective}-{dtype}{size:>18}{size // 4:>18}{time:18.1f}{time * 1.1:12.1f}{time * 1.2:12.1f}"
                 f"{time * 0.9:12.1f}{time * 1.3:12.1f}{algbw(size):15.3f}{busbw(ours, ranks, size):12.3f}{0.0:20.1f}\n")  # fmt: skip
    return text


def inspector(rank: int, ranks: int, calls: Sequence[tuple[str, int, int]], *, wait: int = 0) -> str:
    """NCCL Inspector's file of one process: one line per call of (collective, bytes, microseconds)."""
    text = ""
    for number, (name, size, time) in enumerate(calls, start=1):
        took = time + wait
        scale = {"AllReduce": 2.0, "AllGather": 1.0, "ReduceScatter": 1.0}[name] * (ranks - 1) / ranks
        text += json.dumps({
            "header": {"id": "0x7f8c496ae9f661", "comm_name": "DP Group 0", "rank": rank, "n_ranks": ranks, "nnodes": 1},
            "metadata": {"inspector_output_format_version": "v4.0", "git_rev": "", "rec_mechanism": "nccl_profiler_interface",
                         "dump_timestamp_us": 1748030377748202 + number, "hostname": "gpu-a1", "pid": 1600 + rank},
            "coll_perf": {"coll": name, "coll_sn": number, "coll_msg_size_bytes": size, "coll_exec_time_us": took,
                          "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": size / took / 1000,
                          "coll_busbw_gbs": size / took / 1000 * scale},
        }) + "\n"  # fmt: skip
    return text


def kineto(ranks: int, calls: Sequence[tuple[str, int, str, float]], *, rank: int = 0) -> str:
    """A trace of PyTorch's profiler: kernels of NCCL as (collective, elements in, type, microseconds) and one of compute."""
    events: list[dict[str, object]] = [
        {"ph": "X", "cat": "kernel", "name": "void gemm_kernel()", "pid": 0, "tid": 7, "ts": 1.0, "dur": 90.0,
         "args": {"device": 0, "stream": 7}},
        {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": 1.0, "dur": 3.0,
         "args": {"Collective name": "allreduce", "In msg nelems": 1024, "dtype": "Float", "Group size": ranks}},
    ]  # fmt: skip
    for number, (name, count, dtype, time) in enumerate(calls):
        out = count * ranks if "gather" in name else count // ranks if "scatter" in name else count
        events.append({
            "ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "pid": 0, "tid": 13, "ts": 100.0 + 1000 * number, "dur": time,
            "args": {"External id": number, "device": 0, "stream": 13, "Collective name": name, "In msg nelems": count,
                     "Out msg nelems": out, "Group size": ranks, "dtype": dtype, "In split size": "[]", "Out split size": "[]",
                     "Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]"},
        })  # fmt: skip
    return json.dumps({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks,
                       "nccl_version": "2.21.5"}, "displayTimeUnit": "ms", "baseTimeNanoseconds": 1,
                       "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85028765696}],
                       "traceEvents": events, "traceName": "trace.json"}, indent=1)  # fmt: skip


def flight(ranks: int, calls: Sequence[tuple[str, list[int], str, float | None]]) -> str:
    """PyTorch's flight recorder as JSON: (operation, shape, type, milliseconds where they were timed)."""
    entries = [{
        "record_id": number, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": number + 1,
        "p2p_seq_id": 0, "op_id": number + 1, "profiling_name": f"nccl:{name}", "time_created_ns": 1756000000000000000 + number,
        **({"duration_ms": time} if time is not None else {}),
        "input_sizes": [shape], "input_dtypes": [dtype], "output_sizes": [shape], "output_dtypes": [dtype],
        "state": "completed" if time is not None else "scheduled", "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None, "retired": True, "timeout_ms": 600000, "is_p2p": False,
    } for number, (name, shape, dtype, time) in enumerate(calls)]  # fmt: skip
    return json.dumps({"version": "2.5", "nccl_version": "2.21.5",
                       "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}},
                       "pg_status": {"0": {"last_enqueued_collective": 2}}, "entries": entries})  # fmt: skip
