"""Forms of logs met in public threads, pages and writers' sources after the first corpus: their facts were written before the first try."""

# ruff: noqa: E501 - the lines are as wide as the tools print them

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Iterator

from world_corpus import Fact, Shape, fact, prefixed
from world_jobs import job_shapes, named_shapes
from world_writers import (
    HEADER,
    SIZES,
    Job,
    algbw,
    busbw,
    footer,
    imb,
    nccl_tests,
    osu,
    param,
    parameters,
    preamble,
    row,
    rows,
    time_of,
    ucc,
)  # fmt: skip

LARGEST = SIZES[-1]
JOB = Job()
TEXT = nccl_tests(JOB)
LINES = TEXT.splitlines()


def _jsonl(key: str, **others: object) -> str:
    return "".join(json.dumps({"timestamp": "2026-01-02T03:04:05Z", **others, key: line}) + "\n" for line in LINES)


def platform_shapes() -> Iterator[Shape]:
    """What clusters' services make of a container's lines."""
    yield Shape(
        "cloudwatch-message-lines",
        _jsonl("message", ingestionTime=1735787045123, logStreamName="nccl/default/1a2b"),
        (fact(JOB),),
    )
    yield Shape(
        "stackdriver-text-payload",
        _jsonl("textPayload", severity="INFO", resource={"type": "k8s_container", "labels": {"pod_name": "nccl-0"}}),
        (fact(JOB),),
    )
    entries = json.dumps(
        [{"insertId": f"a{at}", "textPayload": line + "\n"} for at, line in enumerate(LINES)], indent=2
    )
    yield Shape("stackdriver-read-as-one-list", entries, (fact(JOB),), "logs.json")
    docker = "".join(
        json.dumps({"log": line + "\n", "stream": "stdout", "time": "2026-01-02T03:04:05.6Z"}) + "\n" for line in LINES
    )
    yield Shape("docker-json-file", docker, (fact(JOB),), "abc-json.log")
    journal = "".join(
        json.dumps({"__REALTIME_TIMESTAMP": "17357", "_HOSTNAME": "gpu-a1", "MESSAGE": line}) + "\n" for line in LINES
    )
    yield Shape("journalctl-json", journal, (fact(JOB),))
    yield Shape(
        "loki-logcli", prefixed(TEXT, lambda _: '2026-01-02T03:04:05Z {app="nccl", pod="nccl-0"} '), (fact(JOB),)
    )
    yield Shape("jenkins-timestamper", prefixed(TEXT, lambda line: f"03:04:{line % 60:02d}  "), (fact(JOB),))
    build = "".join(f"\x1b_bk;t=1756000000{line:03d}\x07{text}\r\n" for line, text in enumerate(LINES))
    yield Shape("buildkite-markers", build, (fact(JOB),))
    yield Shape(
        "argo-coloured-pod", "".join(f"\x1b[32mnccl-bench-x7k2p\x1b[0m: {line}\n" for line in LINES), (fact(JOB),)
    )
    yield Shape("tekton-step", prefixed(TEXT, lambda _: "[run-nccl : bench] "), (fact(JOB),))
    groups = "##[group]Run mpirun -np 8 ./build/all_reduce_perf -b 1M\nshell: /usr/bin/bash -e {0}\n##[endgroup]\n"
    yield Shape(
        "actions-raw-log",
        "\ufeff" + prefixed(groups + TEXT, lambda line: f"2026-01-02T03:04:{line % 60:02d}.1234567Z "),
        (fact(JOB),),
    )
    section = "section_start:1756000000:step_script[collapsed=true]\r\x1b[0KRunning on gpu-a1\nsection_end:1756000001:step_script\r\x1b[0K"
    yield Shape("gitlab-sections", f"{section}\n{TEXT}{section}\n", (fact(JOB),))
    yield Shape("torchx-role", prefixed(TEXT, lambda _: "nccl/0 "), (fact(JOB),))
    yield Shape(
        "prterun-tag-timestamp",
        prefixed(TEXT, lambda line: f"2026-01-02T03:04:{line % 60:02d} [prterun-gpu-a1-4711@1,0]<stdout>: "),
        (fact(JOB),),
    )
    yield Shape(
        "srun-label-zero-padded",
        "".join(f"00: {line}\n07: Loading modules {at}\n" for at, line in enumerate(LINES)),
        (fact(JOB),),
    )
    repeated = "(bench pid=88, ip=10.0.0.5) NCCL version 2.27.3+cuda12.4 [repeated 7x across cluster] (Ray deduplicates logs by default.)\n"
    yield Shape("ray-repeated", repeated + prefixed(TEXT, lambda _: "(bench pid=77, ip=10.0.0.4) "), (fact(JOB),))
    lsf = "Sender: LSF System <lsfadmin@gpu-a1>\nSubject: Job 4711: <nccl> Done\n\nThe output (if any) follows:\n\n"
    yield Shape("lsf-mail", f"{lsf}{TEXT}\nResource usage summary:\n\n    CPU time :      31.10 sec.\n", (fact(JOB),))
    array = "==== job 4711_3 on gpu-a[1-2] ====\n+ export NCCL_DEBUG=WARN\n+ srun --mpi=pmix -N 1 -n 8 ./build/all_reduce_perf -b 1M -e 256M -f 16 -g 1\n"
    yield Shape("slurm-array-task", array + HEADER + rows(JOB) + footer(JOB), (fact(JOB),), "nccl-4711_3.out")
    session = f'Script started on 2026-01-02 03:04:05+00:00 [TERM="xterm" COLUMNS="200"]\r\n\x1b[01;32mu@h\x1b[00m:~$ ./build/all_reduce_perf -g 8\r\n{TEXT.replace(chr(10), chr(13) + chr(10))}'
    yield Shape(
        "script-typescript",
        session + '\r\nScript done on 2026-01-02 03:05:05+00:00 [COMMAND_EXIT_CODE="0"]\r\n',
        (fact(JOB),),
    )
    yield Shape("ansible-ad-hoc", f"gpu-a1 | CHANGED | rc=0 >>\n{TEXT}", (fact(JOB),))
    task = {"changed": True, "cmd": "mpirun -np 8 ./build/all_reduce_perf -b 1M", "rc": 0, "stdout": TEXT}
    yield Shape("ansible-stdout-as-one-string", f"ok: [gpu-a1] => {json.dumps(task, indent=4)}\n", (fact(JOB),))
    notebook = {
        "cells": [
            {
                "cell_type": "code",
                "outputs": [{"name": "stdout", "output_type": "stream", "text": [line + "\n" for line in LINES]}],
                "source": ["!./all_reduce_perf -g 8"],
            }
        ],
        "nbformat": 4,
    }
    yield Shape("jupyter-notebook", json.dumps(notebook, indent=1), (fact(JOB),), "run.ipynb")


