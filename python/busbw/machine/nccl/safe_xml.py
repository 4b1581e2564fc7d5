"""XML from anywhere as a small tree: no document type, no entities, bounded in size, depth, nodes and attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from busbw.base.bounds import bounded
from busbw.base.errors import UserError

MAX_BYTES = 16 << 20
MAX_NODES = 65536  # as many as NCCL takes of a graph file (NCCL_GRAPH_XML_MAX_NODES)
MAX_DEPTH = 40
MAX_ATTRIBUTES = 64
MAX_VALUE = 4096

_ENDS_EARLY = frozenset(
    expat.errors.codes[each] for each in (expat.errors.XML_ERROR_NO_ELEMENTS, expat.errors.XML_ERROR_UNCLOSED_TOKEN)
)


@dataclass(slots=True)
class Node:
    """One element with the line on which it opens; text is kept without the white space around it."""

    tag: str
    line: int
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)
    text: str = ""

    def all(self, *tags: str) -> list[Node]:
        """The children with one of these tags."""
        return [child for child in self.children if child.tag in tags]

    def find(self, path: str) -> Node | None:
        """The first child along a path of tags, a/b/c."""
        found: Node | None = self
        for tag in path.split("/"):
            found = next((child for child in found.children if child.tag == tag), None) if found else None
        return found

    def walk(self) -> Iterator[Node]:
        """This node and all below it, in the order of the file."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children)


def parse(data: bytes, source: str, *, doctype: bool = False) -> Node:
    """The root of the document; UserError with the line where it is not XML or wants more than is allowed.

    `doctype` allows a document type without declarations of its own, as nvidia-smi writes one; it is never fetched.
    """
    if len(data) > MAX_BYTES:
        raise UserError(f"{source} has {len(data)} bytes, and XML of more than {MAX_BYTES} is not read")
    reader = _Reader(source, doctype)
    try:
        with bounded(source, len(data)):
            reader.parser.Parse(data, True)
    except expat.ExpatError as problem:
        what = expat.ErrorString(problem.code)
        cut = "; is the file cut off?" if reader.open and problem.code in _ENDS_EARLY else ""
        raise UserError(f"{source}:{problem.lineno}: not well-formed XML: {what}{cut}") from None
    except (ValueError, LookupError) as problem:  # text that its encoding does not allow, or an encoding nobody knows
        raise UserError(f"{source}: not XML: {problem}") from None
    if reader.root is None:
        raise UserError(f"{source} holds no XML element")
    return reader.root


class _Reader:
    """Expat's handlers; each refuses what a topology has no need of, before it can cost memory."""

    def __init__(self, source: str, doctype: bool) -> None:
        self.root: Node | None = None
        self._source = source
        self._doctype = doctype
        self._open: list[Node] = []
        self._nodes = 0
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.StartDoctypeDeclHandler = self._document_type
        self.parser.EntityDeclHandler = self._entity
        self.parser.buffer_text = True

    @property
    def open(self) -> bool:
        """Whether an element has begun and not ended."""
        return bool(self._open)

    def _refuse(self, why: str) -> UserError:
        return UserError(f"{self._source}:{self.parser.CurrentLineNumber}: {why}")

    def _document_type(self, _name: str, _system: str | None, _public: str | None, internal: bool) -> None:
        if internal or not self._doctype:
            raise self._refuse("a document type is not read: it could declare entities that grow without end")

    def _entity(self, *_: object) -> None:
        raise self._refuse("entities are not read: they could grow without end")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._refuse(f"more than {MAX_NODES} elements")
        if len(self._open) >= MAX_DEPTH:
            raise self._refuse(f"elements nested deeper than {MAX_DEPTH}")
        if len(attributes) > MAX_ATTRIBUTES or any(len(value) > MAX_VALUE for value in attributes.values()):
            raise self._refuse(
                f"<{tag[:40]}> has more than {MAX_ATTRIBUTES} attributes or one of over {MAX_VALUE} bytes"
            )
        node = Node(tag, self.parser.CurrentLineNumber, attributes)
        if self._open:
            self._open[-1].children.append(node)
        else:
            self.root = node
        self._open.append(node)

    def _end(self, _tag: str) -> None:
        node = self._open.pop()
        node.text = node.text.strip()

    def _characters(self, text: str) -> None:
        node = self._open[-1]
        if len(node.text) < MAX_VALUE:
            node.text += text[:MAX_VALUE]
