"""Logs of further tools, clusters and pages: the facts were written before the first try, halves by the hash of the name."""

# ruff: noqa: E501, RUF001 - the lines are as wide as the tools print them, in the languages of their writers

from __future__ import annotations

import json
from collections.abc import Iterator

from world_corpus import Fact, Shape, fact, prefixed
from world_tables import OUT
from world_told import JOB, LARGEST, ONE, UNITS, told_shapes
from world_writers import HEADER, SIZES, Job, busbw, footer, nccl_tests, parameters, preamble, row, rows, time_of

OTHER = Job("all_gather", 16, ("node-1", "node-2"))
TEXT = nccl_tests(JOB)
LINES = TEXT.splitlines()
BARE = Fact("all_reduce", 8, 3, 173.71, largest=LARGEST)


def inference_shapes() -> Iterator[Shape]:
    """Benchmarks of inference engines and of symmetric memory: a column for each way, times in milliseconds."""
    head = f"{'Tensor Shape':<20}{'Tensor Size':<15}{'ca_1stage':<20}{'pynccl':<20}{'symm_mem_two_shot':<20}{'Best (Speedup vs PyNccl)':<30}"
    body = "".join(
        f"{f'({tokens}, 8192)':<20}{f'{tokens / 64:.2f} MB':<15}{first:<20}{tokens / 2000 + 0.02:<20.3f}{tokens / 3000 + 0.02:<20.3f}{'symm_mem_two_shot (1.31x)':<30}\n"
        for tokens, first in ((32, "0.007"), (512, "0.301"), (2048, "N/A"))
    )
    vllm = f"\n{'=' * 130}\nDevice Communicator Benchmark Results\nWorld Size: 2, Data Type: torch.bfloat16, Hidden Size: 8192\n{'=' * 130}\n{head}\n{'-' * len(head)}\n{body}{'=' * 130}\nAll times are in milliseconds (ms) per allreduce operation\nSpeedup column shows: fastest_algorithm (speedup_vs_pynccl)\n"
    yield Shape(
        "vllm-device-communicators",
        vllm,
        (
            Fact("all_reduce", 2, 2, None, largest=8 << 20, time=301.0),
            Fact("all_reduce", 2, 3, None, largest=32 << 20, time=1044.0),
            Fact("all_reduce", 2, 3, None, largest=32 << 20, time=703.0),
        ),
    )
    sglang = "SYMM_MEM:\n| msg_size   |   torch eager time |   symm mem eager time |   symm mem graph time |   pynccl graph time |\n|------------|--------------------|-----------------------|-----------------------|---------------------|\n| 2.0 KiB    |            48.6752 |               42.6112 |               8.95296 |             16.4637 |\n| 4.0 MiB    |            66.304  |               57.6096 |               48.99104 |             58.583  |\n"
    yield Shape("sglang-times-without-unit", sglang, (), says="unit")
    yield Shape(
        "vllm-one-size-per-table",
        "# Fused all-reduce\n\n**World Size:** 8\n\n#### Input Size: 8.00 MiB (num_tokens=512)\n\n| Operation | Time (ms) | Speedup |\n|-----------|-----------|---------|\n| Standard Allreduce Native Rms Norm | 0.103 | 0.42x |\n| Flashinfer Mnnvl Fused Allreduce Rmsnorm Oneshot | **0.039** | 1.08x |\n",
        (),
        "page.md",
        says="size",
    )
    yield Shape(
        "flashinfer-rows-are-tokens",
        "### All-gather — TP4\n\n| Rows | H4096 NCCL (µs) | H4096 Ours (µs) | Speedup |\n|---:|---:|---:|---:|\n| 1 | 8.31 | 4.08 | 2.04× |\n| 1024 | 254.34 | 175.90 | 1.45× |\n",
        (),
        "page.md",
        says="size",
    )
    yield Shape(
        "vllm-edge-payloads",
        "## all-reduce\n\n| Topology | Strict cutoff | Edge payload | FlashInfer AUTO | Fallback | Fallback / FI - 1 |\n|---|---:|---:|---:|---:|---:|\n| TP2, 1 node | 64 MiB (existing) | 63.998 MiB | 146.95 us | 149.75 us | 1.9% |\n| TP4, 1 node | 80 MiB | 79.994 MiB | 209.26 us | 237.86 us | 13.7% |\n",
        (),
        "page.md",
    )


