"""Whatever cannot be written in the end, or needs a package that is missing, is refused before anything is started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.base.errors import UsageError
from busbw.base.options import ENGINE, actions_of, options_of
from busbw.base.overwriting import refuse_overwriting
from busbw.base.words import Given
from busbw.cli.main import main
from busbw.cli.verbs import VERBS
from busbw.runs.destination import require_runs

COLLECTIVE = ["--ranks", "2", "--", "all_reduce", "-b", "1K"]
BEFORE = {
    "overlap": COLLECTIVE, "watch": ["--", "true"], "tune": ["all_reduce"], "import": ["x.log"], "report": ["x"],
    "baseline": ["x"], "gate": ["x"], "replay": ["x"], "topo": [], "doctor": ["--prove"], "history": [],
}  # fmt: skip
UNWRITABLE = Path("/sys/busbw-nothing")
"""No file can be made there, by root neither."""


def writers() -> Iterator[tuple[str, list[str]]]:
    """Each verb, its words before an option and after it, by each option of it that writes a file."""
    for verb in VERBS:
        for action in actions_of(verb.name) or ("",):
            for option in options_of(f"{verb.name} {action}".strip()):
                if option.writes and option.half != ENGINE:
                    yield option.name, [verb.name, *([action] if action else [])]


WRITERS = sorted({(name, *words) for name, words in writers()})


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def started(*words: object, **_: object) -> None:
        raise AssertionError(f"{words} was started")

    monkeypatch.setattr(subprocess, "Popen", started)
    monkeypatch.setenv("BUSBW_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)


def test_every_verb_that_measures_and_writes_is_among_them() -> None:
    verbs = {words[1] for words in WRITERS}
    assert verbs >= {"overlap", "watch", "tune", "doctor", "fleet", "replay", "history", "gate"}
    assert len(WRITERS) > 15


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.parametrize("where", ["missing", "unwritable", "below a file", "folder"])
@pytest.mark.parametrize("writer", WRITERS, ids=" ".join)
def test_an_output_that_cannot_be_written_is_refused_at_once(
    writer: tuple[str, ...], where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, verb, *action = writer
    (tmp_path / "file").write_text("")
    target = {
        "missing": tmp_path / "missing" / "x.html", "unwritable": UNWRITABLE.with_name("busbw-nothing.html"),
        "below a file": tmp_path / "file" / "x.html", "folder": tmp_path,
    }[where]  # fmt: skip
    option = next(each for each in options_of(" ".join((verb, *action)).strip()) if each.name == name)
    if (option.makes and where == "missing") or (option.value != "FILE" and where == "folder"):
        return
    assert main([verb, *action, f"--{name}={target}", *BEFORE.get(verb, [])]) == 2
    told = capsys.readouterr().err
    assert str(target) in told and "cannot be written" in told and "Traceback" not in told


def test_an_output_of_the_engine_may_lie_in_a_folder_of_another_host(tmp_path: Path) -> None:
    option = next(each for each in options_of("collective") if each.name == "record")
    refuse_overwriting([Given(option, str(tmp_path / "there" / "x.jsonl"), ("--record",))])


def test_a_file_that_exists_is_left_as_it_is(tmp_path: Path) -> None:
    option = next(each for each in options_of("overlap") if each.name == "plot")
    file = tmp_path / "x.html"
    file.write_text("kept")
    before = file.stat().st_mtime_ns
    refuse_overwriting([Given(option, str(file), ("--plot",))])
    assert (file.read_text(), file.stat().st_mtime_ns, len(list(tmp_path.iterdir()))) == ("kept", before, 1)
    with pytest.raises(UsageError, match="cannot be written"):
        refuse_overwriting([Given(option, "/sys/kernel/notes", ("--plot",))])


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_plot_that_needs_a_missing_package_is_refused_before_anything_is_measured(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["overlap", "--plot", str(tmp_path / f"x.{suffix}"), *COLLECTIVE]) == 1
    told = capsys.readouterr().err
    assert f"a {suffix.upper()} needs matplotlib" in told and "ends in .html needs nothing" in told
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.parametrize(
    ("words", "missing", "package"),
    [
        (["--prometheus-port", "0"], "prometheus_client", "prometheus-client"),
        (["--otlp", "http://127.0.0.1:1/v1/metrics"],
         "opentelemetry.exporter.otlp.proto.http.metric_exporter", "opentelemetry-sdk"),
    ],
)  # fmt: skip
def test_no_job_begins_that_would_run_unwatched(
    words: list[str], missing: str, package: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    from busbw.cli import watch

    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setattr(watch, "_environment", lambda *_: {})
    assert main(["watch", "--output", str(tmp_path / "kept"), *words, "--", "true"]) == 1
    assert package in capsys.readouterr().err


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.parametrize("words", [["run", "results.jsonl"], ["watch", "turns"]])
def test_a_fleet_is_not_measured_where_its_levels_cannot_be_kept(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from busbw.cli import fleet

    monkeypatch.setattr(fleet, "find_launcher", lambda _: None)
    monkeypatch.setattr(fleet, "launching", lambda *_, **__: None)
    monkeypatch.setattr("busbw.fleet.watch.not_queued", lambda how, _: how)
    assert main(["fleet", words[0], "--hosts", "a,b", f"--runs={UNWRITABLE}", words[1]]) == 2
    told = capsys.readouterr().err
    assert str(UNWRITABLE) in told and "--no-record" in told


def test_a_folder_of_runs_that_is_not_there_yet_can_be_made(tmp_path: Path) -> None:
    require_runs(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
