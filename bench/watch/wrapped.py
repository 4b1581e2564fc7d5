"""How `busbw watch` does with jobs as users start them: behind shells, launchers, sessions and daemons, as threads.

    python3 bench/watch/wrapped.py --build build [JOB ...]

The ranks are programs in C that are linked to NCCL (wrapped_rank.c), four of them over our CPU library. What must be
said, and the exit code, was written down before any was tried; HELD_OUT are those that were tried only after what the
others showed was mended. Exit code: 1 where one was wrong.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from faults import heard, verdicts_of  # noqa: E402

from busbw.base.programs import ask, with_this_package  # noqa: E402

LATE = r"ank 2 \(.*did not call #41"
GONE = r"ank 2 \(.*(has ended|has exited|is gone|ended without|ended first|exited while|called #40)"
RANKS = 'for r in 0 1 2 3; do RANK=$r "$P" 4 60 {0} & done; wait'
CODES = (
    'for r in 0 1 2 3; do RANK=$r "$P" 4 60 {0} & all="$all $!"; done; for p in $all; do wait $p || c=$?; done; exit $c'
)
FROM_PYTHON = """
import os, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as four:
    ranks = [four.submit(subprocess.run, [os.environ["P"], "4", "60", "abort"], env={**os.environ, "RANK": str(r)},
                         close_fds=True, start_new_session=True, check=True) for r in range(4)]
    for each in ranks: each.result()
