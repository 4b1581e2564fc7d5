"""`busbw watch` over programs that come to NCCL in their own ways, and whose errors come with the end of a group."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build"))
CPU = BUILD / "lib" / "libbusbw_cpu.so"

pytestmark = pytest.mark.skipif(
    not all((BUILD / "lib" / name).exists() for name in ("libbusbw_record.so", "libbusbw_with.so", CPU.name)),
    reason="the recorder is not built; BUSBW_BUILD names a build folder",
)
LINKED = """
typedef struct { char internal[128]; } Id;
int ncclGetUniqueId(Id*); int ncclCommInitRank(void**, int, Id, int); int ncclCommDestroy(void*);
int ncclAllReduce(const void*, void*, unsigned long, int, int, void*, void*);
int main(void) {
  Id id; void* comm; float values[8] = {0};
  if (ncclGetUniqueId(&id) || ncclCommInitRank(&comm, 1, id, 0)) return 2;
  for (int n = 0; n < 5; ++n) if (ncclAllReduce(values, values, 8, 7, 0, comm, 0)) return 3;
  return ncclCommDestroy(comm);
}
"""
RING = """
import ctypes, os, subprocess, sys
class Id(ctypes.Structure): _fields_ = [("internal", ctypes.c_char * 128)]
nccl, values, size = ctypes.CDLL(sys.argv[1]), (ctypes.c_float * 8)(), ctypes.c_size_t(8)
nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
unique, comm, ranks = Id(), ctypes.c_void_p(), 3
assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
rank = 1 if os.fork() == 0 else 2 if os.fork() == 0 else 0
os.environ["RANK"] = str(rank)
assert nccl.ncclCommInitRank(ctypes.byref(comm), ranks, unique, rank) == 0
for step in range(30):
    if step == 20 and rank == 1 and sys.argv[2] == "leaves":
        sys.exit(0)
    if step == 20 and rank == 1 and sys.argv[2] == "asks":
        asked = subprocess.Popen(["sleep", "300"], start_new_session=True)
        print(asked.pid, flush=True)
        asked.wait()
    nccl.ncclGroupStart()
    if not (step == 20 and rank == 1 and sys.argv[2] == "skips"):
        nccl.ncclSend(values, size, 7, (rank + 1) % ranks, comm, None)
    nccl.ncclRecv(values, size, 7, (rank - 1) % ranks, comm, None)
    if nccl.ncclGroupEnd() != 0:
        os._exit(5)
nccl.ncclCommDestroy(comm)
while rank == 0 and True:
    try:
        if os.waitstatus_to_exitcode(os.wait()[1]): sys.exit(5)
    except ChildProcessError:
        break
"""


def watch(*words: str | Path, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "busbw", "watch", "--late", "1000s", *options, "--", *map(str, words)]
    environ = {**os.environ, "BUSBW_ENGINE": str(BUILD / "bin" / "busbw-engine")}
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)


def test_our_cpu_library_is_recorded_by_its_own_name(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "linked.c").write_text(LINKED)
    words = [compiler, "-o", tmp_path / "linked", tmp_path / "linked.c", CPU, f"-Wl,-rpath,{CPU.parent}"]
    subprocess.run(words, check=True, timeout=60)
    assert "5 calls by 1 rank of communicators in 1 process" in watch(tmp_path / "linked").stderr


def test_a_library_of_another_name_is_recorded_where_the_user_names_it(tmp_path: Path) -> None:
    (tmp_path / "ring.py").write_text(RING)
    mine = tmp_path / "libmine.so"
    shutil.copy(CPU, mine)
    words = (sys.executable, tmp_path / "ring.py", mine, "none")
    done = watch(*words, options=("--nccl", str(mine)))
    assert "180 calls by 3 ranks of communicators in 3 processes" in done.stderr
    assert "no call of NCCL was recorded" in watch(*words).stderr


def test_the_engine_in_host_memory_is_recorded() -> None:
    done = watch(BUILD / "bin" / "all_reduce_perf", "-b", "8", "-e", "8", "-t", "2")
    assert "by 2 ranks of communicators in 1 process" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("leaves", "Rank 1 (.*), its last call #0, recv of .*: it exited while the other ranks"),
        ("skips", "The messages of rank 1 (.*) do not match those of its peers: it has sent 29 to rank 2"),
    ],
)
def test_an_error_of_a_group_tells_who_left_its_peers(tmp_path: Path, fault: str, said: str) -> None:
    (tmp_path / "ring.py").write_text(RING)
    done = watch(sys.executable, tmp_path / "ring.py", CPU, fault)
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("busbw watch: the job failed.")]
    for part in said.split(".*"):
        assert part in line


MANY = """
#include <stdlib.h>
typedef struct { char internal[128]; } Id;
typedef void* Comm;
int ncclGetUniqueId(Id*), ncclCommInitRank(Comm*, int, Id, int), ncclCommSplit(Comm, int, int, Comm*, void*);
int ncclCommDestroy(Comm), ncclAllReduce(const void*, void*, size_t, int, int, Comm, void*);
int main(int words, char** arguments) {
  Id id;
  Comm all, one;
  float value = 1;
  if (ncclGetUniqueId(&id) || ncclCommInitRank(&all, 1, id, 0)) return 1;
  for (int each = atoi(arguments[words - 1]); each > 0; --each)
    if (ncclCommSplit(all, 0, 0, &one, 0) || ncclAllReduce(&value, &value, 1, 7, 0, one, 0) || ncclCommDestroy(one))
      return 2;
  return ncclCommDestroy(all);
}
"""


def test_a_job_of_many_short_communicators_has_each_of_them(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "many.c").write_text(MANY)
    words = [compiler, "-o", tmp_path / "many", tmp_path / "many.c", CPU, f"-Wl,-rpath,{CPU.parent}"]
    subprocess.run(words, check=True, timeout=60)
    kept, few = tmp_path / "kept", tmp_path / "few"
    done = watch(tmp_path / "many", "10000", options=("--output", str(kept)))
    assert "10,000 calls by 10,001 ranks of communicators in 1 process" in done.stderr
    assert "found no place" not in done.stderr
    # Room for all of them takes none on the disk before it is needed.
    watch(tmp_path / "many", "10", options=("--output", str(few), "--calls", "1024"))
    (file,) = few.iterdir()
    assert file.stat().st_blocks * 512 < 2_500_000


def test_what_a_rank_has_started_ends_with_the_job_where_that_was_asked_for(tmp_path: Path) -> None:
    """And nothing that was there before, though it knows the same folder."""
    (tmp_path / "ring.py").write_text(RING)
    kept = tmp_path / "kept"
    before = subprocess.Popen(["sleep", "300"], env={**os.environ, "BUSBW_RECORD_DIR": str(kept)})
    try:
        options = ("--output", str(kept), "--hang-after", "2", "--on-hang", "abort")
        done = watch(sys.executable, tmp_path / "ring.py", CPU, "asks", options=options)
        assert done.returncode == 124, done.stderr
        assert "rank 1 (" in done.stderr
        assert before.poll() is None
        child = int(done.stdout)
        assert not Path(f"/proc/{child}").exists() or " Z " in Path(f"/proc/{child}/stat").read_text()
        assert "go on after its end" not in done.stderr
    finally:
        before.kill()
        before.wait()


def test_the_exit_code_is_the_programs_and_says_the_signal_that_ended_it() -> None:
    assert watch("sh", "-c", "exit 5").returncode == 5
    assert watch("sh", "-c", "kill -KILL $$").returncode == 137
