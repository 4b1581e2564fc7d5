"""Results in the words of further makers' tools, languages and terminals: facts before the first try, halves by the hash of the name."""

# ruff: noqa: E501 - the lines are as wide as the tools print them

from __future__ import annotations

import json
from collections.abc import Iterator

from world_corpus import Fact, Shape
from world_scripts import LARGEST, MB, ONE, OUT, figures
from world_writers import SIZES, busbw

IN = [(size, t * 0.9, a / 0.9, b / 0.9) for size, t, a, b in OUT]
BOTH = Fact("all_reduce", 8, 3, 173.71, largest=LARGEST, time=2704.35, in_place=193.01)
FOUR = Fact("reduce_scatter", 4, 3, round(busbw("reduce_scatter", 4, LARGEST), 2), largest=LARGEST, time=2704.35)
SINGLE = Fact("all_reduce", 8, 1, 173.71, largest=LARGEST, time=2704.35)


def makers_lines() -> Iterator[Shape]:
    """A line or block for each size, in the words of a benchmark or of a language's printer."""
    flag = "".join(
        f"Comm size: {s} bytes; Elapsed time: {t * 1e-6:.6f} sec; Algo bandwidth: {a:.6f} GB/s; Bus bandwidth: {b:.6f} GB/s\n"
        for s, t, a, b in OUT
    )
    yield Shape("flagcx-lines", flag, (Fact("all_reduce", 8, 3, 173.71, largest=LARGEST),), "flagcx_allreduce.log")
    alpha = "".join(f"GPU:0, Bytes: {s} B,Time: {t:.2f} us, Bus bandwidth: {b:.2f} GB/s\n" for s, t, _, b in OUT)
    yield Shape("alpha-beta-profiler", alpha, (ONE,), "all_reduce_alpha_beta.log")
    block = (
        "World size: 8\nTensor size: 256 MB\n----------------------------------------\n"
        "Performance Results (from Rank 0):\nAverage time per All-Reduce: 2.7044 ms\nEstimated Bus Bandwidth: 173.7117 GB/s\n"
    )
    yield Shape("torch-npu-block", block, (SINGLE,))
    wrong = (
        "--- Results ---\nWorld size (total GPUs): 8\nTensor size: 256 MB\nAverage time per all_reduce: 2.7044 ms\n"
        "Bus bandwidth: 794.0832 Gbps\n--------------------\n"
    )
    yield Shape("bus-bandwidth-that-is-none", wrong, (), says="bandwidth")
    bench = "".join(
        f"[bench] profiled=False world=8 op=all_reduce msg={s}B dtype=float32\n  mean={t:.1f}us p50={t:.1f}us p99={t * 1.2:.1f}us algbw={a:.2f} GB/s (20 iters, 0.05s)\n"
        for s, t, a, _ in OUT
    )
    yield Shape("two-lines-a-result", bench, (), says="write a line as")
    python = "".join(
        f"Result(op='all_reduce', world_size=8, size_bytes={s}, time_us={t:.2f}, algbw={a:.2f}, busbw={b:.2f})\n"
        for s, t, a, b in OUT
    )
    yield Shape("dataclass-repr", python, (ONE,))
    rust = "".join(
        f'BenchResult {{ op: "AllReduce", ranks: 8, bytes: {s}, time_us: {t:.2f}, algbw: {a:.2f}, busbw: {b:.2f} }}\n'
        for s, t, a, b in OUT
    )
    yield Shape("rust-debug", rust, (ONE,))
    golang = "".join(
        f"{{Op:all_reduce Ranks:8 Bytes:{s} TimeUs:{t:.2f} AlgBW:{a:.2f} BusBW:{b:.2f}}}\n" for s, t, a, b in OUT
    )
    yield Shape("go-plus-v", golang, (ONE,))
    sharp = "".join(
        f"Result {{ Op = all_reduce, Ranks = 8, Bytes = {s}, TimeUs = {t:.2f}, AlgBW = {a:.2f}, BusBW = {b:.2f} }}\n"
        for s, t, a, b in OUT
    )
    yield Shape("c-sharp-record", sharp, (ONE,))
    sqlite = "\n".join(
        f"collective = all_reduce\n     ranks = 8\n      size = {s}\n   time_us = {t:.2f}\n     algbw = {a:.2f}\n     busbw = {b:.2f}\n"
        for s, t, a, b in OUT
    )
    yield Shape("sqlite-line-mode", sqlite, (ONE,), "query.txt")
    shell = "\n".join(
        f"Collective : all_reduce\nRanks      : 8\nSize       : {s}\nTimeUs     : {t:.2f}\nAlgBW      : {a:.2f}\nBusBW      : {b:.2f}\n"
        for s, t, a, b in OUT
    )
    yield Shape("format-list", shell, (ONE,), "results.txt")
    ramble = "Experiment nccl-tests.all-reduce.nccl_1:\n  Status = SUCCESS\n  default (null) context figures of merit:\n    Average Bus Bandwidth = 101.2 GB/s\n"
    for (s, t, a, b), (_, t_in, a_in, b_in) in zip(OUT, IN, strict=True):
        ramble += f"  {s} context figures of merit:\n    Size = {s} B\n    Count = {s // 4} elements\n    Type = float \n    Reduction Operator = sum \n"
        for name, (t_, a_, b_) in (("Out of Place", (t, a, b)), ("In Place", (t_in, a_in, b_in))):
            ramble += f"    {name} Time = {t_:.2f} us\n    {name} Alg Bandwidth = {a_:.2f} GB/s\n    {name} Bus Bandwidth = {b_:.2f} GB/s\n    {name} Number Wrong = 0 \n"
    yield Shape("ramble-results-text", ramble, (), "results.latest.txt", says="Ramble")
    samples = "".join(
        json.dumps({"metric": name, "value": value, "unit": "GB/s", "timestamp": 1795000000.0, "test": "nccl",
                    "labels": f"|size:{s}|,|count:{s // 4}|", "metadata": {"size": str(s), "nccl_operation": "all_reduce"}}) + "\n"
        for s, _, a, b in OUT for name, value in (("Out of place algorithm bandwidth", a), ("Out of place bus bandwidth", b))
    )  # fmt: skip
    yield Shape("perfkit-samples", samples, (), "perfkitbenchmarker_results.json", says="PerfKit")
    chinese = "".join(
        f"消息大小: {MB[s]}MB, 平均耗时: {t / 1000:.4f}ms, 算法带宽: {a:.2f}GB/s, 总线带宽: {b:.2f}GB/s\n"
        for s, t, a, b in OUT
    )
    yield Shape("chinese-lines", f"all_reduce 8 GPUs\n{chinese}", (), says="write a line as")
    events = "".join(
        json.dumps(
            {
                "ts": 1795000000 + at,
                "event": "allreduce",
                "world_size": 8,
                "payload_mb": int(MB[s]),
                "duration_ms": round(t / 1000, 6),
                "algbw_GBps": round(a, 2),
                "busbw_GBps": round(b, 2),
            }
        )
        + "\n"
        for at, (s, t, a, b) in enumerate(OUT)
    )
    yield Shape("events-with-payloads", events, (ONE,), "events.jsonl")


