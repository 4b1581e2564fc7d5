"""`busbw fleet watch`, idle nodes and the limit of traffic."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.fleet.trial import INSIDE, WITHIN, Trial
from busbw.fleet.watch import kept, not_queued
from busbw.fleet.words import Launching, traffic

STAND_IN = """\
#!{python}
import os, sys
if os.environ.get("BUSBW_RANK", "0") != "0":
    sys.exit()
nodes = os.environ["BUSBW_FLEET_NODES"].split(",")
level = (8.0 if "n5" in nodes else 10.0) * float(open({scale!r}).read())
with open(os.environ["BUSBW_FLEET_SAMPLES"], "w") as out:
    for number in range(int(os.environ["BUSBW_FLEET_REPEATS"])):
        out.write(f"{{level * (1 + 0.002 * (number % 3 - 1))}}\\n")
"""
SINFO = """\
#!/bin/sh
case "$*" in *--format=%N\\ %T*) sed 's/$/ idle/' {idle}; echo 'n0 drained'; echo 'n7 idle*';; *) exit 1;; esac
"""


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A program that measures, Slurm's sinfo, and what they read."""
    (tmp_path / "scale").write_text("1.0")
    (tmp_path / "idle").write_text("n[0-7]\n")
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "measures").write_text(STAND_IN.format(python=sys.executable, scale=str(tmp_path / "scale")))
    (bin_ / "sinfo").write_text(SINFO.format(idle=tmp_path / "idle"))
    for program in bin_.iterdir():
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_), prepend=":")
    return ["--hosts", "n[0-7]", "--rails", "1", "--inside", "none", "--launcher", "local", "--repeats", "3",
            "--program", str(bin_ / "measures")]  # fmt: skip


def test_turns_name_what_is_slow_and_what_became_slower(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = tmp_path / "turns"
    watch = ["fleet", "watch", str(turns), *words, "--turns", "1", "--page", str(tmp_path / "p.html"),
             "--prometheus", str(tmp_path / "p.prom")]  # fmt: skip
    assert main(watch) == 1
    assert "n5" in capsys.readouterr().out
    (tmp_path / "scale").write_text("0.7")
    assert main(watch) == 1
    said = capsys.readouterr().out
    assert "all nodes" in said and "30.0 %" in said
    assert len(list(turns.glob("turn-*.jsonl"))) == 2
    assert "all nodes" in (tmp_path / "p.html").read_text()
    assert 'where="all nodes"' in (tmp_path / "p.prom").read_text()


def test_a_turn_takes_idle_nodes_only_and_others_the_next_time(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "idle").write_text("n[1-4]\nn[3-4]\n")
    watch = ["fleet", "watch", str(tmp_path / "turns"), *words, "--idle", "--every", "0.01", "--at-most", "2"]
    assert main([*watch, "--turns", "3"]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("turn")]
    assert said == ["turn 1: n[1-2]", "turn 2: n[3-4]", "turn 3: n[1-2]"]
    (tmp_path / "idle").write_text("n6\n")
    assert main([*watch, "--turns", "1"]) == 0
    assert "1 of 8 nodes are idle; nothing is measured" in capsys.readouterr().err


def test_a_turn_is_compared_with_the_last_five(tmp_path: Path) -> None:
    for day in range(1, 8):
        (tmp_path / f"turn-2026110{day}T000000Z.jsonl").write_text("")
    (tmp_path / "turn-notes.jsonl").write_text("no results")
    assert [Path(name).name[5:13] for name, _ in kept(tmp_path)] == [f"2026110{day}" for day in range(3, 8)]


def test_a_fault_of_any_turn_is_the_end_of_all(words: list[str], tmp_path: Path) -> None:
    words[words.index("n[0-7]")] = "n[4-6],n[1-3]"
    watch = ["fleet", "watch", str(tmp_path / "turns"), *words, "--every", "0.01", "--at-most", "3"]
    assert main([*watch, "--turns", "2"]) == 1


def test_outside_an_allocation_no_step_waits_in_the_queue() -> None:
    how = Launching(Path("engine"), launcher="srun")
    assert not_queued(how, inside_allocation=False).launcher_arguments == ("--immediate=30",)
    assert not_queued(how, inside_allocation=True) == how
    assert not_queued(Launching(Path("engine"), launcher="local"), inside_allocation=False).launcher_arguments == ()


def test_a_run_over_idle_nodes_goes_on_with_those_it_began_with(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "idle").write_text("n[1-4]\n")
    file = tmp_path / "f.jsonl"
    assert main(["fleet", "run", str(file), *words, "--idle"]) == 0
    assert json.loads(file.read_text().splitlines()[0])["nodes"] == ["n1", "n2", "n3", "n4"]
    (tmp_path / "idle").write_text("n[5-6]\n")
    kept = file.read_text()
    assert main(["fleet", "run", str(file), *words, "--idle"]) == 0
    assert file.read_text() == kept
    capsys.readouterr()


def test_an_empty_partition_is_one_sentence(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "idle").write_text("")
    assert main(["fleet", "run", str(tmp_path / "f.jsonl"), *words, "--idle"]) == 2
    assert "no node is named" in capsys.readouterr().err
    assert not (tmp_path / "f.jsonl").exists()


def test_traffic_is_what_an_all_reduce_sends(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    how = Launching(Path("engine"), size=1 << 20)
    assert traffic(Trial(WITHIN, ("a", "b", "c"), "rail0", 10), how) == 2 * 2 * (1 << 20) * 202
    assert traffic(Trial(INSIDE, ("a",), "nvlink", 10), how) == 0
    assert main(["fleet", "run", "f", *words, "--traffic", "1G"]) == 2
    assert "is not known" in capsys.readouterr().err
