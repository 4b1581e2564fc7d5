"""A full disk, a full stdout, a limit of file sizes and a folder that cannot be written end in one sentence at once."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD") or ROOT / "build")
ENGINE = BUILD / "bin" / "busbw-engine"
RUN = {"schema": 1, "kind": "run", "run": "r", "started": "2026-01-01T00:00:00Z", "environment": {}, "ranks": [],
       "tool": {"name": "busbw", "version": "1"}, "library": {"name": "nccl"}}  # fmt: skip
CASE = {"schema": 1, "kind": "case", "run": "r", "case": 0, "collective": "all_reduce", "bytes": 1024, "ranks": 2,
        "placement": "in_place", "outcome": "measured", "time_us": 1.0, "algbw_GBps": 1.0,
        "busbw_GBps": 1.0}  # fmt: skip
MEASURE = ("-f", "2", "-n", "2", "-w", "1", "--library", "cpu")
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
needs_engine = pytest.mark.skipif(not ENGINE.exists(), reason="the engine is not built")


def record(folder: Path) -> Path:
    path = folder / "good.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in (RUN, CASE)))
    return path


def busbw(
    *words: str, folder: Path, stdout: Path | None = None, most: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    """A busbw whose stdout is that file, and whose files may have `most` bytes."""

    def limit() -> None:
        if most is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "BUSBW_RUNS": str(folder / "runs"),
                   "BUSBW_ENGINE": str(ENGINE)}  # fmt: skip
    with Path(stdout or os.devnull).open("wb") as out:
        return subprocess.run(
            [sys.executable, "-m", "busbw", *words], env=environment, stdout=out, stderr=subprocess.PIPE, timeout=120,
            check=False, stdin=subprocess.DEVNULL, preexec_fn=limit,
        )  # fmt: skip


def sentence(done: subprocess.CompletedProcess[bytes], reason: str) -> None:
    said = done.stderr.decode()
    assert done.returncode not in {0, -25}, said
    assert "Traceback" not in said and "Exception ignored" not in said, said
    assert reason in said, said


@needs_full
@pytest.mark.parametrize("words", [["--help"], ["report", "GOOD"], ["runs", "list"], ["baseline", "make", "GOOD"]])
def test_a_full_stdout_is_one_sentence(words: list[str], tmp_path: Path) -> None:
    good = str(record(tmp_path))
    busbw("import", good, folder=tmp_path)
    done = busbw(*[good if word == "GOOD" else word for word in words], folder=tmp_path, stdout=FULL)
    sentence(done, "No space left on device")


@needs_full
@needs_engine
@pytest.mark.parametrize("way", [["all_reduce", "-t", "2"], ["run", "--ranks", "2", "all_reduce"]])
def test_a_table_that_cannot_be_written_ends_the_run_and_the_record_has_what_was_measured(
    way: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    words = (*way, "-b", "8", "-e", "1G", *MEASURE, "--record", str(out))
    done = busbw(*words, folder=tmp_path, stdout=FULL)
    sentence(done, "the table cannot be written to stdout: No space left on device; what was measured before is in")
    kinds = [json.loads(line)["kind"] for line in out.read_text().splitlines()]
    assert kinds[:2] == ["run", "case"] and kinds[-1] == "end"


@needs_engine
def test_a_run_that_gets_no_thread_is_told_once_and_does_not_crash(tmp_path: Path) -> None:
    """The main thread and the watchdog both come to the end of such a run: one of them tells it."""
    for number in range(6):
        done = subprocess.run(
            ["sh", "-c", 'ulimit -d 20000; exec "$0" "$@"', str(ENGINE), "all_reduce", "-b", "8", "-e", "8", "-t", "2",
             "--library", "cpu", "--record", str(tmp_path / f"{number}.jsonl")],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode in {0, 1, 3}, done.stderr
        assert done.stdout.count("# Collective test concluded") <= 1


@needs_engine
@pytest.mark.parametrize("way", [["all_reduce", "-t", "2"], ["run", "--ranks", "2", "all_reduce"]])
def test_a_run_whose_reader_has_gone_ends(way: list[str], tmp_path: Path) -> None:
    words = [sys.executable, "-m", "busbw", *way, "-b", "8", "-e", "8", "-n", "1", "-N", "0", "--no-record"]
    with subprocess.Popen(
        [*words, "--library", "cpu"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "BUSBW_ENGINE": str(ENGINE)},
    ) as process:
        assert process.stdout and process.stderr
        process.stdout.readline()
        process.stdout.close()
        try:
            assert process.wait(30) != 0
        finally:
            process.kill()
        assert b"Traceback" not in process.stderr.read()


@needs_full
@pytest.mark.parametrize(
    "words",
    [
        ["report", "GOOD", "--format=md", "--output"],
        ["baseline", "make", "GOOD", "--output"],
        ["gate", "GOOD", "--junit"],
    ],
)
def test_a_full_file_is_one_sentence(words: list[str], tmp_path: Path) -> None:
    good = str(record(tmp_path))
    done = busbw(*[good if word == "GOOD" else word for word in words], str(FULL), folder=tmp_path)
    sentence(done, "")
    assert b"cannot be written: No space left on device" in done.stderr or words[0] == "gate", done.stderr


def test_a_limit_of_file_sizes_keeps_earlier_runs_and_leaves_no_half_one(tmp_path: Path) -> None:
    good = record(tmp_path)
    assert busbw("import", str(good), folder=tmp_path).returncode == 0
    large = tmp_path / "large.jsonl"
    run = {**RUN, "run": "large"}
    large.write_text(
        json.dumps(run) + "\n" + "".join(json.dumps({**CASE, "run": "large", "case": n}) + "\n" for n in range(200))
    )
    sentence(busbw("import", str(large), folder=tmp_path, most=8192), "File too large")
    assert [each.name for each in (tmp_path / "runs").iterdir() if not each.name.startswith(".index")] == ["r"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes into every folder")
def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    good = record(tmp_path)
    (tmp_path / "runs").mkdir(mode=0o500)
    sentence(busbw("import", str(good), folder=tmp_path), "Permission denied")


def test_a_file_where_the_folder_of_runs_should_be_is_one_sentence(tmp_path: Path) -> None:
    good = record(tmp_path)
    (tmp_path / "runs").write_text("")
    sentence(busbw("import", str(good), folder=tmp_path), "cannot be kept")


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 KiB, where the runs are kept."""
    folder = tmp_path / "runs"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(folder)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=False)


