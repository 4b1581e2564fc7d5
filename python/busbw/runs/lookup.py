"""Which kept runs a word on the command line means: an id, the start of one, its shortened form, or a tag."""

from __future__ import annotations

from pathlib import Path

from busbw.base.errors import UsageError
from busbw.runs import store
from busbw.runs.destination import RECORD_NAME
from busbw.runs.index import Index

MIN_HASH = 6
"""Characters of an id's end that name a run."""


def find(word: str, root: Path) -> list[Path]:
    """Records of the run of that id, of the one whose id starts so or is shortened so, or of all runs with that tag."""
    if not word.removeprefix("tag:").strip():
        return []  # every run starts with nothing, which nobody means
    exact = root / word / RECORD_NAME
    if store.is_name(word) and exact.is_file():
        return [exact]
    found = [(name, root / name / RECORD_NAME) for name, _, _ in store.record_states(root)]
    starting = [path for name, path in found if _is_meant(name, word)]
    if len(starting) == 1:
        return starting
    tagged = _tagged(word.removeprefix("tag:"), root)
    if not tagged and len(starting) > 1:
        some = ", ".join(path.parent.name for path in starting[:3])
        raise UsageError(f"{len(starting)} runs start with '{word}' ({some}, ...); write more of the one that is meant")
    return tagged


def _is_meant(name: str, word: str) -> bool:
    """Whether an id starts so, ends in this hash, or is shortened to this, as `busbw runs` shows it."""
    head, dots, tail = word.partition("..")
    if dots:
        return name.startswith(head) and name.endswith(tail) and len(name) > len(head) + len(tail)
    return name.startswith(word) or (len(word) >= MIN_HASH and name.endswith(f"-{word}"))


def _tagged(tag: str, root: Path) -> list[Path]:
    """Records with a tag, be it in the record or beside it; the index knows both."""
    with Index(root, progress=False) as index:
        rows = index.rows("SELECT run FROM tags WHERE tag = ? ORDER BY run", (tag,))
    return [root / name / RECORD_NAME for (name,) in rows]


def find_one(word: str, root: Path) -> Path:
    """The folder of exactly one run."""
    found = find(word, root)
    if len(found) != 1:
        what = "no run has" if not found else f"{len(found)} runs have"
        raise UsageError(f"{what} the id, start of an id or tag '{word}' in {root}; `busbw runs` lists them")
    return found[0].parent
