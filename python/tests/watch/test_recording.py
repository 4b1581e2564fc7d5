"""Recordings are read whole, while they are written, after a kill, and without harm when somebody else wrote them."""

from __future__ import annotations

import os
import random
import re
import signal
import struct
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from made_recordings import Made, Row, write

from busbw.base.errors import UserError
from busbw.watch.meetings import meetings
from busbw.watch.recording import CALL, COMMUNICATOR, HEADER, GpuHeader, Recording, find
from busbw.watch.summary import summarise
from busbw.watch.timeline import write_timeline

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build"))
CALLS = BUILD / "bin" / "busbw_test_record_calls"

pytestmark = pytest.mark.skipif(not CALLS.exists(), reason="the recorder's test program is not built; see BUSBW_BUILD")


def record(folder: Path, ring: int, calls: int, threads: int, *more: str | Path) -> Path:
    return told(folder, ring, calls, threads, *more)[0]


def told(folder: Path, ring: int, calls: int, threads: int, *more: str | Path) -> tuple[Path, str]:
    """The recording, and what its program said."""
    words = [CALLS, folder, str(ring), str(calls), str(threads), *more]
    done = subprocess.run(words, timeout=120, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    (path,) = find(folder)
    return path, done.stdout


def test_the_layout_is_that_of_the_native_half() -> None:
    assert (HEADER.size, COMMUNICATOR.size, CALL.size) == (232, 128, 32)


def test_every_call_is_there_once_and_whole(tmp_path: Path) -> None:
    with Recording(record(tmp_path, 65536, 20000, 3)) as recording:
        calls = list(recording.calls())
        assert [call.number for call in calls] == list(range(1, 60001))
        by_thread: dict[int, list[int]] = {0: [], 1: [], 2: []}
        for call in calls:
            # The writer put its thread and its own number into the count.
            assert call.shape.count & 0xFF == call.communicator
            assert call.shape.count >> 8 == call.sequence
            by_thread[call.communicator].append(call.sequence)
        assert all(numbers == list(range(1, 20001)) for numbers in by_thread.values())
        assert recording.overwritten() == 0 == recording.header().lost
        assert [row.entered for row in recording.communicators()] == [20000] * 3
        assert [row.returned for row in recording.communicators()] == [20000] * 3


def test_one_call_is_not_taken_while_the_writer_comes_round_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = record(tmp_path, 1024, 1000, 1)
    real = Recording._read

    def read(self: Recording, at: int, amount: int) -> bytes:
        found = real(self, at, amount)
        if amount == CALL.size:
            with path.open("r+b") as file:
                file.seek(184)
                file.write(struct.pack("<Q", 1324))
        return found

    with Recording(path) as recording:
        assert recording.call(301) is not None
        monkeypatch.setattr(Recording, "_read", read)
        assert recording.call(300) is None
        assert recording.call(301) is not None


def test_calls_without_a_place_are_told(tmp_path: Path) -> None:
    made = write(tmp_path, 0, [Row(0, 1)], [Made(1000 * at) for at in range(4)])
    assert "no place" not in summarise([made]).text()
    with made.open("r+b") as file:
        file.seek(360)
        file.write(struct.pack("<Q", 2))
    with Recording(made) as recording:
        assert recording.header().overtaken == 2
    assert "2 calls had no place: the call there, a whole ring before, had not ended" in summarise([made]).text()


def test_what_the_writer_comes_round_to_while_it_is_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place may be half old and half new then, and has the old stamp."""
    path = record(tmp_path, 1024, 1000, 1)
    real = Recording._read

    def read(self: Recording, at: int, amount: int) -> bytes:
        found = real(self, at, amount)
        if at >= struct.unpack("<Q", real(self, 48, 8))[0] and amount > CALL.size:
            with path.open("r+b") as file:
                file.seek(184)
                file.write(struct.pack("<Q", 1324))
        return found

    with Recording(path) as recording:
        monkeypatch.setattr(Recording, "_read", read)
        numbers = [number for number, _ in recording.raw_calls() if number <= 1000]
    assert numbers == list(range(301, 1001))


def test_a_million_calls_fit_into_a_ring_of_its_usual_size(tmp_path: Path) -> None:
    """And the program's memory holds the newest of them."""
    path, said = told(tmp_path, 1 << 20, 1_000_000, 1)
    with Recording(path) as recording:
        assert (recording.header().calls, recording.header().lost, recording.overwritten()) == (1_000_000, 0, 0)
        assert sum(1 for _ in recording.raw_calls()) == 1_000_000
    # The table of communicators is a hole but for its first part.
    assert path.stat().st_blocks * 512 <= (1 << 20) * 32 + (1 << 20) + (1 << 16)
    found = re.search(r"(-?[0-9]+) KiB more in memory", said)
    assert found and 3000 < int(found[1]) < 8000, said


def test_a_file_that_has_the_number_of_the_recording_is_left_alone(tmp_path: Path) -> None:
    """Daemons close every descriptor. The recording goes on beyond its first mebibyte by its name."""
    (tmp_path / "folder").mkdir()
    with Recording(record(tmp_path / "folder", 65536, 40_000, 1, "closes", tmp_path / "mine")) as recording:
        assert (recording.header().calls, recording.header().lost) == (40_000, 0)
        assert [call.number for call in recording.calls()] == list(range(1, 40_001))
    assert (tmp_path / "mine").read_bytes() == b"mine"


def test_a_ring_that_has_come_round_says_how_many_it_no_longer_holds(tmp_path: Path) -> None:
    with Recording(record(tmp_path, 1024, 3000, 1)) as recording:
        assert [call.number for call in recording.calls()] == list(range(1977, 3001))
        assert recording.overwritten() == 1976
    assert "1,976 older calls were overwritten" in summarise(find(tmp_path)).text()


def test_it_is_read_while_it_is_written_and_after_a_kill(tmp_path: Path) -> None:
    job = subprocess.Popen([CALLS, tmp_path, "4096", "100000000", "2"], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not find(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        with Recording(find(tmp_path)[0]) as recording:
            for _ in range(20):
                for call in recording.calls():
                    assert call.shape.count & 0xFF == call.communicator
                    assert call.shape.count >> 8 == call.sequence
    finally:
        job.send_signal(signal.SIGKILL)
        job.wait()
    with Recording(find(tmp_path)[0]) as recording:
        assert not recording.header().ended
        assert len(list(recording.calls())) >= 4094, "two threads may each have been in the middle of one"


def test_a_full_disk_loses_calls_and_not_the_program(tmp_path: Path) -> None:
    script = (
        f"mount -t tmpfs -o size=4m none {tmp_path} && {CALLS} {tmp_path} 1048576 200000 1 && "
        f"cat {tmp_path}/*.busbwrec | head -c 1048576 >&2"
    )
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, timeout=120, check=False)
    if b"ns a call" not in done.stdout:
        pytest.skip(f"no file system of its own for this test: {done.stderr[-200:]!r}")
    head = HEADER.unpack(done.stderr[: HEADER.size])
    calls, lost = head[21], head[22]
    assert calls == 200000
    assert 0 < lost < calls


def test_a_limit_of_file_sizes_is_a_sentence_and_no_signal(tmp_path: Path) -> None:
    """The system's answer to a longer file is a signal, which ends a program that does not expect it."""
    words = ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", str(CALLS), str(tmp_path), "4096", "2000", "1"]
    done = subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert done.returncode == 1 and b"cannot be made so long: File too large" in done.stdout + done.stderr, done
    assert not find(tmp_path)


@pytest.mark.parametrize(("room", "why"), [("size=64k", "has no room"), ("size=8m,nr_inodes=1", "cannot be made")])
def test_a_disk_that_is_full_at_the_start_is_a_sentence_and_leaves_nothing(tmp_path: Path, room: str, why: str) -> None:
    script = f"mount -t tmpfs -o {room} none {tmp_path} && {CALLS} {tmp_path} 4096 2000 1; ls -A {tmp_path}"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    if "busbwrec" not in done.stdout + done.stderr:
        pytest.skip(f"no file system of its own for this test: {done.stderr[-200:]!r}")
    assert f"{why}: No space left on device" in done.stdout + done.stderr
    assert not done.stdout.splitlines()[1:], "no file may be left"


def test_a_program_without_room_for_addresses_is_not_recorded_and_leaves_nothing(tmp_path: Path) -> None:
    words = ["sh", "-c", 'ulimit -v 200000; exec "$@"', "sh", str(CALLS), str(tmp_path), str(1 << 24), "2000", "1"]
    done = subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert done.returncode == 1 and b"cannot be mapped: Cannot allocate memory" in done.stdout + done.stderr, done
    assert not find(tmp_path)


def test_a_table_that_would_lie_over_the_calls_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, 0, [Row(0, 2)], [Made(0)])
    with path.open("r+b") as file:
        file.seek(20)
        file.write(struct.pack("<I", 33))  # rows of 128 bytes, in 4 KiB
    with pytest.raises(UserError, match="header does not hold together"):
        Recording(path)


def test_a_link_is_not_followed_and_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    real = write(tmp_path, 0, [Row(0, 2)], [Made(0)])
    link, fifo = tmp_path / "link.busbwrec", tmp_path / "fifo.busbwrec"
    link.symlink_to(real)
    os.mkfifo(fifo)
    for path in (link, fifo):
        with pytest.raises(UserError, match="cannot be read"):
            Recording(path)


def test_times_that_the_writer_comes_round_to_while_they_are_read_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 0, [Row(0, 2)], [Made(n * 10**6, gpu_ns=900) for n in range(4)])
    real, looks = Recording.gpu, []

    def gpu(self: Recording) -> GpuHeader:
        looks.append(1)
        return replace(real(self), times=4 if len(looks) == 1 else 6)

    monkeypatch.setattr(Recording, "gpu", gpu)
    with Recording(find(tmp_path)[0]) as recording:
        assert [time.number for _, time in recording.times()] == [3, 4]