def symmetric_shapes() -> Iterator[Shape]:
    """Tables of one collective in several ways, and what has no size or no unit."""
    each = [(kb, kb * 1024 * 7 / bandwidth / 1e6) for kb, bandwidth in ((4, 0.24), (1024, 52.65), (8192, 193.18))]
    gather = "".join(
        f"{kb:>12} | {ms:>18.4f} | {ms / 2:>18.4f} | {kb * 7168e-6 / ms:>18.2f} | {kb * 14336e-6 / ms:>18.2f}\n"
        for kb, ms in each
    )
    yield Shape(
        "nvshmem-beside-nccl",
        f"{'=' * 95}\n All-Gather Benchmark (world_size=8, dtype=torch.bfloat16)\n Warmup Iterations: 10, Benchmark Iterations: 50\n{'=' * 95}\n   Size (KB) |     NCCL Time (ms) |  NVSHMEM Time (ms) |     NCCL BW (GB/s) |  NVSHMEM BW (GB/s)\n{'-' * 96}\n{gather}",
        (
            Fact("all_gather", 8, 3, 193.18, largest=64 << 20, time=304.0),
            Fact("all_gather", 8, 3, 386.36, largest=64 << 20, time=152.0),
        ),
        says="one rank",
    )
    yield Shape(
        "torch-effective-gbps",
        "# all_reduce\n\n| backend | world_size | tensor_mb | mean_ms | std_ms | effective_gbps |\n| --- | --- | --- | --- | --- | --- |\n"
        + "".join(
            f"| nccl | 8 | {size >> 20} | {time_of(size) / 1000:.4f} | 0.01 | {busbw('all_reduce', 8, size) * 8:.2f} |\n"
            for size in SIZES
        ),
        (Fact("all_reduce", 8, 3, 173.71, largest=LARGEST, time=2704.35),),
        "page.md",
    )
    yield Shape(
        "deepep-tuning",
        "[config] num_tokens=4096, hidden=7168, num_topk=8\n[tuning] Best dispatch (FP8): SMs 24, NVL chunk 28, RDMA chunk 16: 53.22 GB/s (RDMA), 173.60 GB/s (NVL), t: 1234.5 us\n[tuning] Best combine: SMs 24, NVL chunk 4: 160.12 GB/s (NVL), t: 987.1 us\n",
        (),
        says="dispatch",
    )


