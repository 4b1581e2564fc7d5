"""A gate lets good runs through, stops bad ones, forgives noise and nothing else, and says what it judged by."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.gate.baseline import make, to_toml
from busbw.gate.judge import Result, judge
from busbw.gate.thresholds import load, parse, shipped
from busbw.records import Case, Library, Record, Run, Tool, save_records

LIMIT = """
[[threshold]]
machine = "H*"
collective = "all_reduce"
ranks = 4
bytes = ["1M", 1073741824]
min_busbw_GBps = 100
tolerance_percent = 10
source = "somebody"
"""


def record(rate: float = 100.0, *, noise: float = 0.0, name: str = "run", seed: int = 1, **changed: object) -> Record:
    rng = random.Random(seed)
    cases = []
    for size in (8 << 10, 1 << 20, 1 << 30):
        time = size / rate / 1e3
        batches = (tuple(time * rng.gauss(1, noise) for _ in range(20)),) if noise else ()
        case = Case(name, len(cases), "all_reduce", size, "in_place", "measured", time, rate / 1.5, rate, type="float",
                    op="sum", ranks=4, average="mean", batches_us=batches, wrong=0)  # fmt: skip
        cases.append(replace(case, **changed))  # type: ignore[arg-type]
    return Record(Run(name, None, Tool("busbw"), Library("NCCL"), machine="H200x4"), tuple(cases))


def results(found: Record, text: str = LIMIT, *, strict: bool = False) -> list[Result]:
    return [check.result for check in judge(found, parse(text, "test"), strict=strict)]


@pytest.mark.parametrize(("rate", "result"), [(100, Result.PASSED), (90, Result.PASSED), (89, Result.FAILED)])
def test_the_limit_is_the_figure_less_its_tolerance(rate: float, result: Result) -> None:
    assert results(record(rate)) == [result, result]


def test_noise_that_reaches_the_limit_passes_unless_strict() -> None:
    plain = record(89.5)
    steps = [0.9 + 0.01 * step for step in range(21)]
    spread = tuple(replace(case, batches_us=(tuple((case.time_us or 0) * s for s in steps),)) for case in plain.cases)
    noisy = replace(plain, cases=spread)
    assert set(results(noisy)) == {Result.NOISY}
    assert set(results(noisy, strict=True)) == {Result.FAILED}
    assert set(results(record(80, noise=0.02))) == {Result.FAILED}


def test_wrong_data_fails_however_fast() -> None:
    assert results(record(500, wrong=3)).count(Result.FAILED) == 3


def test_a_failed_or_missing_case_fails() -> None:
    good = record()
    assert results(replace(good, cases=good.cases[:2])) == [Result.PASSED, Result.FAILED]
    assert Result.FAILED in results(record(outcome="timed_out", reason="no answer"))


def test_what_no_threshold_is_for_is_refused_not_passed() -> None:
    for changed in ({"ranks": 8}, {"collective": "broadcast"}):
        with pytest.raises(UserError, match="no threshold for H200x4 is for what this run measured"):
            results(record(**changed))
    with pytest.raises(UserError, match="whose machine type is not recorded"):
        judge(replace(record(), run=replace(record().run, machine=None)), parse(LIMIT, "test"))


def test_times_are_limited_too() -> None:
    text = LIMIT.replace("min_busbw_GBps = 100", "max_time_us = 10").replace('["1M", 1073741824]', '"8K"')
    assert results(record(8192 / 10.9e3), text) == [Result.PASSED]
    assert results(record(8192 / 11.1e3), text) == [Result.FAILED]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("", "holds no threshold"),
        ("x = 1", "'x' is unknown"),
        ("[threshold]", "two brackets"),
        ("not toml", "is no TOML"),
        ("[[threshold]]\nmin_busbw_GBps = 1", "names no collective"),
        ('[[threshold]]\ncollective = "all_reduce"\nbytes = 8', "limits nothing"),
        (LIMIT.replace("100", '"fast"'), "not a number"),
        (LIMIT.replace("100", "nan"), "no finite number"),
        (LIMIT.replace("100", "9" * 400), "not a number"),
        (LIMIT.replace("10\n", "100\n"), "would let anything pass"),
        (LIMIT.replace('"1M"', '"1X"'), "not a size"),
        (LIMIT.replace("ranks = 4", "ranks = 4.5"), "not a whole number"),
        (LIMIT.replace("min_busbw", "min_bussbw"), "'min_bussbw_GBps' is unknown"),
        ('[[published]]\ncatalogue = "nowhere"\nsizes = "1G"', "no entry"),
    ],
)
def test_every_mistake_in_a_file_is_named(broken: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        parse(broken, "limits.toml")


@given(st.text(max_size=200))
def test_any_text_is_thresholds_or_one_sentence(text: str) -> None:
    try:
        assert parse(text, "any")
    except UserError as problem:
        assert str(problem)


def test_the_shipped_limits_are_published_figures_with_their_source() -> None:
    every = shipped()
    assert all(limit.published and limit.source.startswith("published figure") for limit in every)
    limits = [limit for limit in every if "catalogue:" in limit.source]
    assert {limit.machine for limit in limits} == {
        "Standard_NC48ads_A100_v4", "Standard_NC96ads_A100_v4", "Standard_NC12s_v3", "Standard_ND96asr_v4",
        "Standard_ND96amsr_A100_v4",
    }  # fmt: skip
    (found,) = (
        limit for limit in limits
        if limit.machine == "Standard_ND96asr_v4" and limit.shape.ranks == 16 and limit.bytes == 8 << 30
        and limit.shape.placement == "in_place"
    )  # fmt: skip
    assert found.min_busbw_GBps == 187.51


def test_machines_of_2026_have_published_limits_by_their_providers_names() -> None:
    limits = [each for each in shipped() if each.machine]
    for name in (
        "Standard_ND96isr_H100_v5",
        "p5.48xlarge",
        "p5en.48xlarge",
        "dgx-b200",
        "a4-highgpu-8g",
        "BM.GPU.GB200-v3.4",
    ):
        mine = [each for each in limits if each.fits_machine(name)]
        assert mine and all(each.published and "published figure" in each.source for each in mine), name
    table = 'collective = "all_reduce"\nbytes = "1G"\nmin_busbw_GBps = 1\nmachine = "a"\nmachines = ["b"]\n'
    with pytest.raises(UserError, match="stands instead of machine"):
        parse(f"[[threshold]]\n{table}", "t")


def test_the_graph_file_of_nc48v4_is_caught_and_its_absence_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "catalogue:nc48v4-graph-file"]) == 1
    text = capsys.readouterr().out
    assert text.count("FAIL") == 6 and "0 of 6 checks passed" in text
    assert main(["gate", "catalogue:nc48v4-no-graph-file"]) == 0
    assert "6 of 6 checks passed" in capsys.readouterr().out


def test_a_baseline_of_good_runs_passes_good_runs_and_stops_slow_ones(tmp_path: Path) -> None:
    good = [record(100, noise=0.02, name=f"g{seed}", seed=seed) for seed in range(3)]
    path = tmp_path / "baseline.toml"
    path.write_text(to_toml(make(good), good))
    limits = load(path)
    assert len(limits) == 3
    assert {limit.max_time_us is None for limit in limits} == {True, False}, "latency for small, bandwidth for large"
    assert {check.result for check in judge(record(99, noise=0.02, seed=9), limits)} == {Result.PASSED}
    assert {check.result for check in judge(record(70, noise=0.02, seed=9), limits)} == {Result.FAILED}


def test_a_baseline_is_not_made_of_wrong_data_or_of_nothing() -> None:
    with pytest.raises(UserError, match="wrong data"):
        make([record(wrong=1)])
    with pytest.raises(UserError, match="no measured case in common"):
        make([record(), record(ranks=8)])


def test_a_hostile_machine_name_survives_the_way_through_toml(tmp_path: Path) -> None:
    hostile = 'H\\200"\n[[threshold]]\x7f\u2028]'
    bad = replace(record(), run=replace(record().run, machine=hostile))
    limits = parse(to_toml(make([bad]), [bad]), "made")
    assert len(limits) == 3


def test_the_command_writes_junit_and_one_line_per_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limits, run, xml = tmp_path / "limits.toml", tmp_path / "run.jsonl", tmp_path / "gate.xml"
    limits.write_text(LIMIT)
    save_records([record(50, type="f\x1b<&>")], run)
    assert main(["gate", str(run), "--thresholds", str(limits), "--junit", str(xml)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line[:4] for line in lines[:2]] == ["FAIL", "FAIL"] and lines[2] == "0 of 2 checks passed"
    suite = ET.parse(xml).getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), len(suite)) == ("2", "2", 2)
    assert "50.00 GB/s; needs 90.00 GB/s (100.00 less 10 %)" in str(suite[0][0].get("message"))
    assert main(["gate", str(run), "--thresholds", str(limits), "--tolerance", "60"]) == 0


@pytest.mark.parametrize("words", [["nowhere"], ["RUN", "--thresholds", "nowhere"], ["RUN"], ["RUN", "--sizes", "7"]])
def test_what_cannot_be_judged_exits_with_2(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run.jsonl"
    save_records([record()], run)
    assert main(["gate", *(str(run) if word == "RUN" else word for word in words)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_baseline_command_makes_what_the_gate_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for seed in range(3):
        files.append(str(tmp_path / f"{seed}.jsonl"))
        save_records([record(100, noise=0.01, name=f"r{seed}", seed=seed)], files[-1])
    output = tmp_path / "baseline.toml"
    assert main(["baseline", "make", *files, "-o", str(output)]) == 0
    assert main(["gate", files[0], "--baseline", str(output)]) == 0
    assert main(["baseline", "make", files[0], "--sizes", "7", "-o", str(output)]) == 1
    assert main(["baseline", "make", files[0], "-o", "/nowhere/at/all"]) == 2
    assert "Traceback" not in capsys.readouterr().err
