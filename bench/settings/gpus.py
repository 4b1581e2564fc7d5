"""The aims of the settings on the GPUs of this machine, within a time.

    PYTHON-WITH-TORCH bench/settings/gpus.py --build build --output FOLDER [--seconds 240] [STEP ...]
    python3 bench/settings/gpus.py --build build --output FOLDER --without-gpus

STEP is one of healthy, planted, torch, verify, overlap and step; default all of them, in this order.

healthy  `busbw tune nccl all_reduce`: what there is to gain on this machine as it is
planted  the same under an nccl.conf with a bad protocol, algorithm and buffer size
torch    PyTorch under that file: as it is, and with the table, beside every fixed setting and plain NCCL
verify   `busbw tune nccl --verify` of the planted machine's table, under that file
overlap  `busbw overlap` of an all-reduce beside a product
step     steps of five kinds of parallelism, half of them predicted (kinds.py)

What each printed is in STEP.txt of the folder; the summary is the last lines here, and summary.json. Nothing begins
after --seconds, and each step is ended at its own limit. Multicast is off in all of it. Exit code: 1 where a step
failed, 3 where the time was up.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from on_gpus import MULTICAST_OFF, ended, write_summary

ROOT = Path(__file__).resolve().parents[2]
BAD = {"NCCL_ALGO": "Tree", "NCCL_PROTO": "LL", "NCCL_BUFFSIZE": "65536"}
FIXED = [(algorithm, protocol) for algorithm in ("Ring", "Tree") for protocol in ("LL", "LL128", "Simple")]
FIRST, LAST = "64K", "64M"
SLOWER = 1.005
"""A table may cost at most this much at any size."""


@dataclass(frozen=True)
class Bench:
    """What all steps share."""

    output: Path
    environment: Mapping[str, str]
    ranks: int
    on_gpus: bool
    library: str

    def table(self, name: str) -> Path:
        return self.output / f"{name}.table"

    def conf(self) -> dict[str, str]:
        """Variables under which NCCL reads the bad settings from a file."""
        path = self.output / "nccl.conf"
        path.write_text("".join(f"{name}={value}\n" for name, value in BAD.items()))
        return {"NCCL_CONF_FILE": str(path)}

    def plugin(self) -> str:
        """The tuner plugin beside the engine."""
        return str(Path(self.environment["BUSBW_ENGINE"]).parents[1] / "lib" / "libnccl-tuner-busbw.so")


Result = tuple[list[str], bool]
"""Lines for people, and whether it is as it must be."""


@dataclass(frozen=True)
class Step:
    """Its share of the time, its command and further variables, and what is made of its output."""

    share: float
    command: Callable[[Bench, float], list[str]]
    variables: Callable[[Bench], dict[str, str]]
    judged: Callable[[Bench, int, str], Result]


def busbw(*words: object) -> list[str]:
    return [sys.executable, "-m", "busbw", *map(str, words)]


def tune(name: str) -> Callable[[Bench, float], list[str]]:
    def command(bench: Bench, limit_s: float) -> list[str]:
        last = LAST if bench.on_gpus else "256K"
        return busbw("tune", "nccl", "all_reduce", "--ranks", bench.ranks, "-b", FIRST, "-e", last, "--library",
                     bench.library, "--budget", f"{limit_s:.0f}", "--output", bench.table(name),
                     "--runs", bench.output / "runs")  # fmt: skip

    return command


def verify(bench: Bench, limit_s: float) -> list[str]:
    return busbw("tune", "nccl", "--verify", bench.table("planted"), "--ranks", bench.ranks, "-b", FIRST, "-e",
                 LAST if bench.on_gpus else "256K", "--library", bench.library, "--budget", f"{limit_s:.0f}",
                 "--runs", bench.output / "runs")  # fmt: skip


def overlap(bench: Bench, limit_s: float) -> list[str]:
    sizes = ("-b", "4M", "-e", "64M", "-f", "16") if bench.on_gpus else ("-b", "64K", "-e", "64K")
    product = "product:4096x4096x2048" if bench.on_gpus else "product"
    return busbw("overlap", "--beside", product, "--rounds", 3, "--budget", f"{limit_s:.0f}", "--ranks", bench.ranks,
                 "--runs", bench.output / "runs", "--", "all_reduce", *sizes, "--library", bench.library)  # fmt: skip


def kinds(bench: Bench, limit_s: float) -> list[str]:
    where = ["--gpus"] if bench.on_gpus else []
    return [sys.executable, str(ROOT / "bench/settings/kinds.py"), "--ranks", str(bench.ranks), "--rounds", "15",
            "--seconds", f"{max(5.0, limit_s - 16):.0f}", "--keep", str(bench.output / "kinds.json"),
            *where]  # fmt: skip


def in_torch(bench: Bench, limit_s: float) -> list[str]:
    """Two jobs: one under the file as it is, one whose settings are in turn the table's and every fixed one."""
    loosened = dict.fromkeys(BAD, "")
    by = {"NCCL_TUNER_PLUGIN": bench.plugin(), "BUSBW_TUNER_TABLE": "/dev/null"}
    settings = {"the table": {**loosened, **by, "BUSBW_TUNER_TABLE": str(bench.table("planted"))},
                "plain NCCL": {**loosened, **by}}  # fmt: skip
    for algorithm, protocol in FIXED:
        fixed = {"NCCL_ALGO": algorithm, "NCCL_PROTO": protocol}
        settings[f"{algorithm}/{protocol}".lower()] = {**loosened, **by, **fixed}
    jobs = []
    for name, given in (("bad", {"the file": {}}), ("good", settings)):
        path = bench.output / f"{name}.json"
        path.write_text(json.dumps(given))
        sizes = ["--sizes", "65536,262144", "--gloo"] if not bench.on_gpus else []
        jobs.append([sys.executable, str(ROOT / "bench/settings/torch_sizes.py"), str(path), "--output",
                     str(bench.output / f"{name}-times.json"), "--ranks", str(bench.ranks), "--seconds",
                     f"{limit_s * (0.1 if name == 'bad' else 0.4):.0f}", *sizes])  # fmt: skip
    return ["sh", "-c", " && ".join(map(shlex.join, jobs))]


