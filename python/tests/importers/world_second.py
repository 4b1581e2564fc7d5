"""A second look at forms that nobody tried: nested objects, lists of names, traps in names, cut ends; facts before the first try."""

# ruff: noqa: E501 - the lines are as wide as the tools print them

from __future__ import annotations

import json
from collections.abc import Iterator

from world_corpus import Fact, Shape
from world_scripts import BARE, LARGEST, MB, ONE, OUT
from world_writers import SIZES, busbw


def named_values() -> Iterator[Shape]:
    """Names and values in the forms of settings, databases and metrics."""
    nested = "".join(
        json.dumps(
            {
                "params": {"op": "allreduce", "bytes": s, "nranks": 8},
                "metrics": {"latency_us": t, "algbw": a, "busbw": b},
            }
        )
        + "\n"
        for s, t, a, b in OUT
    )
    yield Shape("json-params-beside-metrics", nested, (ONE,), "runs.jsonl")
    yaml = "collective: all_reduce\nranks: 8\nresults:\n" + "".join(
        f"- size: {s}\n  time_us: {t:.2f}\n  algbw: {a:.2f}\n  busbw: {b:.2f}\n" for s, t, a, b in OUT
    )
    yield Shape("yaml-list-of-results", yaml, (ONE,), "all_reduce.yaml")
    toml = "".join(
        f"[[all_reduce]]\nranks = 8\nsize = {s}\ntime_us = {t:.2f}\nalgbw_gbs = {a:.2f}\nbusbw_gbs = {b:.2f}\n\n"
        for s, t, a, b in OUT
    )
    yield Shape("toml-tables", toml, (ONE,), "all_reduce.toml")
    psql = "".join(
        f"-[ RECORD {at} ]-------\ncollective | all_reduce\nranks      | 8\nsize       | {s}\ntime_us    | {t:.2f}\nbusbw_gbs  | {b:.2f}\n"
        for at, (s, t, _, b) in enumerate(OUT, 1)
    )
    yield Shape("psql-expanded", psql, (), "all_reduce.txt")  # a name and a bar are docker compose's prefix too
    quoted = "".join(
        f'level=info collective="all_reduce" ranks="8" size="{s}" time_us="{t:.2f}" algbw_gbs="{a:.2f}" busbw_gbs="{b:.2f}"\n'
        for s, t, a, b in OUT
    )
    yield Shape("equals-and-quotes", quoted, (ONE,))
    xml = (
        "<results>\n"
        + "".join(
            f'  <result collective="all_reduce" ranks="8" size="{s}" time_us="{t:.2f}" algbw_gbs="{a:.2f}" busbw_gbs="{b:.2f}"/>\n'
            for s, t, a, b in OUT
        )
        + "</results>\n"
    )
    yield Shape("xml-attributes", xml, (ONE,), "results.xml")
    prom = "".join(f'nccl_busbw_gbps{{collective="all_reduce",size="{s}",ranks="8"}} {b:.2f}\n' for s, _, _, b in OUT)
    yield Shape("prometheus-without-help", prom, (), says="Prometheus")
    took = "".join(
        f"step {at}: allreduce of {MB[s]} MB took {t / 1000:.4f} ms (algbw {a:.2f} GB/s)\n"
        for at, (s, t, a, _) in enumerate(OUT)
    )
    yield Shape("took-so-long", took, (Fact("all_reduce", None, 3, None, largest=LARGEST, time=2704.35),))
    tabs = "".join(
        f"all_reduce\tranks: 8\tsize: {s}\ttime: {t:.2f} us\talgbw: {a:.2f} GB/s\tbusbw: {b:.2f} GB/s\n"
        for s, t, a, b in OUT
    )
    yield Shape("names-and-tabs", tabs, (ONE,))


