"""What people's scripts, parsers, loggers and services print of collectives: facts before the first try, halves by the hash of the name."""

# ruff: noqa: E501 - the lines are as wide as the tools print them, in the languages of their writers

from __future__ import annotations

import json
from collections.abc import Iterator

from world_corpus import Fact, Shape
from world_writers import SIZES, Job, algbw, busbw, nccl_tests, time_of

LARGEST = SIZES[-1]
JOB = Job()
TEXT = nccl_tests(JOB)
LINES = TEXT.splitlines()
ONE = Fact("all_reduce", 8, 3, 173.71, largest=LARGEST, time=2704.35)
BARE = Fact("all_reduce", 8, 3, 173.71, largest=LARGEST)
MB = {1 << 20: "1", 1 << 24: "16", 1 << 28: "256"}


def figures(collective: str = "all_reduce", ranks: int = 8) -> list[tuple[int, float, float, float]]:
    """(bytes, microseconds, GB/s, GB/s) of each size."""
    return [(size, time_of(size), algbw(size), busbw(collective, ranks, size)) for size in SIZES]


OUT = figures()
GATHER = figures("all_gather")
SCATTER = Fact("reduce_scatter", 8, 3, round(busbw("reduce_scatter", 8, LARGEST), 2), largest=LARGEST)
GATHERED = Fact("all_gather", 8, 3, round(busbw("all_gather", 8, LARGEST), 2), largest=LARGEST, time=2704.35)


