"""Whether replays differ from recordings by more than recordings of one program differ from each other.

    busbw watch --output one -- PROGRAM; busbw replay one --gaps --times one.json      (and again as two, three, ...)
    python3 bench/watch/replay_scatter.py one.json two.json ...

Each file is what `busbw replay --times` wrote of one recording. Medians of the same collective, count, type and ranks
are compared: each recording with each other one, each replay with each other one, and each replay with its recording.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from statistics import median

Key = tuple[str, int, str, int, int]
BOUNDS = (0.03, 0.10)


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    args = parser.parse_args()
    recorded, replayed = zip(*map(medians_of, args.files), strict=True)
    for key in sorted(set.intersection(*(set(each) for each in (*recorded, *replayed)))):
        was, now = [each[key] for each in recorded], [each[key] for each in replayed]
        print(
            f"{key[0]:14} {key[1]:>10,} {key[2]:9} {key[3]} ranks: recorded {spread(was)} us, replayed {spread(now)} us"
        )
    told("two recordings", apart(combinations(recorded, 2)))
    told("two replays", apart(combinations(replayed, 2)))
    told("a replay and its recording", apart(zip(recorded, replayed, strict=True)))
    return 0


def medians_of(file: Path) -> tuple[dict[Key, float], dict[Key, float]]:
    """Recorded and replayed medians in microseconds, where both are there."""
    was: dict[Key, float] = {}
    now: dict[Key, float] = {}
    for call in json.loads(file.read_text())["calls"]:
        if call["recorded_us"] and call["replayed_us"]:
            key = (call["collective"], call["count"], call["type"], call["ranks"], call["communicator"])
            was[key], now[key] = call["recorded_us"], call["replayed_us"]
    return was, now


def spread(values: list[float]) -> str:
    """Median, with the least and the most."""
    return f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def apart(pairs: Iterable[tuple[dict[Key, float], dict[Key, float]]]) -> list[float]:
    """By which part the larger of two medians is above the smaller one, for each shape of each pair."""
    return [
        max(one[key], two[key]) / min(one[key], two[key]) - 1.0 for one, two in pairs for key in one if key in two
    ]  # fmt: skip


def told(what: str, differences: list[float]) -> None:
    """How many are near each other."""
    if not differences:
        return
    within = ", ".join(f"{sum(each <= bound for each in differences)} within {100 * bound:.0f} %" for bound in BOUNDS)
    print(f"{what}: of {len(differences)} shapes {within}; median {100 * median(differences):.1f} % apart, "
          f"most {100 * max(differences):.0f} %")  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