def accelerator_shapes() -> Iterator[Shape]:
    """Benchmarks of other makers' libraries."""
    hccl = "".join(
        f"{size:<18}| {time_of(size):>12.2f}    | {size / time_of(size) / 1000:>14.5f}       | success\n"
        for size in SIZES
    )
    yield Shape(
        "hccl-test-newer-header",
        f"# mpirun -n 8 ./bin/all_reduce_test -b 1M -e 256M -f 16 -d fp32 -o sum -p 8\nthe minbytes is 1048576, maxbytes is 268435456, iters is 20, warmup_iters is 5\ndata_size(Bytes): |   avg_time(us): | alg_bandwidth(GB/s): | check_result:\n{hccl}",
        (Fact("all_reduce", 8, 3, None, largest=LARGEST, time=2704.35),),
    )
    shmem = "".join(
        f"{size:<12}{size // 4:<10}int       sum       {time_of(size):<18.6f}{time_of(size):<18.3f}{time_of(size):<18.3f}{size / time_of(size) / 1000:<14.3f}{busbw('all_reduce', 8, size):.3f}\n"
        for size in SIZES
    )
    yield Shape(
        "nvshmem-reduction-on-stream",
        f"Runtime options after parsing command line arguments\nmin_size: 4, max_size: 268435456, step_factor: 2, iterations: 10\n#reduction_on_stream\nsize(B)     count     type      redop     latency(us)       min_lat(us)       max_lat(us)       algbw(GB/s)   busbw(GB/s)\n{shmem}",
        (BARE,),
        says="",
    )
    scope = "".join(
        f"{size:<12}{size // 4:<10}32-bit    block     {time_of(size):<16.6f}{size / time_of(size) / 1000:<14.3f}{busbw('alltoall', 32, size):.3f}\n"
        for size in SIZES
    )
    yield Shape(
        "nvshmem-alltoall-latency",
        f"#alltoall_device\nsize(B)     count     type      scope     latency(us)       algbw(GB/s)   busbw(GB/s) \n{scope}",
        (Fact("alltoall", 32, 3, 96.16, largest=LARGEST, time=2704.35),),
    )
    ccl = "".join(
        f"{size:>15} {size // 4:>15} {20:>15} {time_of(size) * 0.9:>15.2f} {time_of(size) * 1.1:>15.2f} {time_of(size):>15.2f} {1.5:>15.2f} {0.8:>15.2f}\n"
        for size in SIZES
    )
    yield Shape(
        "oneccl-with-element-counts",
        f"options:\n  processes:      8\n  backend:        sycl\n  iters:          20\n  collectives:    allreduce\n  datatypes:      float32\n\n#------------------------------------------------------------\n# Benchmarking: allreduce\n# #processes: 8\n#------------------------------------------------------------\n\n         #bytes      elem_count    #repetitions      t_min[usec]      t_max[usec]      t_avg[usec]       stddev[%]  wait_t_avg[usec]\n{ccl}\n# All done\n",
        (Fact("all_reduce", 8, 3, None, largest=LARGEST, time=2704.35),),
    )


def maker_shapes() -> Iterator[Shape]:
    """Benchmarks of other makers' libraries, from other programs than their own tests."""
    julia = "size (bytes),iterations,min_time (seconds),max_time (seconds),avg_time (seconds)\n" + "".join(
        f"{size},64,{time_of(size) * 0.9e-6:.12g},{time_of(size) * 1.2e-6:.12g},{time_of(size) * 1e-6:.12g}\n"
        for size in SIZES
    )
    yield Shape(
        "julia-mpi-benchmarks",
        f"Running benchmark OSU Allreduce with type Float32 on 2 MPI ranks\n\n{julia}",
        (Fact("all_reduce", 2, 3, None, largest=LARGEST, time=2704.35),),
    )
    nccom = "".join(
        f"{size:>16}{size // 4:>16}{'fp32':>8}{time_of(size):>14.2f}{time_of(size) * 0.99:>14.2f}{size / time_of(size) / 1000:>14.2f}{busbw('all_reduce', 8, size):>14.2f}\n"
        for size in SIZES
    )
    yield Shape(
        "nccom-test-percentiles",
        f"$ nccom-test -r 8 -d fp32 -b 1M -e 256M --stats avg p50 -- allr\n         size(B)    count(elems)    type  time:avg(us)  time:p50(us)   algbw(GB/s)   busbw(GB/s)\n{nccom}Avg bus bandwidth:\t127.0GB/s\n",
        (ONE,),
    )
    yield Shape(
        "ascend-in-chinese",
        "## AllReduce（8卡）\n\n| 数据量(Bytes) | 耗时(us) | 算法带宽(GB/s) |\n| --- | --- | --- |\n"
        + "".join(f"| {size} | {time_of(size):.2f} | {size / time_of(size) / 1000:.2f} |\n" for size in SIZES),
        (Fact("all_reduce", 8, 3, None, largest=LARGEST, time=2704.35),),
        "page.md",
    )
    yield Shape(
        "chinese-ranks-across-without-size",
        "## 任务结果\n\n| 指标      |    2卡 | 4卡  |8卡  |\n| :--- | ---:| :--: |:--: |\n| all-reduce  | 319| 224|253|\n| broadcast     | 344| 338|338|\n",
        (),
        "Readme.md",
    )


