"""`<&-`, `>&-` and `2>&-` for every verb and every `_perf` program: right exit code, whole files, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from closed_descriptors import CODES, LOG, MATRIX, WORDS

from busbw.cli.verbs import COLLECTIVES, VERBS

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD") or ROOT / "build")
ENGINE = BUILD / "bin" / "busbw-engine"
EXAMPLE = ROOT / "schema" / "examples" / "all_reduce-v1.jsonl"
ENVIRONMENT = {
    **os.environ, "BUSBW_ENGINE": str(ENGINE), "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'python' / 'tests' / 'watch'}"
}  # fmt: skip
CLOSED = {"all": "0<&- >&- 2>&-", "out": ">&-", "err": "2>&-"}
MADE = {"all_reduce": "out.jsonl", "run": "out.jsonl", "import": "out.jsonl", "topo": "out.svg", "baseline": "out.toml"}

needs_engine = pytest.mark.skipif(not ENGINE.exists(), reason="the engine is not built")


def check_whole(path: Path) -> None:
    """Nothing but what belongs there: a stray sentence in a record is no JSON."""
    text = path.read_text()
    if path.suffix == ".jsonl":
        kinds = [json.loads(line)["kind"] for line in text.splitlines()]
        assert kinds[0] == "run" and "case" in kinds, text
    else:
        assert text.startswith("<svg" if path.suffix == ".svg" else ("#", "[")), text[:200]
        assert "busbw:" not in text


def test_every_verb_is_in_the_table() -> None:
    assert set(WORDS) == {verb.name for verb in VERBS}


@needs_engine
def test_every_verb_ends_as_it_should_with_closed_descriptors(tmp_path: Path) -> None:
    words = [sys.executable, str(Path(__file__).with_name("closed_descriptors.py")), str(tmp_path), str(EXAMPLE)]
    words += ["all"] if os.environ.get("BUSBW_SLOW") else []
    done = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout)
    assert {verb for verb, _, _ in codes} == set(WORDS)
    assert not [(verb, mode, code) for verb, mode, code in codes if code != CODES.get(verb, 0)]
    for verb, mode, _ in codes:
        folder = tmp_path / verb / mode
        assert not (folder / "said.traceback").exists(), (folder / "said.traceback").read_text()
        said = (folder / "said.err").read_text() + (folder / "said.out").read_text()
        assert "Traceback" not in said and "Exception ignored" not in said, said
        assert [(folder / name).read_text() for name in ("good.jsonl", "good.log", "matrix.txt")] == [
            EXAMPLE.read_text(), LOG, MATRIX
        ], (verb, mode)  # fmt: skip
        if name := MADE.get(verb, "out.jsonl" if verb in COLLECTIVES else ""):
            check_whole(folder / name)
    # What busbw starts gets /dev/null, and not a number that its first file takes.
    assert (tmp_path / "with" / "all" / "with.txt").read_text().split() == ["/dev/null"] * 3


@needs_engine
@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_perf_program_keeps_its_files_whole(name: str, tmp_path: Path) -> None:
    program = BUILD / "bin" / f"{name}_perf"
    words = f"'{program}' -b 8 -e 8 -n 1 -w 0 -t 2 --library cpu --record out.jsonl -J out.json"
    for mode in CLOSED if name == "all_reduce" else ("all",):
        folder = tmp_path / mode
        folder.mkdir()
        done = subprocess.run(["sh", "-c", f"exec {words} {CLOSED[mode]}"], cwd=folder, timeout=60, check=False,
                              capture_output=True, text=True)  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), mode
        check_whole(folder / "out.jsonl")
        assert json.loads((folder / "out.json").read_text())


@pytest.mark.parametrize("mode", ["all", "out"])
def test_the_interpreter_itself_starts_with_closed_descriptors(mode: str, tmp_path: Path) -> None:
    """The forks above are given the streams that Python makes of closed descriptors; here it makes them."""
    (tmp_path / "good.log").write_text(LOG)
    words = f"exec '{sys.executable}' -m busbw import good.log --output out.jsonl {CLOSED[mode]}"
    done = subprocess.run(["sh", "-c", words], cwd=tmp_path, env=ENVIRONMENT, timeout=120, check=False,
                          capture_output=True, text=True)  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    check_whole(tmp_path / "out.jsonl")
