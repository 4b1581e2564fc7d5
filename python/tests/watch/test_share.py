"""Watchers of several hosts: summaries in a folder that all see, hostile until decoded, and one verdict of them all."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from made_recordings import Made, Row, write

from busbw.base.errors import UserError
from busbw.watch.live import Watcher
from busbw.watch.processes import STOPPED, Process
from busbw.watch.recording import Communicator, Shape
from busbw.watch.share import MAX_BYTES, Summary, decode, encode, merged, shifted
from busbw.watch.shared_folder import SILENT_NS, SharedFolder
from busbw.watch.verdict import judge

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build"))
JOB = Path(__file__).with_name("job.py")
USUAL = Shape("all_reduce", 64, "float32", "sum", None)
OTHER = Shape("broadcast", 8, "number 99", "an operator of the program", 3)
SECOND = 1_000_000_000


def row(rank: int, calls: int, *, inside: bool, identity: int = 1, ranks: int = 4) -> Communicator:
    return Communicator(
        place=0, identity=identity, parent=0, rank=rank, ranks=ranks, device=rank, made="init", color=-1, last_error=0,
        made_ns=SECOND, ended="alive", entered=calls, returned=calls - inside, collectives=calls,
        entered_ns=4 * SECOND, returned_ns=3 * SECOND, last=USUAL,
    )  # fmt: skip


def process(rank: int, *rows: Communicator, host: str = "a", here: bool = True, state: str = "running") -> Process:
    return Process(str(rank), 1000 + rank, host, state, rows, {0: {9: USUAL, 10: USUAL, 12: OTHER}}, True, 7, here)


def summary(*processes: Process, final: bool = False, said: str = "") -> Summary:
    theirs = tuple(replace(process, is_here=False) for process in processes)
    return Summary(5 * SECOND, 3 * SECOND, final, said, theirs, ((1001, "pid 1001: it waits"),))


def test_a_summary_comes_back_as_it_was_written() -> None:
    odd = replace(process(0, row(0, 12, inside=True)), is_new_turn=True)
    made = summary(odd, process(1, row(1, 11, inside=False), state=STOPPED), said="why")
    assert decode(encode(made)) == made


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"pid":1000', b'"pid":-1'),
        (b'"pid":1000', b'"pid":true'),
        (b'"pid":1000', b'"pid":1e400'),
        (b'"state":"running"', b'"state":"frozen"'),
        (b'"host":"a"', b'"host":7'),
        (b'"rows":[[0,1,0,0,4,', b'"rows":[[0,1,0,5,4,'),
        (b'"rows":[[', b'"rows":[[1,'),
        (b'"all_reduce",64,"float32"', b'"all_reduce",64,"float31"'),
        (b'"history":[[0,[[9,[0,0]]', b'"history":[[0,[[9,[0,50]]'),
        (b'"processes":[', b'"processes":[' + b"[" * 100_000),
        (b'"quiet_ns":', b'"quietly":'),
    ],
)
def test_what_does_not_hold_together_is_refused(old: bytes, new: bytes) -> None:
    body = encode(summary(process(0, row(0, 12, inside=True)))).partition(b"\n")[2]
    assert old in body
    changed = body.replace(old, new, 1)
    head = f"busbw-share 2 {len(changed)} {hashlib.sha256(changed).hexdigest()}\n".encode()
    with pytest.raises(UserError, match="damaged"):
        decode(head + changed)


def test_what_another_host_writes_cannot_move_the_cursor() -> None:
    made = summary(process(0, row(0, 1, inside=True), host="a\x1b]0;evil\x07"), said="\x1b[2J")
    read = decode(encode(made))
    assert "\x1b" not in read.said + read.processes[0].host


def other(folder: Path, *processes: Process, name: str = "b-1-2-3.busbwshare", final: bool = False) -> Path:
    path = folder / name
    path.write_bytes(encode(summary(*processes, final=final)))
    path.chmod(0o600)
    return path


def test_half_a_file_leaves_what_was_whole_before(tmp_path: Path) -> None:
    shared = SharedFolder(tmp_path / "share")
    path = other(shared.path, process(1, row(1, 10, inside=False)))
    assert [each.pid for each in shared.processes(SECOND)] == [1001]
    path.write_bytes(path.read_bytes()[:-5])
    assert [each.pid for each in shared.processes(2 * SECOND)] == [1001]
    assert "not whole" in shared.refused[path.name]
    path.unlink()
    assert [each.pid for each in shared.processes(3 * SECOND)] == [1001]
    shared.close(keep=False)
    assert not list(shared.path.iterdir())


@pytest.mark.parametrize("what", ["link", "pipe", "others write", "long", "no summary"])
def test_what_may_not_be_read_is_left_out_and_told(tmp_path: Path, what: str) -> None:
    shared = SharedFolder(tmp_path / "share")
    path = other(shared.path, process(1, row(1, 10, inside=False)))
    if what == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    elif what == "pipe":
        path.unlink()
        os.mkfifo(path, 0o600)
    elif what == "others write":
        path.chmod(0o622)
    elif what == "long":
        os.truncate(path, MAX_BYTES + 1)
    else:
        path.write_bytes(b"\xff" * 1000)
    assert shared.processes(SECOND) == []
    assert path.name in shared.refused
    shared.close(keep=False)


def test_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "share"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(UserError, match="others must not write"):
        SharedFolder(folder)


def test_what_a_killed_watcher_of_this_host_left_is_taken_away_and_nothing_else(tmp_path: Path) -> None:
    shared = SharedFolder(tmp_path / "share")
    mine = next(shared.path.iterdir()).name
    shared.close(keep=True)
    host, namespace, _, _ = mine.rsplit("-", 3)
    gone = other(shared.path, name=f"{host}-{namespace}-4194305-1.busbwshare")
    elsewhere = other(shared.path, name="elsewhere-1-4194305-1.busbwshare")
    parent = os.getppid()
    start = Path(f"/proc/{parent}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    beside = other(shared.path, name=f"{host}-{namespace}-{parent}-{start}.busbwshare")
    SharedFolder(shared.path).close(keep=False)
    assert not gone.exists()
    assert elsewhere.exists()
    assert beside.exists()


def test_other_jobs_in_the_folder_are_none_of_ours() -> None:
    ours = [process(0, row(0, 1, inside=True, identity=1))]
    joined = process(1, row(1, 1, inside=True, identity=1), row(0, 1, inside=True, identity=2), host="b", here=False)
    further = process(2, row(1, 1, inside=True, identity=2), host="c", here=False)
    stranger = process(3, row(0, 1, inside=True, identity=9), host="d", here=False)
    assert [each.host for each in merged(ours, [further, stranger, joined])] == ["a", "b", "c"]


def test_only_a_process_host_knows_its_state() -> None:
    # All recordings lie in one folder, and each host's watcher reads them all.
    seen = process(1, row(1, 10, inside=False), host="b", here=False)
    told = replace(seen, state=STOPPED)
    mine = process(0, row(0, 11, inside=True))
    assert [each.state for each in merged([mine, seen], [told])] == ["running", STOPPED]
    assert [each.state for each in merged([mine], [replace(mine, state=STOPPED)])] == ["running"]


def test_times_of_another_host_are_told_by_our_clock() -> None:
    moved = shifted(process(1, row(1, 10, inside=False)), 100 * SECOND, 0.0)
    assert moved.communicators[0].entered_ns == 104 * SECOND


def test_a_rank_of_another_host_is_named_with_its_gpu_and_that_its_host_is_silent() -> None:
    ours = [process(rank, row(rank, 11, inside=True)) for rank in range(3)]
    theirs = replace(process(3, row(3, 10, inside=False), host="b", here=False), silent_s=12.0)
    verdict = judge(merged(ours, [theirs]), 10 * SECOND)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks, verdict.accused) == ("missing", (3,), (("b", 1003),))
    assert "rank 3 (b, pid 1003, GPU 3) did not call #11" in verdict.text
    assert "its host's watcher has written nothing for 12 s" in verdict.text


def test_a_watcher_waits_while_something_moves_on_another_host(tmp_path: Path) -> None:
    write(tmp_path, 0, [Row(0, 2)], [Made(0), Made(10**6, host_ns=None)], host="here", ended=False)
    shared = SharedFolder(tmp_path / "share")
    watcher = Watcher(tmp_path, 4.0, share=shared)
    start = 10**12
    theirs = process(1, row(1, 1, inside=False, identity=7, ranks=2), host="b")
    assert watcher.poll(start) is None
    other(shared.path, theirs)
    # It had been quiet for 3 s when it was first seen, which is now.
    assert watcher.poll(start + 4 * SECOND) is None
    verdict = watcher.poll(start + 5 * SECOND)
    assert verdict is not None
    assert "rank 1 (b, pid 1001, GPU 1) did not call #2" in verdict.text
    assert watcher.stacks_elsewhere(verdict.accused) == ["pid 1001: it waits (on b)"]
    assert watcher.stacks_elsewhere([("a", 1001)]) == []
    watcher.close()


def test_a_host_that_writes_no_more_is_silent(tmp_path: Path) -> None:
    shared = SharedFolder(tmp_path / "share")
    other(shared.path, process(1, row(1, 1, inside=False)))
    assert shared.processes(SECOND)[0].silent_s == 0
    assert shared.processes(SECOND + SILENT_NS + 1)[0].silent_s > 5
    other(shared.path, process(1, row(1, 1, inside=False)), final=True)
    shared.processes(20 * SECOND)
    assert shared.processes(60 * SECOND)[0].silent_s == 0
    shared.close(keep=False)


@pytest.mark.skipif(not (BUILD / "lib" / "libbusbw_record.so").exists(), reason="the recorder is not built")
def test_two_watchers_with_half_of_the_ranks_each_say_the_same(tmp_path: Path) -> None:
    nccl = tmp_path / "libnccl.so.2"
    shutil.copy(BUILD / "lib" / "libbusbw_cpu.so", nccl)
    environ = {**os.environ, "BUSBW_ENGINE": str(BUILD / "bin" / "busbw-engine")}
    options = ["--late", "1000s", "--hang-after", "1.5", "--on-hang", "abort", "--share", str(tmp_path / "share")]
    watchers = []
    for first in (0, 2):
        words = [str(JOB), str(nccl), "4", "30", "stop", str(tmp_path), str(first), str(first + 2)]
        command = [sys.executable, "-m", "busbw", "watch", *options, "--", sys.executable, *words]
        watchers.append(subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True))
    try:
        said = [each.communicate(timeout=60)[1] for each in watchers]
    finally:
        for each in watchers:
            if each.poll() is None:
                each.send_signal(signal.SIGKILL)
    verdicts = [line for text in said for line in text.splitlines() if "the process is stopped" in line]
    assert len(verdicts) == 2, said
    assert all("rank 2 (" in line and "rank 0, 1, 3 of" in line for line in verdicts)