def verified(bench: Bench, code: int, text: str) -> Result:
    """Every rule still pays; without a table there is nothing to verify."""
    if not bench.table("planted").exists():
        return ["the search found no table"], not bench.on_gpus
    return said(bench, code, text)


def debug(bench: Bench) -> dict[str, str]:
    """Without TUNING, for which NCCL writes a line a call, in the time of the call."""
    return {**bench.conf(), "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV"}


def said(_: Bench, code: int, text: str) -> Result:
    """What `busbw` printed, but for its notes."""
    lines = [line for line in text.splitlines() if line and not line.startswith("busbw: round")]
    return lines[-14:], code == 0


def tuned(bench: Bench, code: int, text: str) -> Result:
    """No gain on a healthy machine is an answer too."""
    lines, fine = said(bench, code, text)
    return lines, fine or "No setting pays here" in text


def tuned_back(bench: Bench, code: int, text: str) -> Result:
    """Where a file slows NCCL down a table must be found; stand-ins do not read that file."""
    lines, fine = said(bench, code, text)
    return lines, fine or not bench.on_gpus


def in_torch_judged(bench: Bench, code: int, text: str) -> Result:
    """How much of the best fixed setting's speed the table has at each size."""
    if code:
        return [line for line in text.splitlines() if "Error" in line or "error" in line][-4:], False
    bad, good = (json.loads((bench.output / f"{name}-times.json").read_text()) for name in ("bad", "good"))
    plugin = dict.fromkeys(line.partition("TUNER/busbw: ")[2] for line in text.splitlines() if "TUNER/busbw: " in line)
    lines = [f"PyTorch {good['torch']}, NCCL {good['nccl']}; the plugin said:", *(f"  {line}" for line in plugin)]
    fine = not bench.on_gpus or any("applied to" in line for line in plugin)
    names = ["/".join(pair).lower() for pair in FIXED]
    back: list[float] = []
    speeds: list[float] = []
    for size, times in good["times"]["the table"].items():
        rounds = [{name: good["times"][name][size][number] for name in names} for number in range(len(times))]
        best, fixed = best_fixed(rounds)
        before, plain = median(bad["times"]["the file"][size]), median(good["times"]["plain NCCL"][size])
        # Pairs of one round: what drifts between rounds is in both.
        ratios = [other / table for other, table in zip(fixed, times, strict=True)]
        low, high = interval_of(ratios)
        speeds.append(median(ratios))
        won = (before - median(times)) / (before - median(fixed)) if before > median(fixed) * 1.02 else None
        back += [won] if won is not None else []
        costs = interval_of([before / table for table in times])[1] < 1 / SLOWER
        lines.append(
            f"  {int(size):>9}: the file {before:8.1f} us, the table {median(times):8.1f}, best fixed "
            f"{median(fixed):8.1f} ({best}), plain {plain:8.1f}; of the best fixed setting's speed "
            f"{median(ratios):.1%} ({low:.1%} to {high:.1%})"
            + (f", of what it gives {won:.1%}" if won is not None else "")
            + (", surely slower than the file" if costs else "")
        )  # fmt: skip
        fine = fine and not (costs and bench.on_gpus)
    if back:
        lines.append(
            f"  of the best fixed settings' speed {fmean(speeds):.1%} in the mean over sizes, {min(speeds):.1%} at the "
            f"worst; in the middle of the sizes {median(back):.1%} of what they give is won back"
        )
    return lines, fine


