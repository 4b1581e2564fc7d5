"""`busbw watch --live`: a table in a terminal, never in a pipe, above which the program goes on to print."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from made_recordings import Made, Row, write

from busbw.base.prometheus import exposition
from busbw.watch.live import Follower, Watcher
from busbw.watch.recording import Recording, find
from busbw.watch.screen import Screen


def recordings(folder: Path) -> None:
    for rank in range(2):
        calls = [Made(n * 10**6 + rank * 300_000, 100_000 if rank else 400_000) for n in range(200)]
        write(folder, rank, [Row(rank, 2)], calls)


def test_a_process_that_had_just_begun_is_not_told_of_at_the_end(tmp_path: Path) -> None:
    recordings(tmp_path)
    begun, never = find(tmp_path)
    whole = begun.read_bytes()
    for path in (begun, never):
        path.write_bytes(bytes(4096))
    watcher = Watcher(tmp_path)
    watcher.poll(0)
    assert set(watcher.refused) == {begun, never}
    begun.write_bytes(whole)
    watcher.look_once_more()
    watcher.close()
    assert set(watcher.refused) == {never}


def in_terminal(words: list[str], lines: int, columns: int) -> tuple[int, str]:
    """What a program writes to a terminal of that size, and its exit code."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    job = subprocess.Popen(words, stderr=slave, stdout=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm"})
    os.close(slave)
    shown, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        if not select.select([master], [], [], 0.2)[0]:
            if job.poll() is not None:
                break
            continue
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    code = job.wait(60)
    os.close(master)
    return code, shown.decode(errors="replace")


def test_the_table_is_drawn_in_a_terminal_and_taken_away_at_the_end(tmp_path: Path) -> None:
    recordings(tmp_path)
    words = [sys.executable, "-m", "busbw", "watch", "--read", str(tmp_path), "--live"]
    code, shown = in_terminal(words, 40, 100)
    assert code == 0, shown
    assert "\x1b[1;22r" in shown, "the lowest lines are left out of what scrolls"
    assert "busbw watch: 400 calls" in shown
    assert "last most often: rank 1 (node, pid 1001)" in shown
    assert shown.rindex("\x1b[r") > shown.rindex("last most often"), "and are given back"


def test_a_pipe_and_a_small_terminal_get_no_table(tmp_path: Path) -> None:
    recordings(tmp_path)
    words = [sys.executable, "-m", "busbw", "watch", "--read", str(tmp_path), "--live"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    none = "--live needs a terminal of 12 lines or more on stderr; no table is drawn"
    # What is there is followed to its end, and who is late told as it comes.
    assert done.stderr.startswith(
        f"busbw watch: {none}, but the job is followed\nbusbw watch: rank 1 (node, pid 1001) is late"
    )
    assert "\x1b" not in done.stdout
    assert "wait 60 %, transfer 40 %" in done.stdout
    code, shown = in_terminal(words, 8, 100)
    assert (code, "\x1b[" in shown) == (0, False)


def test_what_a_name_could_do_to_a_terminal_is_spelt_out(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 30, 0, 0))
    with os.fdopen(slave, "w") as stream:
        screen = Screen(stream)
        screen.draw(["rank\x1b]0;evil\x07 \x9b2J" + "x" * 100])
        shown = os.read(master, 65536).decode()
        assert "\x1b]" not in shown
        assert "\x07" not in shown
        assert "x" * 30 not in shown
        screen.close()
    os.close(master)


def test_metrics_are_sums_of_what_was_called(tmp_path: Path) -> None:
    recordings(tmp_path)
    follower = Follower(newest=None)
    read = [Recording(path) for path in find(tmp_path)]
    follower.read_all(read)
    text = exposition(follower.sums.families(read, follower.stragglers, follower.lates, follower.arrivals.skipped))
    for each in read:
        each.close()
    assert 'busbw_calls_total{host="node",pid="1001",rank="1"} 200\n' in text
    last = 'busbw_came_last_total{process="rank 1 (node, pid 1001)",communicator="0000000000000007",rank="1"} 200\n'
    assert last in text
    row = 'process="rank 0 (node, pid 1000)",collective="all_reduce",up_to_bytes="1024"'
    assert f"busbw_looked_at_bytes_total{{{row}}} {200 * 1024}\n" in text
    assert 'busbw_named_late_total{process="rank 1 (node, pid 1001)"} 1\n' in text
