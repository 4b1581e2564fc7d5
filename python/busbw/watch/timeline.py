"""Recordings as a page with a timeline: one file that a browser draws without a network, up to two million calls."""

from __future__ import annotations

import base64
import html
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from busbw.base.errors import UserError
from busbw.base.files import whole
from busbw.base.page import document
from busbw.watch.arrivals import who_of
from busbw.watch.columns import CAPTURED, LAUNCHED, Columns, quotas, read, waits, waits_of_hosts
from busbw.watch.recording import Recording, shape_of

MAX_CALLS = 2_000_000
MAX_LANES = 4096
MAX_SHAPES = 0xFFFF
_LEAST_NS = 1000
"""Shorter waits are not drawn."""
_U32 = 0xFFFFFFFF
_ROOM = Path(__file__).parent

_BODY = """\
<h1>Timeline of {calls:,} calls in {processes:,} processes</h1>
<p>{notes}</p>
<div id="bar"><button id="left" aria-label="earlier">&#8592;</button>
<button id="right" aria-label="later">&#8594;</button>
<button id="in" aria-label="nearer">+</button>
<button id="out" aria-label="further">&#8722;</button><button id="all">all</button>
<span id="where"></span></div>
<div id="legend"></div>
<div id="view" tabindex="0" aria-label="timeline; plus and minus zoom, arrows move"><div id="tall"></div>
<canvas id="calls" role="img"
aria-label="a lane for each communicator of each process, a bar for each call"></canvas></div>
<div id="tip" role="status">Point at a bar. The wheel zooms, dragging moves.</div>
<div class="table"><table><tr><th>collective<th>calls<th>time<th>wait</tr>{rows}</table></div>
<script type="application/json" id="about">{about}</script>
<script type="text/plain" id="data">{data}</script>"""


@dataclass
class _Lane:
    who: str
    place: int
    begin: Any
    """In ns on the timeline, as are the lengths."""
    length: Any
    wait: Any
    number: Any
    shape: Any


class _Timeline:
    def __init__(self, recordings: Sequence[Recording]) -> None:
        heads = [recording.header() for recording in recordings]
        self._shift: dict[int, int] = {}
        for head in heads:
            self._shift.setdefault(head.boot_id, head.realtime_ns - head.monotonic_ns)
        self.start = min((head.monotonic_ns + self._shift[head.boot_id] for head in heads), default=0)
        self.lanes: dict[tuple[str, int], _Lane] = {}
        self.shapes: dict[str, int] = {}
        self.kinds: dict[str, int] = {}
        self.kind_of: list[str] = []
        self.calls = self.left_out = 0

    def read(self, recordings: Sequence[Recording]) -> None:
        """Every call and wait, up to the bounds."""
        held = [min(head.calls, head.call_capacity) for head in (each.header() for each in recordings)]
        every = [read(each, most) for each, most in zip(recordings, quotas(held, MAX_CALLS), strict=True)]
        waited = waits(recordings, every)
        if len(self._shift) > 1 and all(each.head.synchronous for each in every):
            waits_of_hosts(recordings, every, waited)
        for one, wait in zip(every, waited, strict=True):
            self.left_out += one.held - len(one.place)
            self._add(one, wait)

    def _add(self, one: Columns, wait: Any) -> None:
        """The lanes of one recording."""
        import numpy as np

        places, firsts = np.unique(one.place, return_index=True)
        shapes = self._shapes(one)
        for place in places[np.argsort(firsts)].tolist():
            mine = np.flatnonzero(one.place == place)
            key = (who_of(one.head), place)
            before = self.lanes.get(key)
            if before is None and len(self.lanes) >= MAX_LANES:
                self.left_out += len(mine)
                continue
            length = one.host_ns[mine]
            columns: tuple[Any, ...] = (
                one.begun_ns[mine] + (self._shift[one.head.boot_id] - self.start), length,
                np.where(wait[mine] > _LEAST_NS, np.minimum(wait[mine], length), 0), one.sequence[mine], shapes[mine],
            )  # fmt: skip
            if before:
                olds = (before.begin, before.length, before.wait, before.number, before.shape)
                columns = tuple(np.concatenate(each) for each in zip(olds, columns, strict=True))
            self.lanes[key] = _Lane(*key, *columns)
            self.calls += len(mine)

    def _shapes(self, one: Columns) -> Any:
        """The number of each call's shape."""
        import numpy as np

        _, of_count = np.unique(one.count, return_inverse=True)
        hows, of_how = np.unique(one.shape, return_inverse=True)
        every, first, of_call = np.unique(of_count * max(len(hows), 1) + of_how, return_index=True, return_inverse=True)
        numbers = np.zeros(len(every), np.int64)
        for at in np.argsort(first).tolist():
            count, how = int(one.count[first[at]]), int(one.shape[first[at]])
            shape = shape_of(count, how)
            # A captured call runs when its graph is launched.
            more = ", captured" if how & CAPTURED else ", by a graph" if how & LAUNCHED else ""
            numbers[at] = self._shape(shape.kind, f"{shape}{more}")
        return numbers[of_call]

    def _shape(self, kind: str, text: str) -> int:
        known = self.shapes.get(text)
        if known is None:
            if len(self.shapes) >= MAX_SHAPES:
                text = f"{kind} of some size"
                if text in self.shapes:
                    return self.shapes[text]
            known = self.shapes[text] = len(self.shapes)
            self.kind_of.append(kind)
            self.kinds.setdefault(kind, len(self.kinds))
        return known