def best_fixed(rounds: list[dict[str, float]]) -> tuple[str, list[float]]:
    """The best fixed setting's times, none of which helped to choose it.

    The smallest of many noisy medians is smaller than any true one. So the odd rounds say which setting is measured in
    the even ones, and the even ones which in the odd ones.
    """
    chosen = []
    for odd in (1, 0):
        half = rounds[odd::2]
        chosen.append(min(half[0], key=lambda name: median(each[name] for each in half)))
    return " or ".join(dict.fromkeys(chosen)), [each[chosen[number % 2]] for number, each in enumerate(rounds)]


def interval_of(values: list[float]) -> tuple[float, float]:
    """Of the median at 95 %, from the order of values (the sign test turned round)."""
    ranked, count = sorted(values), len(values)
    chance, rank = 0.0, 0
    while rank < count // 2 and chance + math.comb(count, rank) / 2**count <= 0.025:
        chance += math.comb(count, rank) / 2**count
        rank += 1
    at = max(rank - 1, 0)
    return ranked[at], ranked[count - 1 - at]


STEPS = {
    "healthy": Step(0.22, tune("healthy"), lambda _: {}, tuned),
    "planted": Step(0.33, tune("planted"), Bench.conf, tuned_back),
    "torch": Step(0.16, in_torch, debug, in_torch_judged),
    "verify": Step(0.08, verify, Bench.conf, verified),
    "overlap": Step(0.07, overlap, lambda _: {}, said),
    "step": Step(0.14, kinds, lambda _: {}, lambda _, code, text: (text.splitlines()[-34:], code in {0, 1})),
}
KEPT = 1_000_000
"""Bytes of what a command printed, at its beginning and at its end."""
OVER_S = 12.0
"""A command whose own budget is a share of the time may need so much more to end."""


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--library", help="the NCCL that is measured; default torch")
    parser.add_argument("--without-gpus", action="store_true", help="a rehearsal over stand-ins")
    parser.add_argument("steps", nargs="*", choices=[*STEPS, []], metavar="STEP")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    build = args.build.resolve()
    environment = {**os.environ, **MULTICAST_OFF, "PYTHONPATH": str(ROOT / "python"),
                   "BUSBW_ENGINE": str(build / "bin/busbw-engine")}  # fmt: skip
    stand_in = str(build / "lib/libbusbw_test_tuned_nccl.so")
    if args.without_gpus:
        environment |= {"BUSBW_TEST_UNIT_US": "300", "BUSBW_TEST_OWN_CHOICE": "ring/simple"}
    library = args.library or (stand_in if args.without_gpus else "torch")
    bench = Bench(args.output.resolve(), environment, args.ranks, not args.without_gpus, library)
    names = [name for name in STEPS if name in (args.steps or STEPS)]
    return carried_out(bench, names, args.seconds)


def carried_out(bench: Bench, names: list[str], seconds: float) -> int:
    """The steps in turn, each within its share of what is left."""
    begun, code = time.monotonic(), 0
    summary: dict[str, dict[str, object]] = {}
    for number, name in enumerate(names):
        step, left = STEPS[name], seconds - (time.monotonic() - begun)
        share = step.share / sum(STEPS[each].share for each in names[number:])
        limit = share * left
        if left < 10:
            print(f"== {name}: the time is up", flush=True)
            summary[name] = {"outcome": "the time was up"}
            code = code or 3
            continue
        started = time.monotonic()
        said_code, text = run(bench, step, limit, min(left, limit + OVER_S))
        (bench.output / f"{name}.txt").write_text(text)
        try:
            lines, fine = step.judged(bench, said_code, text)
        except (OSError, ValueError, KeyError) as problem:
            lines, fine = [f"{type(problem).__name__}: {problem}"], False
        took = time.monotonic() - started
        print(f"== {name}: {'as it must be' if fine else 'FAILED'}, exit code {said_code}, {took:.0f} s", flush=True)
        print("\n".join(lines), flush=True)
        summary[name] = {
            "outcome": "right" if fine else "failed",
            "exit_code": said_code,
            "seconds": took,
            "lines": lines,
        }
        code = code if fine else 1
        write_summary(bench.output, summary)
    return code


def run(bench: Bench, step: Step, limit_s: float, kill_s: float) -> tuple[int, str]:
    """Exit code and all that it printed; with its children it is ended at its limit."""
    environment = {**bench.environment, **step.variables(bench)}
    log = bench.output / "now.txt"
    with log.open("wb") as out:
        started = subprocess.Popen(step.command(bench, limit_s), stdout=out, stderr=subprocess.STDOUT, env=environment,
                                   cwd=ROOT, start_new_session=True)  # fmt: skip
        try:
            code = started.wait(kill_s)
        except subprocess.TimeoutExpired:
            ended(started)
            code = 124
    said = log.read_bytes()
    # What the plugin says comes first, what a program finds last.
    said = said if len(said) <= 2 * KEPT else said[:KEPT] + b"\n...\n" + said[-KEPT:]
    return code, said.decode(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
