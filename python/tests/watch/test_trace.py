"""The timeline of recordings: valid JSON of the Trace Event Format, whose waits lie within the calls."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from made_recordings import Made, Row, write

from busbw.base.errors import UserError
from busbw.watch import trace
from busbw.watch.recording import Recording, find


def events_of(folder: Path) -> list[dict[str, Any]]:
    file = folder / "trace.json"
    recordings = [Recording(path) for path in find(folder)]
    trace.write_trace(recordings, file)
    for each in recordings:
        each.close()
    read = json.loads(file.read_text())
    assert isinstance(read["traceEvents"], list)
    return list(read["traceEvents"])


def test_calls_and_waits_are_bars_on_one_clock(tmp_path: Path) -> None:
    for rank in range(2):
        calls = [Made(n * 10**6 + rank * 256_000, 64_000 if rank else 320_000) for n in range(5)]
        write(tmp_path, rank, [Row(rank, 2)], calls, monotonic_ns=10**12 + rank * 64_000)
    events = events_of(tmp_path)
    assert {each["args"]["name"] for each in events if each["name"] == "process_name"} == {
        "rank 0 (node, pid 1000)", "rank 1 (node, pid 1001)",
    }  # fmt: skip
    calls = [each for each in events if each["name"] == "all_reduce"]
    assert len(calls) == 10
    # Rank 1's recording began 64 us later by the common clock.
    assert [each["ts"] for each in calls if each["pid"] == 1 and each["args"]["number"] == 1] == [320.0]
    waits = [each for each in events if each.get("cat") == "wait"]
    assert [each["dur"] for each in waits] == [320.0] * 5
    assert {(each["pid"], each["name"]) for each in waits} == {(0, "wait for rank 1 (node, pid 1001)")}
    assert waits[0]["ts"] == 0.0


def test_calls_that_return_early_have_no_waits(tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path, rank, [Row(rank, 2)], [Made(rank * 10**6, None)], synchronous=False)
    events = events_of(tmp_path)
    assert {each.get("cat") for each in events if each["ph"] == "X"} == {"host"}
    assert not any(each["args"]["returned"] for each in events if each["ph"] == "X")


def test_a_long_recording_is_cut_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 0, [Row(0, 2)], [Made(n * 10**6) for n in range(50)])
    monkeypatch.setattr(trace, "MAX_EVENTS", 20)
    with Recording(find(tmp_path)[0]) as recording:
        assert trace.write_trace([recording], tmp_path / "t.json") == (20, 30)
    assert len(json.loads((tmp_path / "t.json").read_text())["traceEvents"]) == 22


def test_where_it_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        trace.write_trace([], tmp_path / "no" / "t.json")


def test_the_verb_writes_it(tmp_path: Path) -> None:
    write(tmp_path, 0, [Row(0, 2)], [Made(0)])
    words = [sys.executable, "-m", "busbw", "watch", "--read", str(tmp_path), "--trace", str(tmp_path / "t.json")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "1 calls and waits are in" in done.stderr) == (0, True)
    json.loads((tmp_path / "t.json").read_text())