def pasted_shapes() -> Iterator[Shape]:
    """What pages, chats and pastes make of a log."""
    squeezed = ["- " + " ".join(line.split()) for line in LINES]
    yield Shape(
        "pastebin-bullets-and-single-spaces",
        "Advertisement\nNot a member of Pastebin yet?\n" + "\n".join(squeezed) + "\n",
        (fact(JOB),),
    )
    gist = "".join(f"{' '.join(line.split())} | |\n" for line in LINES)
    yield Shape("gist-as-a-table", f"Created\nMay 11, 2019 00:33\n{gist}", (fact(JOB),))
    imb = "".join(
        f"- {size} 20 {time_of(size) * 0.9:.2f} {time_of(size) * 1.1:.2f} {time_of(size):.2f}\n" for size in SIZES
    )
    yield Shape(
        "pastebin-imb",
        f"- #----------------------------------------------------------------\n- # Benchmarking Allreduce\n- # #processes = 16\n- #----------------------------------------------------------------\n- #bytes #repetitions t_min[usec] t_max[usec] t_avg[usec]\n{imb}",
        (Fact("all_reduce", 16),),
    )
    yield Shape(
        "details-with-two-fences",
        f"# Report\n\n<details>\n<summary>all_reduce, one node</summary>\n\n```shell\n$ ./build/all_reduce_perf -b 1M -e 256M -f 16 -g 8\n{TEXT}```\n</details>\n\n<details>\n<summary>all_gather</summary>\n\n```text\n$ mpirun -np 16 ./build/all_gather_perf -b 1M\n{nccl_tests(OTHER)}```\n</details>\n",
        (fact(JOB), fact(OTHER)),
        "report.md",
    )
    cut = "\n".join(line[:96] for line in LINES)
    yield Shape("cut-at-96-columns", cut + "\n", (Fact("all_reduce", 8, 3, 173.71),), says="")
    narrow = "\n".join(line[:79] for line in LINES)
    yield Shape("cut-at-79-columns", narrow + "\n", (Fact("all_reduce", 8, 3, 173.71),))
    within = "\n".join(line[:75] for line in LINES)
    yield Shape("cut-within-the-bandwidth", within + "\n", (), says="no header")
    copied = "\n".join(line.replace("  ", "\u2003 ") if line and not line.startswith("#") else line for line in LINES)
    yield Shape("em-spaces-of-a-web-page", copied + "\n", (fact(JOB),))
    times = "".join(f"Mon Nov 23 07:12:{at:02d} UTC 2026\n{line}\n" for at, line in enumerate(rows(JOB).splitlines()))
    yield Shape("dates-between-rows", preamble(JOB) + HEADER + times + footer(JOB), (fact(JOB),))
    loop = "".join(f"==== size {size} ====\n{parameters(JOB)}{HEADER}{row(JOB, size)}\n{footer(JOB)}" for size in SIZES)
    yield Shape("a-table-for-each-size", loop, tuple(Fact("all_reduce", 8, 1, round(busbw("all_reduce", 8, size), 2), largest=size) for size in SIZES), "all_reduce_8gpus.log", says="")  # fmt: skip


