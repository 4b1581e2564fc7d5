"""Where a process waits: its call of the kernel, what that is on, and its C stack, read without a debugger."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from busbw.watch import unwind
from busbw.watch.elf_image import Image
from busbw.watch.threads import threads_of
from busbw.watch.unwind import Images, Unwinder

PROGRAM = """
#include <pthread.h>
#include <unistd.h>
__attribute__((noinline)) static long takes_a_batch(long n) {
  int ends[2]; volatile char room[100]; char byte;
  if (pipe(ends) != 0 || write(1, "x", 1) != 1) return 1;
  n += read(ends[0], &byte, 1); room[n & 63] = byte; return room[1];
}
__attribute__((noinline)) static void* trains(void* from) {
  volatile long sum = 0;
  for (int step = 0; step < 3; ++step) sum += takes_a_batch(step) + 1;
  return (void*)(sum + (long)from);
}
__attribute__((noinline, noreturn)) static void stays(int end) {
  char byte;
  for (;;) (void)!read(end, &byte, write(1, "x", 1) == 1);
}
__attribute__((noinline)) static void goes_no_further(int* ends) { stays(ends[0]); }
int main(int count, char** words) {
  pthread_t worker;
  int ends[2];
  if (count > 2 && pipe(ends) == 0) goes_no_further(ends);
  if (count > 1 && pthread_create(&worker, 0, trains, 0) == 0) return pthread_join(worker, 0);
  return trains(words) == 0;
}
"""


@contextmanager
def started(*words: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """Until it has written one byte, and then waits."""
    job = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        assert job.stdout is not None
        assert job.stdout.read(1) == b"x"
        yield job
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.communicate()


def compiled(folder: Path, *options: str) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (folder / "waits.c").write_text(PROGRAM)
    words = [compiler, *options, "-pthread", "-o", folder / "waits", folder / "waits.c"]
    subprocess.run(words, check=True, timeout=60)
    return folder / "waits"


def stack_of(pid: int, which: int) -> list[str]:
    with Images() as images, Unwinder(pid, images) as unwinder:
        thread = [each for each in threads_of(pid) if each.at][which]
        return unwinder.frames(thread.stack, thread.at)


def turns() -> Iterator[None]:
    """Until the process has come to its call."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        yield
        time.sleep(0.02)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="written for x86-64")
@pytest.mark.parametrize("options", [("-O0",), ("-O2",), ("-O2", "-fno-omit-frame-pointer"), ("-O1", "-static-pie")])
def test_the_c_stack_of_a_thread_that_waits_is_read(tmp_path: Path, options: tuple[str, ...]) -> None:
    program = compiled(tmp_path, *options)
    for words, which, outermost in (([program], 0, "main"), ([program, "worker"], 1, "trains")):
        with started(*words) as job:
            found: list[str] = []
            for _ in turns():
                with suppress(IndexError):
                    found = stack_of(job.pid, which)
                if "takes_a_batch" in found:
                    break
            names = [name.partition(".")[0] for name in found if not name.startswith("[")]
            ours = [name for name in names if name in {"takes_a_batch", "trains", "main"}]
            assert ours == ["takes_a_batch", "trains", "main"][: 3 if outermost == "main" else 2], found


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="written for x86-64")
def test_a_call_that_is_the_last_thing_of_a_function_is_found_in_it(tmp_path: Path) -> None:
    """The place behind it is another function's already."""
    program = compiled(tmp_path, "-O2")
    with started(program, "one", "two") as job:
        found: list[str] = []
        for _ in turns():
            with suppress(IndexError):
                found = stack_of(job.pid, 0)
            if "stays" in found:
                break
        names = [name.partition(".")[0] for name in found]
        assert names[-3:] == ["stays", "goes_no_further", "main"], found


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("os.read(os.pipe()[0], 1)", "it is in read, of a pipe"),
        ("fcntl.flock(one, 2); fcntl.flock(other, 2)", "it is in flock, of /"),
        ("door.accept()", "of a socket that listens at 127.0.0.1:"),
        ("socket.create_connection(door.getsockname()).recv(1)", ", of the connection 127.0.0.1:"),
        ("subprocess.run(['sleep', '60'])", "for a child (pid "),
        ("threading.Event().wait()", "it is in futex, for a lock"),
        ("time.sleep(60)", "nanosleep, asleep"),
        ("signal.sigwait({signal.SIGUSR2})", "it is in rt_sigtimedwait, for a signal"),
        ("select.select([door], [], [])", "for files or connections"),
        ("while True: pass", "it runs in code of its own"),
    ],
)
def test_the_call_of_the_kernel_and_what_it_waits_for_are_told(tmp_path: Path, body: str, words: str) -> None:
    setting = (
        "import fcntl, os, select, signal, socket, subprocess, threading, time\n"
        f"one, other = open({str(tmp_path / 'file')!r}, 'w'), open({str(tmp_path / 'file')!r}, 'w')\n"
        "door = socket.create_server(('127.0.0.1', 0))\nos.write(1, b'x')\n"
    )
    with started(sys.executable, "-c", setting + body) as job:
        said = ""
        for _ in turns():
            said = threads_of(job.pid)[0].what
            if words in said:
                break
        assert words in said
    assert threads_of(job.pid) == [], "of a process that is gone nothing is known"


def test_a_file_that_is_no_program_or_a_broken_one_is_no_harm(tmp_path: Path) -> None:
    content = compiled(tmp_path, "-O1").read_bytes()
    with Image(tmp_path / "waits") as whole:
        offsets = [at for at in range(0, len(content), 97) if whole.address_of(at) is not None]
    chance, broken, opened = random.Random(5), tmp_path / "broken", 0
    for turn in range(150):
        bad = bytearray(content)
        for _ in range(chance.choice((1, 8, 200))):
            bad[chance.randrange(16, len(bad))] = chance.randrange(256)
        broken.write_bytes(bad[: chance.randrange(len(bad))] if turn % 3 == 0 else bad)
        with suppress(OSError, ValueError), Image(broken) as image:
            opened += 1
            for at in chance.sample(offsets, 20):
                address = image.address_of(at)
                if address is not None:
                    image.name_at(address)
                    image.rules_at(address)
    assert opened > 50
    for none in (tmp_path, tmp_path / "nowhere", Path(os.devnull)):
        with pytest.raises((OSError, ValueError)):
            Image(none)


def test_a_file_that_shrinks_while_it_is_read_is_no_harm(tmp_path: Path) -> None:
    """Memory that a file stands behind would end the watcher with a signal."""
    with Image(compiled(tmp_path, "-O1")) as image:
        (tmp_path / "waits").write_bytes(b"")
        assert image.name_at(0x1200) == ""
        assert image.rules_at(0x1200) is None


def test_without_rights_there_is_no_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> int:
        raise PermissionError

    monkeypatch.setattr(unwind.os, "open", refused)
    with Images() as images, Unwinder(os.getpid(), images) as unwinder:
        assert unwinder.frames(1 << 40, 1 << 40) == []