def printed_tables() -> Iterator[Shape]:
    """Tables that benchmarks in C++ and Python print, by their own headers."""
    head = f"{'Size(B)':<15}{'Ranks':<10}{'Iters':<10}{'Avg(us)':<15}{'Min(us)':<15}{'Max(us)':<15}{'BusBw(GB/s)':<15}\n{'-' * 95}\n"

    def comms(name: str, each: list[tuple[int, float, float, float]]) -> str:
        body = "".join(f"{s:<15}{8:<10}{1000:<10}{t:<15.2f}{t:<15.2f}{t:<15.2f}{b:<15.2f}\n" for s, t, _, b in each)
        return f"\n=== {name} Performance ===\n{head}{body}"

    yield Shape("torchcomms-all-reduce", comms("Synchronous AllReduce", OUT), (ONE,))
    both = comms("Synchronous AllReduce", OUT) + comms("Asynchronous ReduceScatterSingle", figures("reduce_scatter"))
    yield Shape("torchcomms-two-in-a-file", both, (ONE, SCATTER))
    ray = "".join(f"{s:15d} {s // 4:15d} {'float':>8} {t:10.0f} {a:15.2f} {b:15.2f}\n" for s, t, a, b in OUT)
    yield Shape("ray-tasks", f"Tasks submitted. Waiting for results...\n\n{'=' * 80}\n       size (B)           count     type  time (us)    algbw (GB/s)    busbw (GB/s)\n{'=' * 80}\n{ray}{'=' * 80}\n", (ONE,), "ray_all_reduce.log")  # fmt: skip
    pipes = "".join(f"{MB[s] + ' MB':>10s} | {t / 1000:>14.3f} | {b:>14.2f}\n" for s, t, _, b in OUT)
    yield Shape("pipes-of-a-two-shot", f"Two-shot all-reduce, world_size=8\n\n{'Size':>10s} | {'Latency (ms)':>14s} | {'BusBW (GB/s)':>14s}\n{'-' * 48}\n{pipes}", (ONE,))  # fmt: skip
    rccl = "".join(f"{s:>14} {s // 4:>16} {a:>14.2f} {b:>14.2f} {t / 1000:>12.4f}\n" for s, t, a, b in OUT)
    yield Shape("rccl-through-torch", f"# RCCL Bandwidth Test (PyTorch NCCL/RCCL backend, 8 GPUs)\n# Ring all-reduce: total_bytes = 2*(n-1)*size*4, BW = total_bytes/time\n{'Size (bytes)':>14} {'Size (elements)':>16} {'Algbw (GB/s)':>14} {'BusBW (GB/s)':>14} {'Time (ms)':>12}\n{'-' * 72}\n{rccl}", (ONE,))  # fmt: skip
    pynccl = "".join(f"{s // 2:>12d}  {s:>12d}  {t:>12.1f}  {b:>14.2f}\n" for s, t, _, b in OUT)
    yield Shape("size-means-elements", f"AllReduce benchmark, world_size=8\n\n--- torch.float16 ---\n{'Size':>12s}  {'Bytes':>12s}  {'Time (us)':>12s}  {'BusBW (GB/s)':>14s}\n{'-' * 56}\n{pynccl}", (ONE,))  # fmt: skip
    mega = "".join(f"{s / 1048576:>12.2f} {a:>14.2f} {b:>14.2f} {t:>14.1f}\n" for s, t, a, b in OUT)
    yield Shape("size-in-mb-with-world", f"NCCL all_reduce benchmark: world_size=8, iters=20, warmup=5\n{'Size (MB)':>12} {'algbw (GB/s)':>14} {'busbw (GB/s)':>14} {'latency (us)':>14}\n{'-' * 60}\n{mega}", (ONE,))  # fmt: skip
    kib = "".join(f"{s // 8192:>12} {s // 8:>14} {t:>14.2f} {a:>16.2f} {b:>16.2f}\n" for s, t, a, b in GATHER)
    yield Shape("only-elements-no-bytes", f"  All-gather benchmark\n  GPUs/node  : 8\n  dtype      : torch.float8 (1 byte/elem)\n{'Elems (KiB)':>12} {'Elements':>14} {'Latency (us)':>14} {'Algo BW (GB/s)':>16} {'Bus BW (GB/s)':>16}\n{'-' * 80}\n{kib}", (), says="size")  # fmt: skip
    sweep = "".join(f"{s // 4:>12} {MB[s] + 'MB':>10} | {t:>8.1f}us {a:>9.1f} {b:>9.1f}\n" for s, t, a, b in OUT)
    yield Shape("bar-between-two-parts", f"Collective: all_reduce, world size 8\n{'nelems':>12} {'size':>10} | {'p50':>10} {'algBW':>9} {'busBW':>9}\n{'-' * 60}\n{sweep}", (Fact("all_reduce", 8, 3, 173.7, largest=LARGEST, time=2704.4),))  # fmt: skip
    nccl = "".join(
        f"  {s:>12} {s // 4:>12} {'float':>8} {'sum':>6} {t:>10.2f} {a:>8.2f} {b:>8.2f}\n" for s, t, a, b in OUT
    )
    yield Shape("nccl-tests-rewritten", f"# AllReduce, 8 GPUs\n#        size        count     type  redop       time   algbw   busbw\n#         (B)   (elements)                     (us)  (GB/s)  (GB/s)\n{nccl}# Avg bus bandwidth: 137.01\n", (ONE,))  # fmt: skip
    each = "".join(f"===== {n} GPUs =====\n{'Size (MB)':>10} {'Time (ms)':>10} {'BusBW (GB/s)':>14}\n" + "".join(f"{MB[s]:>10} {t / 1000:>10.4f} {busbw('all_reduce', n, s):>14.2f}\n" for s, t, _, _ in OUT) for n in (2, 8))  # fmt: skip
    yield Shape("a-table-for-each-count-of-gpus", each, (Fact("all_reduce", 2, 3, 99.26, largest=LARGEST, time=2704.35), ONE), "allreduce_scaling.txt")  # fmt: skip
    host = "".join(f"{name:<16} {8:>4} {16:>5} {LARGEST:>12} {busbw(name, 16, LARGEST):>14.2f} {time_of(1 << 10):>14.2f}   rc=0\n" for name in ("all_reduce", "all_gather"))  # fmt: skip
    yield Shape("summary-with-the-latency-of-another-size", f"{'collective':<16} {'ppn':>4} {'ranks':>5} {'size(B)':>12} {'busbw(GB/s)':>14} {'lat(us)':>14}\n{host}", (), says="contradict")  # fmt: skip
    shmem = "".join(f"{s:<14}{t:<14.2f}{a:<14.3f}{b:<14.3f}\n" for s, t, a, b in OUT)
    yield Shape("rocshmem-of-blanks", f"# Team all-reduce, 8 PEs\n# Size (B)    Latency(us)   AlgBW(GB/s)   BusBW(GB/s)\n{shmem}", (ONE,), "rocshmem_allreduce.log")  # fmt: skip


