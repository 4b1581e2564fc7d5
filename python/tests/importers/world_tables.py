"""Tables that people and their scripts make of results: the facts were written before the first try, halves by the hash of the name."""

# ruff: noqa: E501 - the lines are as wide as the tools print them

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from world_corpus import Fact, Shape
from world_writers import ELEMENT, SIZES, algbw, busbw, time_of

LARGEST = SIZES[-1]
FAST = 0.9
"""Time in place over time out of place, so that a mixture of both is seen."""

BOTH = Fact("all_reduce", 8, 3, 173.71, largest=LARGEST, time=2704.35, in_place=193.01)
"""What tables with both placements must give."""
ONE = Fact("all_reduce", 8, 3, 173.71, largest=LARGEST, time=2704.35)
"""What tables with one placement must give."""

OUT = [[f"{time_of(size):.2f}", f"{algbw(size):.2f}", f"{busbw('all_reduce', 8, size):.2f}"] for size in SIZES]
IN = [
    [f"{time_of(size) * FAST:.2f}", f"{algbw(size) / FAST:.2f}", f"{busbw('all_reduce', 8, size) / FAST:.2f}"]
    for size in SIZES
]
LEAD = [[str(size), str(size // ELEMENT["float"]), "float", "sum", "-1"] for size in SIZES]
FULL = [[*lead, *out, "0", *in_, "0"] for lead, out, in_ in zip(LEAD, OUT, IN, strict=True)]
PLAIN = [[str(size), *out] for size, out in zip(SIZES, OUT, strict=True)]
NAMES = ["size (B)", "time (us)", "algbw (GB/s)", "busbw (GB/s)"]


def joined(rows: Sequence[Sequence[str]], mark: str = ",") -> str:
    return "".join(mark.join(row) + "\n" for row in rows)


def padded(rows: Sequence[Sequence[str]], gap: str = "  ") -> list[str]:
    """Columns aligned to the right, as pandas, tabulate and printf give them."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [gap.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def script_shapes() -> Iterator[Shape]:
    """CSV and JSON that people's scripts make of nccl-tests' output."""
    halves = [f"{half}_{name}" for half in ("oop", "ip") for name in ("time", "algbw", "busbw", "wrong")]
    head = ["size", "count", "type", "redop", "root"]
    yield Shape("csv-oop-and-ip", joined([[*head, *halves], *FULL]), (BOTH,), "all_reduce.csv")
    words = [f"{half}_{name}" for half in ("out_of_place", "in_place") for name in ("time", "algbw", "busbw", "error")]
    rows = [[row[0], row[1], row[2], *row[5:]] for row in FULL]
    yield Shape(
        "csv-out-of-place-in-words",
        joined([["size", "count", "nccl_type", *words], *rows]),
        (BOTH,),
        "nccl_all_reduce.csv",
    )
    data = [
        {"size": row[0], "op_time(us)": row[5], "op_algbw(GB/s)": row[6], "op_busbw(GB/s)": row[7],
         "ip_time(us)": row[9], "ip_algbw(GB/s)": row[10], "ip_busbw(GB/s)": row[11]}
        for row in FULL
    ]  # fmt: skip
    yield Shape("json-op-and-ip", json.dumps({"collective": "all_reduce", "data": data}), (BOTH,), "run.json")
    ends = [f"{name}_{half}" for half in ("oop", "ip") for name in ("time", "algbw", "busbw")]
    rows = [[*row[:3], *row[5:8], *row[9:12]] for row in FULL]
    yield Shape("csv-placement-behind", joined([["size_B", "count", "type", *ends], *rows]), (BOTH,), "allreduce.csv")
    twice = ["time", "algbw", "busbw", "#wrong"] * 2
    yield Shape("csv-columns-of-one-name", joined([[*head, *twice], *FULL]), (BOTH,), "all_reduce.csv")
    mangled = ["time", "algbw", "busbw", "#wrong", "time.1", "algbw.1", "busbw.1", "#wrong.1"]
    yield Shape("csv-renamed-by-pandas", joined([[*head, *mangled], *FULL]), (BOTH,), "all_reduce.csv")
    above = [["", "", "", "", "", "out-of-place", "", "", "", "in-place", "", "", ""]]
    units = [["(B)", "(elements)", "", "", "", *["(us)", "(GB/s)", "(GB/s)", ""] * 2]]
    yield Shape("csv-of-a-sheet-three-header-rows", joined([*above, [*head, *twice], *units, *FULL]), (BOTH,), "all_reduce.csv")  # fmt: skip
    spaced = [f"{half} {name}" for half in ("Out-of-place", "In-place") for name in ("Time (us)", "Alg BW (GB/s)", "Bus BW (GB/s)", "Errors")]  # fmt: skip
    yield Shape("csv-of-a-sheet-in-words", joined([["Size (B)", "Count", "Type", "RedOp", "Root", *spaced], *FULL]), (BOTH,), "AllReduce.csv")  # fmt: skip
    nested = [{"size": int(row[0]), "out_of_place": {"time_us": float(row[5]), "algbw": float(row[6]), "busbw": float(row[7])},
               "in_place": {"time_us": float(row[9]), "algbw": float(row[10]), "busbw": float(row[11])}} for row in FULL]  # fmt: skip
    yield Shape("json-placements-as-objects", json.dumps({"test": "all_reduce_perf", "results": nested}), (BOTH,), "run.json")  # fmt: skip


def unit_shapes() -> Iterator[Shape]:
    """Units in names, in cells, and where they must follow from the figures or be asked for."""

    def table(*names: str, scale: Sequence[float] = (1, 1, 1), sizes: Sequence[str] | None = None) -> str:
        rows = [[sizes[at] if sizes else row[0], *(f"{float(cell) * factor:.6g}" for cell, factor in zip(row[1:], scale, strict=True))]
                for at, row in enumerate(PLAIN)]  # fmt: skip
        return joined([list(names), *rows])

    yield Shape("csv-ms-and-GBps", table("size_bytes", "lat_ms", "algBW_GBps", "busBW_GBps", scale=(1e-3, 1, 1)), (ONE,), "allreduce.csv")  # fmt: skip
    yield Shape("csv-seconds-per-iteration", table("size_bytes", "sec_per_iter", "algbw_GBps", "busbw_GBps", scale=(1e-6, 1, 1)), (ONE,), "allreduce.csv")  # fmt: skip
    yield Shape("csv-gbps-that-are-gigabytes", table("size", "time_us", "algbw_gbps", "busbw_gbps"), (ONE,), "allreduce.csv")  # fmt: skip
    yield Shape("csv-gbps-that-are-gigabits", table("size", "time_us", "algbw_gbps", "busbw_gbps", scale=(1, 8, 8)), (ONE,), "allreduce.csv")  # fmt: skip
    yield Shape("csv-Gbps-without-times", joined([["size", "algbw (Gbps)", "busbw (Gbps)"], *[[row[0], f"{float(row[2]) * 8:.2f}", f"{float(row[3]) * 8:.2f}"] for row in PLAIN]]),
                (Fact("all_reduce", 8, 3, 173.71, largest=LARGEST),), "allreduce.csv")  # fmt: skip
    yield Shape("csv-gbps-nobody-can-tell", joined([["size", "algbw_gbps", "busbw_gbps"], *[[row[0], row[2], row[3]] for row in PLAIN]]),
                (), "allreduce.csv", says="gbps")  # fmt: skip
    yield Shape("csv-MBps", table("size", "time_us", "algbw_MBps", "busbw_MBps", scale=(1, 1e3, 1e3)), (ONE,), "allreduce.csv")  # fmt: skip
    yield Shape("csv-time-without-unit-in-ms", table("size", "time", "algbw", "busbw", scale=(1e-3, 1, 1)), (ONE,), "allreduce.csv")  # fmt: skip
    yield Shape("csv-GiB-per-second", table("size", "time_us", "algbw (GiB/s)", "busbw (GiB/s)", scale=(1, 1e9 / (1 << 30), 1e9 / (1 << 30))), (ONE,), "allreduce.csv")  # fmt: skip
    yield Shape("csv-size-in-MB", table("size_mb", "time_ms", "algbw_GBps", "busbw_GBps", scale=(1e-3, 1, 1), sizes=("1", "16", "256")), (ONE,), "allreduce.csv")  # fmt: skip
    yield Shape("csv-size-in-decimal-MB", table("size_mb", "time_us", "algbw", "busbw", sizes=("1.048576", "16.777216", "268.435456")), (ONE,), "allreduce.csv")  # fmt: skip
    million = [
        [str(10**power), f"{10**power / 100e3 + 20:.2f}", f"{10**power / (10**power / 100e3 + 20) / 1e3:.2f}"]
        for power in (6, 7, 8)
    ]
    megabytes = [[f"{int(row[0]) // 10**6}", *row[1:]] for row in million]
    yield Shape("csv-MB-of-a-million", joined([["size_MB", "time_us", "algbw_GBps"], *megabytes]),
                (Fact("all_reduce", None, 3, None, largest=10**8, time=1020.0),), "allreduce.csv")  # fmt: skip
    yield Shape("csv-german-excel", "size;time;algbw;busbw\n1.048.576;30,49;34,39;60,19\n16.777.216;187,77;89,35;156,36\n268.435.456;2.704,35;99,26;173,71\n",
                (ONE,), "allreduce.csv")  # fmt: skip
    yield Shape("csv-german-whole-thousands", "size;time;algbw;busbw\n1.048.576;30,49;34,39;60,19\n16.777.216;187,77;89,35;156,36\n268.435.456;2.704;99,26;173,71\n",
                (Fact("all_reduce", 8, 3, 173.71, largest=LARGEST, time=2704.0),), "allreduce.csv")  # fmt: skip
    cells = "| Message Size | algbw | busbw | Notes |\n|---|---|---|---|\n| 512 MB | 110.91 GB/s | 110.91 GB/s | busbw = algbw for n=2 |\n| 8 GB | 112.94 GB/s | 112.94 GB/s | ~900 Gb/s |\n"
    yield Shape("markdown-units-in-cells", f"### NCCL all_reduce_perf (2 nodes of 1 GPU)\n\n{cells}",
                (Fact("all_reduce", 2, 2, 112.94, largest=8 << 30),), "page.md")  # fmt: skip
    yield Shape("csv-size-without-unit-in-KiB", table("size", "time_us", "algbw", "busbw", sizes=("1024", "16384", "262144")), (ONE,), "allreduce.csv")  # fmt: skip
    yield Shape("csv-of-two-columns", "size_bytes,latency_us\n1048576,30.49\n268435456,2704.35\n", (Fact("all_reduce", None, 2, None, largest=LARGEST, time=2704.35),), "allreduce.csv")  # fmt: skip
    yield Shape(
        "csv-latency-without-unit",
        "size,latency\n1048576,0.00003\n268435456,0.0027\n",
        (),
        "allreduce.csv",
        says="unit",
    )
    mixed = "| Size | Latency | AlgBW |\n|------|-----------|---------|\n| 4 KB | 13.5 µs | 0.30 GB/s |\n| 1 MB | 0.60 ms | 1.75 GB/s |\n| 1 GB | 0.26 s | 4.13 GB/s |\n"
    yield Shape("markdown-times-of-three-units", f"## all_reduce\n\n{mixed}", (Fact("all_reduce", None, 3, None, largest=1 << 30, time=260000.0),), "page.md")  # fmt: skip
    wrong = "size,time_us,algbw,busbw\n1048576,30.49,341.9,60.19\n16777216,187.77,893.5,156.36\n268435456,2704.35,992.6,173.71\n"
    yield Shape("csv-that-contradicts-itself", wrong, (), "allreduce.csv", says="contradict")


def column_shapes() -> Iterator[Shape]:
    """Columns that name the collective, the ranks, a library or a variant."""
    rows = []
    for name, factor in (("AllReduce", 1.75), ("AllGather", 0.875)):
        rows += [
            [name, str(size), f"{time_of(size):.2f}", f"{algbw(size):.2f}", f"{algbw(size) * factor:.2f}"]
            for size in SIZES
        ]
    gather = Fact("all_gather", 8, 3, 86.85, largest=LARGEST, time=2704.35)
    yield Shape("csv-op-is-the-collective", joined([["op", "msg_bytes", "time_us", "algBW_GBps", "busBW_GBps"], *rows]), (ONE, gather), "results.csv")  # fmt: skip
    yield Shape("csv-commented-header", "NCCL Collective Benchmark: 8 GPUs\n\n" + joined([["# op", "size_bytes", "count", "time_us", "algbw_GBps", "busbw_GBps"], *[[row[0], row[1], str(int(row[1]) // 4), *row[2:]] for row in rows]]),
                (ONE, gather), "bench.log")  # fmt: skip
    yield Shape("csv-kind-and-world", joined([["kind", "size_bytes", "world", "sec_per_iter", "algbw_GBps", "busbw_GBps", "extra"], *[[row[0].lower(), row[1], "8", f"{float(row[2]) / 1e6:.8f}", *row[3:], "x"] for row in rows]]),
                (ONE, gather), "summary.csv")  # fmt: skip
    two = [["all_reduce", way, *row] for way in ("p2p", "shm") for row in PLAIN]
    yield Shape("csv-two-transports", joined([["collective", "transport", "size", "time_us", "algbw_GBps", "busbw_GBps"], *two]), (ONE,), "matrix.csv", says="p2p")  # fmt: skip
    backends = [["all_reduce", way, *row] for way in ("nccl", "gloo") for row in PLAIN]
    yield Shape("csv-two-backends", joined([["collective", "backend", "size", "time_us", "algbw_GBps", "busbw_GBps"], *backends]), (ONE, ONE), "matrix.csv")  # fmt: skip
    ranks = [
        [
            str(n),
            "float32",
            str(size),
            str(size // 4),
            "16",
            f"{time_of(size) / 1e3:.6f}",
            f"{algbw(size):.4f}",
            f"{busbw('all_reduce', n, size):.4f}",
        ]
        for n in (2, 8)
        for size in SIZES
    ]
    yield Shape("csv-world-sizes", joined([["world_size", "dtype", "bytes", "element_count", "num_channels", "avg_ms", "algbw_GBps", "busbw_GBps"], *ranks]),
                (Fact("all_reduce", 2, 3, 99.26), Fact("all_reduce", 8, 3, 173.71)), "all_reduce_sweep.csv")  # fmt: skip
    libs = "| size (bytes) | NCCL busbw (GB/s) | nano-nccl busbw (GB/s) | ratio |\n| ---: | ---: | ---: | ---: |\n| 262144 | 4.46 | 4.88 | 1.094 |\n| 67108864 | 8.71 | 8.86 | 1.017 |\n"
    yield Shape("markdown-two-libraries", f"# all_reduce on 4 GPUs\n\n{libs}", (Fact("all_reduce", 4, 2, 8.71), Fact("all_reduce", 4, 2, 8.86)), "page.md")  # fmt: skip
    by_ranks = "| N | all_reduce busbw (GB/s) | all_gather busbw (GB/s) |\n|--:|--:|--:|\n| 2 | **61.24** | **61.03** |\n| 8 | 378.10 | 365.20 |\n"
    yield Shape("markdown-rows-are-ranks", f"At 8 GiB:\n\n{by_ranks}", (), "page.md", says="size")
    at = "| Collective | @16G busbw (GB/s) |\n|------|----------|\n| all_reduce | **842** |\n| all_gather | **683** |\n"
    yield Shape("markdown-one-size-in-the-header", f"### 8 GPUs\n\n{at}", (Fact("all_reduce", 8, 1, 842.0, largest=16 << 30), Fact("all_gather", 8, 1, 683.0, largest=16 << 30)), "page.md")  # fmt: skip
    across = "| Size | 1MB | 16MB | 256MB |\n|---|---|---|---|\n| NCCL AllReduce busbw (GB/s) | 52.7 | 154.3 | 173.7 |\n| RCCL AllReduce busbw (GB/s) | 42.7 | 144.3 | 163.7 |\n"
    yield Shape("markdown-sizes-across-libraries-down", f"## 8 GPUs\n\n{across}", (Fact("all_reduce", 8, 3, 173.7, largest=LARGEST), Fact("all_reduce", 8, 3, 163.7)), "page.md")  # fmt: skip
    yield Shape("csv-sizes-across-without-unit", "collective,1M,16M,256M\nall_reduce,52.7,154.3,173.7\nall_gather,26.4,77.2,86.9\n", (), "results.csv", says="unit")  # fmt: skip
    quick = "# All-Reduce Benchmark Results (World Size: 4, Mode: cudagraph)\n\nAll times are in milliseconds. -1 indicates the method is not supported/available for that size.\n\n| Size | NCCL | Quick FP | Quick INT8 |\n|---|---|---|---|\n| 2KB | 0.045 | N/A | -1 |\n| 256MB | 2.974 | 2.5 | N/A |\n"
    yield Shape("markdown-times-by-prose", quick, (Fact("all_reduce", 4, 2, None, largest=LARGEST, time=2974.0), Fact("all_reduce", 4, 1, None, largest=LARGEST, time=2500.0)), "results.md")  # fmt: skip


def drawn_shapes() -> Iterator[Shape]:
    """The same columns as programs draw them on terminals and as wikis mark them up."""
    table = [NAMES, *PLAIN]
    intro = "all_reduce on 8 GPUs\n\n"
    lines = padded(table)
    yield Shape("columns-of-printf", intro + "\n".join(lines) + "\n", (ONE,), "all_reduce.txt")
    index = padded([["", "size", "time_us", "algbw", "busbw"], *[[str(at), *row] for at, row in enumerate(PLAIN)]])
    yield Shape("columns-of-pandas", "\n".join(index) + "\n", (ONE,), "all_reduce.txt")
    checked = padded(
        [
            ["size(B)", "count", "time(us)", "algbw(GB/s)", "busbw(GB/s)", "check"],
            *[[row[0], str(int(row[0]) // 4), *row[1:], "ok"] for row in PLAIN],
        ]
    )
    yield Shape("columns-of-cout", "\n".join(checked) + "\n", (ONE,), "all_reduce.txt")
    mccl = padded([["size(B)", "count", "type", "op", "root", "oop_time(us)", "oop_algBW", "oop_busBW", "ip_time(us)", "ip_algBW", "ip_busBW", "errors"],
                   *[[*row[:8], *row[9:]] for row in FULL]])  # fmt: skip
    yield Shape("columns-of-mccl-test", "# mccl-test all_reduce\n" + "\n".join(mccl) + "\n", (BOTH,), "run.log")
    dashes = "  ".join("-" * len(cell) for cell in padded([NAMES, *PLAIN])[0].split("  ") if cell)
    yield Shape("columns-of-tabulate", intro + lines[0] + "\n" + dashes + "\n" + "\n".join(lines[1:]) + "\n", (ONE,), "all_reduce.txt")  # fmt: skip
    psql = padded([["size", "time_us", "algbw", "busbw"], *PLAIN], " | ")
    yield Shape("columns-of-psql", " " + psql[0] + "\n" + "-----------+---------+-------+--------\n" + "".join(f" {line}\n" for line in psql[1:]) + "(3 rows)\n", (ONE,), "all_reduce.txt")  # fmt: skip
    piped = [f"| {line} |" for line in padded(table, " | ")]
    yield Shape("columns-of-org-mode", "* all_reduce\n" + piped[0] + "\n|-----------+---------+---+---|\n" + "\n".join(piped[1:]) + "\n", (ONE,), "all_reduce.org")  # fmt: skip
    rule = "+-----------+-----------+--------------+--------------+"
    yield Shape("columns-of-rst-grid", "all_reduce\n==========\n\n" + rule + "\n" + piped[0] + "\n" + rule.replace("-", "=") + "\n" + f"\n{rule}\n".join(piped[1:]) + f"\n{rule}\n", (ONE,), "all_reduce.rst")  # fmt: skip
    bars = "=========  =========  ============  ============"
    yield Shape("columns-of-rst-simple", f"{bars}\n" + "\n".join([lines[0], bars, *lines[1:], bars]) + "\n", (ONE,), "all_reduce.rst")  # fmt: skip
    box = [line.replace("|", "│") for line in piped]
    yield Shape("columns-in-a-box", "┌───────────┬─────────┐\n" + box[0] + "\n├───────────┼─────────┤\n" + "\n".join(box[1:]) + "\n└───────────┴─────────┘\n", (ONE,), "all_reduce.txt")  # fmt: skip
    heavy = piped[0].replace("|", "┃")
    yield Shape("columns-of-rich", "          all_reduce, 8 GPUs\n┏━━━━━━━━━━━┳━━━━━━━━━┓\n" + heavy + "\n┡━━━━━━━━━━━╇━━━━━━━━━┩\n" + "\n".join(box[1:]) + "\n└───────────┴─────────┘\n", (ONE,), "run.log")  # fmt: skip
    polars = [
        f"│ {line} │"
        for line in padded(
            [["size", "time_us", "algbw", "busbw"], ["---"] * 4, ["i64", "f64", "f64", "f64"], *PLAIN], " ┆ "
        )
    ]
    yield Shape("columns-of-polars", "shape: (3, 4)\n┌──────┬──────┐\n" + "\n".join([*polars[:3], "╞══════╪══════╡", *polars[3:]]) + "\n└──────┴──────┘\n", (ONE,), "all_reduce.txt")  # fmt: skip
    wiki = (
        '{| class="wikitable"\n! '
        + " !! ".join(NAMES)
        + "\n"
        + "".join("|-\n| " + " || ".join(row) + "\n" for row in PLAIN)
        + "|}\n"
    )
    yield Shape("wiki-of-mediawiki", f"== all_reduce ==\n{wiki}", (ONE,), "page.wiki")
    tall = (
        '{| class="wikitable"\n'
        + "".join(f"! {name}\n" for name in NAMES)
        + "".join("|-\n" + "".join(f"| {cell}\n" for cell in row) for row in PLAIN)
        + "|}\n"
    )
    yield Shape("wiki-of-mediawiki-a-cell-a-line", f"== all_reduce ==\n{tall}", (ONE,), "page.wiki")
    jira = "||" + "||".join(NAMES) + "||\n" + "".join("|" + "|".join(row) + "|\n" for row in PLAIN)
    yield Shape("wiki-of-jira", f"h3. all_reduce\n{jira}", (ONE,), "page.txt")
    ascii_doc = (
        "|===\n"
        + "".join(f"|{cell} " for cell in NAMES).rstrip()
        + "\n\n"
        + "".join("".join(f"|{cell} " for cell in row).rstrip() + "\n" for row in PLAIN)
        + "|===\n"
    )
    yield Shape("wiki-of-asciidoc", f"== all_reduce\n\n{ascii_doc}", (ONE,), "page.adoc")
    page = "<table><thead><tr><th rowspan=2>size (B)</th><th colspan=3>out-of-place</th><th colspan=3>in-place</th></tr><tr><th>time (us)</th><th>algbw (GB/s)</th><th>busbw (GB/s)</th><th>time (us)</th><th>algbw (GB/s)</th><th>busbw (GB/s)</th></tr></thead>\n"
    page += "".join(
        "<tr>" + "".join(f"<td>{cell}</td>" for cell in [row[0], *row[5:8], *row[9:12]]) + "</tr>\n" for row in FULL
    )
    yield Shape("html-two-header-rows", f"<!doctype html><html><body><h2>all_reduce</h2>\n{page}</table></body></html>\n", (BOTH,), "all_reduce.html")  # fmt: skip


def table_shapes() -> Iterator[Shape]:
    """All of them."""
    for part in (script_shapes, unit_shapes, column_shapes, drawn_shapes):
        yield from part()