def whole(folder: Path) -> bytes:
    (folder / "made").mkdir()
    content = record(folder / "made", 1024, 500, 1).read_bytes()
    (folder / "hostile").mkdir()
    return content


def read_all(folder: Path, content: bytes) -> None:
    path = folder / "hostile" / "x.busbwrec"
    path.write_bytes(content)
    try:
        with Recording(path) as recording:
            recording.communicators()
            for call in recording.calls():
                str(call.shape)
            list(meetings([recording]))
            write_timeline([recording], folder / "page.html")
        summarise([path]).text()
    except UserError as error:
        assert "\n" not in str(error)


def test_a_hostile_file_is_a_sentence_or_numbers(tmp_path: Path) -> None:
    good = whole(tmp_path)
    read_all(tmp_path, good)
    chance = random.Random(1)
    for length in (0, 1, 8, 100, 231, 232, 4095, 4096, 5000, 1 << 20, len(good) - 1):
        read_all(tmp_path, good[:length])
    for at in range(8, 232):
        read_all(tmp_path, good[:at] + bytes([chance.choice((0, 0x7F, 0xFF))]) + good[at + 1 :])
    for _ in range(100):
        at = chance.randrange(8, 200)
        read_all(
            tmp_path, good[:at] + struct.pack("<Q", chance.choice((1 << 63, 1 << 40, 3, 0xFFFFFFFF))) + good[at + 8 :]
        )
    for _ in range(50):
        at = chance.randrange(4096, 4096 + 128)
        read_all(tmp_path, good[:at] + chance.randbytes(16) + good[at + 16 :])
    start = 1 << 20
    read_all(tmp_path, good[:start] + chance.randbytes(len(good) - start))


def test_a_call_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    path = record(tmp_path, 1024, 500, 1)
    content = bytearray(path.read_bytes())
    with Recording(path) as recording:
        at = recording.header().calls_at + 4 * CALL.size
    content[at : at + 4] = bytes(4)
    path.write_bytes(content)
    with Recording(path) as recording:
        assert [call.number for call in recording.calls()] == [1, 2, 3, 4, *range(6, 501)]


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.busbwrec").write_text("BUSBW")
    os.mkfifo(tmp_path / "pipe.busbwrec")
    (tmp_path / "folder.busbwrec").mkdir()
    (tmp_path / "link.busbwrec").symlink_to("/etc/passwd")
    for path in find(tmp_path):
        with pytest.raises(UserError):
            Recording(path)
