"""How large and how fast the page of a long recording is: makes recordings, the page, and has a browser draw it.

python3 bench/watch/timeline_page.py --calls 1000000 --browser chromium --pictures FOLDER
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python" / "tests" / "watch")]

from made_recordings import Made, Row, write  # noqa: E402

from busbw.watch.recording import Recording, find  # noqa: E402
from busbw.watch.timeline import write_timeline  # noqa: E402

STEP_NS = 4_000_000
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000_000, help="of all ranks together")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--browser", help="a Chromium that draws the page")
    parser.add_argument("--pictures", type=Path, help="where its pictures go")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="busbw-timeline-") as name:
        folder = Path(name)
        for rank in range(args.ranks):
            write(
                folder,
                rank,
                [Row(rank, args.ranks), Row(rank, args.ranks, identity=9)],
                job(args.calls, args.ranks, rank),
            )
        recordings = [Recording(path) for path in find(folder)]
        start = time.perf_counter()
        written, left_out = write_timeline(recordings, folder / "page.html")
        took = time.perf_counter() - start
        size = (folder / "page.html").stat().st_size
        print(f"{written:,} calls, {left_out:,} left out: {size / 1e6:.1f} MB, made in {took:.1f} s")
        if args.browser:
            drawn(args.browser, folder / "page.html", args.pictures)
    return 0


def job(calls: int, ranks: int, rank: int) -> list[Made]:
    """Steps of some calls on two communicators; a rank is late now and then."""
    chance, made = random.Random(7), []
    noise = random.Random(rank)
    for n in range(calls // ranks):
        kind, count = KINDS[n % 4], 1 << chance.randrange(8, 24)
        late = 900_000 if n % 500 > 480 and rank == 3 else 0
        begun = n * STEP_NS // 8 + noise.randrange(60_000) + late
        made.append(Made(begun, 200_000 + noise.randrange(150_000), kind=kind, count=count, place=n % 2,
                         root=0 if kind == "broadcast" else None))  # fmt: skip
    return made


def drawn(browser: str, page: Path, pictures: Path | None) -> None:
    """Pictures of both themes and two widths, and how long one takes to draw."""
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=60000"]
    dump = subprocess.run([browser, *flags, "--dump-dom", f"file://{page}#measure"], capture_output=True, text=True,
                          timeout=300, check=False)  # fmt: skip
    for what in ("ready", "took", "drawn"):
        found = re.search(rf'data-{what}="([^"]*)"', dump.stdout[:2000])
        print(f"{what}: {found[1] if found else 'not there'}" + (" ms (median, longest)" if what == "took" else ""))
    for width in (1280, 400) if pictures else ():
        for theme in ("light", "dark"):
            dark = ["--blink-settings=preferredColorScheme=0"] if theme == "dark" else []
            file = (pictures or Path()) / f"timeline-{width}-{theme}.png"
            subprocess.run([browser, *flags, *dark, f"--window-size={width},800", f"--screenshot={file}", f"file://{page}"],
                           capture_output=True, timeout=300, check=False)  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