def encoding_shapes() -> Iterator[Shape]:
    yield Shape(
        "utf-16-of-powershell", TEXT, (fact(JOB),), data=b"\xff\xfe" + TEXT.replace("\n", "\r\n").encode("utf-16-le")
    )
    yield Shape("gzip", TEXT, (fact(JOB),), "job.log.gz", data=gzip.compress(TEXT.encode()))
    yield Shape("bzip2", TEXT, (fact(JOB),), "job.log.bz2", data=bz2.compress(TEXT.encode()))
    yield Shape("xz", TEXT, (fact(JOB),), "job.log.xz", data=lzma.compress(TEXT.encode()))
    yield Shape("zstd-is-named", "", (), "job.log.zst", says="zstd", data=b"\x28\xb5\x2f\xfd\x04\x58" + bytes(40))
    yield Shape("no-break-spaces", TEXT.replace("  ", " \u00a0"), (fact(JOB),))
    yield Shape("trailing-blanks", "".join(f"{line}{' ' * 160}\n" for line in LINES), (fact(JOB),))
    breaks = "<br>\n".join(line.replace(" ", "&nbsp;") for line in LINES)
    yield Shape("html-line-breaks", f"<html><body><div>{breaks}</div></body></html>\n", (fact(JOB),), "mail.html")
    yield Shape(
        "html-one-line", "<html><body><p>" + "<br/>".join(LINES) + "</p></body></html>\n", (fact(JOB),), "mail.html"
    )
    yield Shape("jira-noformat", f"h2. Results\n{{noformat}}\n{TEXT}{{noformat}}\n", (fact(JOB),))
    yield Shape(
        "rst-literal-block", "Results\n=======\n\n::\n\n" + prefixed(TEXT, lambda _: "  "), (fact(JOB),), "page.rst"
    )
    wrapped = "".join(f"{line[at : at + 80]}\n" for line in rows(JOB).splitlines() for at in range(0, len(line), 80))
    yield Shape("rows-wrapped-at-80-columns", preamble(JOB) + HEADER + wrapped + footer(JOB), (fact(JOB),))


