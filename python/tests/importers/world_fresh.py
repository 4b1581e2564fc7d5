"""Scripts, reports and neighbours of benchmarks that nobody tried before: facts before the first try, halves by the hash of the name."""

# ruff: noqa: E501 - the lines are as wide as the tools print them

from __future__ import annotations

import json
from collections.abc import Iterator

from world_corpus import Fact, Shape
from world_scripts import BARE, GATHER, GATHERED, LARGEST, MB, ONE, OUT, figures
from world_writers import SIZES

NAMED = {1 << 20: "1.00 MiB", 1 << 24: "16.00 MiB", 1 << 28: "256.00 MiB"}
GIB = 2**30 / 1e9
TIMED = Fact("all_reduce", 8, 3, None, largest=LARGEST, time=2704.35)


def fresh_lines() -> Iterator[Shape]:
    """A line or a block for each size; those that only `says` tells of are refused with a sentence, as decided after the first try."""
    durations = "".join(
        f"all_reduce: Size: {s} bytes, Duration: {t * 1e-6:.6f}s, Algbw: {a:.2f} GB/s, Busbw: {b:.2f} GB/s\n"
        for s, t, a, b in OUT
    )
    yield Shape("duration-in-seconds", f"Number of GPUs: 8\n{durations}", (BARE,))
    pods = "".join(
        f"Size: {MB[s]:>5} MB | Time: {t / 1e3:>8.3f} ms | AlgBW: {a:>8.2f} GB/s | BusBW: {b:>8.2f} GB/s\n"
        for s, t, a, b in OUT
    )
    yield Shape("pytorchjob-lines", f"World size: 8, backend: nccl\nAllReduce benchmark\n{pods}", (ONE,))
    decimal = "".join(
        f"  Size: {int(MB[s]):>8.1f} MB | Avg: {t / 1e3:>8.3f} ms | AlgBW: {int(MB[s]) * 1e3 / t:>8.2f} GB/s | BusBW: {int(MB[s]) * 1e3 / t * 1.75:>8.2f} GB/s\n"
        for s, t, _, _ in OUT
    )
    yield Shape(
        "megabytes-of-a-million-in-lines",
        f"NCCL ALL-REDUCE BENCHMARK (8 GPUs)\n{decimal}",
        (Fact("all_reduce", 8, 3, 165.66, largest=256_000_000, time=2704.35),),
    )
    block = "".join(
        f"\n--- AllReduce ({s} bytes, 8 PEs) Performance ---\n  Min time : {t * 0.95 / 1e3:.3f} ms\n  Max time : {t * 1.05 / 1e3:.3f} ms\n  Avg time : {t / 1e3:.3f} ms\n  Algo BW  : {a / GIB:.2f} GB/s\n  Bus BW   : {b / GIB:.2f} GB/s\n"
        for s, t, a, b in OUT
    )
    yield Shape("shmem-blocks-in-gib", block, (ONE,))
    pami = "#0: Allreduce Bandwidth Test(size:8) -- context = 0, protocol: I0:RectangleDput\n#0: Size(bytes)      iterations     bytes/sec      usec\n#0: -----------      -----------    -----------    ---------\n"
    pami += "".join(f"#0: {s:11d} {100:16d} {s / t * 1e6:14.1f} {t:14.2f}\n" for s, t, _, _ in OUT)
    yield Shape("pami-allreduce", pami, (), says="PAMI")
    skampi = '# SKaMPI Version 5.0.4 rev. 355\n\n# begin result "MPI_Allreduce-length"\n'
    skampi += "".join(f"count= {s // 8}  {s}  {t:.1f}  0.5  16  {t:.1f}  {t * 0.95:.1f}\n" for s, t, _, _ in OUT)
    yield Shape("skampi", f'{skampi}# end result "MPI_Allreduce-length"\n', (), says="SKaMPI")
    mpi = "".join(f"MPI_Allreduce: {s} bytes, 8 procs, {t:.2f} usec/call\n" for s, t, _, _ in OUT)
    yield Shape("usec-per-call", mpi, (), says="write a line as")
    table = f"{'Message Size':>14} {'Latency(us)':>14} {'Algo BW(GB/s)':>14} {'Bus BW(GB/s)':>14}\n{'=' * 60}\n"
    table += "".join(f"{NAMED[s]:>14} {t:>14.2f} {a:>14.2f} {b:>14.2f}\n" for s, t, a, b in OUT)
    yield Shape("sizes-of-two-words", f"All-Reduce on 8 GPUs (float16)\n{table}", (ONE,))
    table = "".join(f"{NAMED[s]:>12}  {t / 1e3:>10.3f}  {a:>12.2f}  {b:>12.2f}\n" for s, t, a, b in OUT)
    head = f"{'size':>12}  {'time (ms)':>10}  {'algbw (GB/s)':>12}  {'busbw (GB/s)':>12}\n{'-' * 52}\n"
    yield Shape("verify-script", f"[all_reduce] world_size=8\n{head}{table}\nmax busbw: 173.71 GB/s\n", (ONE,))
    dp = f"{'DP ':<15} {'TP ':<15} {'PP ':<15} {'message size(B)':<15} {'count(elements)':<15} {'data type':<15} {'redop':<15} {'algo BW(GB/s)':<15} {'bus BW(GB/s)':<15}\n"
    dp += "".join(f"{1:<15} {8:<15} {1:<15} {s:<15} {s // 2:<15} {'float16':<15} {'sum':<15} {a:<15.3f} {b:<15.3f}\n" for s, _, a, b in OUT)  # fmt: skip
    yield Shape("parallel-dimensions", dp, (), "all_reduce_8gpus.log", says="write it as CSV")
    tqdm = "".join(f"[rank0] allreduce numel={s // 4} dtype=torch.float32 world_size=8 took {t / 1e3:.4f} ms -> {a:.2f} GB/s (bus {b:.2f} GB/s)\n" for s, t, a, b in OUT)  # fmt: skip
    yield Shape("numel-and-dtype", tqdm, (), says="write a line as")
    mpi4py = "".join(
        f"size={s} B  np=8  min={t * 0.9:.1f}us  avg={t:.1f}us  max={t * 1.1:.1f}us\n" for s, t, _, _ in OUT
    )
    yield Shape("mpi4py-allreduce", f"MPI Allreduce benchmark\n{mpi4py}", (TIMED,))
    hccl = "".join(f"MsgSize: {s} bytes, Iterations: 100\nBandwidth: {a:.4f} GB/s\n" for s, _, a, _ in OUT)
    yield Shape("size-and-bandwidth-in-turn", f"\n[HCCL AllReduce Bandwidth Test]\n{hccl}", ())
    cuda = "\nPerformance Results:\n-----------------------------------\nNumber of GPUs:         8\nSend buffer per GPU:    32.00 MB\nRecv buffer per GPU:    256.00 MB\nAverage time:           2.7044 ms\nBus bandwidth:          80.89 GB/s\nAlgorithm bandwidth:    92.45 GB/s\n-----------------------------------\n"
    yield Shape("allgather-of-a-sample", f"NCCL AllGather example\n{cuda}", (), says="without a size")  # fmt: skip


