"""Waits for ranks that go on elsewhere, or rest, are told as notes: who waits for whom, and at which call."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from snapshots import NOW, SECOND, process, row

from busbw.watch import live
from busbw.watch.live import Watcher
from busbw.watch.notes import Notes, waits_for_others
from busbw.watch.processes import GONE, RUNNING, STOPPED, Process
from busbw.watch.recording import Communicator, Shape

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build"))
HALVES = Path(__file__).with_name("halves.py")
SMALL = Shape("all_reduce", 32, "float32", "sum", None)


def of_half(rank: int, *, ago_s: float, inside: bool = False) -> Communicator:
    """Its row in the communicator of its half."""
    at = NOW - int(ago_s * SECOND)
    made = row(rank % 2, 340, inside=inside, identity=2 + rank // 2, ranks=2, last=SMALL)
    return replace(made, entered_ns=at, returned_ns=at)


def job(*, goes_on_s: float = 0.0, state: str = RUNNING, gpus: bool = False, held: bool = False) -> list[Process]:
    """Four ranks of which the last two have waited in #11 for 5 s, and the first two called in theirs so long ago."""
    return [
        replace(
            process(rank, row(rank, 11 if rank > 1 else 10, inside=rank > 1 and not gpus),
                    of_half(rank, ago_s=9 if rank > 1 else goes_on_s, inside=held and rank < 2),
                    state=state if rank < 2 else RUNNING),
            gpus=gpus,
        )
        for rank in range(4)
    ]  # fmt: skip


@pytest.mark.parametrize("gpus", [False, True], ids=["in host memory", "over NCCL"])
def test_who_waits_for_whom_and_at_which_call_is_said(gpus: bool) -> None:
    (text,) = Notes(4).look(job(gpus=gpus), NOW)
    assert text.startswith("note: rank 2, 3 of the communicator of 4 ranks")
    assert "have waited for 5.0 s in #11, all_reduce of 64 float32, sum (256 bytes). " in text
    assert "Rank 0, 1 have not called it; the last call there was #10" in text
    assert "They go on elsewhere: their newest call is #340 of the communicator of 2 ranks" in text
    assert "all_reduce of 32 float32, sum (128 bytes), 0.0 s ago." in text
    assert "An evaluation or a checkpoint of some ranks looks like this too." in text


def test_what_the_late_ranks_do_is_said() -> None:
    def told(processes: list[Process]) -> str:
        (text,) = Notes(4).look(processes, NOW)
        return text

    assert "They have called nothing since." in told(job(goes_on_s=9))
    # What came back a moment later had been called before.
    back = [replace(each, communicators=(each.communicators[0], replace(each.communicators[1], returned_ns=NOW)))
            for each in job(goes_on_s=9)]  # fmt: skip
    assert "They have called nothing since." in told(back)
    assert "Rank 0, 1 have ended." in told(job(state=GONE))
    assert "The process of rank 0, 1 is stopped." in told(job(state=STOPPED))


def test_nothing_is_said_before_its_time_nor_of_a_rank_that_waits_itself() -> None:
    assert not Notes().look(job(), NOW)
    assert not waits_for_others(job(held=True)).keys() & {1}
    all_in = [process(rank, row(rank, 11, inside=True)) for rank in range(4)]
    assert not waits_for_others(all_in)
    none_in = [process(rank, row(rank, 11, inside=False)) for rank in range(4)]
    assert not waits_for_others(none_in)


def test_of_one_late_rank_it_is_said_as_of_one() -> None:
    lone = [process(rank, row(rank, 11 if rank else 10, inside=rank > 0)) for rank in range(4)]
    (text,) = Notes(4).look(lone, NOW)
    assert "Rank 0 has not called it" in text
    assert "It has called nothing since." in text
    going = [replace(lone[0], communicators=(*lone[0].communicators, of_half(0, ago_s=0))), *lone[1:]]
    (text,) = Notes(4).look(going, NOW)
    assert "It goes on elsewhere: its newest call is #340" in text


def at(second: int, *, called: bool = False) -> list[Process]:
    """The job so long after NOW; `called`: the late ranks have come, so that nobody waits."""
    moved = NOW + second * SECOND
    rows = [row(rank, 11, inside=False) if called else row(rank, 11 if rank > 1 else 10, inside=rank > 1)
            for rank in range(4)]  # fmt: skip
    return [process(each.rank, replace(each, returned_ns=moved) if called else each) for each in rows]


def test_a_wait_is_told_once_and_its_end_too() -> None:
    notes = Notes()
    seen = {second: notes.look(at(second, called=second > 20), NOW + second * SECOND) for second in range(30)}
    told = {second: lines for second, lines in seen.items() if lines}
    assert list(told) == [3, 21]
    assert told[21] == [
        "note: the communicator of 4 ranks that was made as init (0000000000000001) goes on after 26.0 s."
    ]


def test_who_waits_so_long_again_is_not_told_of_it_again() -> None:
    notes = Notes()
    notes.look(at(3), NOW + 3 * SECOND)
    assert notes.look(at(21, called=True), NOW + 21 * SECOND)
    # The next one began 5 s before NOW too, by its rows: twice 26 s are long by now.
    assert not notes.look(at(46), NOW + 46 * SECOND)
    assert notes.look(at(48), NOW + 48 * SECOND)


def test_a_pause_that_was_told_and_ended_is_not_told_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a rank that saves a model for 12 s each time."""
    now, calls = [0], [0]

    def at_that_moment(*_: object, **__: object) -> list[Process]:
        waits = now[0] % 30 < 12
        calls[0] += not waits
        rows = [row(rank, 100 + calls[0] + (waits and rank > 0), inside=waits and rank > 0) for rank in range(4)]
        return [process(each.rank, replace(each, entered_ns=NOW, returned_ns=NOW)) for each in rows]

    monkeypatch.setattr(live, "snapshot", at_that_moment)
    watcher, told = Watcher(tmp_path), []
    for second in range(20, 110):
        now[0] = second
        if watcher.poll(NOW + second * SECOND):
            told.append(second)
    watcher.close()
    assert told == [40]


@pytest.mark.parametrize(("busy", "hang_after_s", "first"), [(0.9, None, 60), (0.9, 20.0, 20), (0.01, None, 10)])
def test_who_computes_is_given_a_minute_where_the_user_gave_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: float, hang_after_s: float | None, first: int
) -> None:
    """As a rank that evaluates; the note has named it by then."""
    monkeypatch.setattr(live, "snapshot", lambda *_, **__: at(0))
    watcher = Watcher(tmp_path, hang_after_s)
    monkeypatch.setattr(watcher._rest, "seen", lambda each: replace(each, busy=busy))
    told = [second for second in range(90) if watcher.poll(NOW + second * SECOND)]
    watcher.close()
    assert told == [first]


@pytest.mark.skipif(not (BUILD / "lib" / "libbusbw_cpu.so").exists(), reason="needs a build; see BUSBW_BUILD")
def test_a_half_that_goes_on_without_the_other_is_named_while_it_does(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "busbw", "watch", "--hang-after", "2", "--", sys.executable, HALVES,
               BUILD / "lib" / "libbusbw_cpu.so", "4", "subset", "5", tmp_path]  # fmt: skip
    environ = {**os.environ, "BUSBW_ENGINE": str(BUILD / "bin" / "busbw-engine")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
    (note,) = [line for line in done.stderr.splitlines() if "note: rank" in line]
    assert "rank 2, 3 of the communicator of 4 ranks" in note
    assert "Rank 0, 1 have not called it; the last call there was #100" in note
    assert "They go on elsewhere" in note
    assert "no progress" not in done.stderr