def spreadsheet_shapes() -> Iterator[Shape]:
    """Sheets as they are saved in several countries."""
    grouped = [f"{float(out[0]):,.2f}".replace(",", "\u202f").replace(".", ",") for out in OUT]
    comma = [[cell.replace(".", ",") for cell in out] for out in OUT]
    french = zip(UNITS, grouped, comma, strict=True)
    sheet = "Taille;Temps (µs);algbw (Go/s);busbw (Go/s)\n" + "".join(
        f"{unit};{time};{out[1]};{out[2]}\n" for unit, time, out in french
    )
    yield Shape("csv-french", sheet, (ONE,), "all_reduce.csv")
    swiss = "size;time (us);algbw (GB/s);busbw (GB/s)\n" + "".join(
        f"{size:,};{float(out[0]):,.2f};{out[1]};{out[2]}\n".replace(",", "'")
        for size, out in zip(SIZES, OUT, strict=True)
    )
    yield Shape("csv-swiss", swiss, (ONE,), "all_reduce.csv")
    german = "Größe (Byte);Zeit (µs);algbw (GB/s);busbw (GB/s)\n" + "".join(
        f"{size};{out[0]};{out[1]};{out[2]}\n".replace(".", ",") for size, out in zip(SIZES, OUT, strict=True)
    )
    yield Shape("csv-german-words", german, (ONE,), "all_reduce.csv")
    quoted = "Size,Time (us),Algbw (GB/s),Busbw (GB/s)\n" + "".join(
        f'"{size:,}","{float(out[0]):,.2f}",{out[1]},{out[2]}\n' for size, out in zip(SIZES, OUT, strict=True)
    )
    yield Shape("csv-all-thousands-in-quotes", quoted, (ONE,), "all_reduce.csv")
    words = "Size,Time,AlgBW,BusBW\n" + "".join(
        f"{unit.replace('i', '')},{float(out[0]) / 1000:.4f} ms,{out[1]} GB/s,{out[2]} GB/s\n"
        for unit, out in zip(UNITS, OUT, strict=True)
    )
    yield Shape("csv-units-behind-figures", words, (ONE,), "allreduce.csv")
    yield Shape("only-bus-bandwidths", "## all_reduce, 8 GPUs\n\n| Size | BusBW (GB/s) |\n|---|---|\n" + "".join(f"| {unit} | {out[2]} |\n" for unit, out in zip(UNITS, OUT, strict=True)), (BARE,), "page.md")  # fmt: skip