def write_timeline(recordings: Sequence[Recording], path: Path) -> tuple[int, int]:
    """Write the page; how many calls are in it, and how many were left out beyond the bounds."""
    line = _Timeline(recordings)
    line.read(recordings)
    lanes, content, span_ns = [], bytearray(), 1
    for lane in line.lanes.values():
        name = f"{lane.who.split(' (')[0]}, communicator {lane.place}"
        lanes.append({**_packed(lane, content), "name": name, "who": lane.who})
        span_ns = max(span_ns, int((lane.begin + lane.length).max()))
    about = {
        "lanes": lanes,
        "span_us": span_ns / 1000,
        "shapes": [
            {"text": text, "colour": line.kinds[kind]} for text, kind in zip(line.shapes, line.kind_of, strict=True)
        ],
        "kinds": [{"name": kind, "colour": colour} for kind, colour in line.kinds.items()],
    }
    body = _BODY.format(
        calls=line.calls, processes=len(recordings),
        notes=html.escape(_notes(line)), rows=_rows(line),
        # No text of a recording may end the element.
        about=json.dumps(about, separators=(",", ":")).replace("<", "\\u003c"),
        data=base64.b64encode(zlib.compress(bytes(content), 6)).decode(),
    )  # fmt: skip
    style, script = ((_ROOM / f"timeline.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    page = document("busbw: timeline of a job", style, body, script)
    try:
        with whole(path) as part:
            part.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    return line.calls, line.left_out


def _packed(lane: _Lane, content: bytearray) -> dict[str, Any]:
    """Columns of a lane, appended to `content`: distances of the begins, lengths, waits, numbers and shapes."""
    import numpy as np

    order = np.argsort(lane.begin, kind="stable")
    begins = lane.begin[order]
    steps = np.diff(begins, prepend=begins[:1])
    at = len(content)
    # What does not fit into 32 bits of ns stands beside them.
    jumps = [[place, (int(steps[place]) - _U32) / 1000] for place in np.flatnonzero(steps > _U32).tolist()]
    columns = (
        np.minimum(steps, _U32).astype("<u4"), (lane.length[order] / 1000).astype("<f4"),
        (lane.wait[order] / 1000).astype("<f4"), lane.number[order].astype("<u4"), lane.shape[order].astype("<u2"),
    )  # fmt: skip
    for column in columns:
        content += column.tobytes()
    return {"at": at, "calls": len(order), "first_us": int(begins[0]) / 1000, "jumps": jumps}


def _rows(line: _Timeline) -> str:
    import numpy as np

    sums = np.zeros((3, len(line.kind_of)))
    for lane in line.lanes.values():
        for row, weights in enumerate((None, lane.length, lane.wait)):
            sums[row] += np.bincount(lane.shape, weights, minlength=len(line.kind_of))
    of_kind: dict[str, Any] = {}
    for kind, row in zip(line.kind_of, sums.T, strict=True):
        of_kind[kind] = of_kind.get(kind, 0) + row
    return "".join(
        f"<tr><td>{html.escape(kind)}<td>{calls:,.0f}<td>{length / 1e9:.3g} s<td>{wait / 1e9:.3g} s</tr>"
        for kind, (calls, length, wait) in sorted(of_kind.items())
    )


def _notes(line: _Timeline) -> str:
    words = ["A lane for each communicator of each process, a bar for the time of the host in a call."]
    if line.left_out:
        words.append(f"{line.left_out:,} further calls are left out.")
    return " ".join(words)