@needs_engine
def test_a_small_file_system_keeps_what_it_can_hold(tmp_path: Path, tiny: Path) -> None:
    done = busbw("all_reduce", "-b", "8", "-e", "1M", *MEASURE, "-t", "2", folder=tmp_path)
    sentence(done, "No space left on device")
    (kept,) = tiny.glob("*/record.jsonl")
    assert kept.read_bytes().count(b"\n") > 1
    assert busbw("report", str(kept), folder=tmp_path).returncode == 0


@needs_engine
@pytest.mark.parametrize("state", ["full", "read-only"])
def test_where_nothing_can_be_kept_each_says_why_and_leaves_what_was_there(
    state: str, tmp_path: Path, tiny: Path
) -> None:
    assert busbw("import", str(record(tmp_path)), folder=tmp_path).returncode == 0
    before = (tiny / "r" / "record.jsonl").read_bytes()
    if state == "full":
        with (tiny / "fill").open("wb", buffering=0) as fill, suppress(OSError):
            while fill.write(b"\0" * 1024):
                pass
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(tiny)], check=True)
    other = tmp_path / "other.jsonl"
    other.write_text((tmp_path / "good.jsonl").read_text().replace('"r"', '"another"'))
    reason = {"full": "No space left on device", "read-only": "Read-only file system"}[state]
    for words in (
        ("run", "--ranks", "2", "all_reduce", "-b", "8", "-e", "64", *MEASURE),
        ("all_reduce", "-b", "8", "-e", "64", *MEASURE, "-t", "2", "-J", str(tiny / "out.json"), "--no-record"),
        ("import", str(other)),
        ("report", str(other), "--output", str(tiny / "page.html")),
    ):
        sentence(busbw(*words, folder=tmp_path), reason)
    assert (tiny / "r" / "record.jsonl").read_bytes() == before
    assert not (tiny / "another").exists()


