"""What loggers, services, posts and hands make of results, and results that contradict themselves: facts before the first try."""

# ruff: noqa: E501, RUF001 - the lines are as wide as the tools print them, in the languages of their writers

from __future__ import annotations

import html
import json
from collections.abc import Iterator

from world_corpus import Fact, Shape, fact, prefixed
from world_scripts import GATHER, JOB, LARGEST, LINES, MB, ONE, OUT, TEXT
from world_writers import HEADER, SIZES, busbw, footer, preamble, row, rows, time_of

ONE_TABLE = (fact(JOB),)


def logger_shapes() -> Iterator[Shape]:
    """Every line through a logger of some language, or through a service."""
    yield Shape(
        "python-logging", prefixed(TEXT, lambda n: f"2026-01-02 03:04:{n % 60:02d},123 - INFO - run_nccl - "), ONE_TABLE
    )
    yield Shape("python-basic-config", prefixed(TEXT, lambda _: "INFO:root:"), ONE_TABLE)
    yield Shape(
        "loguru-with-pipes",
        prefixed(TEXT, lambda n: f"2026-01-02 03:04:{n % 60:02d}.678 | INFO     | __main__:run:42 - "),
        ONE_TABLE,
    )
    yield Shape(
        "zap-console",
        prefixed(TEXT, lambda n: f"2026-01-02T03:04:{n % 60:02d}.000Z\tINFO\tbench/run.go:88\t"),
        ONE_TABLE,
    )
    yield Shape(
        "glog-lines", prefixed(TEXT, lambda n: f"I0102 03:04:{n % 60:02d}.123456  4711 runner.cc:88] "), ONE_TABLE
    )
    logfmt = "".join(f'time="2026-01-02T03:04:05Z" level=info msg={json.dumps(line)}\n' for line in LINES)
    yield Shape("logrus-text", logfmt, ONE_TABLE)
    slog = "".join(json.dumps({"time": "2026-01-02T03:04:05Z", "level": "INFO", "msg": line}) + "\n" for line in LINES)
    yield Shape("slog-json", slog, ONE_TABLE)
    otel = "".join(
        json.dumps(
            {"Timestamp": "1735787045", "SeverityText": "INFO", "Body": line, "Resource": {"host.name": "gpu-a1"}}
        )
        + "\n"
        for line in LINES
    )
    yield Shape("opentelemetry-body", otel, ONE_TABLE)
    victoria = "".join(
        json.dumps({"_time": "2026-01-02T03:04:05Z", "_stream": '{pod="nccl-0"}', "_msg": line}) + "\n"
        for line in LINES
    )
    yield Shape("victorialogs-msg", victoria, ONE_TABLE)
    cri = prefixed(TEXT, lambda n: f"2026-01-02T03:04:{n % 60:02d}.123456789Z stdout F ")
    yield Shape("cri-of-containerd", cri, ONE_TABLE)
    yield Shape("stern-above-tags", prefixed(TEXT, lambda _: "nccl-launcher-x7k2p launcher [1,0]<stdout>: "), ONE_TABLE)
    yield Shape("ts-with-brackets", prefixed(TEXT, lambda n: f"[2026-01-02 03:04:{n % 60:02d}] "), ONE_TABLE)
    yield Shape("ts-since-start", prefixed(TEXT, lambda n: f"00:00:{n % 60:02d}.123456 "), ONE_TABLE)
    yield Shape("cat-n", "".join(f"{at:6d}\t{line}\n" for at, line in enumerate(LINES, 1)), ONE_TABLE)
    yield Shape(
        "grep-n-of-rows",
        "".join(f"{at}:{line}\n" for at, line in enumerate(LINES, 1) if " float " in line),
        (Fact("all_reduce", 8, 3, 173.71),),
        "all_reduce_8gpu.txt",
    )
    yield Shape(
        "quoted-and-indented-tags",
        "".join(f">         [1,0]<stdout>:{line}{' ' * 40}\n" for line in LINES),
        ONE_TABLE,
        "issue.md",
    )
    yield Shape(
        "completed-process",
        f"CompletedProcess(args=['./all_reduce_perf', '-g', '8'], returncode=0, stdout={TEXT!r}, stderr='')\n",
        ONE_TABLE,
    )
    yield Shape("bytes-of-python", f"{TEXT.encode()!r}\n", ONE_TABLE)
    yield Shape(
        "yaml-in-double-quotes",
        f"job: nccl\nresult:\n  output: {json.dumps(TEXT)}\n  rc: 0\n",
        ONE_TABLE,
        "result.yaml",
    )
    jenkins = "".join(f'<span class="timestamp"><b>03:04:05</b> </span>{html.escape(line)}\n' for line in LINES)
    yield Shape(
        "jenkins-console-html",
        f'<html><body><pre class="console-output">{jenkins}</pre></body></html>\n',
        ONE_TABLE,
        "consoleText.html",
    )
    confluence = f'<ac:structured-macro ac:name="code"><ac:plain-text-body><![CDATA[{TEXT}]]></ac:plain-text-body></ac:structured-macro>\n'
    yield Shape("confluence-code-macro", f"<h2>Results</h2>{confluence}", ONE_TABLE, "page.html")
    google = "insertId,textPayload,timestamp\n" + "".join(
        f'a{at},"{line}",2026-01-02T03:04:05Z\n' for at, line in enumerate(LINES)
    )
    yield Shape("google-logs-as-csv", google, ONE_TABLE, "downloaded-logs.csv")
    tty = "".join(f"\x1b[2K\r\x1b[1A{line}\x1b[0m\x1b[K\r\n" for line in LINES)
    yield Shape("terminal-that-erases-lines", tty, ONE_TABLE)
    strace = prefixed(TEXT, lambda n: f"{n * 0.1:10.6f} ")
    yield Shape("seconds-before-each-line", strace, ONE_TABLE)