"""


@dataclass(frozen=True)
class Job:
    """A command, and what must and must not be said."""

    command: tuple[str, ...]
    code: int | None = 124
    said: str = ""
    """In the only verdict; "" where nobody may be accused."""
    also: str = ""
    """Anywhere."""
    ways: str = ""
    options: tuple[str, ...] = ("--hang-after", "4", "--on-hang", "abort")
    environ: dict[str, str] = field(default_factory=dict)


def sh(text: str, *, fault: str = "none", code: int | None = 124, said: str = "", **more: object) -> Job:
    """A script of bash."""
    return Job(("bash", "-c", text.format(fault)), code, said, **more)  # type: ignore[arg-type]


REPORT = ("--hang-after", "4")
ABORT = (*REPORT, "--on-hang", "abort")
JOBS = {
    "shell": sh(RANKS, fault="sleep", said=LATE),
    "session": sh(RANKS, fault="sleep", said=LATE, ways="session"),
    "gone_folder": sh(
        RANKS,
        fault="sleep",
        said=LATE,
        ways="gone_folder",
        options=("--output", "kept", "--hang-after", "4", "--on-hang", "abort"),
    ),
    "closes": sh(CODES + "; ", code=0, ways="closes", also="mine is whole"),
    "threads": sh('exec "$P" 4 60 {0}', fault="sleep", said=LATE, ways="threads"),
    "env_i": sh(
        'for r in 0 1 2 3; do env -i MEETING="$MEETING" RANK=$r "$P" 4 60 none & done; wait',
        code=0,
        also=r"[Nn]o call|no process",
    ),
    "daemon": sh(
        'for r in 0 1 2 3; do RANK=$r "$P" 4 60 late; done',
        code=0,
        ways="daemon",
        also="4 processes of the program go on after its end",
    ),
    "timeout": sh(
        "timeout -s KILL 3 bash -c '" + RANKS + "'",
        fault="sleep",
        code=137,
        said=r"ank 2 \(.*called #40 .*as the last one",
    ),
    "mpirun": sh('exec mpirun --allow-run-as-root --oversubscribe -n 4 "$P" 4 60 {0}', fault="sleep", said=LATE),
    "python": Job((sys.executable, "-c", FROM_PYTHON), 1, GONE),
    "two_jobs": sh(
        RANKS.replace("{0}", "none") + '; export MEETING="$MEETING/2"; mkdir "$MEETING"; ' + RANKS,
        fault="sleep",
        said=LATE,
    ),
    "hides_codes": sh(RANKS, fault="segv", code=0, said=GONE),
    "split": sh(RANKS, fault="skip", said=r"rank 1 \(.*rank 2 of the job\) has left out #41", ways="split"),
    "many": sh(CODES, code=0, ways="many"),
    "xargs": sh('seq 0 3 | xargs -P 4 -I@ env RANK=@ "$P" 4 60 {0}', fault="pipe", said=LATE),
    "idle": sh(CODES, code=0, ways="idle"),
}
HELD_OUT = {
    "exec_chain": Job(
        ("env", "X=1", "nice", "-n", "1", "stdbuf", "-oL", "bash", "-c", RANKS.format("loop")),
        124,
        LATE + r".*it has used|" + LATE,
    ),
    "pipeline": sh("set -o pipefail; (" + RANKS + ") 2>&1 | tee log | cat", fault="loop", said=LATE),
    "no_launcher": sh(
        'for r in 0 1 2 3; do RANK=$r "$P" 4 60 late & done; sleep 1; kill -9 $$',
        code=137,
        also="4 processes of the program go on after its end",
    ),
    "file_limit": sh(
        CODES, code=0, ways="file_limit", also="nothing is recorded", options=("--output", "kept", *ABORT)
    ),
    "renamed": sh(RANKS, fault="stop", said=r"ank 2 \(.*is stopped", ways="renamed undumpable"),
    "before_init": sh(RANKS, fault="before_init", said=r"ank 2\b.*|ncclCommInitRank.*2"),
    "sleeps_before_init": sh(RANKS, fault="sleep_before_init", said=r"ank 2\b"),
    "comes_late": sh(CODES, code=0, ways="comes_late", options=()),
    "evaluates": sh(CODES, code=0, said=r"ank 0 \(.*did not call #32", ways="evaluates", options=REPORT),
    "all_killed": sh("setsid -w bash -c '" + RANKS + "'", fault="killall", code=None),
    "stays": sh(RANKS, fault="no_destroy", said=r"ank 2 \(.*have all ended", options=("--hang-after", "1", *ABORT[2:])),
    "child": sh(RANKS, fault="child", said=LATE),
    "aborts": sh(RANKS, fault="commabort", said=r"ank 2 \(.*abort"),
    "sigterm": sh(CODES, fault="term", code=None, said=GONE),
    "late": sh(CODES, fault="late", code=0, said=LATE, options=REPORT),
    "stops_and_goes": sh(CODES, fault="stops_and_goes", code=0),
    "thread_exit": sh('exec "$P" 4 60 {0}', fault="thread_exit", said=LATE, ways="threads"),
    "static": Job(("./static",), 1, also="busbw.*static"),
    "nowhere": Job(("./nowhere", "4"), 127, also="busbw.*nowhere"),
    "terminated": sh("(sleep 3; kill -TERM $PPID) & " + RANKS, fault="late", code=143, options=("--hang-after", "20")),
}
AGAIN = (
    RANKS + '; export MEETING="$MEETING/2"; mkdir "$MEETING"; for r in 0 1 2 3; do RANK=$r "$P" 4 60 {1} & done; wait'
)
LATER = {
    "hides_kill": sh(RANKS + " || true", fault="kill", code=0, said=GONE),
    "hides_count": sh(RANKS, fault="count", code=0, said=r"another count: rank 2 \("),
    "split_of_two": sh(RANKS, fault="skip", said=r"rank 1 \(.*rank 2 of the job\) has left out #41", ways="split two"),
    "threads_count": sh('exec "$P" 4 60 {0}', fault="count", code=1, said=r"another count: rank 2 \(", ways="threads"),
    "threads_loop": sh('exec "$P" 4 60 {0}', fault="loop", said=LATE, ways="threads"),
    "mpirun_aborts": sh(
        'mpirun --allow-run-as-root --oversubscribe -n 4 "$P" 4 60 {0}', fault="abort", code=None, said=GONE
    ),
    "masked": sh(RANKS, fault="stop", said=r"ank 2 \(.*is stopped", ways="masked session"),
    "hung_up": sh("(sleep 3; kill -HUP $PPID) & " + RANKS, fault="late", code=129, options=("--hang-after", "20")),
    "restarted": Job(("bash", "-c", AGAIN.format("exit", "none")), 0, GONE),
    "restarted_hangs": Job(("bash", "-c", AGAIN.format("exit", "sleep")), 124, LATE),
    "quiet": sh(RANKS, fault="_exit", code=0, said=GONE, ways="quiet"),
}
"""Written when those above had been tried and mended; none of them was tried before that."""


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", default=[*JOBS, *HELD_OUT, *LATER])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    args = parser.parse_args()
    every = JOBS | HELD_OUT | LATER
    right = 0
    with tempfile.TemporaryDirectory(prefix="busbw wrapped ") as made:
        programs = compiled(args.build.resolve(), Path(made))
        for name in args.jobs:
            why = tried(args.build.resolve(), programs, every[name])
            right += not why
            print(f"{name:18} {'wrong: ' + why if why else 'right'}", flush=True)
    print(f"{right} of {len(args.jobs)} right, load {os.getloadavg()[0]:.1f}")
    return int(right < len(args.jobs))


def compiled(build: Path, folder: Path) -> Path:
    """The rank, its NCCL, and a program without a loader."""
    shutil.copy(build / "lib" / "libbusbw_cpu.so", folder / "libnccl.so.2")
    source = Path(__file__).with_name("wrapped_rank.c")
    text = source.read_text() + source.with_name("meeting.h").read_text()
    names = set(re.findall(r"\bnccl[A-Z]\w+(?=\()", text))
    (folder / "link.c").write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in names))
    for words in (
        ["cc", "-shared", "-Wl,-soname,libnccl.so.2", "-o", str(folder / "link.so"), str(folder / "link.c")],
        ["cc", "-O1", "-pthread", "-o", str(folder / "a rank"), str(source), str(folder / "link.so"),
         "-Wl,-rpath,$ORIGIN"],
        ["cc", "-static", "-o", str(folder / "static"), "-x", "c", os.devnull, "-Wl,--defsym=main=0"],
    ):  # fmt: skip
        if (done := ask(words, 120.0)).returncode != 0:
            raise SystemExit(f"{words}: {done.stderr}")
    return folder


def tried(build: Path, programs: Path, job: Job) -> str:
    """Why it was wrong."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        shutil.copy(programs / "static", folder / "static")
        environ = {
            **with_this_package(os.environ), "BUSBW_ENGINE": str(build / "bin" / "busbw-engine"), "MEETING": made,
            "P": str(programs / "a rank"), "WAYS": job.ways, **job.environ,
        }  # fmt: skip
        watch = [sys.executable, "-m", "busbw", "watch", "--late", "1000s", *job.options, "--", *job.command]
        said, code = heard(["env", "-C", made, *watch], environ, 60.0)
        mine = folder / "mine"
        if mine.exists():
            said.append((0.0, "mine is whole" if mine.stat().st_size == 4 else f"mine has {mine.stat().st_size} bytes"))
        end_all(made)
    text, verdicts = "\n".join(line for _, line in said), [line for _, line in verdicts_of(said)]
    wrong = []
    if job.code is not None and code != job.code:
        wrong.append(f"exit code {code}")
    if job.said and (len(verdicts) != 1 or not re.search(job.said, verdicts[0])):
        wrong.append(f"said {verdicts}")
    if not job.said and verdicts:
        wrong.append(f"accused: {verdicts}")
    if job.also and not re.search(job.also, text):
        wrong.append(f"did not say {job.also!r}")
    return f"{'; '.join(wrong)}; its words: {text[-600:]}" if wrong else ""


def end_all(meeting: str) -> None:
    """What a job has left: its processes have the folder's name in their environment."""
    for path in Path("/proc").iterdir():
        with suppress(OSError):
            if path.name.isdecimal() and f"MEETING={meeting}".encode() in (path / "environ").read_bytes():
                os.kill(int(path.name), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