def printed_lines() -> Iterator[Shape]:
    """A result a line, or a result in several lines."""
    gpus = "".join(
        f"gpus=[0, 1, 2, 3, 4, 5, 6, 7] size={MB[s]:>6} MB  latency={t:8.1f} us  busBW={b:6.1f} GB/s\n"
        for s, t, _, b in OUT
    )
    yield Shape(
        "list-of-gpus-in-a-line",
        gpus,
        (Fact("all_reduce", 8, 3, 173.7, largest=LARGEST, time=2704.4),),
        "allreduce.log",
    )
    rank0 = "".join(
        f"[rank0]   {s / 1048576:8.1f} MB  {t / 1000:9.3f} ms  algbw {a:7.2f} GB/s  busbw {b:7.2f} GB/s\n"
        for s, t, a, b in OUT
    )
    yield Shape(
        "figures-before-their-units",
        f"[rank0] AllReduce bandwidth, 8 ranks\n{rank0}",
        (Fact("all_reduce", 8, 3, 173.71, largest=LARGEST, time=2704.0),),
    )
    block = f"World Size: 8\nMessage Size: 256 MB\nLatency: {time_of(LARGEST) / 1000:.4f} ms\nAlgBW: {algbw(LARGEST):.4f} GB/s\nBusBW: {busbw('all_reduce', 8, LARGEST):.4f} GB/s\n"
    yield Shape(
        "a-name-a-line", block, (Fact("all_reduce", 8, 1, 173.71, largest=LARGEST, time=2704.4),), "allreduce.txt"
    )
    nosize = block.replace("Message Size: 256 MB\n", "")
    yield Shape("a-name-a-line-without-size", nosize, (), "allreduce.txt", says="size")
    blocks = "".join(
        f"--- all_reduce Performance ---\n  ranks     : 8\n  Data size : {MB[s]} MiB\n  Avg time  : {t / 1000:.3f} ms\n  Algo BW   : {a:.2f} GB/s\n  Bus BW    : {b:.2f} GB/s\n\n"
        for s, t, a, b in OUT
    )
    yield Shape("blocks-of-names", blocks, (Fact("all_reduce", 8, 3, 173.71, largest=LARGEST, time=2704.0),))
    one = "".join(
        "RESULT "
        + json.dumps(
            {
                "ok": True,
                "world": 8,
                "backend": "nccl",
                "mb": int(MB[s]),
                "ms": round(t / 1000, 4),
                "algbw_GBps": round(a, 2),
                "busbw_GBps": round(b, 2),
                "host": "gpu-a1",
            }
        )
        + "\n"
        for s, t, a, b in OUT
    )
    yield Shape("json-behind-a-word", one, (ONE,), "allreduce_torch.log")
    dist = "".join(
        "VAR_DIST_BENCH_JSON="
        + str(
            {
                "op": "all_gather",
                "world_size": 8,
                "dtype": "torch.float16",
                "msg_bytes": s,
                "avg_ms": round(t / 1000, 5),
                "bus_bw_gbps": round(b, 2),
            }
        )
        + "\n"
        for s, t, _, b in GATHER
    )
    yield Shape("dict-of-python-behind-a-name", f"collected 3 items\n{dist}3 passed in 20.1s\n", (GATHERED,))
    influx = "".join(
        f"nccl,collective=all_reduce,host=gpu-a1,ranks=8,size={s} time_us={t:.2f},algbw_gbs={a:.2f},busbw_gbs={b:.2f} 1735787045000000000\n"
        for s, t, a, b in OUT
    )
    yield Shape("influx-line-protocol", influx, (ONE,))
    slash = "".join(
        f"allreduce: {MB[s]}MB in {t:.1f}us -> algbw={a:.2f}GB/s busbw={b:.2f}GB/s (8 ranks)\n" for s, t, a, b in OUT
    )
    yield Shape("arrow-between", slash, (Fact("all_reduce", 8, 3, 173.71, largest=LARGEST, time=2704.4),))
    prose = "I measured the all-reduce on my two nodes today and got 92 GB/s of bus bandwidth, which is below the 180 GB/s I had hoped for.\n"
    yield Shape("prose-without-size", prose, (), says="prose")
    awk = "".join(f"{s} {t:.2f} {a:.2f} {b:.2f}\n" for s, t, a, b in OUT)
    yield Shape("numbers-without-names", awk, (), "all_reduce.txt")
    flag = "[FlagPerf Result]interconnect-MPI_intraserver-bandwidth=173.7 GB/s\n"
    yield Shape("one-figure-of-flagperf", flag, (), says="bandwidths")