def makers_tables() -> Iterator[Shape]:
    """Tables as terminals, databases and languages draw them."""
    sweep = "".join(
        f"| triton_dma | bf16 | {s} | {MB[s]}MB | {s // 2} | 8 | 0,1,2,3,4,5,6,7 | {t / 1000:.6f} | {a:.2f} | {b:.2f} |\n"
        for s, t, a, b in OUT
    )
    yield Shape("triton-dma-sweep", f"# Pure all_reduce bandwidth sweep  (transport=triton_dma)\n# dtype=bf16  world=8  iters=20 warmup=5\n\n| transport | dtype | bytes | human | count | world | HIP_VISIBLE_DEVICES | time_ms | algbw_GBps | busbw_GBps |\n|---|---|---|---|---|---|---|---|---|---|\n{sweep}", (ONE,))  # fmt: skip
    four = figures("reduce_scatter", 4)
    latency = "".join(
        f"| {MB[s]}.00 MB    | {t:8.2f} | {t * 0.95:8.2f} | {t * 1.05:8.2f} |   0.81 | {b:12.3f} |\n"
        for s, t, _, b in four
    )
    yield Shape("oneccl-latency-page", f"# Reduce-Scatter Latency Benchmark Results\n\n- Platform: 4x BMG GPUs, mpirun -np 4\n\n## Test 1: 2025.3\n\n### Method A: ccl_event\n\n| Size | avg_us | min_us | max_us | var_us | busBW(GB/s) |\n|------|--------|--------|--------|--------|-------------|\n{latency}", (FOUR,), "reduce_scatter.md")  # fmt: skip
    commented = "".join(f"# {s:10d}      100    {t:.1f}    {a:.2f}    {b:.2f}\n" for s, t, a, b in OUT)
    yield Shape("output-in-comments", f"# 8 GPUs: ./build/all_reduce_perf -b 1M -e 256M -g 8\n# #    bytes   #iters  time(us)  algbw(GB/s)  busbw(GB/s)\n{commented}", (ONE,), "notes.sh")  # fmt: skip
    duck_head = ["size", "time_us", "algbw", "busbw"]
    duck = [[str(s), f"{t:.2f}", f"{a:.2f}", f"{b:.2f}"] for s, t, a, b in OUT]
    cells = [duck_head, ["int64", "double", "double", "double"], *duck]
    lines = ["\u2502 " + " \u2502 ".join([cell.rjust(10) for cell in row]) + " \u2502" for row in cells]
    bar = "\u2500" * 12
    box = [
        "\u250c" + "\u252c".join([bar] * 4) + "\u2510",
        *lines[:2],
        "\u251c" + "\u253c".join([bar] * 4) + "\u2524",
        *lines[2:],
        "\u2514" + "\u2534".join([bar] * 4) + "\u2518",
    ]
    yield Shape("duckdb-box", "\n".join(box) + "\n", (ONE,), "all_reduce.txt")
    frame = "       size time_us  algbw  busbw\n" + "".join(
        f"{at} {s:>9} {t:7.2f} {a:6.2f} {b:6.2f}\n" for at, (s, t, a, b) in enumerate(OUT, 1)
    )
    yield Shape("data-frame-of-r", frame, (ONE,), "all_reduce.txt")
    julia = (
        " Row \u2502 size       time_us  algbw    busbw\n     \u2502 Int64      Float64  Float64  Float64\n"
        + "\u2500" * 5
        + "\u253c"
        + "\u2500" * 40
        + "\n"
    )
    julia += "".join(f"{at:>4} \u2502 {s:>9}  {t:7.2f}  {a:7.2f}  {b:7.2f}\n" for at, (s, t, a, b) in enumerate(OUT, 1))
    yield Shape("data-frame-of-julia", f"3\u00d74 DataFrame\n{julia}", (), "all_reduce.txt")
    nu_rows = "".join(
        f"\u2502 {at} \u2502 {s:>9} \u2502 {t:>7.2f} \u2502 {a:>6.2f} \u2502 {b:>6.2f} \u2502\n"
        for at, (s, t, a, b) in enumerate(OUT)
    )
    nu = (
        "\u256d\u2500\u2500\u2500\u252c\u2500\u2500\u256e\n\u2502 # \u2502   size    \u2502 time_us \u2502 algbw  \u2502 busbw  \u2502\n\u251c\u2500\u2500\u2500\u253c\u2500\u2500\u2524\n"
        + nu_rows
        + "\u2570\u2500\u2500\u2500\u2534\u2500\u2500\u256f\n"
    )
    yield Shape("nushell-table", nu, (ONE,), "all_reduce.txt")
    shell = "     size time_us  algbw  busbw\n     ---- -------  -----  -----\n" + "".join(
        f"{s:>9} {t:7.2f} {a:6.2f} {b:6.2f}\n" for s, t, a, b in OUT
    )
    yield Shape("format-table", shell, (ONE,), "all_reduce.txt")
    gnuplot = "# size time_us algbw busbw\n" + "".join(f"{s} {t:.2f} {a:.2f} {b:.2f}\n" for s, t, a, b in OUT)
    yield Shape("gnuplot-data", gnuplot, (ONE,), "all_reduce.dat")
    summary = "".join(f"| {MB[s]} MiB | {t:.2f} | {a:.2f} | {b:.2f} | \u2705 |\n" for s, t, a, b in OUT)
    yield Shape("step-summary-with-ticks", f"### \U0001f680 all_reduce on 8 GPUs\n\n| Size | Time (\u00b5s) | AlgBW (GB/s) | BusBW (GB/s) | OK |\n|---|--:|--:|--:|:-:|\n{summary}", (ONE,), "summary.md")  # fmt: skip
    plus = "".join(f"| {MB[s]} MiB | {t:.2f} \u00b1 1.20 | {b:.2f} \u00b1 0.40 |\n" for s, t, _, b in OUT)
    yield Shape(
        "mean-and-deviation",
        f"# all_reduce, 8 GPUs\n\n| Size | Time (us) | BusBW (GB/s) |\n|---|---|---|\n{plus}",
        (ONE,),
        "page.md",
    )
    pandas = '<table border="1" class="dataframe">\n  <thead>\n    <tr style="text-align: right;">\n      <th></th>\n      <th>size</th>\n      <th>time_us</th>\n      <th>algbw</th>\n      <th>busbw</th>\n    </tr>\n  </thead>\n  <tbody>\n'
    pandas += "".join(
        f"    <tr>\n      <th>{at}</th>\n      <td>{s}</td>\n      <td>{t:.2f}</td>\n      <td>{a:.2f}</td>\n      <td>{b:.2f}</td>\n    </tr>\n"
        for at, (s, t, a, b) in enumerate(OUT)
    )
    yield Shape("pandas-to-html", f"{pandas}  </tbody>\n</table>\n", (ONE,), "all_reduce.html")
    osu = (
        "# OSU MPI-CUDA Allreduce Latency Test v7.4\n# Datatype: MPI_FLOAT.\n# Size       Avg Latency(us)\n"
        + "".join(f"{s:<16}{t:>12.2f}\n" for s, t, _, _ in OUT)
    )
    yield Shape(
        "osu-with-a-datatype",
        f"+ mpirun -np 8 ./osu_allreduce -d cuda -T mpi_float\n\n{osu}",
        (Fact("all_reduce", 8, 3, 173.71, largest=LARGEST, time=2704.35),),
    )
    latin = "taille (octets);temps (\u00b5s);algbw (Go/s);busbw (Go/s)\n" + "".join(
        f"{s};{t:.2f};{a:.2f};{b:.2f}\n".replace(".", ",") for s, t, a, b in OUT
    )
    yield Shape("csv-in-latin-1", "", (ONE,), "all_reduce.csv", data=latin.encode("latin-1"))
    mark = "size,time_us,algbw,busbw\n" + "".join(f"{s},{t:.2f},{a:.2f},{b:.2f}\n" for s, t, a, b in OUT)
    yield Shape("csv-with-a-mark", "", (ONE,), "all_reduce.csv", data=b"\xef\xbb\xbf" + mark.encode())
    azure = "".join(f"| {MB[s]}M{'':<8} | {b:.2f} |\n" for s, _, _, b in OUT)
    yield Shape("azure-guide-page", f"# NCCL Bandwidth\nThe values (in GB/s) are the bus bandwidth values obtained from the NCCL AllReduce (Ring algorithm) tests in-place operations, varying from 1KB to 8GB of data.\n\n| Message Size | Bandwidth (NVLS) |\n|---|---|\n{azure}", (), "summary.md", says="name no time or bandwidth")  # fmt: skip
    tsv = "workload\tn_nodes\tmsg_size\tbusbw\n" + "".join(f"all-reduce\t2\t{s}\t{b:.2f}\n" for s, _, _, b in OUT)
    yield Shape("cluster-toolkit-summary", tsv, (Fact("all_reduce", None, 3, 173.71, largest=LARGEST),), "summary.tsv")
    primus = "".join(
        f"| gpu-40 | all_reduce | {MB[s]}.0MB | 8 | bf16 | {t / 1000:.4f} | {t / 1000:.4f} | {t / 900:.4f} | {a:.2f} | {b:.2f} |\n"
        for s, t, a, b in OUT
    )
    yield Shape("primus-report", f"# RCCL Benchmark Report\n\n- Date: 2026-08-13 23:32:07\n- World Size: 8\n- Ops: all_reduce\n- Message Sizes: 1.0MB, 16.0MB, 256.0MB\n- Dtype: bf16\n\n## Results\n\n| host | op | size | world | dtype | p50_ms | avg_ms | p95_ms | algbw_GBps | busbw_GBps |\n|---|---|---|---|---|---|---|---|---|---|\n{primus}", (ONE,), "rccl_N8.md")  # fmt: skip
    insert = (
        "CREATE TABLE results (op TEXT, ranks INT, size BIGINT, time_us REAL, algbw REAL, busbw REAL);\n"
        + "".join(f"INSERT INTO results VALUES ('all_reduce',8,{s},{t:.2f},{a:.2f},{b:.2f});\n" for s, t, a, b in OUT)
    )
    yield Shape("sql-dump", insert, (), "dump.sql", says="SQL")


