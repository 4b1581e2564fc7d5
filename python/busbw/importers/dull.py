"""Lines of a large job's log that hold nothing of interest: known again by all but their digits, and passed by."""

from __future__ import annotations

from busbw.importers.context import SIGNS
from busbw.importers.prefixes import ends_head
from busbw.importers.stream import STARTS, Stream
from busbw.importers.values import ELEMENT_BYTES

MAX_SHAPES = 20_000
"""Shapes of lines of no interest that are remembered."""
MAX_HEADS = 20_000
"""Prefixes of one form that are remembered with the stream of lines that they name."""

_DIGITS = b"0123456789"
_INTEREST = tuple(
    {sign.encode().translate(None, _DIGITS) for sign in (*STARTS, *SIGNS, *(f" {name} " for name in ELEMENT_BYTES))}
)
"""One of these is in every line that starts a table, names a command, or is a row without a header: without digits."""
_NO_HEAD: tuple[str, dict[str, Stream]] = ("\n", {})
"""Of a line whose prefix has no sure end: no stream is found by it."""


class DullLines:
    """The shapes (all of a line but its digits) in which no table, command or row can start."""

    def __init__(self) -> None:
        self._shapes: dict[bytes, tuple[str, dict[str, Stream]]] = {}
        self._heads: dict[tuple[str, str], dict[str, Stream]] = {}

    def holds(self, line: str, text: str, stream: Stream) -> bool:
        """Whether a line is dull; `text` is what its prefix leaves, `stream` whose line it is."""
        shape = _shape(line)
        if shape not in self._shapes:
            if any(sign in shape for sign in _INTEREST):
                return False
            if len(self._shapes) >= MAX_SHAPES or len(shape) >= 500:
                return True
            end, head = ends_head(line, text)
            self._shapes[shape] = (end, self._heads.setdefault((end, head), {})) if end else _NO_HEAD
        end, heads = self._shapes[shape]
        if end != "\n" and len(heads) < MAX_HEADS:
            head = line[: len(line) - len(text) - len(end)]
            if line.startswith(end, len(head)) and end not in head:
                heads[head] = stream
        return True

    def shapes_of(self, lines: list[str]) -> list[bytes]:
        """The shape of each line for `passed`; none where nothing can be passed yet."""
        if not self._heads:
            return []
        # One call for all lines takes a third of the time of one each.
        shapes = _shape("\n".join(lines)).split(b"\n")
        return shapes if len(shapes) == len(lines) else []

    def passed(self, lines: list[str], shapes: list[bytes], at: int) -> list[str]:
        """The dull lines from `at` on, without prefix: most of a large log are, many thousand alike.

        The shape says what ends a line's prefix, the prefix whose line it is (see `ends_head`).
        """
        known = self._shapes
        found: list[str] = []
        for index in range(at, len(lines)):
            shape = known.get(shapes[index])
            if shape is None:
                break
            head, _, text = lines[index].partition(shape[0])
            stream = shape[1].get(head)
            if stream is None or stream.made:
                break
            stream.before = text
            found.append(text)
        return found


def _shape(text: str) -> bytes:
    return text.encode("utf-8", "replace").translate(None, _DIGITS)
