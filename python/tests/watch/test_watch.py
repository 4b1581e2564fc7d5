"""`busbw watch` over real processes: our CPU library stands for NCCL, and faults are real ones."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.watch.recording import Recording

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build"))
JOB = Path(__file__).with_name("job.py")
RANKS = 4

pytestmark = pytest.mark.skipif(
    not all((BUILD / "lib" / name).exists() for name in ("libbusbw_record.so", "libbusbw_with.so", "libbusbw_cpu.so")),
    reason="the recorder is not built; BUSBW_BUILD names a build folder",
)


def watch(
    folder: Path, fault: str, *options: str, steps: int = 150, by: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    nccl = folder / "libnccl.so.2"
    shutil.copy(BUILD / "lib" / "libbusbw_cpu.so", nccl)
    job = [sys.executable, str(JOB), str(nccl), str(RANKS), str(steps), fault, str(folder)]
    # On a loaded machine a rank is late indeed: what is tried here is the rest.
    command = [sys.executable, "-m", "busbw", "watch", "--late", "1000s", *options, "--", *by, *job]
    environ = {**os.environ, "BUSBW_ENGINE": str(BUILD / "bin" / "busbw-engine")}
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)


def test_a_healthy_job_is_summed_up_and_nothing_else_is_said(tmp_path: Path) -> None:
    done = watch(tmp_path, "none", "--output", str(tmp_path / "kept"))
    assert done.returncode == 0, done.stderr
    assert "busbw watch:" not in done.stderr
    assert f"{RANKS * 2 * 150:,} calls by 8 ranks of communicators in 4 processes" in done.stderr
    assert len(list((tmp_path / "kept").glob("*.busbwrec"))) == RANKS
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o700
    with Recording(next((tmp_path / "kept").iterdir())) as recording:
        assert {(call.in_place, call.shape.root) for call in recording.calls()} == {(True, None)}
    again = subprocess.run(
        [sys.executable, "-m", "busbw", "watch", "--late", "1000s", "--read", str(tmp_path / "kept")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.stdout == done.stderr


def test_a_pause_shorter_than_the_limit_is_no_hang(tmp_path: Path) -> None:
    done = watch(tmp_path, "pause", "--hang-after", "3")
    assert done.returncode == 0, done.stderr
    assert "busbw watch:" not in done.stderr


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("stop", "the process is stopped; rank 0, 1, 3 of"),
        ("sleep", "did not call #101, all_reduce of 64 float32, sum"),
        ("order", "has left out #101 of"),
        ("skip", "has left out #101 of"),
    ],
)
def test_a_hang_is_explained_and_ended(tmp_path: Path, fault: str, words: str) -> None:
    done = watch(tmp_path, fault, "--hang-after", "2", "--on-hang", "abort")
    assert done.returncode == 124, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("busbw watch: no progress for 2 s.")]
    assert "rank 2 (" in line
    assert words in line


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("kill", "Rank 2 ("),
        ("exit", "Rank 2 ("),
        ("count", "another count: rank 2 ("),
        ("type", "another type: rank 2 ("),
        ("operator", "another operator: rank 2 ("),
        ("collective", "another collective, root: rank 2 ("),
    ],
)
def test_a_job_that_fails_is_explained(tmp_path: Path, fault: str, words: str) -> None:
    done = watch(tmp_path, fault)
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("busbw watch: the job failed.")]
    assert words in line


def test_a_failure_that_a_shell_hides_is_explained(tmp_path: Path) -> None:
    done = watch(tmp_path, "count", steps=30, by=("sh", "-c", '"$@"; true', "sh"))
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("busbw watch:")]
    assert line.startswith("busbw watch: the job ended with code 0, but NCCL failed in it. Call #21 of")
    assert "another count: rank 2 (" in line


def test_the_job_does_not_notice_the_death_of_its_watcher(tmp_path: Path) -> None:
    nccl, kept, done = tmp_path / "libnccl.so.2", tmp_path / "kept", tmp_path / "done"
    shutil.copy(BUILD / "lib" / "libbusbw_cpu.so", nccl)
    job = f"{sys.executable} {JOB} {nccl} {RANKS} 150 pause {tmp_path}; echo $? > {done}.part; mv {done}.part {done}"
    command = [sys.executable, "-m", "busbw", "watch", "--output", str(kept), "--", "sh", "-c", job]
    environ = {**os.environ, "BUSBW_ENGINE": str(BUILD / "bin" / "busbw-engine")}
    watcher = subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while len(list(kept.glob("*.busbwrec"))) < RANKS and time.monotonic() < end:
        time.sleep(0.01)
    watcher.kill()
    watcher.wait(60)
    while not done.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert done.read_text() == "0\n"
    read = subprocess.run(
        [sys.executable, "-m", "busbw", "watch", "--read", str(kept)], capture_output=True, text=True, check=False
    )
    assert f"{RANKS * 2 * 150:,} calls by 8 ranks of communicators in 4 processes" in read.stdout


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("stop", ("no progress for 3 s", "is stopped")),
        ("kill", ("the job failed",)),
        ("exit", ("the job has ended, and",)),
    ],
)
def test_a_job_that_somebody_else_started_is_followed_without_a_terminal(
    tmp_path: Path, fault: str, words: tuple[str, ...]
) -> None:
    nccl, kept = tmp_path / "libnccl.so.2", tmp_path / "kept"
    shutil.copy(BUILD / "lib" / "libbusbw_cpu.so", nccl)
    kept.mkdir(mode=0o700)
    steps = "6000" if fault == "exit" else "1000000"
    environ = {**os.environ, "BUSBW_ENGINE": str(BUILD / "bin" / "busbw-engine")}
    if fault != "exit":
        environ["FAULT_AFTER_S"] = "2"
    job = subprocess.Popen(
        [sys.executable, "-m", "busbw", "watch", "--hang-after", "500", "--output", str(kept), "--", sys.executable,
         str(JOB), str(nccl), "3", steps, fault, str(tmp_path)],
        env=environ, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        end = time.monotonic() + 30
        while len(list(kept.glob("*.busbwrec"))) < 3 and time.monotonic() < end:
            time.sleep(0.02)
        command = [sys.executable, "-m", "busbw", "watch", "--late", "1000s", "--hang-after", "3", "--live"]
        watcher = subprocess.Popen(
            [*command, "--read", str(kept)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert watcher.stderr is not None
        said = ""
        for line in watcher.stderr:
            said += line
            if line.startswith(("busbw watch: no progress", "busbw watch: the job")):
                break
        watcher.kill()
        watcher.communicate()
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    assert all(each in said for each in words) and "rank 2 (" in said.lower(), said


def test_recordings_are_for_the_user_alone(tmp_path: Path) -> None:
    watch(tmp_path, "none", "--output", str(tmp_path / "kept"), steps=3)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "kept").iterdir()} == {0o600}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "say which program to start"),
        (("--calls", "3", "--", "true"), "it must be at least 1024"),
        (("--hang-after", "0", "--", "true"), "more than 0 seconds"),
        (("--read", "/nowhere"), "cannot be read"),
        (("--read", "/tmp", "--", "true"), "starts no program"),
    ],
)
def test_bad_words_are_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "busbw", "watch", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_program_that_calls_no_nccl_is_said_so() -> None:
    environ = {**os.environ, "BUSBW_ENGINE": str(BUILD / "bin" / "busbw-engine")}
    done = subprocess.run(
        [sys.executable, "-m", "busbw", "watch", "--", "sh", "-c", "exit 5"],
        env=environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 5
    assert done.stderr == (
        "no call of NCCL was recorded: the program made none, or has an NCCL within another library, where nothing can "
        "stand in front of it. A command that changes the user or clears the environment, as sudo or env -i, also "
        "hides what it starts\n"
    )


PROGRAM = """
import ctypes, os, sys, time
class Id(ctypes.Structure): _fields_ = [("internal", ctypes.c_char * 128)]
nccl, values = ctypes.CDLL(sys.argv[1]), (ctypes.c_float * 8)()
nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
def call(times):
    comm, unique = ctypes.c_void_p(), Id()
    assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
    assert nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0) == 0
    for _ in range(times):
        assert nccl.ncclAllReduce(values, values, ctypes.c_size_t(8), 7, 0, comm, None) == 0
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        # Three programs in one process, and a child of each.
        (
            "call(3)\nif os.fork() == 0:\n    call(5); os._exit(0)\nos.wait()\n"
            "if len(sys.argv) < 4: os.execv(sys.executable, [sys.executable, *sys.argv, 'again'])",
            "24 calls by 6 ranks of communicators in 4 processes",
        ),
        (
            "call(2)\nif os.fork() == 0:\n    time.sleep(2); os._exit(0)",
            "1 processes of the program go on after its end",
        ),
    ],
)
def test_a_program_that_forks_and_becomes_another_one_is_recorded(tmp_path: Path, body: str, said: str) -> None:
    nccl, file = tmp_path / "libnccl.so.2", tmp_path / "program.py"
    shutil.copy(BUILD / "lib" / "libbusbw_cpu.so", nccl)
    file.write_text(PROGRAM + body)
    words = [sys.executable, "-m", "busbw", "watch", "--", sys.executable, str(file), str(nccl)]
    environ = {**os.environ, "BUSBW_ENGINE": str(BUILD / "bin" / "busbw-engine")}
    with (tmp_path / "said").open("w+") as told:
        # Not a pipe, which a process that goes on would hold open.
        assert subprocess.run(words, env=environ, stderr=told, timeout=60, check=False).returncode == 0
        told.seek(0)
        assert said in told.read()


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("mv {file} {file}.1", r"\.busbwrec and 1 more was moved or deleted while the job ran"),
        ("cp {file} {file}.1; : > {file}", r"is no recording of busbw.*: it was one while the job ran"),
    ],
    ids=["moved", "cut off"],
)
def test_a_job_outlives_the_rotation_of_its_recordings_which_is_told(tmp_path: Path, does: str, said: str) -> None:
    """As of logs: by another name, or copied and cut off. A write beyond the end of a mapped file ends a program."""
    recordings, nccl, folder = tmp_path / "recordings", tmp_path / "libnccl.so.2", tmp_path / "job"
    shutil.copy(BUILD / "lib" / "libbusbw_cpu.so", nccl)
    folder.mkdir()
    words = [sys.executable, "-m", "busbw", "watch", "--output", str(recordings), "--late", "1000s", "--"]
    words += [sys.executable, str(JOB), str(nccl), "2", "600", "pauses", str(folder)]
    environ = {**os.environ, "BUSBW_ENGINE": str(BUILD / "bin" / "busbw-engine"), "PAUSE_S": "0.3"}
    job = subprocess.Popen(words, env=environ, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 30
    while not (files := sorted(recordings.glob("*.busbwrec"))) or len(files) < 2 or not all(map(calls_in, files)):
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(1.0)
    for file in files:
        subprocess.run(["sh", "-c", does.format(file=file)], check=True)
    assert job.poll() is None, "rotated too late"
    _, heard = job.communicate(timeout=120)
    assert job.returncode == 0, heard
    assert re.search(said, heard), heard
    assert "no call of NCCL" not in heard and "the job failed" not in heard


@pytest.mark.parametrize("how", ["os.kill(os.getpid(), signal.SIGBUS)", "beyond_the_end()"])
def test_any_other_bus_error_ends_the_program_as_before(tmp_path: Path, how: str) -> None:
    program = (
        "import ctypes, mmap, os, signal, sys\n"
        "class Id(ctypes.Structure): _fields_ = [('internal', ctypes.c_char * 128)]\n"
        "def beyond_the_end():\n"
        "    with open(sys.argv[2], 'w+b') as file:\n"
        "        file.truncate(8192); seen = mmap.mmap(file.fileno(), 8192); file.truncate(0); seen[5000]\n"
        "nccl, one, comm = ctypes.CDLL(sys.argv[1]), Id(), ctypes.c_void_p()\n"
        "nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]\n"
        "assert nccl.ncclGetUniqueId(ctypes.byref(one)) == 0\n"
        f"assert nccl.ncclCommInitRank(ctypes.byref(comm), 1, one, 0) == 0\n{how}\n"
    )
    recorder = BUILD / "lib" / "libbusbw_record.so"
    environ = {**os.environ, "BUSBW_RECORD_DIR": str(tmp_path), "BUSBW_REAL_NCCL": str(BUILD / "lib/libbusbw_cpu.so")}
    words = [sys.executable, "-c", program, str(recorder), str(tmp_path / "file")]
    assert subprocess.run(words, env=environ, timeout=60, check=False).returncode == -signal.SIGBUS
    assert list(tmp_path.glob("*.busbwrec"))


def calls_in(file: Path) -> int:
    """What a recording has, which may be just beginning."""
    try:
        with Recording(file) as recording:
            return recording.header().calls
    except UserError:
        return 0
