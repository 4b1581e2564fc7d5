"""How large and how fast the page of a long recording is: makes recordings, the page, and has a browser draw it.

python3 bench/watch/timeline_page.py --calls 1000000 --browser chromium --pictures FOLDER
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
from pathlib import Path
from typing import Any

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


ZOOMED = """(async () => {
  const canvas = document.querySelector("canvas"), frame = () => new Promise(requestAnimationFrame), took = [];
  const box = canvas.getBoundingClientRect();
  for (let before = await frame(), at = 0; at < 240; at++) {
    const word = {deltaY: at % 60 < 30 ? -120 : 120, bubbles: true, cancelable: true, clientY: box.top + 20,
                  clientX: box.left + box.width * (0.2 + 0.6 * (at % 7) / 7)};
    canvas.dispatchEvent(new WheelEvent("wheel", word));
    const now = await frame();
    took.push(now - before);
    before = now;
  }
  took.sort((a, b) => a - b);
  const drawn = document.documentElement.dataset.drawn, ready = document.documentElement.dataset.ready;
  return [ready, drawn, took.length, took[120], took[216], took[239], took.filter((ms) => ms > 50).length];
})()"""


def asked(browser: str, flags: list[str], page: Path) -> None:
    """By DevTools over two pipes, in real time: how long the frames take in which the page is zoomed."""
    with tempfile.TemporaryDirectory() as profile, Devtools(browser, [*flags, f"--user-data-dir={profile}"]) as tools:
        target = tools.ask("Target.createTarget", url="about:blank")["targetId"]
        tools.inside = tools.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        start = time.perf_counter()
        tools.ask("Page.navigate", url=f"file://{page}")
        while tools.value("document.documentElement.dataset.ready") != "yes":
            if time.perf_counter() - start > 120:
                raise SystemExit("the page was not ready after 120 s")
            time.sleep(0.05)
        print(f"ready after {time.perf_counter() - start:.1f} s")
        _, shown, frames, usual, most, longest, slow = tools.value(ZOOMED)
        print(f"{frames} frames of zooming: median {usual:.1f} ms, nine of ten within {most:.1f} ms, longest "
              f"{longest:.1f} ms, {slow} above 50 ms; {shown} bars drawn in the last")  # fmt: skip


class Devtools:
    """A browser that answers on a pipe, a message in JSON ended by a zero byte."""

    def __init__(self, browser: str, flags: list[str]) -> None:
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
        line = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        words = ["bash", "-c", line, "bash", browser, *flags, "--remote-debugging-pipe", "about:blank"]
        self._browser = subprocess.Popen(words, pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self._to, self._from = os.fdopen(ours_out, "wb", buffering=0), os.fdopen(ours_in, "rb")
        self._number = 0
        self.inside = ""

    def __enter__(self) -> Devtools:
        return self

    def __exit__(self, *_: object) -> None:
        self._browser.terminate()
        self._browser.wait(20)
        self._to.close()
        self._from.close()

    def ask(self, method: str, **words: object) -> dict[str, Any]:
        self._number += 1
        body: dict[str, object] = {"id": self._number, "method": method, "params": words}
        if self.inside:
            body["sessionId"] = self.inside
        self._to.write(json.dumps(body).encode() + b"\0")
        while True:
            raw = bytearray()
            while (byte := self._from.read(1)) != b"\0":
                if not byte:
                    raise SystemExit("the browser has ended")
                raw += byte
            answer = json.loads(raw)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                found: dict[str, Any] = answer["result"]
                return found

    def value(self, expression: str) -> Any:
        words = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        return self.ask("Runtime.evaluate", **words)["result"].get("value")


def drawn(browser: str, page: Path, pictures: Path | None) -> None:
    """Frames while it is zoomed and dragged, and pictures of both themes and two widths."""
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    asked(browser, flags, page)
    # In virtual time nothing takes any, so that it is no way to measure.
    flags.append("--virtual-time-budget=60000")
    for width in (1280, 400) if pictures else ():
        for theme in ("light", "dark"):
            dark = ["--blink-settings=preferredColorScheme=0"] if theme == "dark" else []
            file = (pictures or Path()) / f"timeline-{width}-{theme}.png"
            subprocess.run([browser, *flags, *dark, f"--window-size={width},800", f"--screenshot={file}", f"file://{page}"],
                           capture_output=True, timeout=300, check=False)  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