def post_shapes() -> Iterator[Shape]:
    """Tables of reports and posts."""
    t11 = "".join(
        f"| {'**' if s == LARGEST else ''}{MB[s]} MiB{'**' if s == LARGEST else ''} | {t / 1000:.2f} ms | {a:.1f} GB/s | {busbw('all_reduce', 16, s):.1f} GB/s |\n"
        for s, t, a, _ in OUT
    )
    yield Shape(
        "report-with-units-in-cells",
        f"## T11 — NCCL AllReduce (PASS)\n\n16 ranks (8 per pod) × H100 × 2 nodes, `torch.distributed` init over tcp://, backend=nccl.\n\n**Bandwidth sweep (ring AllReduce):**\n\n| size | time | algbw | busbw |\n|---|---|---|---|\n{t11}",
        (Fact("all_reduce", 16, 3, 186.1, largest=LARGEST),),
        "report.md",
    )
    japan = "".join(f"| {MB[s]} MB | {a:.1f} GB/s | {busbw('all_reduce', 16, s):.1f} GB/s |\n" for s, _, a, _ in OUT)
    yield Shape(
        "japanese-message-size",
        f"### AllReduce、2 ノード 16 GPU\n\nbusbw 実測値:\n\n| メッセージサイズ | algbw | busbw |\n|---|---|---|\n{japan}\n平均 busbw は 57.0 GB/s でした。\n",
        (Fact("all_reduce", 16, 3, 186.1, largest=LARGEST),),
        "page.md",
    )
    korea = "".join(f"| {s} | {t:.2f} | {a:.2f} | {b:.2f} |\n" for s, t, a, b in OUT)
    yield Shape(
        "korean-columns",
        f"## AllReduce 결과 (8 GPU)\n\n| 크기 (B) | 시간 (us) | 알고리즘 대역폭 (GB/s) | 버스 대역폭 (GB/s) |\n|---|---|---|---|\n{korea}",
        (ONE,),
        "page.md",
    )
    polish = "".join(f"{s};{t:.2f};{a:.2f};{b:.2f}\n".replace(".", ",") for s, t, a, b in OUT)
    yield Shape(
        "polish-columns", f"Rozmiar (B);Czas (µs);algbw (GB/s);busbw (GB/s)\n{polish}", (ONE,), "all_reduce.csv"
    )
    tier = "".join(f"| {MB[s]} MiB | {a:.2f} | {busbw('all_reduce', 4, s):.2f} | 0 |\n" for s, _, a, _ in OUT)
    yield Shape(
        "no-units-and-an-average-row",
        f"## Tier 4 — Single-node 4-GPU NCCL ring all_reduce\n\n`all_reduce_perf -b 8 -e 1G -f 2 -g 4` (no MPI, 4 GPUs in one process)\n\nSelected sizes:\n\n| Size | algbw | busbw | wrong |\n|---|---|---|---|\n{tier}| Avg busbw | — | 155.83 GB/s | — |\n",
        (Fact("all_reduce", 4, 3, 148.89, largest=LARGEST),),
        "page.md",
    )
    peak = "".join(
        f"| {name} | 1 GiB | {algbw:.2f} | {algbw * part:.2f} |\n"
        for name, algbw, part in (
            ("all_reduce", 300.0, 2 * 71 / 72),
            ("all_gather", 500.0, 71 / 72),
            ("broadcast", 480.0, 1.0),
        )
    )
    yield Shape(
        "a-row-for-each-collective",
        f"## Full NVL72, 72 GPUs\n\nPeak busbw per collective at 1 GiB:\n\n| Collective | Size | algbw | busbw |\n|---|---|---|---|\n{peak}",
        (
            Fact("all_reduce", 72, 1, 591.67, largest=1 << 30),
            Fact("all_gather", 72, 1, 493.06, largest=1 << 30),
            Fact("broadcast", 72, 1, 480.0, largest=1 << 30),
        ),
        "page.md",
    )
    lowest = "| Collective | Size | AlgBW (GB/s) | BusBW (GB/s) | Latency (us) |\n|---|---|---|---|---|\n| AllReduce | 8 GiB | 274.13 | 479.72 | 32.55 |\n| AllGather | 256 MiB | 209.25 | 183.09 | 46.42 |\n"
    yield Shape("peak-beside-the-lowest-latency", f"# Results on 8 GPUs\n\n{lowest}", (), "page.md", says="contradict")
    powers = "".join(f"| 2^{s.bit_length() - 1} | {t:.2f} | {a:.2f} | {b:.2f} |\n" for s, t, a, b in OUT)
    yield Shape(
        "sizes-as-powers",
        f"# all_reduce, 8 GPUs\n\n| Size (B) | Time (us) | AlgBW (GB/s) | BusBW (GB/s) |\n|---|---|---|---|\n{powers}",
        (ONE,),
        "page.md",
    )
    suffix = "".join(f"{MB[s]}Mi  {t:.2f}  {a:.2f}  {b:.2f}\n" for s, t, a, b in OUT)
    yield Shape("sizes-as-kubernetes-writes", f"all_reduce on 8 ranks\nsize  time_us  algbw  busbw\n{suffix}", (ONE,))
    lakh = "".join(
        f'"{grouped}",{t:.2f},{a:.2f},{b:.2f}\n'
        for grouped, (_, t, a, b) in zip(("10,48,576", "1,67,77,216", "26,84,35,456"), OUT, strict=True)
    )
    yield Shape(
        "indian-groups-of-digits", f"Size (B),Time (us),AlgBW (GB/s),BusBW (GB/s)\n{lakh}", (ONE,), "all_reduce.csv"
    )
    sheet = "Größe (B)\tZeit (µs)\talgbw (GB/s)\tbusbw (GB/s)\r\n" + "".join(
        f"{s}\t{t:.2f}\t{a:.2f}\t{b:.2f}\r\n".replace(".", ",") for s, t, a, b in OUT
    )
    yield Shape("unicode-text-of-excel", sheet, (ONE,), "all_reduce.txt", data=b"\xff\xfe" + sheet.encode("utf-16-le"))
    gigabit = "".join(f"| {MB[s]} MiB | {t:.1f} | {b * 8:.1f} Gb/s |\n" for s, t, _, b in OUT)
    yield Shape(
        "gigabits-in-cells",
        f"# all_reduce on 8 GPUs\n\n| Message | Latency (us) | Bus bandwidth |\n|---|---|---|\n{gigabit}",
        (Fact("all_reduce", 8, 3, 173.7, largest=LARGEST, time=2704.4),),
        "page.md",
    )
    two = "".join(
        f"| {MB[s]} MiB | {b:.2f} | {c:.2f} |\n" for (s, _, _, b), (_, _, _, c) in zip(OUT, GATHER, strict=True)
    )
    yield Shape(
        "a-column-for-each-collective",
        f"# 8 GPUs, bus bandwidth in GB/s\n\n| Size | AllReduce | AllGather |\n|---|---|---|\n{two}",
        (Fact("all_reduce", 8, 3, 173.71, largest=LARGEST), Fact("all_gather", 8, 3, 86.85, largest=LARGEST)),
        "page.md",
    )
    before = "".join(f"| {MB[s]} MiB | {b / 2:.2f} | {b:.2f} | 2.00x |\n" for s, _, _, b in OUT)
    yield Shape(
        "before-and-after",
        f"# all_reduce busbw (GB/s), 8 GPUs\n\n| Size | Before | After | Speedup |\n|---|---|---|---|\n{before}",
        (Fact("all_reduce", 8, 3, 86.85, largest=LARGEST),),
        "page.md",
    )