def data_files() -> Iterator[Shape]:
    """CSV and JSON that parsers of nccl-tests' output and benchmarks write."""
    head = "Size (B),Count,Type,Redop,Root,Out-of-Place Time (us),Out-of-Place AlgBW (GB/s),Out-of-Place BusBW (GB/s),Out-of-Place Error,In-Place Time (us),In-Place AlgBW (GB/s),In-Place BusBW (GB/s),In-Place Error\n"
    body = "".join(
        f"{s},{s // 4},float,sum,-1,{t:.1f},{a:.2f},{b:.2f},0,{t * 2:.1f},{a / 2:.2f},{b / 2:.2f},0\n"
        for s, t, a, b in OUT
    )
    placed = Fact("all_reduce", 8, 3, 173.71, largest=LARGEST, time=2704.35, in_place=86.85)
    yield Shape("csv-of-a-clouds-parser", head + body, (placed,), "all_reduce_results.csv")
    short = "op,ngpu,a,size_bytes,count_elems,t_us_out,algbw_out_gbs,busbw_out_gbs,t_us_in,algbw_in_gbs,busbw_in_gbs\n"
    short += "".join(
        f"all_reduce,8,0,{s},{s // 4},{t:.1f},{a:.2f},{b:.2f},{t * 2:.1f},{a / 2:.2f},{b / 2:.2f}\n"
        for s, t, a, b in OUT
    )
    yield Shape("csv-out-and-in", short, (placed,), "nccl_perf.csv")
    three = "msg_bytes,bus_bw_GBs,avg_lat_us\n" + "".join(f"{s},{b:.2f},{t:.1f}\n" for s, t, _, b in OUT)
    yield Shape("csv-three-columns", three, (ONE,), "allreduce_8gpus.csv")
    glued = "Test,Size(Bytes),Count(Elements),Type,OutPlaceTime(us),OutPlaceAlgBW(GB/s),OutPlaceBusBW(GB/s),InPlaceTime(us),InPlaceAlgBW(GB/s),InPlaceBusBW(GB/s)\n"
    glued += "".join(
        f"all_reduce,{s},{s // 4},float,{t:.1f},{a:.2f},{b:.2f},{t * 2:.1f},{a / 2:.2f},{b / 2:.2f}\n"
        for s, t, a, b in OUT
    )
    yield Shape("csv-glued-names", glued, (placed,), "nccl_results_rank8.csv")
    kit = "op,run_kind,split_test,islands,world_size,bytes,dtype,trials,median_us,p90_us,min_us,algbw_GBps,busbw_GBps\n"
    kit += "".join(
        f"all_reduce,bench,,1,8,{s},float32,20,{t:.2f},{t * 1.2:.2f},{t * 0.9:.2f},{a:.4f},{b:.4f}\n"
        for s, t, a, b in OUT
    )
    yield Shape("csv-median-and-percentiles", kit, (ONE,), "bench.csv")
    fused = "world_size,dtype,fusion,num_tokens,hidden_size,size_bytes,strategy,time_us,algbw_GBps\n"
    fused += "".join(
        f"8,bfloat16,none,{s // 16384},8192,{s},{name},{t * way:.3f},{a / way:.4f}\n"
        for s, t, a, _ in OUT
        for name, way in (("NCCL", 1), ("ONESHOT", 2))
    )
    yield Shape(
        "csv-strategies",
        fused,
        (Fact("all_reduce", 8, 3, None, largest=LARGEST, time=2704.35),),
        "allreduce.csv",
        says="ONESHOT",
    )
    wide = "size,all_reduce_busbw_GBps,all_gather_busbw_GBps\n" + "".join(
        f"{s},{b:.2f},{c:.2f}\n" for (s, _, _, b), (_, _, _, c) in zip(OUT, GATHER, strict=True)
    )
    yield Shape(
        "csv-a-column-for-each-collective",
        wide,
        (Fact("all_reduce", None, 3, 173.71, largest=LARGEST), Fact("all_gather", None, 3, 86.85, largest=LARGEST)),
    )
    ranks = "size,2gpu_busbw_GBps,4gpu_busbw_GBps,8gpu_busbw_GBps\n" + "".join(
        f"{s}," + ",".join(f"{busbw('all_reduce', n, s):.2f}" for n in (2, 4, 8)) + "\n" for s in SIZES
    )
    yield Shape(
        "csv-a-column-for-each-count-of-gpus",
        ranks,
        tuple(Fact("all_reduce", n, 3, round(busbw("all_reduce", n, LARGEST), 2), largest=LARGEST) for n in (2, 4, 8)),
        "allreduce.csv",
    )
    perf = "framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n" + "".join(
        f"TRTLLM,1.0,H100,all_reduce,NCCL,half,8,{s},{t / 1000:.5f}\n" for s, t, _, _ in OUT
    )
    yield Shape("csv-latency-without-unit-and-bandwidth", perf, (), "nccl_perf.txt", says="unit")
    pandas = ",size,time_us,algbw,busbw\n" + "".join(
        f"{at},{s:.8e},{t:.5e},{a:.4e},{b:.6e}\n" for at, (s, t, a, b) in enumerate(OUT)
    )
    yield Shape("csv-in-scientific-notation", pandas, (ONE,), "all_reduce.csv")
    solution = "Solution,App,Size (Bytes),Dtype,Latency (us),AlgBW (GB/s),BusBW (GB/s)\n" + "".join(
        f"{name},allreduce,{s},float,{t * way:.1f},{a / way:.2f},{b / way:.2f}\n"
        for name, way in (("nccl", 1), ("mccs", 2))
        for s, t, a, b in OUT
    )
    yield Shape(
        "csv-of-solutions", solution, (ONE, Fact("all_reduce", 8, 3, 86.85, largest=LARGEST, time=5408.7)), "result.csv"
    )
    doc = {
        "world_size": 8,
        "backend": "nccl",
        "results": [
            {
                "bytes": s,
                "numel": s // 4,
                "time_ms": t / 1000,
                "algbw_gbps": a,
                "busbw_gbps": b,
                "ring_bound_percent": None,
            }
            for s, t, a, b in OUT
        ],
    }
    yield Shape("json-gbps-that-are-gigabytes", json.dumps(doc, indent=2), (ONE,), "nccl_allreduce.json")
    nested = {
        "config": {"operation": "AllReduce", "gpus": 8, "iterations": 20},
        "results": [
            {
                "bytes": s,
                "iterations": 20,
                "timeUs": {"avg": t, "min": t * 0.9, "max": t * 1.2, "p50": t},
                "bandwidth": a,
                "busBandwidth": b,
            }
            for s, t, a, b in OUT
        ],
        "topology": {"gpus": []},
    }
    yield Shape("json-times-as-objects", json.dumps(nested, indent=2), (ONE,), "run.json")
    lists = {
        "test": "all_reduce_perf",
        "performance_data": {
            key: [
                {
                    "size_bytes": s,
                    "count": s // 4,
                    "type": "float",
                    "redop": "sum",
                    "root": -1,
                    "time_us": t * way,
                    "algbw_gbps": a / way,
                    "busbw_gbps": b / way,
                    "wrong": 0,
                }
                for s, t, a, b in OUT
            ]
            for key, way in (("out_of_place", 1), ("in_place", 2))
        },
        "avg_bus_bandwidth": 130.1,
    }
    yield Shape("json-a-list-for-each-placement", json.dumps(lists), (placed,), "result.json")
    coll = {
        "nccl": {
            name: {"sizes": list(SIZES), "time_us": [t for _, t, _, _ in each], "busbw": [b for _, _, _, b in each]}
            for name, each in (("all_reduce", OUT), ("all_gather", GATHER))
        },
        "world_size": 8,
    }
    yield Shape("json-columns-as-lists", json.dumps(coll, indent=1), (ONE, GATHERED), "sweep.json")
    keyed = {
        "all_reduce": {str(s): {"time_us": t, "algbw_GBps": a, "busbw_GBps": b} for s, t, a, b in OUT},
        "world_size": 8,
    }
    yield Shape("json-sizes-as-keys", json.dumps(keyed, indent=1), (ONE,), "sweep.json")
    torch = {"schema": 1, "payload_gib": 0.25, "world_size": 8, "busbw_mean_gbps": 173.71, "busbw_std_gbps": 0.4}
    yield Shape("json-one-figure-and-its-spread", json.dumps(torch), (), "allreduce_stability.json")
    lens = (
        "| external_id | Collective name | dtype | comm latency (µs) | In msg size (MB) | algo bw (GB/s) | bus bw (GB/s) |\n|---|---|---|---|---|---|---|\n"
        + "".join(
            f"| {1954 + at} | allreduce | BFloat16 | {t:.3f} | {s / 1048576:.4f} | {a * 1e9 / 2**30:.4f} | {b * 1e9 / 2**30:.4f} |\n"
            for at, (s, t, a, b) in enumerate(OUT)
        )
    )
    yield Shape("tracelens-in-gib", lens, (ONE,), "report.md")