def table_shapes() -> Iterator[Shape]:
    excel = "size\tcount\ttype\tredop\troot\ttime\talgbw\tbusbw\t#wrong\ttime\talgbw\tbusbw\t#wrong\n"
    excel += "".join("\t".join(row(JOB, size).split()) + "\n" for size in SIZES)
    yield Shape("excel-paste-of-all-columns", excel, (fact(JOB),), "all_reduce.tsv")
    yield Shape("csv-decimal-commas", "size;time (us);algbw (GB/s);busbw (GB/s)\n1048576;34,8;30,13;52,73\n16777216;190,2;88,2;154,4\n",
                (Fact("all_reduce", None, 2, 154.4),), "allreduce.csv")  # fmt: skip
    yield Shape(
        "csv-thousands-in-quotes",
        'size,algbw,busbw\n"1,048,576",30.13,52.73\n"16,777,216",88.2,154.35\n',
        (Fact("all_reduce", 8, 2, 154.35),),
        "allreduce.csv",
    )
    thousands = "| Size (B) | Time (us) | AlgBW (GB/s) | BusBW (GB/s) |\n|--:|--:|--:|--:|\n| 1,048,576 | 34.80 | 30.13 | 52.73 |\n| 268,435,456 | 2,704.4 | 99.26 | 173.71 |\n"
    yield Shape(
        "markdown-thousands-separators",
        f"## all_reduce, 8 GPUs\n\n{thousands}",
        (Fact("all_reduce", 8, 2, 173.71),),
        "page.md",
    )
    units = "| Message size | algbw (GB/s) | busbw (GB/s) |\n|---|---|---|\n| 1 MiB | 30.13 | 52.73 |\n| 256 MiB | 99.26 | 173.71 |\n"
    yield Shape("markdown-sizes-in-MiB", f"### all_reduce\n\n{units}", (Fact("all_reduce", 8, 2, 173.71),), "page.md")
    across = "| Collective | 1M | 16M | 256M |\n|---|---|---|---|\n| AllReduce | 52.7 | 154.3 | 173.7 |\n| AllGather | 26.4 | 77.2 | 86.9 |\n"
    yield Shape(
        "markdown-sizes-across",
        f"**BusBW (GB/s)**, 8 GPUs\n\n{across}",
        (Fact("all_reduce", 8, 3, 173.7), Fact("all_gather", 8, 3, 86.9)),
        "page.md",
    )
    latex = "\\begin{tabular}{rrr}\nSize & algbw & busbw \\\\\n\\hline\n1048576 & 30.13 & 52.73 \\\\\n\\end{tabular}\n"
    yield Shape("latex-is-named", latex, (), "table.tex", says="LaTeX")
    line = "+--------------+-----------+--------------+-------------+----------------+-------------------+------------------+----------+\n"
    pretty = (
        line
        + "| Size (fp16)  | Time (us) | AlgBW (GB/s) | Correctness | NCCL Time (us) | NCCL AlgBW (GB/s) | NCCL Correctness | Speed Up |\n"
        + line
    )
    for size, whole in (("2.0 KiB", 1 << 11), ("1.0 MiB", 1 << 20), ("256.0 MiB", 1 << 28)):
        pretty += f"| {size:<12} |     {whole / 100250:<5.2f} |       {100.25:<6} |     PASS    |     {whole / 48750:<9.2f}  |       {48.75:<11} |       PASS       |   2.05   |\n"
    yield Shape("mscclpp-python-bench", "mpirun -np 8 python3 ./python/mscclpp_benchmark/allreduce_bench.py\n........\n" + pretty + line,
                (Fact("all_reduce", 8, 3), Fact("all_reduce", 8, 3)))  # fmt: skip


