"""How often `busbw watch` names rank and cause in jobs of many ranks whose calls are drawn, at drawn moments.

    python3 bench/watch/moments.py --build build --seed 1 --ranks 8,16,64 [--trials 1] [--faults kill,count] [--jobs 2]

The ranks are programs in C that are linked to our CPU library (moments_rank.c): collectives, messages, groups and
splits on communicators of all ranks, of rows and of columns. A verdict is right if it is the only one, names the
process that has the fault before any other (of a message that does not match, as one of its sides), and says the
cause. Exit code: 1 where one was wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from drawn import noted  # noqa: E402
from faults import HANG_AFTER_S, heard, verdicts_of  # noqa: E402

from busbw.base.programs import ask, with_this_package  # noqa: E402

STEPS, STEPS_OF_MANY, MANY = 400, 60, 32
LIMIT_S = 200.0
_GONE = r"has ended without a word|ended first, without a word|ended without a word"
_EXITED = r"has exited|exited first|it exited while|has ended without a word"
_LATE = r"did not call #"
_LEFT = r"has left out #|did not call #|is not the same on all ranks|have the same|called #.*as the last one"
_MESSAGE = r"do not match|waits in|wait in|not of one size|neither"
SAID = {
    "none": "", "half": "",
    "kill": _GONE, "segv": _GONE, "memory": _GONE, "stop": r"the process is stopped", "debugger": r"is in a debugger",
    "exception": _EXITED, "exit0": _EXITED, "endexit0": _EXITED + "|destroyed",
    "count": r"another[a-z, ]* count", "type": r"another[a-z, ]* type", "op": r"another[a-z, ]* operator",
    "root": r"another[a-z, ]* root", "kind": r"another collective", "order": _LEFT, "skip": _LEFT, "twice": _LEFT,
    "opengroup": r"group", "shortgroup": r"group|did not call #|has left out #",
    "loop": _LATE, "sleep": _LATE, "late": _LATE,
    "abortwait": r"aborted", "abortexit": r"aborted|" + _EXITED, "abortone": r"aborted", "exec": r"another program",
    "colour": r"another count|wait", "nosplit": r"has not come to ncclCommSplit|did not call #",
    "splitgroup": r"has not come to|did not call|group", "noinit": r"has not come to ncclCommInitRank",
    "send": _MESSAGE + "|did not call", "recv": _MESSAGE + "|did not call", "nosend": _MESSAGE, "norecv": _MESSAGE,
}  # fmt: skip
"""As a regular expression of the verdict; "" where nobody may be accused."""
TWO_SIDED = {"send", "recv", "nosend", "norecv"}
KEPT = {"send", "norecv"}
"""A message that nobody receives: our CPU library keeps a short one, and the job may go on."""


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--ranks", default="8,16,64")
    parser.add_argument("--faults", default=",".join(SAID))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--late", type=float, default=2.0)
    args = parser.parse_args()
    chance = random.Random(args.seed)
    drawn = [
        (name, ranks, chance.randrange(ranks), chance.randrange(20, calls_of(ranks)), chance.randrange(1 << 30))
        for _ in range(args.trials)
        for name in args.faults.split(",")
        for ranks in map(int, args.ranks.split(","))
    ]
    right, late, delays = 0, 0, []
    with tempfile.TemporaryDirectory() as made, ThreadPoolExecutor(args.jobs) as workers:
        program = compiled(args.build.resolve(), Path(made))
        trials = [workers.submit(tried, args.build.resolve(), program, each) for each in drawn]
        for each, trial in zip(drawn, trials, strict=True):
            why, delay_s = trial.result()
            right += not why
            late += not why and (delay_s or 0.0) > args.late
            delays += [] if delay_s is None or why else [delay_s]
            after = "" if delay_s is None else f", {delay_s:.1f} s"
            name, ranks, faulty, at, seed = each
            what = f"{name} of rank {faulty} of {ranks} at call {at}, seed {seed}"
            print(f"{what}: {'wrong: ' + why if why else 'right'}{after}", flush=True)
    print(f"{right} of {len(drawn)} right, {late} of these after {args.late:g} s, load {os.getloadavg()[0]:.1f}")
    if delays:
        print(f"delay median {median(delays):.1f} s, longest {max(delays):.1f} s")
    return int(right < len(drawn))


def calls_of(ranks: int) -> int:
    """A job has at least so many: three a step."""
    return 3 * (STEPS if ranks < MANY else STEPS_OF_MANY)


def compiled(build: Path, folder: Path) -> Path:
    program, library = folder / "rank", build / "lib" / "libbusbw_cpu.so"
    source = Path(__file__).with_name("moments_rank.c")
    words = ["cc", "-O1", "-o", program, source, library, f"-Wl,-rpath,{library.parent}"]
    if (done := ask([str(word) for word in words], 120.0)).returncode != 0:
        raise SystemExit(f"the compiler refused {source}: {done.stderr}")
    return program


def tried(build: Path, program: Path, drawn: tuple[str, int, int, int, int]) -> tuple[str, float | None]:
    """Why it was wrong, and how long after the fault the verdict came, less the threshold where it hangs."""
    name, ranks, faulty, at, seed = drawn
    with tempfile.TemporaryDirectory() as meet:
        environ = {
            **with_this_package(os.environ), "BUSBW_ENGINE": str(build / "bin" / "busbw-engine"), "MEET": meet,
            "WORLD": str(ranks), "STEPS": str(STEPS if ranks < MANY else STEPS_OF_MANY), "AT": str(at),
            "FAULTY": str(faulty), "SEED": str(seed), "FAULT": name,
        }  # fmt: skip
        act = "report" if name == "late" else "abort"
        options = ["--late", "1000s", "--hang-after", f"{HANG_AFTER_S:g}", "--on-hang", act]
        line = 'for r in $(seq 0 $((WORLD - 1))); do RANK=$r "$@" & all="$all $!"; done; c=0; '
        line += "for p in $all; do wait $p || c=$?; done; exit $c"
        words = ["bash", "-c", line, "sh", str(program)]
        said, code = heard([sys.executable, "-m", "busbw", "watch", *options, "--", *words], environ, LIMIT_S)
        begun = noted(Path(meet) / f"pid.{faulty}")
        happened = noted(Path(meet) / f"fault.{faulty}")
    verdicts = verdicts_of(said)
    lines = [line for _, line in verdicts]
    if not SAID[name]:
        return ("" if not lines and code == 0 else f"exit code {code}, {lines or said[-3:]}"), None
    if name in KEPT and code == 0:
        return f"{lines}" if lines else "", None
    delay_s = verdicts[0][0] - happened[1] if verdicts and happened else None
    if delay_s is not None and "no progress" in lines[0]:
        delay_s -= HANG_AFTER_S
    if len(lines) != 1 or begun is None or not re.search(SAID[name], lines[0]):
        return f"exit code {code}, {lines or [line for _, line in said[-4:]]}", delay_s
    named = [int(number) for number in re.findall(r"pid (\d+)", lines[0].partition(", while rank ")[0])]
    is_named = int(begun[0]) in (named[:3] if name in TWO_SIDED else named[:1])
    return ("" if is_named else f"not pid {int(begun[0])}: {lines}"), delay_s


if __name__ == "__main__":
    sys.exit(main())