def makers_data() -> Iterator[Shape]:
    """Objects of JSON and YAML as collectors of results nest them."""
    rows = [
        {"size_bytes": s, "out_of_place": {"time_us": round(t, 2), "algbw_gbps": round(a, 2), "busbw_gbps": round(b, 2), "wrong": 0},
         "in_place": {"time_us": round(t_in, 2), "algbw_gbps": round(a_in, 2), "busbw_gbps": round(b_in, 2), "wrong": 0}}
        for (s, t, a, b), (_, t_in, a_in, b_in) in zip(OUT, IN, strict=True)
    ]  # fmt: skip
    nested = {
        "node": "gpu-a1",
        "metrics": {"records": [{"status": "success", "case": {"id": "all_reduce", "ranks": 8}, "rows": rows}]},
    }
    yield Shape("json-rows-in-records", json.dumps(nested, indent=2), (BOTH,), "nccl.json")
    lists = {
        half: [
            {
                "size_bytes": s,
                "count": s // 4,
                "type": "float",
                "redop": "sum",
                "root": -1,
                "time_us": round(t, 2),
                "algbw_gbps": round(a, 2),
                "busbw_gbps": round(b, 2),
                "wrong": 0,
            }
            for s, t, a, b in each
        ]
        for half, each in (("out_of_place", OUT), ("in_place", IN))
    }
    yield Shape("json-list-for-each-half", json.dumps({"test_name": "all_reduce_perf", "num_gpus": 8, "performance_data": lists, "avg_bus_bandwidth": 101.2}, indent=1), (BOTH,), "result.json")  # fmt: skip
    keys = "all_reduce:\n  world_size: 8\n  results:\n" + "".join(
        f"    {s}: {{time_us: {t:.2f}, algbw: {a:.2f}, busbw: {b:.2f}}}\n" for s, t, a, b in OUT
    )
    yield Shape("yaml-sizes-as-keys", keys, (), "results.yaml", says="YAML")
    contexts = [
        {"name": str(s), "foms": [{"name": "Size", "value": str(s), "units": "B"}, {"name": "Out of Place Time", "value": f"{t:.2f}", "units": "us"},
                                  {"name": "Out of Place Alg Bandwidth", "value": f"{a:.2f}", "units": "GB/s"}, {"name": "Out of Place Bus Bandwidth", "value": f"{b:.2f}", "units": "GB/s"}]}
        for s, t, a, b in OUT
    ]  # fmt: skip
    yield Shape("ramble-results-json", json.dumps({"experiments": [{"name": "nccl-tests.all-reduce.nccl_1", "workload_name": "all-reduce", "n_nodes": "1", "CONTEXTS": contexts}]}), (), "results.latest.json", says="Ramble")  # fmt: skip
    deep = {"benchmark": "nccl", "config": {"op": "all_reduce", "world_size": 8}, "results": [{"size": {"bytes": s}, "latency": {"mean_us": round(t, 2)}, "bandwidth": {"algbw_gbs": round(a, 2), "busbw_gbs": round(b, 2)}} for s, t, a, b in OUT]}  # fmt: skip
    yield Shape("json-a-level-for-each-figure", json.dumps(deep), (ONE,), "out.json")
    columns = {
        "op": "all_reduce",
        "nranks": 8,
        "sizes": [s for s, *_ in OUT],
        "times_us": [round(t, 2) for _, t, _, _ in OUT],
        "busbws": [round(b, 2) for *_, b in OUT],
    }
    yield Shape("json-plural-columns", json.dumps(columns), (ONE,), "out.json")
    strings = [
        {"Size": f"{MB[s]} MiB", "Time": f"{t:.2f} us", "AlgBW": f"{a:.2f} GB/s", "BusBW": f"{b:.2f} GB/s"}
        for s, t, a, b in OUT
    ]
    yield Shape(
        "json-units-in-values", json.dumps({"collective": "AllReduce", "gpus": 8, "data": strings}), (ONE,), "out.json"
    )
    ops = {
        op: [{"bytes": s, "us": round(t, 2), "busbw": round(b, 2)} for s, t, _, b in figures(op)]
        for op in ("all_reduce", "all_gather")
    }
    gathered = Fact("all_gather", 8, 3, round(busbw("all_gather", 8, LARGEST), 2), largest=LARGEST, time=2704.35)
    yield Shape(
        "json-collectives-as-keys", json.dumps({"world_size": 8, "benchmarks": ops}), (ONE, gathered), "out.json"
    )
    series = {
        "step": {"value": 3},
        "_timestamp": 1795000000,
        "nccl/all_reduce/268435456/busbw": 173.71,
        "nccl/all_reduce/16777216/busbw": 155.0,
    }
    yield Shape("metrics-with-slashes", json.dumps(series) + "\n", (), "wandb-summary.json")


