"""How near the times of replays are to those of their recordings: files of `busbw replay --times`.

    python3 bench/watch/replay_ratios.py FILE ...

For each collective and size the replayed median through the recorded one, and the middle of them. The exit code is 1
where a replay had a wrong result, or no call has a recorded time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

BOUNDS = (0.03, 0.10)


def ratios(times: dict[str, Any]) -> dict[str, float]:
    """By collective and size; each communicator counts for itself."""
    return {
        f"{line['collective']} of {line['bytes']} bytes, communicator {line['communicator']}": line["replayed_us"]
        / line["recorded_us"]
        for line in times["calls"]
        if line["recorded_us"]
    }


def told(found: list[dict[str, float]]) -> list[str]:
    """A line for each shape, then how many are near."""
    lines = []
    for name in dict.fromkeys(name for each in found for name in each):
        values = [each[name] for each in found if name in each]
        lines.append(f"{name}: {', '.join(f'{value:.3f}' for value in values)}")
    every = [value for each in found for value in each.values()]
    apart = [abs(value - 1) for value in every]
    within = ", ".join(f"{sum(each <= bound for each in apart)} within {100 * bound:.0f} %" for bound in BOUNDS)
    return [*lines, f"of {len(every)} ratios {within}; median ratio {median(every):.3f}, "
                    f"median {100 * median(apart):.1f} % apart, most {100 * max(apart):.0f} %"]  # fmt: skip


def main(files: list[str]) -> int:
    replays = [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]
    found = [ratios(each) for each in replays]
    if not any(found):
        print("no call has a recorded time: record with BUSBW_RECORD_TIMES=all")
        return 1
    wrong = sum(each["wrong"] for each in replays)
    print(*told(found), f"{wrong} wrong results", sep="\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