def nccl_tests_shapes() -> Iterator[Shape]:
    old = "nThread 1 nGpus 8 minBytes 1048576 maxBytes 268435456 step: 16(factor) warmup iters: 5 iters: 20 validation: 1 \n# NCCL Tests compiled with NCCL 2.0\n# Using devices\n"
    old += "".join(
        f"#   Rank {rank:2d} on     dgx-1 device {rank:2d} [0x{rank + 6:02x}] Tesla P100-SXM2-16GB\n"
        for rank in range(8)
    )
    old += "\n#                                                 out-of-place                    in-place\n#      bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw      res\n"
    for size in SIZES:
        group = f"{time_of(size) / 1000:9.3f} {algbw(size):6.2f} {busbw('all_reduce', 8, size):6.2f}    0e+00"
        old += f"{size:12d}  {size // 4:12d}   float     sum {group} {group}\n"
    yield Shape(
        "nccl-2.0-of-8-gpus",
        old + " Out of bounds values : 0 OK\n Avg bus bandwidth    : 90.1\n\n",
        (fact(JOB),),
        "all_reduce_perf.txt",
    )
    failed = TEXT.replace(
        f"{busbw('all_reduce', 8, LARGEST):6.2f}       0", f"{busbw('all_reduce', 8, LARGEST):6.2f}      12"
    ).replace("values : 0 OK", "values : 12 FAILED")
    yield Shape("wrong-elements", failed, (fact(JOB),), wrong=12 * failed.count("      12"))
    threads = Job("all_reduce", 64, per_process=64)
    yield Shape(
        "list-cut-of-64-threads",
        nccl_tests(threads).replace("nThread 1 nGpus 64", "nThread 64 nGpus 1"),
        (fact(threads),),
        says="list of ranks is cut",
    )
    cut = TEXT[: TEXT.index(f"{LARGEST:12d}") + 60]
    yield Shape("cut-within-the-last-row", cut, (Fact("all_reduce", 8, 2),), says="268435456")
    banner = "".join(f"=== {name} ===\n+ mpirun -np 8 ./build/{name}_perf -b 1M -e 256M -f 16 -g 1\n{nccl_tests(Job(name, 8, named=False, check=False))}\n"
                     for name in ("all_gather", "all_reduce", "alltoall", "broadcast", "gather", "hypercube", "reduce_scatter", "scatter", "sendrecv") if name != "hypercube")  # fmt: skip
    yield Shape(
        "script-over-all-programs",
        banner,
        tuple(
            fact(Job(name, 8))
            for name in (
                "all_gather",
                "all_reduce",
                "alltoall",
                "broadcast",
                "gather",
                "reduce_scatter",
                "scatter",
                "sendrecv",
            )
        ),
    )
    loop = "".join(
        f"\n##### {name} #####\n{nccl_tests(Job(name, 16, ('a', 'b'), named=False))}"
        for name in ("all_reduce_perf", "broadcast_perf")
        for name in [name.removesuffix("_perf")]
    )
    yield Shape("banners-of-collectives", loop, (fact(Job("all_reduce", 16)), fact(Job("broadcast", 16))))
    noisy = ""
    for at, line in enumerate(LINES):
        noisy += f"[1,0]<stdout>:{line}\n[1,{1 + at % 7}]<stdout>:gpu-a1:40{at:02d}:41{at:02d} [{1 + at % 7}] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC/read\n"
    yield Shape("messages-between-all-rows", noisy, (fact(JOB),))
    rack = Job("all_reduce", 72)
    header = HEADER.replace("#wrong", " #wrong")
    body = ""
    for size, time in ((1 << 32, 10094.0), (1 << 33, 20299.0)):
        rate = size / time / 1000
        body += f"{size:12d} {size // 4:13d}     float     sum      -1  {time:7.0f}  {rate:6.2f}  {rate * 2 * 71 / 72:6.2f}      0  {time:7.0f}  {rate:6.2f}  {rate * 2 * 71 / 72:6.2f}      0\n"
    yield Shape(
        "excerpt-of-one-rack",
        "#  Rank 71 Group  0 Pid  14840 on slurm-gb200-207-171 device  3 [0x01] NVIDIA Graphics Device\n#\n"
        + header
        + body
        + footer(rack),
        (Fact("all_reduce", 72, 2, 834.59),),
    )
    one, two = (
        preamble(job) + HEADER + rows(job) + footer(job)
        for job in (Job("all_reduce", 4), Job("all_reduce", 4, ("gpu-a2",)))
    )
    mixed = "".join(f"{a}\n{b}\n" for a, b in zip(one.splitlines(), two.splitlines(), strict=True))
    yield Shape("two-jobs-interleaved-without-prefix", mixed, (Fact("all_reduce", 4, 3),), says="mixed")
    tail = "\n".join(TEXT.splitlines()[-8:]) + "\n"
    yield Shape("tail-of-a-log", tail, (fact(JOB),), "all_reduce.tail", says="no header")
    bash = "+ srun --nodes=2 --ntasks-per-node=8 bash -c 'source env.sh && ./build/all_gather_perf -b 1M -e 256M -f 16 -g 1'\n"
    unchecked = Job("all_gather", 16, check=False)
    yield Shape("command-behind-bash-c", bash + HEADER + rows(unchecked) + footer(unchecked), (fact(unchecked),))
    container = 'docker run --rm --gpus all --ipc=host nvcr.io/nvidia/pytorch:26.01-py3 bash -lc "mpirun --allow-run-as-root -np 8 all_reduce_perf_mpi -b 1M -e 256M -f 16 -g 1"\n'
    yield Shape("command-in-a-container", f"$ {container}" + HEADER + rows(JOB) + footer(JOB), (fact(JOB),))
    exports = "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=8\nmpirun --map-by ppr:8:node --hostfile hosts ./all_reduce_perf -b 1M -g 1\n"
    many = Job("all_reduce", 32)
    yield Shape("mpirun-below-sbatch", exports + parameters(many) + HEADER + rows(many) + footer(many), (fact(many),))