def fresh_pages() -> Iterator[Shape]:
    """Reports that people and scripts write."""
    efa = "| Message size | busbw (GB/s) |\n|---|---|\n" + "".join(f"| {MB[s]} MiB | {b:.0f} |\n" for s, _, _, b in OUT)
    yield Shape(
        "gpus-in-the-heading",
        f"### p6-b200 \u00d74 NCCL all_reduce (ap-south-1, 32 GPU)\n\n- **Peak bus bandwidth: 174 GB/s**\n\n{efa}",
        (Fact("all_reduce", 32, 3, 174.0),),
        "status.md",
    )
    world = "| world | bus_bw (GB/s) | \u4fdd\u6301\u7387 vs w8 |\n|------:|--------------:|-------------:|\n| 8 | **190.5** | 100% |\n| 16 | 0.2563 | **0.13%** |\n| 32 | 0.2691 | **0.14%** |\n"
    yield Shape(
        "chinese-retention-over-worlds",
        f"### \u901a\u4fe1\uff08All-Reduce @ 256MB bus_bw \u4fdd\u6301\u7387 vs **w8**\uff09\n\n{world}",
        tuple(Fact("all_reduce", n, 1, b, largest=LARGEST) for n, b in ((8, 190.5), (16, 0.2563), (32, 0.2691))),
        "report.md",
    )
    vllm = "# All-Reduce Benchmark Results (World Size: 4, Mode: cudagraph)\n\nAll times are in milliseconds. -1 indicates the method is not supported/available for that size.\n\n| Size | NCCL | Tensor MP All-Reduce | Quick FP |\n|---|---|---|---|\n"
    vllm += "".join(f"| {MB[s]}MB | {t / 1e3:.3f} | {t * 0.8 / 1e3:.3f} | -1 |\n" for s, t, _, _ in OUT)
    vllm += (
        "\n## Performance Summary\n\n### Speedup vs NCCL\n\n| Size | Tensor MP All-Reduce | Quick FP |\n|---|---|---|\n"
    )
    vllm += "".join(f"| {MB[s]}MB | 1.25x | N/A |\n" for s in SIZES)
    four = Fact("all_reduce", 4, 3, None, largest=LARGEST)
    yield Shape("vllm-milliseconds-and-speedups", vllm, (four, four), "benchmark_results_ws4_cudagraph.md")
    task = "| \u6307\u6807      |    2\u5361 | 4\u5361  |8\u5361  |\n| :--- | ---:| :--: |:--: |\n|all-to-all   | 617 |436|369|\n| all-reduce  | 319| 224|253|\n"
    yield Shape("cards-without-size-or-unit", task, (), "Readme.md")
    xpu = "# all_reduce\n\n## Performance Results\n\n| world_size | dtype | batch_size | dim_size | latency (\u00b5s) | algo_size (MB) | algo_bw (GB/s) | bus_bw (GB/s) |\n|---|---|---|---|---|---|---|---|\n"
    xpu += "".join(f"| 8 | float32 | {s // 4096} | 1024 | {t:.3f} | {int(MB[s]):.3f} | {a:.3f} | {b:.3f} |\n" for s, t, a, b in OUT)  # fmt: skip
    yield Shape("xpu-perf-report", xpu, (ONE,), "all_reduce.md")
    summary = "# NCCL Benchmark Results\nDate: 2026-11-20\nNode: gpu-a1\nGPUs: 8 x H100\n\n| Test      | Message Size | Algo BW (GB/s) | Bus BW (GB/s) | Latency (\u00b5s) |\n|---|---|---|---|---|\n"
    summary += "".join(f"| AllReduce | {MB[s]} MiB | {a:.2f} | {b:.2f} | {t:.2f} |\n" for s, t, a, b in OUT)
    summary += "".join(f"| AllGather | {MB[s]} MiB | {a:.2f} | {b:.2f} | {t:.2f} |\n" for s, t, a, b in GATHER)
    yield Shape("summary-of-two-tests", summary, (ONE, GATHERED), "nccl_summary.md")
    wiki = "h3. NCCL all_reduce, 2 nodes x 8 GPUs\n||Size||Time (us)||Bus BW (GB/s)||\n" + "".join(
        f"|{MB[s]}M|{t:.1f}|{b:.2f}|\n" for s, t, _, b in figures("all_reduce", 16)
    )
    yield Shape("confluence-markup", wiki, (Fact("all_reduce", 16, 3, 186.12, largest=LARGEST, time=2704.35),))
    spans = "".join(
        f"<tr><td>{MB[s]} MB</td><td>{t:.1f} \u00b5s</td><td><b>{b:.1f}</b> GB/s</td></tr>" for s, t, _, b in OUT
    )
    yield Shape(
        "html-units-in-cells",
        f"<h2>NCCL all_reduce on 8 GPUs</h2><table><thead><tr><th>Size</th><th>Latency</th><th>Bus bandwidth</th></tr></thead><tbody>{spans}</tbody></table>",
        (Fact("all_reduce", 8, 3, 173.7, largest=LARGEST, time=2704.4),),
        "page.html",
    )
    diff = "| Size | Before (GB/s) | After (GB/s) | Change |\n|---|---|---|---|\n" + "".join(
        f"| {MB[s]} MiB | {b:.2f} | {b * 1.1:.2f} | +10.0% |\n" for s, _, _, b in OUT
    )
    yield Shape("change-in-percent", f"## all_reduce busbw on 8 GPUs\n\n{diff}", (BARE,), "pr.md")
    bullets = "".join(f"- {MB[s]} MiB: {b:.2f} GB/s busbw ({t:.1f} us)\n" for s, t, _, b in OUT)
    yield Shape("bullets-of-prose", f"all_reduce, 8x H100:\n\n{bullets}", (ONE,), "notes.md")
    rated = "| Bytes | busbw | % of peak |\n|---|---|---|\n" + "".join(
        f"| {s} | {b:.2f} GB/s | {b / 4.5:.1f}% |\n" for s, _, _, b in OUT
    )
    yield Shape("per-cent-of-a-peak-unmarked", f"# all_reduce (8 GPUs)\n\n{rated}", (BARE,), "r.md")
    typst = "#table(columns: 3, [Size (B)], [Time (us)], [Busbw (GB/s)],\n" + "".join(f"  [{s}], [{t:.2f}], [{b:.2f}],\n" for s, t, _, b in OUT)  # fmt: skip
    yield Shape("typst-table", f"= all_reduce, 8 GPUs\n{typst})\n", (), "r.typ")