def other_tools() -> Iterator[Shape]:
    """Tools of collectives and of links that were not tried before."""
    osu = "".join(f"{s:<12d}{t:>18.2f}\n" for s, t, _, _ in OUT)
    nodes = "".join(
        f"=== nodes={n // 8} ranks={n} ===\n+ srun -N {n // 8} -n {n} ./osu_allreduce -m 1048576:268435456\n# OSU MPI-CUDA Allreduce Latency Test v7.5\n# Datatype: MPI_FLOAT.\n# Size       Avg Latency(us)\n{osu}\n"
        for n in (16, 32)
    )
    yield Shape(
        "osu-for-each-count-of-nodes",
        nodes,
        tuple(Fact("all_reduce", n, 3, None, largest=LARGEST, time=2704.35) for n in (16, 32)),
    )
    yield Shape(
        "osu-xccl",
        f"$ mpirun -np 8 ./osu_xccl_allreduce -d cuda\n# OSU xCCL Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n{osu}",
        (Fact("all_reduce", 8, 3, None, largest=LARGEST, time=2704.35),),
    )
    sendrecv = (
        "#-----------------------------------------------------------------------------\n# Benchmarking Sendrecv\n# #processes = 8\n#-----------------------------------------------------------------------------\n       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]   Mbytes/sec\n"
        + "".join(f"{s:13d}         20 {t:12.2f} {t:12.2f} {t:12.2f} {2 * a * 1000:12.2f}\n" for s, t, a, _ in OUT)
    )
    yield Shape("imb-sendrecv", sendrecv, (Fact("sendrecv", 8, 3, 99.26, largest=LARGEST, time=2704.35),))
    ccl = "#ranks,collective,reduction,type,typesize,#elements/buffer,message_size,time\n" + "".join(
        f"8,allreduce,sum,float32,4,{s // 4},{s},{t:.2f}\n" for s, t, _, _ in OUT
    )
    yield Shape("oneccl-csv", ccl, (), "ccl.csv", says="unit")
    ucc = "+ mpirun -np 8 ucc_perftest -c allreduce -m cuda -F\nCollective:\t\tAllreduce\nMemory type:\t\tcuda\nDatatype:\t\tfloat32\nReduction:\t\tsum\nInplace:\t\t0\nWarmup:\t\n  small\t\t100\n  large\t\t20\nIterations:\n  small\t\t1000\n  large\t\t200\n\n       Count        Size                Time, us                           Bus Bandwidth, GB/s\n                                 avg         min         max         avg         max         min\n"
    ucc += "".join(
        f"{s // 4:>12}{s:>12}{t:>12.2f}{t * 0.9:>12.2f}{t * 1.1:>12.2f}{b:>12.2f}{b * 1.1:>12.2f}{b * 0.9:>12.2f}\n"
        for s, t, _, b in OUT
    )
    yield Shape("ucc-bus-bandwidth", ucc, (ONE,))
    ib = {
        "test_info": {"test": "RDMA_Write BW Test", "Dual_port": "OFF", "Device": "mlx5_0"},
        "results": {"MsgSize": 65536, "n_iterations": 5000, "BW_peak": 392.1, "BW_average": 391.8, "MsgRate": 0.74},
    }
    yield Shape("perftest-json", json.dumps(ib, indent=1), (), "ib.json", says="perftest")
    dcgm = {
        "DCGM Diagnostic": {
            "test_categories": [
                {
                    "category": "Integration",
                    "tests": [
                        {
                            "name": "PCIe",
                            "results": [{"gpu_id": "0", "status": "Pass", "info": "GPU to Host bandwidth: 54.1 GB/s"}],
                        }
                    ],
                }
            ]
        },
        "Driver Version Detected": "570.1",
    }
    yield Shape("dcgm-diag-json", json.dumps(dcgm, indent=1), (), "diag.json", says="DCGM")
    kit = {"Testname": "bandwidth", "Units": "MB/s", "Nodes": ["a1", "a2"], "Data": [[0, 24100.2], [24099.1, 0]]}
    yield Shape("clusterkit-pairs", json.dumps(kit, indent=1), (), "bandwidth.json", says="pair")
    megatron = " [2026-01-02 03:04:05] iteration 20/ 100 | consumed samples: 640 | elapsed time per iteration (ms): 812.4 | throughput per GPU (TFLOP/s/GPU): 401.2 |\n(min, max) time across ranks (ms):\n    forward-backward ...............................: (700.12, 702.30)\n    all-grads-sync .................................: (12.30, 45.60)\n    params-all-gather ..............................: (8.10, 9.40)\n"
    yield Shape("megatron-timers", megatron, (), says="Megatron")
    pytest = {
        "machine_info": {"node": "a1"},
        "benchmarks": [
            {
                "name": "test_all_reduce[1MB]",
                "stats": {"min": 0.001, "max": 0.002, "mean": 0.0013, "rounds": 20},
                "extra_info": {},
            }
        ],
        "version": "5.1.0",
    }
    yield Shape("pytest-benchmark", json.dumps(pytest, indent=1), (), "bench.json", says="pytest")
    sb = "".join(
        json.dumps(
            {
                "node": "sb-01",
                f"nccl-bw:ib/allreduce_{s}_busbw:0": busbw("all_reduce", 8, s),
                f"nccl-bw:ib/allreduce_{s}_algbw:0": a,
                f"nccl-bw:ib/allreduce_{s}_time:0": t,
            }
        )
        + "\n"
        for s, t, a, _ in OUT[-1:]
    )
    yield Shape(
        "superbench-one-size-of-ib",
        sb,
        (Fact("all_reduce", 8, 1, 173.71, largest=LARGEST, time=2704.35),),
        "results-summary.jsonl",
    )
    hpl = "SINGLE: all_reduce 8 GPUs passed: 173.7 GB/s >= 160.0 GB/s\nSINGLE: all_gather 8 GPUs passed: 86.1 GB/s >= 80.0 GB/s\n"
    yield Shape("verdicts-of-a-health-check", hpl, (), says="bandwidths")