def cluster_shapes() -> Iterator[Shape]:
    """What launchers and platforms put around the lines."""
    yield Shape("flux-label-io", prefixed(TEXT, lambda _: "0: "), (fact(JOB),))
    yield Shape("pals-label", prefixed(TEXT, lambda _: "x3006c0s13b0n0 0: "), (fact(JOB),))
    broken = []
    for line in LINES:
        if line.lstrip()[:1].isdigit() and "float" in line:
            at = line.index("-1") + 2
            note = "[0] h100-1:497888:497888 [0] NCCL INFO 256 Bytes -> Algo 0 proto 0 time 25.229528"
            broken += [f"[0] {line[:at]}{note}", note, note, f"[0] {line[at:]}"]
        else:
            broken.append(f"[0] {line}")
    yield Shape("hydra-rows-broken-by-messages", "\n".join(broken) + "\n", (fact(JOB),))
    script = "#!/bin/bash\n#SBATCH --job-name=rccl_tests\n#SBATCH --output=jid-%j.name-%x.log\n#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-node=8\n#SBATCH --nodes=2\n\nset -euxo pipefail\nexport NCCL_IB_QPS_PER_CONNECTION=2\nsrun --mpi=pmix /opt/rccl-tests/all_gather_perf -b 1M -e 256M -f 16 -g 1\n\n"
    yield Shape(
        "sbatch-above-rows-of-rccl",
        f"{script}rccl-tests: Version develop:448c4c7\n# Collective test starting: all_gather_perf\n{HEADER}{rows(OTHER)}{footer(OTHER)}",
        (fact(OTHER),),
    )
    old = TEXT.replace("validation: 1", "validation: 1 single_test: 0 test_buffer_kind: 2")
    old = "\n".join(line.removeprefix("#") for line in old.splitlines())
    yield Shape("fork-with-more-parameters", f"mpirun -np 8 all_reduce_perf -b 32 -f 2 -e 8G\n{old}\n", (fact(JOB),))
    array = "".join(
        f"SLURM_ARRAY_JOB_ID=77 SLURM_ARRAY_TASK_ID={task} host gpu-{task}\n{nccl_tests(Job('all_reduce', 8, (f'gpu-{task}',)))}"
        for task in range(3)
    )
    yield Shape("slurm-array-in-one-file", array, (fact(JOB),) * 3, "nccl-77.out")
    requeued = f"{preamble(JOB)}{HEADER}{row(JOB, SIZES[0])}\nslurmstepd: error: *** JOB 77 ON gpu-a1 CANCELLED AT 2026-11-23T07:00:00 DUE TO PREEMPTION ***\n{TEXT}"
    yield Shape("slurm-requeued", requeued, (Fact("all_reduce", 8, 1), fact(JOB)))
    efa = "Warning: Permanently added '[10.0.0.4]:2222' (ED25519) to the list of known hosts.\r\n" + "".join(
        f"[1,{rank}]<stdout>:ip-10-0-0-{rank // 8}:77:77 [{rank % 8}] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 32 nics)\n"
        for rank in range(16)
    )
    yield Shape("eks-mpijob", efa + prefixed(nccl_tests(OTHER), lambda _: "[1,0]<stdout>:"), (fact(OTHER),))
    gke = "".join(
        f"nccl-test-host-{rank // 8}:77:77 [{rank % 8}] NCCL INFO NET/FasTrak plugin initialized\n" for rank in range(8)
    )
    yield Shape("gke-kubectl-exec", f"Initializing SSH...\nHello from 10.52.0.7\n{gke}{TEXT}", (fact(JOB),))
    status = {"apiVersion": "nvcre.nvidia.com/v1alpha1", "kind": "BandwidthMeasurement", "spec": {"testType": "all_reduce"},
              "status": {"results": [{"sizeBytes": size, "algBW": f"{size / time_of(size) / 1000:.2f}", "busBW": f"{busbw('all_reduce', 8, size):.2f}", "samples": 3} for size in SIZES]}}  # fmt: skip
    yield Shape(
        "kubectl-bandwidth-measurement",
        json.dumps(status, indent=4),
        (Fact("all_reduce", 8, 3, 173.71, largest=LARGEST),),
        "bm.json",
    )
    pushed = "".join(
        f'nccl_busbw_gbps{{collective="all_reduce",size="{size}",nodes="1"}} {busbw("all_reduce", 8, size):.2f}\n'
        for size in SIZES
    )
    yield Shape("prometheus-gauges", f"# TYPE nccl_busbw_gbps gauge\n{pushed}", (), "metrics.prom", says="Prometheus")
    mine = {"cluster": "a", "nodes": 2, "gpus_per_node": 8, "test": "all_gather_perf", "results": [{"size": size, "time_us": round(time_of(size), 2), "busbw": round(busbw("all_gather", 16, size), 2)} for size in SIZES]}  # fmt: skip
    yield Shape(
        "json-nodes-and-gpus",
        json.dumps(mine),
        (Fact("all_gather", 16, 3, 93.06, largest=LARGEST, time=2704.35),),
        "run.json",
    )


