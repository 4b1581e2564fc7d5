"""busbw may be started oddly: signals blocked, as process 1 of a PID namespace, Ctrl-C before it has begun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD") or ROOT / "build")
PERF = BUILD / "bin" / "all_reduce_perf"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "BUSBW_ENGINE": str(BUILD / "bin" / "busbw-engine")}
LONG = ("-b", "8", "-e", "8", "-n", "20", "-N", "0", "-t", "2", "--library", "cpu")
WAYS = {
    "engine": [str(PERF), *LONG],
    "threads": [sys.executable, "-m", "busbw", "all_reduce", *LONG, "--no-record"],
    "ranks": [
        sys.executable,
        "-m",
        "busbw",
        "run",
        "--ranks",
        "2",
        "--no-record",
        "all_reduce",
        *LONG[:-4],
        *LONG[-2:],
    ],
}
SOON_S = 20.0
UNSHARE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")

needs_engine = pytest.mark.skipif(not PERF.exists(), reason="the engine is not built")
needs_namespaces = pytest.mark.skipif(
    subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode != 0
    if Path("/usr/bin/unshare").exists()
    else True,
    reason="no PID namespace can be made here",
)


def block() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD])


def measuring(words: list[str], *, blocked: bool = False) -> subprocess.Popen[bytes]:
    """A measurement that has printed its first line."""
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
        preexec_fn=block if blocked else None,  # noqa: PLW1509
    )
    assert process.stdout
    assert process.stdout.readline().startswith(b"#")
    return process


def processes_of(marker: str) -> list[int]:
    """Living processes with this word in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@needs_engine
@pytest.mark.parametrize("way", WAYS)
def test_a_signal_that_was_blocked_at_the_start_ends_it(way: str) -> None:
    process = measuring(WAYS[way], blocked=True)
    try:
        process.terminate()
        process.communicate(timeout=SOON_S)
        assert process.returncode != 0
    finally:
        process.kill()


@needs_engine
@needs_namespaces
@pytest.mark.parametrize("way", ["engine", "threads"])
def test_it_ends_with_who_made_its_pid_namespace(way: str) -> None:
    """unshare asks the kernel to kill its child with it; without that, a parent outside is watched all the same."""
    for more in ((), ("--kill-child",)):
        marker = f"BUSBW_TEST_MARK={os.getpid()}.{time.monotonic_ns()}"
        process = measuring(["env", marker, *UNSHARE, *more, "--", *WAYS[way]])
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()
        end = time.monotonic() + SOON_S
        while (left := processes_of(marker)) and time.monotonic() < end:
            time.sleep(0.05)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left, (way, more)


@needs_engine
@needs_namespaces
@pytest.mark.parametrize("way", WAYS)
def test_process_1_of_a_container_ends_by_a_signal(way: str) -> None:
    process = measuring([*UNSHARE, "--kill-child", "--", *WAYS[way]])
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)
        process.communicate(timeout=SOON_S)
    finally:
        process.kill()


@needs_namespaces
def test_a_verb_that_is_process_1_ends_by_a_signal() -> None:
    code = (
        "import os, sys; from busbw.base import lifeline; lifeline.take_signals(); os.write(1, b'.'); sys.stdin.read()"
    )
    with subprocess.Popen([*UNSHARE, "--kill-child", "--", sys.executable, "-c", code], env=ENVIRONMENT,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout
        process.stdout.read(1)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)
        try:
            assert process.wait(SOON_S) == 128 + signal.SIGTERM
        finally:
            process.kill()


@pytest.mark.parametrize(("program", "expected"), [("/usr/bin/busbw", True), ("-m", True), ("/x/pytest", False)])
def test_ctrl_c_while_modules_are_imported_is_no_traceback(program: str, expected: bool) -> None:
    code = (f"import signal, sys; sys.argv[0] = {program!r}; import busbw.cli; "
            "print(signal.getsignal(signal.SIGINT) == signal.SIG_DFL)")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(expected)


def test_ctrl_c_is_an_exception_while_a_verb_runs_and_the_end_behind_it() -> None:
    code = (
        "import signal, sys; sys.argv[:] = ['busbw', 'x']; import busbw.cli.main as m\n"
        "m._dispatch = lambda words: print(signal.getsignal(signal.SIGINT) == signal.default_int_handler) or 0\n"
        "m.main(); print(signal.getsignal(signal.SIGINT) == signal.SIG_DFL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


def test_ctrl_c_in_the_import_of_torch_ends_a_rank(tmp_path: Path) -> None:
    """As PyTorch does it: what is raised while it asks for numpy is dropped."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept BaseException:\n    pass\n"
        "print('imported', flush=True)\nos._exit(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "busbw.torch_bench.rank"], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT / 'python'}"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (-signal.SIGINT, "")
