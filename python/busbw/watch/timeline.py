"""Recordings as a page with a timeline: one file that a browser draws without a network, up to a million calls."""

from __future__ import annotations

import base64
import html
import json
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from busbw.base.errors import UserError
from busbw.base.files import whole
from busbw.base.page import document
from busbw.watch.arrivals import Arrivals, Meeting, who_of
from busbw.watch.recording import Header, Recording

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
    begin: list[int] = field(default_factory=list)
    """In ns on the timeline, as are the lengths."""
    length: list[int] = field(default_factory=list)
    wait: list[int] = field(default_factory=list)
    number: list[int] = field(default_factory=list)
    shape: list[int] = field(default_factory=list)
    at: dict[int, int] = field(default_factory=dict)
    """Places of calls by their number."""


class _Timeline:
    def __init__(self, recordings: Sequence[Recording]) -> None:
        heads = [recording.header() for recording in recordings]
        self._shift: dict[int, int] = {}
        for head in heads:
            self._shift.setdefault(head.boot_id, head.realtime_ns - head.monotonic_ns)
        self.start = min((head.monotonic_ns + self._shift[head.boot_id] for head in heads), default=0)
        self._heads = {who_of(head): head for head in heads}
        self.lanes: dict[tuple[str, int], _Lane] = {}
        self.shapes: dict[str, int] = {}
        self.kinds: dict[str, int] = {}
        self.kind_of: list[str] = []
        self.calls = self.left_out = 0

    def on_line(self, head: Header, monotonic_ns: int) -> int:
        """A moment by a host's clock as ns of the timeline."""
        return monotonic_ns + self._shift[head.boot_id] - self.start

    def read(self, recordings: Sequence[Recording]) -> None:
        """Every call and wait, up to the bounds."""
        arrivals = Arrivals()
        while found := list(arrivals.look(recordings)):
            for each in found:
                if isinstance(each, Meeting):
                    self._meet(each)
                    continue
                head, call = self._heads[each.who], each.call
                key = (each.who, call.communicator)
                lane = self.lanes.get(key)
                if self.calls >= MAX_CALLS or (lane is None and len(self.lanes) >= MAX_LANES):
                    self.left_out += 1
                    continue
                if lane is None:
                    lane = self.lanes[key] = _Lane(each.who, call.communicator)
                # A captured call runs when its graph is launched.
                text = f"{call.shape}{', captured' if call.captured else ', by a graph' if call.launched else ''}"
                lane.at[call.sequence] = len(lane.begin)
                lane.begin.append(self.on_line(head, head.monotonic_ns + call.begun_ns))
                lane.length.append(call.host_ns or 0)
                lane.wait.append(0)
                lane.number.append(call.sequence)
                lane.shape.append(self._shape(call.shape.kind, text))
                self.calls += 1

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

    def _meet(self, meeting: Meeting) -> None:
        if not meeting.is_synchronous or meeting.error_ns is None:
            return
        last = meeting.last
        for arrival in meeting.arrivals:
            wait = last.begun_ns - arrival.begun_ns
            lane = self.lanes.get((arrival.who, arrival.place))
            place = lane.at.get(meeting.sequence & _U32) if lane else None
            if lane and place is not None and wait > max(_LEAST_NS, meeting.error_ns):
                lane.wait[place] = min(wait, lane.length[place])


def write_timeline(recordings: Sequence[Recording], path: Path) -> tuple[int, int]:
    """Write the page; how many calls are in it, and how many were left out beyond the bounds."""
    line = _Timeline(recordings)
    line.read(recordings)
    lanes, content, span_ns = [], bytearray(), 1
    for lane in line.lanes.values():
        name = f"{lane.who.split(' (')[0]}, communicator {lane.place}"
        lanes.append({**_packed(lane, content), "name": name, "who": lane.who})
        span_ns = max(span_ns, *(begin + length for begin, length in zip(lane.begin, lane.length, strict=True)))
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
    order = sorted(range(len(lane.begin)), key=lane.begin.__getitem__)
    begins = [lane.begin[at] for at in order]
    steps = [after - before for before, after in zip([begins[0], *begins], begins, strict=False)]
    at = len(content)
    # What does not fit into 32 bits of ns stands beside them.
    jumps = [[place, (step - _U32) / 1000] for place, step in enumerate(steps) if step > _U32]
    columns = (
        array("I", [min(step, _U32) for step in steps]), array("f", [lane.length[each] / 1000 for each in order]),
        array("f", [lane.wait[each] / 1000 for each in order]), array("I", [lane.number[each] for each in order]),
        array("H", [lane.shape[each] for each in order]),
    )  # fmt: skip
    for column in columns:
        content += column.tobytes()
    return {"at": at, "calls": len(order), "first_us": begins[0] / 1000, "jumps": jumps}


def _rows(line: _Timeline) -> str:
    sums: dict[str, list[float]] = {}
    for lane in line.lanes.values():
        for shape, length, wait in zip(lane.shape, lane.length, lane.wait, strict=True):
            row = sums.setdefault(line.kind_of[shape], [0, 0, 0])
            row[0] += 1
            row[1] += length / 1e9
            row[2] += wait / 1e9
    return "".join(
        f"<tr><td>{html.escape(kind)}<td>{row[0]:,.0f}<td>{row[1]:.3g} s<td>{row[2]:.3g} s</tr>"
        for kind, row in sorted(sums.items())
    )


def _notes(line: _Timeline) -> str:
    words = ["A lane for each communicator of each process, a bar for the time of the host in a call."]
    if line.left_out:
        words.append(f"{line.left_out:,} further calls are left out.")
    return " ".join(words)