def makers_refused() -> Iterator[Shape]:
    """What holds no table of a collective: one sentence that names it, and never a figure."""
    gpus = "".join(
        f"  {at:>3}  {905.1 + at:>8.2f}  {0.1:>6.2f}  {173.71:>11.2f}  {0.2:>6.2f}  {1.10:>5.2f}  {690:>8.1f}  ok\n"
        for at in range(8)
    )
    yield Shape("table-of-gpus", f"{'=' * 70}\n  Per-GPU Metrics  (deviation from cluster median)\n  Median \u2192 905.10 TFLOPS | 173.71 GB/s bus BW\n  GPU    TFLOPS    Dev%  BusBW(GB/s)    Dev%  CV_bw  Power(W)  Flags\n{gpus}", ())  # fmt: skip
    yield Shape("regressions-of-maxima", "| metric | before | after | delta | % | verdict |\n|---|---|---|---|---|---|\n| `nccl.all_reduce_perf.max_busbw_gbps` | 528.700 | 652.910 | 124.210 | 23.49% | IMPROVEMENT |\n", (), "regress.md")  # fmt: skip
    yield Shape(
        "latency-without-size",
        "[all_reduce] Latency: 2.704ms, BW: 99.26 GB/s\n[reduce_scatter] Latency: 1.204ms, BW: 89.26 GB/s\n",
        (),
    )
    yield Shape("maxima-of-a-script", "PCIe/NVLink Bandwidth Test\n==================\nDetected 8 GPUs\n\nRunning All-Reduce test...\nAll-Reduce\n   Max Algorithm BW: 99.26 GB/s\n   Max Bus BW: 173.71 GB/s\n   Average Bus BW: 101.20 GB/s\n", ())  # fmt: skip
    hpl = "T/V                N    NB     P     Q               Time                 Gflops\n--------------------------------------------------------------------------------\nWR11C2R4      100000   384     4     8              52.10             1.2796e+07\n||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=        0.0011 ...... PASSED\n"
    yield Shape(
        "refused-hpl",
        f"HPLinpack 2.3  --  High-Performance Linpack benchmark  --   December 2, 2018\n{hpl}",
        (),
        says="HPL",
    )
    yield Shape("refused-hpcg", "HPCG-Benchmark\nversion=3.1\nMachine Summary::Distributed Processes=8\nFinal Summary::HPCG result is VALID with a GFLOP/s rating of=1234.5\nDDOT Timing Variations::Min DDOT MPI_Allreduce time=0.1\n", (), says="HPCG")  # fmt: skip
    yield Shape("refused-stream", "STREAM version $Revision: 5.10 $\nFunction    Best Rate MB/s  Avg time     Min time     Max time\nCopy:          231234.5     0.005     0.004     0.006\nTriad:         241234.5     0.006     0.005     0.007\n", (), says="STREAM")  # fmt: skip
    yield Shape("refused-gdrcopy", "GPU id:0; name: NVIDIA H100; Bus id: 0000:1b:00\nselecting device 0\ntesting size: 131072\nwriting test, size=131072 offset=0 num_iters=10000\nwrite BW: 12345.6MB/s\nreading test, size=131072 offset=0 num_iters=100\nread BW: 512.3MB/s\n", (), says="GDRCopy")  # fmt: skip
    yield Shape("refused-ras", "NCCL version 2.28.3 compiled with CUDA 13.0\nCUDA runtime version 13000, driver version 13000\n\nJob summary\n===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n(total)   per node  per process    (total)  (total)\n      2          8            1         16       16\n\nCommunicators... (0.00s)\n=============\n\nGroup     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n    #  in group  per comm  per node  per comm  in group\n    0         1         2         8        16        16   RUNNING      OK\n", (), says="RAS")  # fmt: skip
    yield Shape(
        "refused-qperf",
        "tcp_bw:\n    bw              =  3.1 GB/sec\n    msg_size        =  64 KiB (65,536)\n    time            =  2 sec\n",
        (),
        says="qperf",
    )
    yield Shape(
        "refused-sockperf",
        "sockperf: == version #3.10 == \nsockperf: Summary: Message Rate is 112345 [msg/sec]\nsockperf: Summary: BandWidth is 1.500 MBps (12.000 Mbps)\n",
        (),
        says="sockperf",
    )
    yield Shape("refused-netperf", "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to gpu-a2 () port 0 AF_INET : demo\nRecv   Send    Send\nSocket Socket  Message  Elapsed\nSize   Size    Size     Time     Throughput\nbytes  bytes   bytes    secs.    10^6bits/sec\n131072  16384  16384    10.00    94123.45\n", (), says="netperf")  # fmt: skip
    rep = (
        "#MPI calls:;MPI_Allreduce\n#@reproMPIcommitSHA1=abc\n#@clocktype=local\n                                    test       nrep      count runtime_sec\n"
        + "".join(
            f"                           MPI_Allreduce          {at}    1048576  0.0000{3049 + at}\n" for at in range(3)
        )
    )
    yield Shape("refused-reprompi", rep, (), says="ReproMPI")
    yield Shape("refused-imb-rma", "# Intel(R) MPI Benchmarks 2021.9, MPI-2 part\n# Benchmarking Unidir_put\n# #processes = 2\n#\n       #bytes #repetitions      t[usec]   Mbytes/sec\n            4         1000         1.10         3.64\n      1048576           40       100.10     10475.00\n", ())  # fmt: skip
    yield Shape("refused-gpu-burn", "10.0%  proc'd: 1234 (61234 Gflop/s)   errors: 0   temps: 61 C\n100.0%  proc'd: 12340 (61200 Gflop/s)   errors: 0   temps: 66 C\nKilling processes with SIGTERM (soft kill)\nTested 1 GPUs:\n\tGPU 0: OK\n", (), says="gpu-burn")  # fmt: skip
    yield Shape(
        "refused-nvlink-status",
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n",
        (),
        says="nvidia-smi",
    )
    step = '"Step","run-1 - busbw_GBps","run-1 - busbw_GBps__MIN","run-1 - busbw_GBps__MAX"\n"0","173.71","173.71","173.71"\n"1","173.60","173.60","173.60"\n'
    yield Shape("refused-wandb-csv", step, (), "wandb_export.csv")
    yield Shape(
        "refused-xlsx",
        "",
        (),
        "all_reduce.xlsx",
        says="zip",
        data=b"PK\x03\x04\x14\0\x06\0\x08\0\0\0!\0[Content_Types].xml" + b"\0" * 50,
    )
    yield Shape(
        "refused-parquet",
        "",
        (),
        "all_reduce.parquet",
        says="Parquet",
        data=b"PAR1\x15\x04\x15\0" + b"\x01" * 60 + b"PAR1",
    )
    prom = "# TYPE nccl_busbw gauge\n" + "".join(
        f'nccl_busbw{{op="all_reduce",bytes="{s}"}} 173.7 1795000000000\n' for s in SIZES
    )
    yield Shape("refused-prometheus-with-times", prom, (), "metrics.prom", says="Prometheus")
    superbench = "| nccl-bw:nvlink | nccl-bw:nvlink/allreduce_268435456_busbw | mean | 173.71 |\n"
    yield Shape("refused-superbench-summary", f"| Benchmark | Metric | Statistics | Result |\n|---|---|---|---|\n{superbench}", (), "results-summary.md", says="superbench")  # fmt: skip
    yield Shape("one-figure-of-bare", "all_reduce: PASS (bus bandwidth 173.71 GB/s, expected at least 150 GB/s)\n", ())
