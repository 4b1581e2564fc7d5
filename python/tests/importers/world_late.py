"""A last look at labels, loggers and tables that nobody tried before: facts before the first try, halves by the hash of the name."""

# ruff: noqa: E501 - the lines are as wide as the tools print them

from __future__ import annotations

from collections.abc import Iterator

from world_corpus import Fact, Shape, fact, prefixed
from world_scripts import LARGEST, MB, ONE, OUT
from world_writers import Job, nccl_tests

JOB = Job()
TEXT = nccl_tests(JOB)
FACT = (fact(JOB),)


def late_labels() -> Iterator[Shape]:
    """Labels of launchers and forms of loggers."""
    yield Shape("sagemaker-mpi-tags", prefixed(TEXT, lambda _: "[1,mpirank:0,algo-1]<stdout>:"), FACT)
    yield Shape("horovod-elastic-tags", prefixed(TEXT, lambda _: "[0]<stdout>:"), FACT)
    dask = prefixed(TEXT, lambda line: f"2026-11-23 10:11:{line % 60:02d},123 - distributed.worker - INFO - ")
    yield Shape("dask-worker", dask, FACT)
    yield Shape("spark-log4j", prefixed(TEXT, lambda line: f"26/11/23 10:11:{line % 60:02d} INFO Nccl: "), FACT)
    yield Shape(
        "grep-name-and-number",
        "".join(f"run/rank0.log:{at}:{line}\n" for at, line in enumerate(TEXT.splitlines(), 1)),
        FACT,
    )
    yield Shape("pytest-live-log", prefixed(TEXT, lambda _: "INFO     nccl:run.py:12 "), FACT)
    yield Shape(
        "env-logger", prefixed(TEXT, lambda line: f"[2026-11-23T10:11:{line % 60:02d}Z INFO  nccl_bench] "), FACT
    )
    yield Shape(
        "structlog-console", prefixed(TEXT, lambda line: f"2026-11-23 10:11:{line % 60:02d} [info     ] "), FACT
    )
    yield Shape("serilog", prefixed(TEXT, lambda line: f"[10:11:{line % 60:02d} INF] "), FACT)
    yield Shape(
        "docker-logs-with-times", prefixed(TEXT, lambda line: f"2026-11-23T10:11:{line % 60:02d}.123456789Z "), FACT
    )
    yield Shape(
        "nginx-like-level", prefixed(TEXT, lambda line: f"2026/11/23 10:11:{line % 60:02d} [notice] 77#77: "), FACT
    )
    yield Shape("elapsed-minutes", prefixed(TEXT, lambda line: f"00:{line // 60:02d}:{line % 60:02d} >> "), FACT)


def late_tables() -> Iterator[Shape]:
    """Tables and lines."""
    upper = "SIZE_BYTES\tTIME_US\tALGBW_GBPS\tBUSBW_GBPS\n" + "".join(
        f"{s}\t{t:.2f}\t{a:.2f}\t{b:.2f}\n" for s, t, a, b in OUT
    )
    yield Shape("names-in-capitals", upper, (ONE,), "all_reduce.tsv")
    bars = "".join(
        f"Size: {MB[s]} MiB | Time: {t:.2f} us | AlgBW: {a:.2f} GB/s | BusBW: {b:.2f} GB/s\n" for s, t, a, b in OUT
    )
    yield Shape("names-between-bars", f"all_reduce on 8 GPUs\n{bars}", (ONE,))
    glued = "".join(f"allreduce_{s}_time_us={t:.2f} allreduce_{s}_busbw={b:.2f}\n" for s, t, _, b in OUT)
    yield Shape("sizes-within-names", glued, ())
    flow = "collective: all_reduce\nranks: 8\nresults:\n" + "".join(
        f"- {{size: {s}, time_us: {t:.2f}, algbw: {a:.2f}, busbw: {b:.2f}}}\n" for s, t, a, b in OUT
    )
    yield Shape("yaml-flow-maps", flow, (ONE,), "all_reduce.yaml")
    spaced = "size, time_us, algbw, busbw,\n" + "".join(f"{s}, {t:.2f}, {a:.2f}, {b:.2f},\n" for s, t, a, b in OUT)
    yield Shape("csv-with-a-comma-at-the-end", spaced, (ONE,), "all_reduce.csv")
    quoted = '"Size (B)","Time (us)","AlgBW (GB/s)","BusBW (GB/s)"\r\n' + "".join(
        f'"{s:,}","{t:,.2f}","{a:.2f}","{b:.2f}"\r\n' for s, t, a, b in OUT
    )
    yield Shape("csv-all-quoted-and-marked", "", (ONE,), "all_reduce.csv", data=b"\xef\xbb\xbf" + quoted.encode())
    brackets = "Message size [B]  Latency [us]  Bandwidth [GB/s]\n" + "".join(
        f"{s:>16}  {t:>12.2f}  {a:>16.2f}\n" for s, t, a, _ in OUT
    )
    yield Shape(
        "units-in-brackets",
        f"Allreduce, 8 ranks\n\n{brackets}",
        (Fact("all_reduce", 8, 3, None, largest=LARGEST, time=2704.35),),
    )
    several = "size_mb,iters,warmup,busbw_min,busbw_avg,busbw_max,time_avg_us\n" + "".join(
        f"{MB[s]}.0,20,5,{b * 0.9:.2f},{b:.2f},{b * 1.1:.2f},{t:.2f}\n" for s, t, _, b in OUT
    )
    yield Shape("least-mean-and-most", several, (ONE,), "all_reduce_8gpus.csv")
    links = "".join(f"| [{MB[s]} MiB](#s{s}) | `{t:.2f}` | **{b:.2f}** |\n" for s, t, _, b in OUT)
    yield Shape(
        "links-in-cells",
        f"# all_reduce, 8 GPUs\n\n| Size | Time (us) | BusBW (GB/s) |\n|:--|--:|--:|\n{links}",
        (ONE,),
        "page.md",
    )
    scoped = '<table><caption>all_reduce, 8 GPUs</caption><tr><th scope="col">Size (B)</th><th scope="col">Time (us)</th><th scope="col">BusBW (GB/s)</th></tr>\n'
    scoped += "".join(
        f'<tr><th scope="row">{s}</th><td class="num">{t:.2f}</td><td class="num">{b:.2f}</td></tr>\n'
        for s, t, _, b in OUT
    )
    yield Shape("html-with-a-caption", f"<html><body>{scoped}</table></body></html>", (ONE,), "r.html")