NAMED = {
    "nsys-csv": ("Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n44.1,123456789,400,308641.9,301000.0,20000,900000,1000.1,\"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)\"\n", "Nsight Systems"),
    "nsys-older-csv": ("Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name\n44.1,123456789,400,308641.9,20000,900000,ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)\n", "Nsight Systems"),
    "ncu-csv": ('"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"\n"0","77","all_reduce_perf","127.0.0.1","ncclDevKernel_AllReduce_Sum_f32_RING_LL","1","7","(544, 1, 1)","(24, 1, 1)","0","9.0","GPU Speed Of Light Throughput","Duration","us","35.2"\n', "Nsight Compute"),
    "mlperf-mllog": (':::MLLOG {"namespace": "", "time_ms": 1600000000000, "event_type": "INTERVAL_START", "key": "run_start", "value": null, "metadata": {"file": "train.py", "lineno": 77}}\n', "MLPerf"),
    "dcgm-json": ('{"category":"DCGM Diagnostic","metadata":{"DCGM Version":"3.3.5"},"test_categories":[{"category":"Hardware","tests":[{"name":"nvbandwidth","results":[{"status":"Pass"}]}]}]}\n', "DCGM"),
    "dcgm-dmon": ("#Entity   NVLTX      NVLRX\nID\nGPU 0     123456     123456\nGPU 0     123999     123999\n", "DCGM"),
    "ibv-pingpong": ("  local address:  LID 0x0001, QPN 0x00004a, PSN 0x1d2b3c, GID ::\n  remote address: LID 0x0002, QPN 0x00004b, PSN 0x4d5e6f, GID ::\n8192000 bytes in 0.01 seconds = 9834.26 Mbit/sec\n1000 iters in 0.01 seconds = 6.66 usec/iter\n", "pair"),
    "osu-latency-pt2pt": ("# OSU MPI Latency Test v7.4\n# Datatype: MPI_CHAR.\n# Size       Avg Latency(us)\n1                       1.33\n2                       1.34\n", "no collective"),
    "osu-bw-pt2pt": ("# OSU MPI-CUDA Bandwidth Test v7.2\n# Size      Bandwidth (MB/s)\n1                       0.33\n4194304             24321.34\n", "no collective"),
    "nixlbench": ("****************************************\n    NIXLBench Configuration\n****************************************\nBlock Size (B)      Batch Size     B/W (GB/Sec)   Avg Lat. (us)  Avg Prep (us)  P99 Prep (us)\n----------------------------------------\n4096                1              0.512          8.0            1.0            2.0\n65536               1              6.553          10.0           1.0            2.0\n", "pair"),
    "dd-and-fio": ("seq-read: (groupid=0, jobs=1): err= 0: pid=77: Mon Nov 23 07:00:00 2026\n  read: IOPS=12.3k, BW=1540MiB/s (1615MB/s)(90.2GiB/60001msec)\n", "storage"),
    "osu-gist-of-three-libraries": ("OpenMPI | MPICH | MPICH_IB (UCX) | |||||\n---|---|---|---|---|---|---|---|\nSize | Latency (us) | Bandwidth (MB/s) | Latency (us) | Bandwidth (MB/s) | Latency (us) | Bandwidth (MB/s) | |\n0 | 0.9 | 26.32 | 0.95 | ||||\n4096 | 3.28 | 7335.49 | 234.99 | 105.49 | 2.98 | 7204.72 | |\n", ""),
    "tpu-collective-metrics": ('{"metrics": {"ici_bandwidth_gbyte_s_p50": 81.2, "step_time_ms_p50": 3.1}, "dimensions": {"test_name": "all_gather", "matrix_dim": 8192, "dtype": "bfloat16"}}\n', ""),
    "health-check-line": ("2026-11-23T07:00:00Z node gpu-a1 check=nccl_all_reduce result=PASS busbw=472.1 threshold=460.0\n", ""),
}  # fmt: skip
"""What is no table of collectives: by name, the beginning of a file and a word of the sentence that names it."""


def named_shapes() -> Iterator[Shape]:
    for name, (text, says) in NAMED.items():
        yield Shape(
            f"wild-{name}", text, (), "x.json" if text[:1] == "{" else "x.csv" if "csv" in name else "x.txt", says=says
        )


def wild_shapes() -> Iterator[Shape]:
    """All of this file."""
    yield from inference_shapes()
    yield from symmetric_shapes()
    yield from accelerator_shapes()
    yield from maker_shapes()
    yield from pasted_shapes()
    yield from spreadsheet_shapes()
    yield from cluster_shapes()
    yield from named_shapes()
    yield from told_shapes()
