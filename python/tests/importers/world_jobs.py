"""Files of real jobs, and programs that are named in a sentence, met after the first corpus: facts were written before the first try."""

# ruff: noqa: E501 - the lines are as wide as the tools print them

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Iterator

from world_corpus import Fact, Shape, fact
from world_writers import (
    SIZES,
    Job,
    algbw,
    busbw,
    inspector,
    kineto,
    nccl_tests,
    osu,
    time_of,
)  # fmt: skip

LARGEST = SIZES[-1]
JOB = Job()
TEXT = nccl_tests(JOB)
LINES = TEXT.splitlines()


def replayed(rank: int, ranks: int) -> str:
    """What et_replay's comm_replay writes for one rank: every call with its latency; sizes are in elements."""
    calls: list[dict[str, object]] = [
        {
            "comms": "init",
            "startTime_ns": 1,
            "pg_id": 0,
            "world_size": ranks,
            "marker_stack": "Unnamed/Unknown",
            "dtype_size": 0,
            "latency_us": 0.0,
            "global_latency_us": 0.0,
        }
    ]
    for at, (name, sent, received, time) in enumerate((("all_reduce", 1 << 20, 1 << 20, 90.0), ("all_reduce", 1 << 20, 1 << 20, 92.0),
                                                       ("all_gather_base", 1 << 18, ranks << 18, 60.0), ("reduce_scatter_base", ranks << 18, 1 << 18, 61.0),
                                                       ("all_to_allv", 1 << 18, 1 << 18, 40.0), ("wait", 0, 0, 1.0))):  # fmt: skip
        calls.append({"comms": name, "req": at, "in_msg_size": sent, "out_msg_size": received, "dtype": "bfloat16", "startTime_ns": 1000 + at, "pg_id": 0, "world_size": ranks,
                      "dtype_size": 2, "marker_stack": "Unnamed/Unknown", "quant_us": 0.0, "dequant_us": 0.0, "latency_us": time + rank, "global_latency_us": time + 5})  # fmt: skip
    return json.dumps(calls, indent=2)


def job_shapes() -> Iterator[Shape]:
    yield Shape("et-replay-calls", replayed(0, 8), (Fact("all_reduce", 8, 1), Fact("all_gather", 8, 1), Fact("reduce_scatter", 8, 1), Fact("alltoallv", 8, 1)),
                "replayedCommsPerf.rank-0.json")  # fmt: skip
    printed = "[INFO] ==================== Performance of replayed comms ====================\nE2E latency (us): 1234.5 for 10 iters,     123.45 per iter in avg\n Replayed 40 all_reduce (71.20%): \nLatency (us)\n      Total       Max.       Min.    Average        p50        p95\n     100.00      12.00       9.00      10.00      10.00      11.90\n"
    yield Shape("et-replay-printed", printed, (), says="et_replay")
    trace = {
        "schema": "1.1.1-chakra.0.0.4",
        "pid": 1,
        "time": "2026-01-02 03:04:05",
        "start_ts": 1,
        "nodes": [{"id": 2, "name": "record_param_comms", "ctrl_deps": 1, "inputs": {"values": []}}],
    }
    yield Shape("chakra-trace-is-named", json.dumps(trace), (), "et.json", says="execution trace")
    calls = [("allreduce", 1 << 26, "Float", 2700.0), ("allreduce", 1 << 26, "Float", 2710.0)]
    yield Shape(
        "kineto-gzip",
        "",
        (Fact("all_reduce", 8, 1),),
        "rank0.pt.trace.json.gz",
        data=gzip.compress(kineto(8, calls).encode()),
    )
    dump = pickle.dumps(
        {
            "version": "2.10",
            "nccl_version": "2.27.5",
            "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
            "entries": [],
        },
        protocol=2,
    )
    yield Shape("flight-recorder-pickle", "", (), "nccl_trace_rank_0", says="pickle", data=dump)
    newer = inspector(0, 4, [("AllReduce", LARGEST, 2700)]).replace(
        '"coll_timing_source": "kernel_gpu"',
        '"coll_timing_source": "kernel_gpu", "event_trace_sn": {"coll_start_sn": 1, "coll_stop_sn": 2, "kernel_events": [{"channel_id": 0, "kernel_start_sn": 3}]}',
    )
    yield Shape("inspector-with-event-trace", newer, (Fact("all_reduce", 4, 1),), "gpu-a1-pid1600.log")
    found: dict[str, object] = {"node": "sb-01", "bert_models/pytorch-bert-base/steptime_train_float32": 114.5}
    for size in SIZES:
        found |= {f"nccl-bw/allreduce_{size}_busbw:0": busbw("all_reduce", 8, size), f"nccl-bw/allreduce_{size}_algbw:0": algbw(size), f"nccl-bw/allreduce_{size}_time:0": time_of(size),
                  f"nccl-bw:ib-run1/allgather_0_1:{size}_busbw": busbw("all_gather", 16, size), f"nccl-bw:ib-run1/allgather_0_1:{size}_algbw": algbw(size)}  # fmt: skip
    yield Shape(
        "superbench-default-and-serial",
        json.dumps(found) + "\n",
        (fact(JOB), fact(Job("all_gather", 16))),
        "results-summary.jsonl",
    )


NAMED = {
    "nvbandwidth-json": ('{\n"nvbandwidth": {\n"CUDA Runtime Version": 12080,\n"Driver Version": "570.86.15",\n"testcases": []\n}\n}\n', "nvbandwidth"),
    "iperf3": ("Connecting to host 10.0.0.5, port 5201\n[  5] local 10.0.0.4 port 40000 connected to 10.0.0.5 port 5201\n[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n[  5]   0.00-1.00   sec  11.1 GBytes  95.0 Gbits/sec    0   3.1 MBytes\n", "iperf3"),
    "transferbench": ("TransferBench v1.62\n===============================================================\n[Common]\nALWAYS_VALIDATE      =            0 : Validating after all iterations\n\nTest 1:\n Executor: GPU 00 |  45.123 GB/s |    1.488 ms |     67108864 bytes | 45.123 GB/s (sum)\n", "TransferBench"),
    "nvshmem": ("#shmem_put_bw\n+------------------------+----------------------+\n|        size(B)         |     BW GB/sec        |\n+------------------------+----------------------+\n| 1024                   | 0.481                |\n", "NVSHMEM"),
    "dcgm-diag": ("Successfully ran diagnostic for group.\n+---------------------------+------------------------------------------------+\n| Diagnostic                | Result                                         |\n+===========================+================================================+\n| DCGM Version              | 3.3.5                                          |\n", "DCGM"),
    "ib-send-lat": (" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]\n 2       1000          1.02           5.11         1.05\n", "perftest"),
    "osu-latency-pt2pt": (osu("OSU MPI-CUDA Latency Test v7.4", ["8            1.52"], "# Size          Latency (us)"), "Latency"),
}  # fmt: skip


def named_shapes() -> Iterator[Shape]:
    for name, (text, says) in NAMED.items():
        yield Shape(f"stranger-{name}", text, (), "x.txt", says=says)
