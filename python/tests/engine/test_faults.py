"""A lost rank, Ctrl-C and bad input end a run of the real engine in time, with a sentence and what was measured."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from harness import Engine

SOURCE = Path(__file__).resolve().parents[2]
ENDLESS = ("all_reduce", "--library", "cpu", "-b", "1K", "-e", "4K", "-f", "2", "-N", "0")


def environment(engine: Engine, **more: str) -> dict[str, str]:
    """What `busbw` from this checkout with this build's engine needs."""
    program = str(engine.folder / "bin" / "busbw-engine")
    return {**os.environ, "PYTHONPATH": str(SOURCE), "BUSBW_ENGINE": program, **more}


@contextmanager
def busbw(engine: Engine, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`busbw` as a user starts it; nothing of it outlives the test."""
    argv = [sys.executable, "-m", "busbw", *words]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, env=environment(engine), **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(record: Path) -> list[dict[str, Any]]:
    """The whole lines of a record that may still be written."""
    if not record.exists():
        return []
    return [json.loads(line) for line in record.read_text().splitlines(keepends=True) if line.endswith("\n")]


def wait_for_cases(record: Path, process: subprocess.Popen[str], count: int = 3) -> list[dict[str, Any]]:
    """Poll until that many cases are recorded."""
    end = time.monotonic() + 60
    while sum(line["kind"] == "case" for line in lines(record)) < count:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end, "nothing was measured in a minute"
        time.sleep(0.05)
    return lines(record)


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_killed_rank_is_named_the_others_end_in_10_s_and_the_record_keeps_its_cases(
    lost: int, engine: Engine, tmp_path: Path
) -> None:
    record = tmp_path / "record.jsonl"
    with busbw(engine, "run", "--ranks", "3", *ENDLESS, "--record", str(record)) as launcher:
        before = wait_for_cases(record, launcher)
        pids = [rank["pid"] for rank in before[0]["ranks"]]
        os.kill(pids[lost], signal.SIGKILL)
        begin = time.monotonic()
        _, err = launcher.communicate(timeout=60)
        seconds = time.monotonic() - begin
    assert seconds < 10
    assert launcher.returncode == 128 + signal.SIGKILL
    assert f"rank {lost} (pid {pids[lost]}) was killed by SIGKILL" in err
    assert lines(record)[: len(before)] == before
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_job_keeps_what_was_measured(number: signal.Signals, engine: Engine, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    with busbw(engine, "run", "--ranks", "2", *ENDLESS, "--record", str(record)) as launcher:
        before = wait_for_cases(record, launcher)
        launcher.send_signal(number)
        launcher.communicate(timeout=60)
    after = lines(record)
    assert launcher.returncode == 128 + number
    assert after[: len(before)] == before
    assert (after[-1]["kind"], after[-1]["outcome"]) == ("end", "interrupted")


def test_an_interrupted_single_process_keeps_what_was_measured(engine: Engine, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    with busbw(engine, *ENDLESS, "-t", "2", "--record", str(record)) as process:
        wait_for_cases(record, process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode != 0
    assert lines(record)[-1]["outcome"] == "interrupted"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_comes_twice_at_once_is_one_wish(number: signal.Signals, engine: Engine, tmp_path: Path) -> None:
    """As `timeout` sends it to the group and a launcher passes it on; every second pair lost the end of the record."""
    for turn in range(4):
        record = tmp_path / f"record-{turn}.jsonl"
        with busbw(engine, *ENDLESS, "-t", "2", "--record", str(record)) as process:
            wait_for_cases(record, process)
            for _ in range(3):
                process.send_signal(number)
                time.sleep(0.002)
            process.communicate(timeout=60)
        assert lines(record)[-1]["kind"] == "end", turn
        assert lines(record)[-1]["outcome"] == "interrupted"


def test_who_asks_again_later_does_not_wait(engine: Engine, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    argv = [str(engine.folder / "bin" / "busbw-engine"), *ENDLESS, "-t", "2", "--record", str(record)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        wait_for_cases(record, process)
        size = -1
        while record.stat().st_size != size:  # nobody reads its rows: it comes to stand at a full pipe, for 4 s
            size = record.stat().st_size
            time.sleep(0.5)
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(1.2)
        assert process.wait(timeout=60) == -signal.SIGINT


@pytest.mark.parametrize("start", [("all_reduce",), ("run", "--ranks", "2", "all_reduce")], ids=["alone", "two ranks"])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--precison", "1%"), "--precision"),
        (("-b", "12Q"), "12Q"),
        (("-d", "flaot"), "float"),
        (("-o", "sun"), "sum"),
        (("--library", "/no/such/library.so"), "/no/such/library.so"),
        (("--record", "/dev/null/record.jsonl"), "/dev/null"),
    ],
    ids=["option", "size", "type", "op", "library", "record"],
)
def test_bad_input_is_a_sentence_and_a_non_zero_exit_within_seconds(
    start: tuple[str, ...], words: tuple[str, ...], expected: str, engine: Engine
) -> None:
    library = () if "--library" in words else ("--library", "cpu")
    with busbw(engine, *start, "-b", "8", "-e", "8", *library, *words) as process:
        begin = time.monotonic()
        out, err = process.communicate(timeout=60)
    assert process.returncode not in (0, None)
    assert time.monotonic() - begin < 15
    assert expected in err
    assert "Traceback" not in err
    assert not [line for line in out.splitlines() if line.strip() and not line.startswith("#")]


def test_ranks_with_different_arguments_refuse_to_measure(engine: Engine) -> None:
    ranks = []
    # Rank 0 inherits the listening socket, so that nobody can take its port in between.
    with socket.create_server(("127.0.0.1", 0)) as meeting:
        common = {"ADDRESS": f"127.0.0.1:{meeting.getsockname()[1]}", "SECRET": secrets.token_hex(16)}
        for rank, last in enumerate(("1K", "2K")):
            numbers = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_SIZE": "2"}
            listens = {"LISTEN_FD": str(meeting.fileno())} if rank == 0 else {}
            own = {f"BUSBW_{name}": value for name, value in {**common, **numbers, **listens}.items()}
            argv = [engine.program("all_reduce"), "--library", "cpu", "-b", "8", "-e", last]
            pipes: dict[str, Any] = {"stderr": subprocess.PIPE, "text": True}
            inherited = (meeting.fileno(),) if rank == 0 else ()
            ranks.append(subprocess.Popen(argv, env=environment(engine, **own), pass_fds=inherited, **pipes))
    try:
        said = [rank.communicate(timeout=60)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert all(rank.returncode not in (0, None) for rank in ranks)
    assert any("argument" in text or "option" in text for text in said), said