def torch_launch_shapes() -> Iterator[Shape]:
    table = "The average bandwidth of all_reduce over 8 ranks (5 warmups / 20 trials):\n\n| payload |    busbw   |    algbw   |\n| ---: | ---: | ---: |\n|    32KB |   0.92GBps |   0.53GBps |\n|     1GB | 172.10GBps |  98.34GBps |\n"
    yield Shape("torch-table-says-its-ranks", table, (Fact("all_reduce", 8, 2, 172.1),))
    lines = "node-1:0:\n duration: 0.0640 sec\n algo throughput: 1000000000000.0000 bps, 1000.0000 Gbps\n busbw: 937.5000  Gbps\n"
    nested = (
        "+ srun --nodes=2 --ntasks-per-node=1 bash -c 'torchrun --nnodes 2 --nproc_per_node 8 all_reduce_bench.py'\n"
    )
    yield Shape("torch-behind-srun-bash-c", nested + lines, (Fact("all_reduce", 16, 1),))
    variables = '#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=1\nexport GPUS_PER_NODE=8\nsrun bash -c "python -u -m torch.distributed.run --nproc_per_node $GPUS_PER_NODE --nnodes $SLURM_NNODES --rdzv_backend c10d all_reduce_bench.py"\n'
    yield Shape("torch-behind-variables", variables + lines.replace("937.5", "968.75"), (Fact("all_reduce", 32, 1),))