def fresh_data() -> Iterator[Shape]:
    """Files of data that scripts write."""
    points = [{"size_bytes": s, "time_us": round(t, 2), "algbw_gbps": round(a, 2), "busbw_gbps": round(b, 2)} for s, t, a, b in OUT]  # fmt: skip
    report = {"gpu_count": 8, "results": [{"test": "all_reduce", "avg_bus_bandwidth_gbps": 102.8, "data_points": points}]}  # fmt: skip
    yield Shape("data-points-of-a-shell-script", json.dumps(report, indent=1), (ONE,), "nccl_results.json")
    half = [
        {"size": s, "out_of_place": {"time": t, "alg_bw": a, "bus_bw": b}, "in_place": {"time": t, "alg_bw": a, "bus_bw": b}}
        for s, t, a, b in OUT
    ]  # fmt: skip
    yield Shape("results-alone-of-nccl-tests", json.dumps({"results": half}), (ONE,), "nccl_all_reduce_8gpus.json")
    lens = "Collective name,dtype,Group size,In msg size (MB),comm_latency_mean,comm_latency_median,comm_latency_min,comm_latency_max,algo bw (GB/s)_mean,bus bw (GB/s)_mean,count\n"
    lens += "".join(f"allreduce,BFloat16,8,{int(MB[s])}.0,{t:.2f},{t:.2f},{t * 0.9:.2f},{t * 1.1:.2f},{a / GIB:.3f},{b / GIB:.3f},12\n" for s, t, a, b in OUT)  # fmt: skip
    yield Shape("tracelens-summary-of-means", lens, (ONE,), "nccl_summary_long.csv")
    galvatron = {f"allreduce_size_{n}_consec_1": 153.1 + n for n in (2, 4, 8)}
    yield Shape("galvatron-bandwidths", json.dumps(galvatron, indent=1), (), "allreduce_bandwidth_1nodes_8gpus_per_node.json")  # fmt: skip
    gbench = {"benchmarks": {"all_reduce": {str(s): {"latency_us": t, "busbw_GBps": b} for s, t, _, b in OUT}}, "world_size": 8}  # fmt: skip
    yield Shape("benchmarks-by-name-and-size", json.dumps(gbench), (ONE,), "out.json")
    topo = [{"kind": "all_reduce", "world_size": 8, "message_kb": s // 1024, "mean_us": t, "busbw_GBps": b} for s, t, _, b in OUT]  # fmt: skip
    yield Shape("sizes-in-kb-as-a-key", "".join(json.dumps(row) + "\n" for row in topo), (ONE,), "links.jsonl")
    elements = "collective,num_gpus,num_elements,dtype,avg_time_ms,algbw_GBps,busbw_GBps\n" + "".join(
        f"AllReduce,8,{s // 4},float32,{t / 1e3:.5f},{a:.3f},{b:.3f}\n" for s, t, a, b in OUT
    )
    yield Shape("num-elements-and-dtype", elements, (ONE,), "r.csv")
    part = "collective,num_gpus,num_elements,dtype,avg_time_ms,algbw_GBps\n" + "".join(
        f"AllGather,8,{s // 32},float32,{t / 1e3:.5f},{a:.3f}\n" for s, t, a, _ in OUT
    )
    yield Shape("num-elements-of-one-rank", part, (), "r.csv", says="contradict")
    mixed = (
        "| Size | Time (ms) | AlgBW (GB/s) | BusBW (GB/s) |\n|---|---|---|---|\n| 4 KB | 0.02 | 0.20 | 0.35 |\n"
        + "".join(
            f"| {MB[s]} MB | {t / 1e3:.4f} | {int(MB[s]) * 1e3 / t:.2f} | {int(MB[s]) * 1e3 / t * 1.75:.2f} |\n"
            for s, t, _, _ in OUT
        )
    )
    decimal = Fact("all_reduce", 8, 4, 165.66, largest=256_000_000, time=2704.35)
    yield Shape("cells-of-a-thousand", f"# all_reduce, 8 GPUs\n\n{mixed}", (decimal,), "r.md")
    semi = "Kollektiv;GPUs;Bytes;Zeit_us;Busbandbreite\n" + "".join(f"AllReduce;8;{s};{t:.2f};{b:.2f}\n".replace(".", ",") for s, t, _, b in OUT)  # fmt: skip
    yield Shape("german-with-semicolons", semi, (ONE,), "r.csv")
    mlflow = "run_id,metric,step,value\n" + "".join(f"a1,all_reduce/{s}/busbw,0,{b:.2f}\n" for s, _, _, b in OUT)
    yield Shape("mlflow-long-form", mlflow, (), "metrics.csv")
    wide = "collective,1MB,16MB,256MB\nall_reduce," + ",".join(f"{b:.2f}" for *_, b in OUT) + "\n"
    yield Shape("wide-without-a-figure's-name", wide, (), "r.csv")
    ini = "[all_reduce]\nranks = 8\n" + "".join(f"busbw_{s} = {b:.2f}\n" for s, _, _, b in OUT)
    yield Shape("ini-with-sizes-in-names", ini, (), "r.ini")
    nested = {"nccl_tests": {"all_reduce_perf": {"nranks": 8, "rows": [[s, s // 4, "float", "sum", -1, t, a, b, 0, t, a, b, 0] for s, t, a, b in OUT]}}}  # fmt: skip
    yield Shape("rows-as-lists-without-names", json.dumps(nested), (), "r.json")


def fresh_refused() -> Iterator[Shape]:
    """Neighbours that measure something else: each named in a sentence."""
    yield Shape("refused-cuda-bandwidth-test", "[CUDA Bandwidth Test] - Starting...\nRunning on...\n\n Device 0: NVIDIA H100\n Quick Mode\n\n Host to Device Bandwidth, 1 Device(s)\n PINNED Memory Transfers\n   Transfer Size (Bytes)\tBandwidth(GB/s)\n   32000000\t\t\t55.3\n", (), says="bandwidthTest")  # fmt: skip
    yield Shape("refused-b-eff", "b_eff =   9342.123 MB/s = 583.883 * 16 PEs with 1024 MB/PE on Linux gpu-a1\nsummary file is b_eff.sum\n", (), says="b_eff")  # fmt: skip
    yield Shape("refused-mpigraph", "START mpiGraph v1.6\nMsgsize\t1048576\nTimes\t10\nWindow\t10\nProcs\t4\n\nSend\ta1\ta2\ta3\ta4\na1\t0.0\t11234.1\t11230.0\t11201.3\n", (), says="mpiGraph")  # fmt: skip
    yield Shape("refused-hpcc", "########################################################################\nThis is the DARPA/DOE HPC Challenge Benchmark version 1.5.0 October 2012\nRandomRingLatency_usec=2.1\nRandomRingBandwidth_GBytes=1.23\n", (), says="HPC Challenge")  # fmt: skip
    yield Shape("refused-linktest", "FZJ Linktest (2.1.17)\nArgs: --mode mpi\nRunning with 4 tasks\nStarting Test of all connections:\nParallel PingPong for step 1: avg: 5.1 us\n", (), says="Linktest")  # fmt: skip
    yield Shape("refused-ior", "IOR-4.0.0: MPI Coordinated Test of Parallel I/O\nBegan               : Mon Nov 23 10:00:00 2026\naccess    bw(MiB/s)  IOPS       Latency(s)  block(KiB)\nwrite     12345.67   12345      0.01        1048576\n", (), says="IOR")  # fmt: skip
    yield Shape("refused-torch-ddp-benchmark", "-----------------------------------\nPyTorch distributed benchmark suite\n-----------------------------------\n\n* PyTorch version: 2.9.0\n* Distributed backend: nccl\n\nBenchmark: resnet50 with batch size 32\n\n                            sec/iter    ex/sec      sec/iter    ex/sec\n   1 GPUs --   no ddp:  p50:  0.097s     329/s  p75:  0.097s     329/s\n   8 GPUs --    8/1N:  p50:  0.101s     317/s  p75:  0.102s     314/s\n", (), says="distributed benchmark")  # fmt: skip
    yield Shape("refused-horovod-synthetic", "Model: ResNet50\nBatch size: 32\nNumber of GPUs: 8\nRunning warmup...\nIter #0: 333.9 img/sec per GPU\nImg/sec per GPU: 333.2 +-1.3\nTotal img/sec on 8 GPU(s): 2665.6 +-10.1\n", (), says="img/sec")  # fmt: skip
    yield Shape("refused-astra-sim", "[2026-11-23 10:00:00.000] [workload] [info] sys[0] finished, 1234567 cycles, exposed communication 234567 cycles.\n[2026-11-23 10:00:00.001] [workload] [info] sys[1] finished, 1234567 cycles, exposed communication 234567 cycles.\n", (), says="ASTRA-sim")  # fmt: skip
    yield Shape("refused-ibdiagnet", "---------------------------------------------\nLoad Plugins from:\n/usr/share/ibdiagnet2.1.1/plugins/\n\n---------------------------------------------\nDiscovery\n-I- Discovering ... 18 nodes (2 Switches & 16 CA-s) discovered.\n-I- Links Speed Check finished successfully\n", (), says="ibdiagnet")  # fmt: skip
    yield Shape("refused-msgrate", "smb_msgrate: \njob size   : 8\nnpeers     : 6\nniters     : 4096\nnmsgs      : 128\nnbytes     : 8\ncache size : 16777216\nsingle direction : 1234567.89\npair-based  : 2345678.90\n", (), says="message rate")  # fmt: skip
    yield Shape("refused-mlxlink", "Operational Info\n----------------\nState                              : Active \nPhysical state                     : LinkUp \nSpeed                              : IB-NDR \nWidth                              : 4x \nFEC                                : Standard_RS-FEC\n\nTroubleshooting Info\n--------------------\nStatus Opcode                      : 0 \n", (), says="mlxlink")  # fmt: skip
