"""Nothing from a file reaches a terminal as code: escapes, C1, OSC and bidi marks are shown as what they are."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.base.sentences import visible
from busbw.base.terminal import EMPTY_LINE, guarded
from busbw.base.text import paint
from busbw.cli import report
from busbw.cli.main import main

ROOT = Path(__file__).resolve().parents[3]
ENGINE = Path(os.environ.get("BUSBW_BUILD") or ROOT / "build") / "bin" / "busbw-engine"
HOSTILE = "\x1b[31m\x1b[K\r\x1b]0;title\x07\x9b31m\x1b[2J\u202e\u2066\x7f\x08\x85\u2028"


@pytest.mark.parametrize("mark", sorted(set(HOSTILE) - set("]0;title31m[2JK")))
def test_a_mark_is_spelled_out(mark: str) -> None:
    shown = visible(f"a{mark}b")
    assert mark not in shown and shown.startswith("a\\") and shown.endswith("b")


def test_our_own_colours_and_progress_pass() -> None:
    assert guarded(paint("red", "red", colour=True) + EMPTY_LINE) == "\x1b[31mred\x1b[0m\r\x1b[K"
    assert guarded(paint("a\x1b[31mb", "bold", colour=True)) == "\x1b[1ma\\x1b[31mb\x1b[0m"


def test_foreign_sequences_are_spelled_out_even_where_they_look_like_ours() -> None:
    mark = EMPTY_LINE.partition("\r")[0]
    for foreign in (
        "\x1b[31mred\x1b[0m", "\x1b[K", "\x1b[1m", "\r", "a\rb",
        mark[1:] + "\x1b[31m", mark[:-1] + "\x1b[31m", mark + "\x1b[2J",
        mark + "\x1b]0;t\x07", "\x1b[2J", "\x1b[38;5;1m", "\x1b]8;;x\x07", "\x1b[31;1m", "\x1b", "\x1b[H", "\x1bc",
    ):  # fmt: skip
        assert not set(guarded(foreign)) & set("\x1b\r\x07"), foreign


def test_the_mark_of_our_own_is_another_in_each_process() -> None:
    show = "import sys; from busbw.base.terminal import EMPTY_LINE; sys.stdout.write(ascii(EMPTY_LINE))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    said = {subprocess.check_output([sys.executable, "-c", show], env=environment) for _ in range(2)}
    assert len(said) == 2


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("form", ["text", "csv", "json", "html"])
def test_a_report_on_a_terminal_goes_through_the_guard_in_every_form(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a form forgot to clean: what came from the file does nothing."""
    monkeypatch.setattr(report, "_content", lambda *_, **__: "\x1b[31mfl\x9b2J".encode())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", Terminal(raw := io.BytesIO(), write_through=True))
    assert main(["report", "any", "--format", form]) == 0
    said = raw.getvalue().decode()
    assert "[31mfl" in said
    assert not [mark for mark in ("\x1b[31m", "\x9b", "\x1b[2J") if mark in said]


@pytest.mark.parametrize("text", ["plain", "gr\u00fc\u00dfe \u4e2d\u6587 \U0001f600", "a\tb\n", "\u00b5s"])
def test_text_of_any_language_stays(text: str) -> None:
    assert guarded(text) == text


def test_a_hostile_log_and_a_hostile_name_do_nothing_to_the_terminal(tmp_path: Path) -> None:
    log = tmp_path / "x\x1b[2J\x1b]0;t\x07.log"
    log.write_text(f"h{HOSTILE}:1:1 [0] NCCL INFO NCCL version 2.1{HOSTILE}\n# {HOSTILE}\n 1 2 float {HOSTILE}\n")
    for words in (
        ["import", str(log)],
        ["doctor", "--log", str(log)],
        ["report", str(log)],
        [HOSTILE],
        ["runs", HOSTILE],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "busbw", *words], capture_output=True, timeout=60, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "BUSBW_RUNS": str(tmp_path / "runs")},
        )  # fmt: skip
        text = (done.stdout + done.stderr).decode(errors="surrogateescape")
        assert not set(text) & set("\r\x1b\x07\x9b\u202e\u2066\x08\x85\u2028"), words


@pytest.mark.parametrize("quoted", ["x" * 300_000, "\x1b" * 5000, "a\n" * 5000, "é" * 4000, "\u202e" * 1400])
def test_a_sentence_quotes_no_more_than_a_person_reads(quoted: str) -> None:
    said = str(UserError(f"'{quoted}' is no figure"))
    assert len(said) <= 1600 and visible(said) == said and said.count("\n") <= 20
    assert said.startswith(f"'{visible(quoted[:1])}") and said.endswith(("is no figure", "\n..."))


def test_a_short_sentence_is_said_as_it_is() -> None:
    assert str(UserError("run `a` of é is no\n\tfigure")) == "run `a` of é is no\n\tfigure"


@pytest.mark.skipif(not ENGINE.exists(), reason="the engine is not built")
def test_both_halves_cut_a_sentence_alike() -> None:
    for word in ("--" + "y" * 60_000 + "end", "--\x1b[31mend"):
        done = subprocess.run([ENGINE, "all_reduce", word], capture_output=True, text=True, timeout=60, check=False)
        said = done.stderr.removeprefix("busbw: ").rstrip("\n")
        assert done.returncode == 2 and len(said) <= 1600 and "\x1b" not in said, said[:300]
        # The cut is where Python's is: a sentence of that beginning and end, and longer, is as long.
        head, cut, tail = said.partition(" ... ")
        assert str(UserError(head + cut.strip(" .") + "y" * 60_000 * bool(cut) + tail)) == said
        assert bool(cut) == (len(word) > 1500) and ("\\x1b[31mend" in said) != bool(cut)
