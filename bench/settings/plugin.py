"""Loads the tuner plugin into programs as they are: what it applies, and that a foreign or broken table is not applied.

    python3 bench/settings/plugin.py --build build --output FOLDER [--nccl libnccl.so.2] -- PROGRAM ...

PROGRAM uses NCCL, such as `mpirun -np 2 all_reduce_perf ...` or `python3 bench/watch/train.py`. It is started five
times: for the facts of this machine, with a table for them, with one of another GPU, with one that is cut off, and with
one of a newer version. Each time the plugin's lines of NCCL's log are shown. With --nccl that library is preloaded.
Exit code: 1 where a program failed or the plugin did not say what it must.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from busbw.experiment.tune_nccl.rules import hash_of  # noqa: E402

RULES = [
    "rule all_reduce 0 65536 ring/ll channels=2 gain=1.01..1.02",
    "rule all_reduce 65537 1073741824 ring/simple channels=4 gain=1.01..1.02",
]
LIMIT_S = 60.0


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--output", type=Path, required=True, help="where tables and logs go")
    parser.add_argument("--nccl", type=Path, help="an NCCL to preload")
    parser.add_argument("program", nargs="+")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    facts = args.output / "facts"
    facts.unlink(missing_ok=True)
    wrong = 0
    code, said = started(args, "facts", Path("/dev/null"), {"BUSBW_TUNER_FACTS": str(facts)})
    if not facts.exists():
        print(f"the plugin wrote no facts; the program ended with {code}: {said[-3:]}")
        return 1
    place = [line for line in facts.read_text().splitlines() if line]
    print(f"facts: {'; '.join(place)}", flush=True)
    whole = [*place, *RULES]
    other = [re.sub(r"^gpu .*", "gpu Another GPU", line) for line in whole]
    tables = {
        "own": (["busbw-tuner 1", *whole, f"end {len(RULES)}"], "applied to"),
        "foreign": (["busbw-tuner 1", *other, f"end {len(RULES)}"], "is not applied"),
        "cut": (["busbw-tuner 1", *whole], "is not applied"),
        "newer": (["busbw-tuner 99", *whole, f"end {len(RULES)}"], "is not applied"),
    }
    for name, (lines, wanted) in tables.items():
        table = args.output / f"{name}.table"
        table.write_text("\n".join(lines) + "\n")
        # On several nodes somebody has to say that all of them have this table.
        alike = {"BUSBW_TUNER_ALIKE": hash_of(table.read_text())} if name == "own" else {}
        code, said = started(args, name, table, alike)
        right = code == 0 and any(wanted in line for line in said)
        wrong += not right
        print(f"{name}: exit code {code}, {'right' if right else 'wrong'}", flush=True)
        for line in said[:4]:
            print(f"  {line[:240]}", flush=True)
    return int(wrong > 0)


def started(args: argparse.Namespace, name: str, table: Path, more: dict[str, str]) -> tuple[int, list[str]]:
    """Exit code, and what the plugin said: each sentence once."""
    plugin = args.build.resolve() / "lib" / "libnccl-tuner-busbw.so"
    environ = {**os.environ, "NCCL_TUNER_PLUGIN": str(plugin), "BUSBW_TUNER_TABLE": str(table),
               "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,TUNING", **more}  # fmt: skip
    if args.nccl:
        environ["LD_PRELOAD"] = ":".join(filter(None, (str(args.nccl), os.environ.get("LD_PRELOAD", ""))))
    try:
        done = subprocess.run(args.program, env=environ, capture_output=True, text=True, errors="replace",
                              timeout=LIMIT_S, check=False)  # fmt: skip
        code, text = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as ended:
        code, text = 124, (ended.stdout or b"").decode(errors="replace")
    (args.output / f"{name}.log").write_text(text[-400_000:])
    lines = [line.partition("TUNER/busbw: ")[2] for line in text.splitlines() if "TUNER/busbw: " in line]
    return code, list(dict.fromkeys(lines))


if __name__ == "__main__":
    sys.exit(main())