# A quota is not a full disk: the file system has room, and the write says EDQUOT. Few kernels of test machines have
# quotas, so libc's write says it here, for each record beyond so many bytes.
QUOTA = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
ssize_t write(int file, const void* data, size_t size) {
  static ssize_t (*real)(int, const void*, size_t);
  if (!real) real = (ssize_t(*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  path[length < 0 ? 0 : length] = 0;
  if (strstr(path, "/runs/") && lseek(file, 0, SEEK_CUR) + (off_t)size > atol(getenv("QUOTA_BYTES"))) {
    errno = EDQUOT;
    return -1;
  }
  return real(file, data, size);
}
"""


@needs_engine
@pytest.mark.parametrize("words", [("all_reduce", "-t", "2"), ("run", "--ranks", "2", "all_reduce"), ("import",)])
def test_a_quota_is_one_sentence_and_keeps_what_fits(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "quota.c").write_text(QUOTA)
    made = [compiler, "-shared", "-fPIC", "-o", str(tmp_path / "quota.so"), str(tmp_path / "quota.c"), "-ldl"]
    subprocess.run(made, check=True)
    large = tmp_path / "large.jsonl"
    cases = "".join(json.dumps({**CASE, "case": n}) + "\n" for n in range(200))
    large.write_text(json.dumps(RUN) + "\n" + cases)
    monkeypatch.setenv("LD_PRELOAD", str(tmp_path / "quota.so"))
    monkeypatch.setenv("QUOTA_BYTES", "12000")
    more = (str(large),) if words == ("import",) else ("-b", "8", "-e", "1M", *MEASURE)
    sentence(busbw(*words, *more, folder=tmp_path), "Disk quota exceeded")
    kept = list((tmp_path / "runs").glob("*/record.jsonl"))
    if words == ("import",):
        assert kept == []
    else:
        assert kept[0].read_bytes().count(b"\n") > 1
        assert busbw("report", str(kept[0]), folder=tmp_path).returncode == 0


@needs_engine
@pytest.mark.parametrize("words", [("all_reduce", "-t", "2"), ("run", "--ranks", "2", "all_reduce")])
def test_a_full_dev_shm_is_no_obstacle_and_no_memory_at_all_is_one_sentence(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    fill = "mount -t tmpfs -o size=64k tmpfs /dev/shm && head -c 65536 /dev/zero >/dev/shm/fill; "
    if subprocess.run(["unshare", "--mount", "sh", "-c", f"{fill} true"], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "BUSBW_ENGINE": str(ENGINE)}
    command = [sys.executable, "-m", "busbw", *words, "-b", "8", "-e", "64", *MEASURE, "--no-record"]
    for limit, code in (("unlimited", 0), ("4", 3)):
        # No file of more than 4 KiB, memory without a name included.
        script = f'{fill} ulimit -f {limit}; exec "$@"'
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", *command], capture_output=True,
                              env=environment, timeout=120, check=False, cwd=tmp_path)  # fmt: skip
        said = done.stderr.decode()
        assert done.returncode == code, said
        assert ("the shared memory" in said and "File too large" in said) == (code != 0), said


def pipe_named(folder: Path) -> Path:
    path = folder / "pipe"
    os.mkfifo(path)
    return path


@needs_engine
@pytest.mark.parametrize(
    "words",
    [
        ("report", "good.jsonl", "--format", "csv", "--output"),
        ("all_reduce", "-b", "8", "-e", "8", "-t", "2", *MEASURE, "--record"),
    ],
)
def test_a_pipe_gets_its_reader_or_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    record(tmp_path)
    pipe = pipe_named(tmp_path)
    given = [str(tmp_path / word) if word.endswith(".jsonl") else word for word in words]
    sentence(busbw(*given, str(pipe), folder=tmp_path), "nobody read")
    with (tmp_path / "got").open("wb") as got, subprocess.Popen(["cat", str(pipe)], stdout=got) as reader:
        assert busbw(*given, str(pipe), folder=tmp_path).returncode == 0
        assert reader.wait(20) == 0
    assert "1024" in (tmp_path / "got").read_text() or "measured" in (tmp_path / "got").read_text()


@needs_engine
def test_the_engine_alone_refuses_a_pipe_that_nobody_reads(tmp_path: Path) -> None:
    words = (
        str(ENGINE),
        "all_reduce",
        "-b",
        "8",
        "-e",
        "8",
        "-t",
        "2",
        *MEASURE,
        "--record",
        str(pipe_named(tmp_path)),
    )
    sentence(subprocess.run(words, capture_output=True, timeout=30, check=False), "nobody reads from this pipe")


@needs_engine
@pytest.mark.parametrize("limit", ["-n 5", "-n 6", "-n 8", "-v 150000", "-v 250000"])
@pytest.mark.parametrize("words", [("all_reduce", "-t", "2"), ("run", "--ranks", "2", "all_reduce")])
def test_little_of_what_the_system_gives_ends_in_a_sentence(limit: str, words: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "busbw", *words, "-b", "8", "-e", "8", "-n", "1", "-w", "0", "--no-record"]
    done = subprocess.run(
        ["bash", "-c", f'ulimit {limit}; exec "$@"', "bash", *command],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "BUSBW_RUNS": str(tmp_path)},
        capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert not any(word in done.stderr for word in ("Traceback", "terminate called", "core dumped")), done.stderr
    assert "nohup" not in done.stderr  # whose /proc cannot be read has not lost its shell
    assert done.returncode >= 0 and done.returncode < 128
    if done.returncode:
        assert "busbw" in done.stderr and len(done.stderr.splitlines()) < 12, done.stderr


def test_rules_of_secrets_that_cannot_be_read_end_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from busbw.base import secrets
    from busbw.cli.main import main

    def refuse() -> tuple[str, ...]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(secrets, "_of_values", refuse)
    assert main(["report", "/nowhere/token-4711.jsonl"]) == 1
    said = capfd.readouterr().err
    assert said == "busbw: a file of busbw's own cannot be read: Too many open files; allow more of them: ulimit -n\n"


def test_a_proc_that_cannot_be_read_is_no_lost_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    from busbw.base import lifeline
    from busbw.base.errors import UserError

    mine = lifeline.stat_of(os.getpid())
    lifeline.begin(os.environ)
    monkeypatch.setattr(lifeline.Lifeline, "gone", lambda _: None)
    monkeypatch.setattr(os, "getsid", lambda _: os.getpid() + 1)
    monkeypatch.setattr(lifeline, "ignores_hangup", lambda _: False)
    monkeypatch.setattr(lifeline, "stat_of", lambda _: None)
    lifeline.refuse_orphans()
    monkeypatch.setattr(lifeline, "stat_of", lambda pid: mine if pid == os.getpid() else None)
    with pytest.raises(UserError, match="has ended"):
        lifeline.refuse_orphans()


@needs_engine
@pytest.mark.parametrize("limit", [200000, 250000])
def test_threads_that_may_not_reserve_heaps_cost_no_processor_time(limit: int, tmp_path: Path) -> None:
    """glibc reserves 128 MiB for the heap of each thread, and asked again at each allocation: 6 s, and no memory."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        ["bash", "-c", f'ulimit -v {limit}; exec "$@"', "bash", str(ENGINE), "all_reduce", "-b", "8", "-e", "64",
         "-t", "2", "-n", "2", "--record", str(tmp_path / "x.jsonl")],
        env={**os.environ, **{f"NCCL_X{number}": f"{number} words of a value " * 40 for number in range(20)}},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert after.ru_stime - before.ru_stime < 1.0
