"""Kills `busbw fleet run` at random moments, starts it again, and looks for what it left: python3 bench/fleet/kills.py.

A program of this machine measures; what it says depends on the group alone, so that a run without kills has the same
results. Exit code 1: something was left behind, lost, or counted twice.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARK = "BUSBW_KILLS"
PROGRAM = """#!/bin/sh
sleep 0.0$(( $(printf %s "$BUSBW_FLEET_NODES" | cksum | cut -d' ' -f1) % 9 ))
level=40
case "$BUSBW_FLEET_NODES" in *n7*) [ "$BUSBW_FLEET_KIND" = inside ] || level=30;; esac
for at in 1 2 3 4 5 6 7 8; do echo $level.$at; done > "$BUSBW_FLEET_SAMPLES"
"""


def main() -> int:
    """One fleet with kills, one without."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--nodes", type=int, default=48)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    chance, mark = random.Random(args.seed), f"{MARK}{os.getpid()}"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "measure")
        program.write_text(PROGRAM)
        program.chmod(0o755)
        words = [sys.executable, "-m", "busbw", "fleet", "run", "--hosts", f"n[1-{args.nodes}]", "--launcher", "local",
                 "--program", str(program), "--no-record", "--repeats", "8", "--steps-at-once", "4"]  # fmt: skip
        env = os.environ | {"PYTHONPATH": str(ROOT / "python"), MARK: mark}
        whole, file = Path(folder, "whole.jsonl"), Path(folder, "killed.jsonl")
        before = time.monotonic()
        subprocess.run([*words, str(whole)], env=env, capture_output=True, check=False)
        took, kills, begun, said = time.monotonic() - before, 0, 0, ""
        left = Counter[int]()
        while kills < args.kills:
            begun += 1
            one = subprocess.Popen([*words, str(file)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                one.wait(0.25 + chance.uniform(0, 2 * took / args.kills))
                file.unlink()  # it came to its end: begin once more
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
                kills += 1
                time.sleep(0.3)
                left[len(alive(mark))] += 1
        last = subprocess.run([*words, str(file)], env=env, capture_output=True, text=True, check=False)
        wrong = compare(results(whole), results(file))
        wrong += [f"{count} times {many} processes were left" for many, count in left.items() if many]
        wrong += [f"left behind: {path.name}" for path in Path(folder).iterdir() if path.name.endswith(".work")]
        said = "\n".join(wrong) or "nothing lost, nothing twice, nothing left behind"
        print(f"{kills} kills in {begun} starts of a fleet of {took:.1f} s; the last start ended with {last.returncode}"
              f"\n{said}")  # fmt: skip
    return int(bool(wrong))


def results(file: Path) -> list[str]:
    """Round, kind, channel and nodes of each."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [json.dumps([each["round"], each["kind"], each["channel"], each["nodes"], each["samples"]])
            for each in lines if "round" in each]  # fmt: skip


def compare(whole: list[str], killed: list[str]) -> list[str]:
    """What differs."""
    twice = [key for key, count in Counter(killed).items() if count > 1 and key not in whole[whole.index(key) + 1 :]]
    return [*(f"lost: {key}" for key in whole if key not in killed), *(f"twice: {key}" for key in twice),
            *(f"not in a whole run: {key}" for key in killed if key not in whole)][:10]  # fmt: skip


def alive(mark: str) -> list[str]:
    """Processes that carry the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            try:
                if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                    found.append(entry.name)
            except OSError:
                continue
    return found


if __name__ == "__main__":
    sys.exit(main())