def writer_shapes() -> Iterator[Shape]:
    head = f"{'Comm. Op':<20}{'Message Size':<20}{'Count':<20}{'Total Latency(ms)':<20}{'Avg Latency(ms)':<20}{'tput_avg (Gbps)':<20}{'busbw_avg (Gbps)':<20}\n"
    straggler = (
        head
        + "all_reduce\n"
        + f"{'':<20}{'256.0 MB':<20}{'10':<20}{'27.0':<20}{'2.7':<20}{'1500.0':<20}{'1312.5':<20}\n"
    )
    straggler += "_______________________________\nBreakdown with straggler effect\n-------------------------------\n"
    straggler += f"{'Comm. Op':<20}{'Message Size':<20}{'Count':<20}{'Total comm lat(ms)':<20}{'Total straggler(ms)':<20}{'Avg comm lat(ms)':<20}{'Avg straggler(ms)':<20}\nall_reduce\n"
    straggler += f"{'':<20}{'256.0 MB':<20}{'10':<20}{'25.0':<20}{'2.0':<20}{'2.5':<20}{'0.2':<20}\n"
    yield Shape("deepspeed-straggler-table", straggler, (Fact("all_reduce", 8, 1, 164.06),))
    verbose = "".join(
        f"[2026-01-02 03:04:05,123] [INFO] [logging.py:69:log_dist] [Rank 0] rank=0 | comm op: all_reduce | time (ms): {ms} | msg size: 256.0 MB | algbw (Gbps): 1500.00 | busbw (Gbps): 1312.50\n"
        for ms in (2.7, 2.8)
    )
    yield Shape("deepspeed-verbose-with-rank", verbose, (Fact("all_reduce", 8, 1),))
    logged = {"summary": {"all_reduce": {str(LARGEST): {"count": 10, "total_latency_ms": 27.0, "avg_latency_ms": 2.7, "tput_avg_gbps": 1500.0, "busbw_avg_gbps": 1312.5,
              "msg_size_bytes": LARGEST, "msg_size_str": "256.0 MB"}}}, "straggler_analysis": None, "metadata": {"world_size": 8, "rank": 0, "timestamp": "2026-01-02T03:04:05"}}  # fmt: skip
    yield Shape("deepspeed-log-all-as-json", json.dumps(logged), (Fact("all_reduce", 8, 1, 164.06),), "comms.json")
    plain = [f"{size:<10d}{20.5:>18.2f}" for size in (1024, 65536)]
    yield Shape(
        "osu-5-alone",
        osu("OSU MPI Allreduce Latency Test v5.9", plain, "# Size       Avg Latency(us)"),
        (Fact("all_reduce", None, 2),),
    )
    tagged = prefixed(
        "+ mpirun -np 16 ./osu_alltoall -d cuda\n"
        + osu("OSU MPI-CUDA All-to-All Personalized Exchange Latency Test v7.4", plain),
        lambda _: "[1,0]<stdout>:",
    )
    yield Shape("osu-alltoall-tagged", tagged, (Fact("alltoall", 16, 2),))
    head = "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]"
    body = [f"{size:13d}{1000:13d}{10.5:13.2f}{12.5:13.2f}{11.5:13.2f}" for size in (0, 1024, 1 << 20)]
    waiting = imb("Allreduce", 2, body, head).replace(
        "# #processes = 2 \n", "# #processes = 2 \n# ( 14 additional processes waiting in MPI_Barrier)\n"
    )
    yield Shape("imb-with-waiting-processes", waiting, (Fact("all_reduce", 2),))
    yield Shape("imb-reduce-scatter", imb("Reduce_scatter", 8, body, head), (Fact("reduce_scatter", 8),))
    yield Shape(
        "ucc-tagged",
        prefixed(
            "+ mpirun -np 8 ucc_perftest -c allreduce -m cuda -F\n" + ucc("Allreduce", 8), lambda _: "[1,0]<stdout>:"
        ),
        (Fact("all_reduce", 8, 3, 173.71),),
    )
    yield Shape(
        "param-behind-srun-labels", prefixed(param("all_reduce", 16), lambda _: " 0: "), (Fact("all_reduce", 16),)
    )
    quant = "\tCOMMS-RES-QUANT-all_reduce-float32\t         1048576            262144                    10.1           20.2           10.3           40.6\n"
    yield Shape("param-quantised-is-named", quant, (), says="PARAM")
    one = "#------------------------------------------------------------\n# Benchmarking: allreduce \n# #processes: 2\n#------------------------------------------------------------\n\n"
    one += "        #bytes  #repetitions   t_min[usec]   t_max[usec]   t_avg[usec]  stddev[%]\n" + "".join(
        f"{size:14d}{16:14d}{30.5:14.2f}{30.86:14.2f}{30.68:14.2f}{0.59:11.2f}\n" for size in (4, 1024, 1 << 20)
    )
    yield Shape("oneccl-benchmark", one, (Fact("all_reduce", 2),))
    hccl = (
        "mpirun -np 16 ./bin/all_reduce_test -b 1M -e 256M -f 16 -d fp32 -o sum -p 8\n"
        + "data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n"
    )
    hccl += "".join(f"{size:<18}| {time_of(size):<15.2f}| {algbw(size):<21.5f}| success\n" for size in SIZES)
    yield Shape("hccl-test", hccl, (Fact("all_reduce", 16, 3, round(busbw("all_reduce", 16, LARGEST), 2)),))


def stranger_shapes() -> Iterator[Shape]:
    """All of them."""
    for part in (
        platform_shapes,
        encoding_shapes,
        table_shapes,
        nccl_tests_shapes,
        torch_launch_shapes,
        writer_shapes,
        job_shapes,
        named_shapes,
    ):
        yield from part()