def named_columns() -> Iterator[Shape]:
    """Tables whose names hold traps, and tables that are turned or cut."""
    share = "".join(f"| {MB[s]} | {b:.2f} | {b / 4:.1f} |\n" for s, _, _, b in OUT)
    yield Shape(
        "share-of-a-peak",
        f"# all_reduce, 8 GPUs\n\n| Size (MB) | BusBW (GB/s) | BusBW % of peak |\n|---|---|---|\n{share}",
        (BARE,),
        "page.md",
    )
    expected = "".join(f"{s},{400:.1f},{b:.2f}\n" for s, _, _, b in OUT)
    yield Shape(
        "expected-before-measured",
        f"size_bytes,expected_busbw_GBps,measured_busbw_GBps\n{expected}",
        (BARE,),
        "all_reduce_8gpus.csv",
    )
    actual = "".join(f"{s},{b:.2f},{400:.1f},{t:.2f}\n" for s, t, _, b in OUT)
    yield Shape(
        "actual-and-target",
        f"Size (B),Actual Bus BW (GB/s),Target Bus BW (GB/s),Actual Latency (us)\n{actual}",
        (ONE,),
        "all_reduce.csv",
    )
    tail = "".join(f"{s:>12}{t:>12.2f}{t * 1.3:>12.2f}{t * 2:>12.2f}\n" for s, t, _, _ in OUT)
    yield Shape(
        "percentiles-alone",
        f"all_reduce latency on 8 GPUs\n  size (B)    p50 (us)    p95 (us)    p99 (us)\n{tail}",
        (Fact("all_reduce", 8, 3, None, largest=LARGEST, time=2704.35),),
    )
    tera = "".join(f"{s},{t:.2f},{a / 1000:.6f},{b / 1000:.6f}\n" for s, t, a, b in OUT)
    yield Shape("terabytes", f"size,time_us,algbw (TB/s),busbw (TB/s)\n{tera}", (ONE,), "all_reduce.csv")
    units = "size,time,algbw,busbw\nbytes,ms,GB/s,GB/s\n" + "".join(
        f"{s},{t / 1000:.6f},{a:.2f},{b:.2f}\n" for s, t, a, b in OUT
    )
    yield Shape("csv-with-a-row-of-units", units, (ONE,), "all_reduce.csv")
    turned = "| | " + " | ".join(f"{MB[s]} MB" for s in SIZES) + " |\n|---|---|---|---|\n"
    turned += "".join(
        f"| {name} | " + " | ".join(f"{each[at]:.2f}" for each in OUT) + " |\n"
        for name, at in (("Time (us)", 1), ("AlgBW (GB/s)", 2), ("BusBW (GB/s)", 3))
    )
    yield Shape("figures-down-sizes-across", f"# all_reduce, 8 GPUs\n\n{turned}", (ONE,), "page.md")
    seconds = "".join(f"{s}\t{t * 1e-6:.4e}\t{a:.2f}\t{b:.2f}\n" for s, t, a, b in OUT)
    yield Shape(
        "seconds-with-exponents", f"bytes\ttime (s)\talgbw (GB/s)\tbusbw (GB/s)\n{seconds}", (ONE,), "all_reduce.tsv"
    )
    through = "".join(f"{s},{t:.2f},{a:.2f},{b:.2f}\n" for s, t, a, b in OUT)
    yield Shape(
        "throughput-and-bus",
        f"message_size,latency_us,throughput_GBps,bus_bandwidth_GBps\n{through}",
        (ONE,),
        "all_reduce.csv",
    )
    cut = "".join(f"{s:>12}{t:>12.2f}{a:>10.2f}{b:>10.2f}\n" for s, t, a, b in OUT)[:-16]
    yield Shape(
        "cut-within-the-last-line",
        f"all_reduce, 8 ranks\n   size (B)   time (us)   algbw     busbw\n{cut}\n",
        (Fact("all_reduce", 8, 2, round(busbw("all_reduce", 8, SIZES[1]), 2), largest=SIZES[1]),),
    )
    headless = "".join(f"all_reduce,8,{s},{t:.2f},{a:.2f},{b:.2f}\n" for s, t, a, b in OUT)
    yield Shape("csv-without-its-header", headless, (), "tail.csv")
    mini = (
        "<table><thead><tr><th>Size</th><th>Time (us)</th><th>AlgBW (GB/s)</th><th>BusBW (GB/s)</th></tr></thead><tbody>"
        + "".join(
            f"<tr><td>{MB[s]} MiB</td><td>{t:.2f}</td><td>{a:.2f}</td><td>{b:.2f}</td></tr>" for s, t, a, b in OUT
        )
        + "</tbody></table>"
    )
    yield Shape("html-in-one-line", f"<html><body><h2>all_reduce, 8 GPUs</h2>{mini}</body></html>", (ONE,), "r.html")
    named = "size,time_us,algbw,busbw,name\n" + "".join(
        f"{s},{t:.2f},{a:.2f},{b:.2f},AllReduce\n" for s, t, a, b in OUT
    )
    yield Shape("csv-name-at-the-end", named, (ONE,), "x.csv")
