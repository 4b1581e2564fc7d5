"""The model that every format draws: colours, ratios with intervals, verdicts, and names of columns."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from busbw.analysis.comparison import Options, Side, compare, compare_all
from busbw.analysis.verdict import Verdict
from busbw.cli.main import main
from busbw.cli.sources import resolve_sides
from busbw.experiment.factors import Factor, Level
from busbw.experiment.loop import append_trial
from busbw.experiment.plan import Plan, save
from busbw.experiment.trial import Outcome, Trial
from busbw.records import Case, Library, Record, Run, Source, Tool, save_records
from busbw.report.curves import Curve, NamedRun, make_curves
from busbw.report.judging import Judge
from busbw.report.naming import name_columns, parse_axes
from busbw.report.picture import DARK, LIGHT, View, choose_colours, make_views
from busbw.report.story import headline, how_measured, how_to_repeat, opening, verdicts
from busbw.report.tables import sections_text
from busbw.report.variants import Section, Wanted, make_sections

# Machado, Oliveira and Fernandes 2009, severity 1: how linear RGB reaches the three kinds of colour blindness.
_EYES = {
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def linear(colour: str) -> tuple[float, ...]:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return tuple(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)


def luminance(colour: str) -> float:
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True))


def lab(colour: str, eye: str) -> tuple[float, float, float]:
    r, g, b = (min(1.0, max(0.0, sum(w * c for w, c in zip(row, linear(colour), strict=True)))) for row in _EYES[eye])

    def root(t: float) -> float:
        return t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116

    x = root((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047)
    y = root(0.2126 * r + 0.7152 * g + 0.0722 * b)
    z = root((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize(("palette", "ground"), [(LIGHT, "#ffffff"), (DARK, "#14171b")])
def test_colours_stay_apart_for_every_eye_and_from_their_ground(palette: tuple[str, ...], ground: str) -> None:
    for colour in palette:
        low, high = sorted((luminance(colour), luminance(ground)))
        assert (high + 0.05) / (low + 0.05) >= 3, colour
    for eye in _EYES:
        for one, two in combinations(palette, 2):
            # 2.3 is what an eye just notices; lines are thin and stand far from each other.
            assert math.dist(lab(one, eye), lab(two, eye)) > 10, (eye, one, two)


def record(name: str, speed: float, *, library: str | None = "NCCL", samples: int = 0, **environment: str) -> Record:
    cases = [
        Case(name, 0, "all_reduce", 1 << power, placement, "measured", (10 + 2.0**power / 1e5) / speed, 1.0,
             speed * power, type="float", op="sum", ranks=2,
             batches_us=(tuple((10 + 2.0**power / 1e5) / speed * (1 + 0.002 * (i % 5)) for i in range(samples)),)
             if samples else ())
        for power in range(3, 31)
        for placement in ("out_of_place", "in_place")
    ]  # fmt: skip
    return Record(
        Run(name, None, Tool("busbw"), Library(library) if library else None, environment=environment), tuple(cases)
    )


def curves(*records: Record) -> list[Curve]:
    return make_curves([NamedRun(each.run.run, each) for each in records])


def sections(*records: Record, **wanted: object) -> list[Section]:
    return make_sections(curves(*records), Wanted(**wanted))  # type: ignore[arg-type]


def of_catalogue(name: str, columns: str | None = None) -> list[Section]:
    runs = [
        NamedRun(each.label.removeprefix("catalogue:"), each.record) for each in resolve_sides([f"catalogue:{name}"])
    ]
    found = make_curves(runs)
    return make_sections(found, Wanted(parse_axes(columns, found)))


def test_a_library_has_its_colour_on_every_page() -> None:
    alone = choose_colours(curves(record("x", 1)))
    beside = choose_colours(curves(record("y", 1, library="RCCL"), record("x", 1)))
    third = choose_colours(curves(record("z", 1, library="MSCCL++"), record("y", 1, library="RCCL"), record("x", 1)))
    assert alone[0] == beside[1] == third[2] and beside[0] == third[1]
    several = choose_colours(curves(*(record(str(i), 1) for i in range(5)), record("y", 1, library="RCCL")))
    assert len(set(several)) == 6 and several[0] == alone[0] and several[5] == beside[0]


def views(*records: Record) -> list[View]:
    judge = Judge()
    return make_views(sections(*records, judge=judge), lambda record, shape, size: None, judge)


def test_the_ratio_is_plotted_with_its_interval() -> None:
    (view,) = views(record("a", 1, samples=8, NCCL_X="1"), record("b", 2, samples=8, NCCL_X="2"))
    assert [(plot.id, plot.logarithmic) for plot in view.plots] == [
        ("ratio", False),
        ("busbw", False),
        ("latency", True),
    ]
    for line in view.plots[0].lines:
        assert len(line.points) == 28
        for point in line.points:
            assert point.value is not None and point.low is not None and point.high is not None
            assert point.low <= point.value <= point.high
            assert 1.9 < point.value < 2.1


def test_one_column_has_no_ratio_and_its_ends_are_the_verdict() -> None:
    (view,) = views(record("a", 1))
    assert [plot.id for plot in view.plots] == ["busbw", "latency"]
    (said,) = verdicts(sections(record("a", 1)), Judge())
    assert said == "Highest bus bandwidth 30.00 GB/s, at 1 GiB; lowest latency 10.00 us, at 8 B."


def test_columns_of_different_work_each_have_their_ends_as_the_verdict() -> None:
    gather = record("b", 1)
    cases = tuple(replace(case, collective="all_gather") for case in gather.cases)
    said = verdicts(sections(record("a", 1), replace(gather, cases=cases)), Judge())
    assert [each.partition(":")[0] for each in said] == ["AllReduce", "AllGather"]
    assert all(each.partition(": ")[2].startswith("highest bus bandwidth 30.00 GB/s, at 1 GiB") for each in said)


def test_the_graph_file_is_judged_in_one_sentence() -> None:
    first, second = verdicts(of_catalogue("nc48v4"), Judge())
    assert first == (
        "'without NCCL_GRAPH_FILE' against 'with NCCL_GRAPH_FILE', out of place: at the largest sizes (2 GiB to 8 GiB) "
        "it is 3.9 times as fast; from 64 KiB up it is 1.16 to 3.9 times as fast; up to 32 KiB no difference above "
        "2.9 % over 13 sizes together."
    )
    assert "in place" in second


def test_without_numpy_the_page_says_why_it_gives_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    two = sections(record("a", 1, samples=8, X="1"), record("b", 1.2, samples=8, X="2"))
    assert verdicts(two, Judge())[0].startswith("No verdict: the interval of a ratio needs numpy")
    assert opening(two[0], Judge())[0].startswith("No verdict: ")


def test_only_what_is_more_than_noise_is_bold() -> None:
    (section,) = of_catalogue("nc96v4", "NCCL_GRAPH_FILE")
    assert not any(cell.best or cell.sure for table in section.tables for row in table.cells for cell in row)
    (section,) = of_catalogue("nc48v4", "NCCL_GRAPH_FILE")
    bus = next(table for table in section.tables if table.quantity.startswith("BusBW"))
    last = bus.cells[-1]
    assert [cell.best for cell in last] == [False, True, False, True] and [cell.sure for cell in last] == [
        False,
        True,
    ] * 2


def test_equal_runs_have_no_best_and_a_faster_one_has() -> None:
    (alike,) = sections(record("a", 1, samples=8, X="1"), record("b", 1, samples=8, X="2"))
    assert not any(cell.best for table in alike.tables for row in table.cells for cell in row)
    (unlike,) = sections(record("a", 1, samples=8, X="1"), record("b", 1.2, samples=8, X="2"))
    assert all([cell.best for cell in row] == [False, True] * 2 for table in unlike.tables for row in table.cells)


def names(*records: Record, axes: str | None = None) -> list[str]:
    found = curves(*records)
    return name_columns(found, parse_axes(axes, found))


def test_columns_are_named_by_what_differs() -> None:
    one = record("page#1", 1, NCCL_ALGO="Ring", NCCL_DEBUG="INFO")
    assert names(one, record("page#2", 1, NCCL_ALGO="Tree")) == ["NCCL_ALGO=Ring", "NCCL_ALGO=Tree"]
    assert names(one, record("page#2", 1)) == ["with NCCL_ALGO=Ring", "without NCCL_ALGO"]
    assert names(one, record("page#2", 1, library="RCCL")) == ["NCCL", "RCCL"]
    three = names(one, record("page#2", 1, library="RCCL"), record("page#3", 1, NCCL_ALGO="Tree"))
    assert three == ["NCCL, NCCL_ALGO=Ring", "RCCL", "NCCL, NCCL_ALGO=Tree"]
    assert names(record("page#1", 1), record("page#2", 1)) == ["1st in page", "2nd in page"]
    assert names(record("before", 1), record("after", 1)) == ["before", "after"]
    runs = [replace(each.run, options={"maxbytes": i, "minbytes": i}) for i, each in enumerate([one, one])]
    sizes = [Record(replace(run, run=f"of {run.options['maxbytes']}"), one.cases) for run in runs]
    assert names(*sizes) == ["of 0", "of 1"], "sizes are no setting"


def test_the_kernels_of_the_published_page_are_columns() -> None:
    found = of_catalogue("ndmv4-2x1", "algorithm")
    gather = next(section for section in found if section.title.startswith("AllGather"))
    assert gather.names == ("NCCL", "K0", "K1", "K2")


def test_runs_that_repeat_each_other_are_one_column() -> None:
    repeats = [NamedRun("a", record(str(i), 1 + i / 100)) for i in range(4)]
    (section,) = make_sections(make_curves([*repeats, NamedRun("b", record("9", 3, NCCL_X="1"))]), Wanted())
    assert len(section.names) == 2 and len(section.curves[0].records) == 4


def test_a_column_of_wrong_results_is_marked_wherever_it_is_named() -> None:
    good, bad = record("a", 1), record("b", 3, NCCL_X="1")
    bad = replace(bad, cases=tuple(replace(case, wrong=12 * (case.bytes > 64)) for case in bad.cases))
    (section,) = make_sections(make_curves([NamedRun("a", good), NamedRun("b", bad)]), Wanted(named=True))
    assert section.names == ("a", "b (wrong results)")
    assert section.notes[0] == "b gave wrong results in 48 of 56 cases (12 elements at 128 B): its times say nothing"
    assert [head.label for head in section.tables[0].heads[:2]] == list(section.names)
    third = compare_all([Side("a", (good,)), Side("a", (good,)), Side("b", (bad,))], Options())[1]
    assert third.notes[0].startswith("C gave wrong results in 48 of 56 cases")


def test_a_name_is_not_written_otherwise_at_the_beginning_of_a_sentence(tmp_path: Path) -> None:
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for i, path in enumerate(paths, 1):
        save_records([record(path.stem, i, NCCL_X=path.stem)], path)
    page = tmp_path / "page.html"
    assert main(["report", *map(str, paths), "--names", "old,new", "--output", str(page)]) == 0
    assert '<p class="verdict">new against old' in page.read_text()


def test_bandwidths_that_are_all_small_have_digits_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    slow = record("a", 1)
    slow = replace(slow, cases=tuple(replace(c, time_us=1e9, algbw_GBps=0.0, busbw_GBps=0.0) for c in slow.cases))
    (section,) = make_sections(make_curves([NamedRun("a", slow)]), Wanted())
    text = sections_text([section], [[]])
    assert "1 GiB  0.0011" in text and " 0.00 " not in text


def plain_view(section: Section) -> View:
    return make_views([section], lambda record, shape, size: None, Judge())[0]


def test_more_columns_than_colours_have_other_markers() -> None:
    (section,) = make_sections(make_curves([NamedRun(f"r{i}", record(str(i), 1 + i)) for i in range(20)]), Wanted())
    lines = [line for plot in plain_view(section).plots if plot.id == "busbw" for line in plot.lines]
    looks = {(line.colour, line.marker) for line in lines if line.placement == "in place"}
    assert len(looks) == 20


def test_ratios_far_apart_are_drawn_on_a_logarithmic_axis() -> None:
    for speed, logarithmic in ((3, False), (1000, True), (0.001, True)):
        runs = [NamedRun("a", record("a", 1)), NamedRun("b", record("b", speed, NCCL_X="1"))]
        (section,) = make_sections(make_curves(runs), Wanted())
        assert plain_view(section).plots[0].logarithmic == logarithmic


def test_a_log_without_its_command_is_repeated_by_what_its_heading_says() -> None:
    options = {"minbytes": 8, "maxbytes": 3 << 30, "stepfactor": 2, "iters": 20, "warmup_iters": 5, "nthreads": 1}
    run = replace(record("a", 1).run, program="all_reduce_perf", options=options, processes=8,
                  source=Source("job.log", "nccl-tests text"))  # fmt: skip
    found = make_sections(make_curves([NamedRun("a", Record(run, record("a", 1).cases))]), Wanted())
    assert how_to_repeat(found, ["job.log"]) == [
        "all_reduce_perf -b 8 -e 3G -f 2 -w 5    # 8 processes", "busbw report job.log"
    ]  # fmt: skip


def test_title_measuring_and_repeating_say_what_is_known() -> None:
    found = of_catalogue("ndv4", "nodes")
    assert headline(found) == "AllReduce float sum, 1 node of 8 GPUs and 2 nodes of 8 GPUs, Standard_ND96asr_v4"
    assert "library and date not recorded" in how_measured(found)[0]
    assert how_to_repeat(found, ["catalogue:ndv4"])[-1] == "busbw report catalogue:ndv4"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--columns", "colour"], "'colour' is no axis"),
        (["--against", "nobody"], "is no column; the columns are: with NCCL_GRAPH_FILE, without NCCL_GRAPH_FILE"),
        (["--figures", "time,watts"], "'watts' is no figure"),
        (["--collective", "broadcast"], "no measured case of broadcast"),
    ],
)
def test_a_wrong_word_is_named(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "catalogue:nc48v4", *words]) != 0
    assert said in capsys.readouterr().err


def test_one_node_and_sixteen_compare_though_one_is_a_range() -> None:
    one, sixteen = (
        Side(name, tuple(each.record for each in resolve_sides([f"catalogue:v100-32gb-{name}-torch"])))
        for name in ("1node", "16node")
    )
    (row,) = compare(one, sixteen, Options(allow_different=True, ranks=64)).rows
    # 23.2939 to 55.0766 Gbps of 64 ranks against 1323.6244 of 4: each times its factor of bus bandwidth.
    low, high = (rate * (2 * 63 / 64) / (1323.6244 * 2 * 3 / 4) for rate in (23.2939, 55.0766))
    assert row.interval is not None and row.judgement.verdict is Verdict.SLOWER
    assert math.isclose(row.interval.low, low, rel_tol=1e-5) and math.isclose(row.interval.high, high, rel_tol=1e-5)
    assert low < row.ratio < high


def test_ranges_are_drawn_where_no_bus_bandwidth_is_known() -> None:
    judge = Judge()
    (view,) = make_views(of_catalogue("torch-bandwidth", "nodes,cluster"), lambda record, shape, size: None, judge)
    alg = next(plot for plot in view.plots if plot.id == "algbw")
    assert [(line.points[0].value is None, line.points[0].low is None) for line in alg.lines] == [(False, True)] * 2 + [
        (True, False)
    ] * 3
    assert [plot.id for plot in make_views(of_catalogue("ndv4"), lambda record, shape, size: None, judge)[0].plots] == [
        "busbw",
        "latency",
    ]


def test_an_experiment_is_a_column_for_each_variant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    factor = Factor("NCCL_ALGO", (Level("Ring", {"NCCL_ALGO": "Ring"}), Level("Tree", {"NCCL_ALGO": "Tree"})))
    save(Plan((factor,), ("all_reduce",), 2), tmp_path)
    for number in range(8):
        for variant, name in enumerate(("Ring", "Tree")):
            folder = tmp_path / "trials" / f"r{number:04d}-v{variant:03d}"
            folder.mkdir(parents=True)
            slow = 0.5 if number == 3 and variant else 1 + variant
            each = record(f"{name}{number}", slow + number / 1000, NCCL_ALGO=name)
            save_records([each], folder / "record.jsonl")
            outcome = Outcome.WRONG if number == 3 else Outcome.MEASURED
            append_trial(tmp_path, Trial(number, variant, outcome, 1.0))
    assert len(resolve_sides([str(tmp_path)])) == 14, "a trial with wrong data is no repetition"
    assert main(["report", str(tmp_path), "--format", "json", "--latency-sizes", "8"]) == 0
    rows = [row for row in json.loads(capsys.readouterr().out) if row["quantity"].startswith("Latency")]
    assert [row["column"] for row in rows[:2]] == ["baseline (NCCL_ALGO=Ring)", "NCCL_ALGO=Tree"]
    assert 1.9 < rows[1]["factor_low"] < rows[1]["factor"] < rows[1]["factor_high"] < 2.1, (
        "the wrong trial does not count"
    )
    assert rows[1]["best"] and not rows[0]["best"]


def test_runs_joined_by_a_plus_are_one_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for number, speed in enumerate((1, 1.01, 1.02, 2, 2.02, 2.04)):
        files.append(str(tmp_path / f"{number}.jsonl"))
        save_records([record(f"run{number}", speed)], Path(files[-1]))
    words = ["report", "+".join(files[:3]), "+".join(files[3:]), "--names", "old,new", "--format", "json"]
    assert main(words) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["column"] for row in rows} == {"old", "new"}
    assert all(row["factor_low"] < 2 < row["factor_high"] and row["best"] for row in rows if row["column"] == "new")


def test_a_log_becomes_a_page_in_one_command(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    lines = [
        "# nThread 1 nGpus 2 minBytes 8 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1",
        "# Using devices",
        "#  Rank  0 Group  0 Pid  1 on node1 device  0 [0x00] NVIDIA H100",
        "#  Rank  1 Group  0 Pid  1 on node1 device  1 [0x01] NVIDIA H100",
        "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong",
        *(
            f"{size} {size // 4} float sum -1 10.00 {size / 1e4:.2f} {size / 1e4:.2f} 0"
            f" 10.50 {size / 1.05e4:.2f} {size / 1.05e4:.2f} 0"
            for size in (8 << power for power in range(18))
        ),
        "# Avg bus bandwidth    : 12.3",
    ]
    log.write_text("\n".join(lines) + "\n")
    assert main(["report", str(log), "--output", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "<h1>AllReduce float sum, 1 node of 2 GPUs" in page and "Highest bus bandwidth 104.86 GB/s, at 1 MiB" in page