def contradictions() -> Iterator[Shape]:
    """Figures that cannot be: told, and not taken."""
    lines = rows(JOB).splitlines()
    small = Fact("all_reduce", 8, 2, None)
    ratio = [lines[0], lines[1].replace(f"{busbw('all_reduce', 8, SIZES[1]):6.2f}", "  1.61"), lines[2]]
    yield Shape(
        "nccl-tests-row-with-another-ratio",
        preamble(JOB) + HEADER + "\n".join(ratio) + "\n" + footer(JOB),
        (small,),
        says="contradict",
    )
    slow = [lines[0], lines[1], lines[2].replace(f"{time_of(SIZES[2]):7.1f}", "  270.4")]
    yield Shape(
        "nccl-tests-row-with-another-time",
        preamble(JOB) + HEADER + "\n".join(slow) + "\n" + footer(JOB),
        (small,),
        says="contradict",
    )
    csv = "size_bytes,time_us,algbw_GBps,busbw_GBps\n" + "".join(
        f"{s},{t:.2f},{a * (10 if at == 1 else 1):.2f},{b * (10 if at == 1 else 1):.2f}\n"
        for at, (s, t, a, b) in enumerate(OUT)
    )
    yield Shape(
        "csv-one-row-ten-times-too-much",
        csv,
        (Fact("all_reduce", 8, 2, 173.71, largest=LARGEST, time=2704.35),),
        "all_reduce.csv",
        says="contradict",
    )
    doc = {
        "collective": "all_reduce",
        "world_size": 8,
        "results": [
            {"bytes": s, "time_us": t, "algbw_GBps": a, "busbw_GBps": b * (3 if at == 0 else 1)}
            for at, (s, t, a, b) in enumerate(OUT)
        ],
    }
    yield Shape(
        "json-one-bus-bandwidth-too-high",
        json.dumps(doc),
        (Fact("all_reduce", 8, 2, 173.71, largest=LARGEST, time=2704.35),),
        "run.json",
        says="contradict",
    )
    named = "".join(
        f"op=all_reduce ranks=8 bytes={s} time_us={t if s < LARGEST else 1.0:.2f} algbw_GBps={a:.2f} busbw_GBps={b:.2f}\n"
        for s, t, a, b in OUT
    )
    yield Shape("line-with-a-time-of-another", named, (small,), says="contradict")
    title = "".join(f"| {MB[s]} MiB | {t:.2f} | {a:.2f} | {busbw('all_reduce', 4, s):.2f} |\n" for s, t, a, _ in OUT)
    yield Shape(
        "title-of-other-ranks",
        f"# all_reduce on 8 GPUs\n\n| Size | Time (us) | AlgBW (GB/s) | BusBW (GB/s) |\n|---|---|---|---|\n{title}",
        (Fact("all_reduce", 4, 3, 148.89, largest=LARGEST),),
        "page.md",
    )
    wrong = (
        f"{preamble(JOB)}{HEADER}{row(JOB, SIZES[0])}\n{row(JOB, SIZES[1])[:-1]}7\n{row(JOB, SIZES[2])}\n{footer(JOB)}"
    )
    yield Shape("wrong-in-place-alone", wrong, (fact(JOB),), wrong=7)
    column = "".join(f"| {MB[s]} MiB | {t:.2f} | {a:.2f} | {b:.2f} |\n" for s, t, a, b in GATHER)
    yield Shape(
        "columns-of-another-collective",
        f"# all_reduce on 8 GPUs\n\n| Size | Time (us) | AlgBW (GB/s) | BusBW (GB/s) |\n|---|---|---|---|\n{column}",
        (),
        "page.md",
        says="contradict",
    )
    swapped = "size_bytes,time_us,busbw_GBps,algbw_GBps\n" + "".join(
        f"{s},{t:.2f},{a:.2f},{b:.2f}\n" for s, t, a, b in OUT
    )
    yield Shape("csv-names-of-bandwidths-swapped", swapped, (), "all_reduce_8gpus.csv", says="contradict")
