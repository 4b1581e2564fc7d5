"""Stands in for the engine in tests of experiments: its environment, or a made-up library, says the times it writes."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

CASE = {
    "schema": 1, "kind": "case", "run": "r", "collective": "all_reduce", "type": "float", "op": "sum", "ranks": 2,
    "bytes": 1048576, "outcome": "measured",
}  # fmt: skip


def main() -> int:
    if os.environ.get("BUSBW_RANK", "0") != "0":
        return 0
    mode = os.environ.get("FAKE_MODE", "")
    if mode == "crash":
        print("NCCL error: unhandled system error", file=sys.stderr)
        return 3
    if mode == "hang":
        time.sleep(60)
    if mode == "wrong":
        return 7
    time_us = float(os.environ.get("FAKE_US", "100"))
    if "--library" in sys.argv:
        said = Path(sys.argv[sys.argv.index("--library") + 1]).read_text().split()
        assert said[0] == "fake-us"
        time_us = float(said[1])
    run = {"schema": 1, "kind": "run", "run": "r", "started": None, "tool": {"name": "busbw", "version": "0"},
           "library": None, "ranks": [], "environment": {}}  # fmt: skip
    cases = [
        {**CASE, "case": i, "placement": placement, "time_us": time_us, "algbw_GBps": 1e6 / time_us,
         "busbw_GBps": 1e6 / time_us}
        for i, placement in enumerate(("out_of_place", "in_place"))
    ]  # fmt: skip
    end = {"schema": 1, "kind": "end", "run": "r", "outcome": "completed", "cases": 2}
    target = Path(sys.argv[sys.argv.index("--record") + 1])
    target.write_text("".join(json.dumps(line) + "\n" for line in (run, *cases, end)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
