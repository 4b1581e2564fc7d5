"""Counts how many of NCCL's warnings a signature knows: nccl_sentences.py PATH_OF_A_CLONE_OF_NCCL [--show]."""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from busbw.doctor.signatures import SIGNATURES

_RELEASE = re.compile(r"v2\.(\d+)\.(\d+)-(\d+)")
_PIECE = re.compile(r'\s*"((?:[^"\\]|\\.)*)"|\s*PRI\w+|\s*[A-Z_]{4,}(?=\s*")')
_FILLED = (
    (r"%%", "%"),
    (r"%[-+ #0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z|j|t)?[diu]", "7"),
    (r"%[-+ #0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z|j|t)?[xXp]", "0x7f"),
    (r"%[-+ #0]*\d*(?:\.\d+)?[lL]?[fgeE]", "1.5"),
    (r"%[-*.0-9]*s", "name"),
    (r"%c", "c"),
)


def git(clone: Path, *words: str) -> bytes:
    return subprocess.run(["git", "-C", str(clone), *words], check=True, capture_output=True).stdout


def releases(clone: Path) -> list[str]:
    """The last patch release of each minor one from 2.18 on."""
    last: dict[int, tuple[int, int, str]] = {}
    for tag in git(clone, "tag").decode().split():
        found = _RELEASE.fullmatch(tag)
        if found and int(found[1]) >= 18:
            minor = int(found[1])
            last[minor] = max(last.get(minor, (0, 0, "")), (int(found[2]), int(found[3]), tag))
    return [tag for _, (_, _, tag) in sorted(last.items())]


def sentences(source: str) -> Iterator[str]:
    """Each WARN's format, whose pieces are joined."""
    for call in re.finditer(r"\bWARN\s*\(", source):
        at, pieces = call.end(), []
        while found := _PIECE.match(source, at):
            pieces.append(found[1] or "")
            at = found.end()
        if text := "".join(pieces):
            yield text


def printed(text: str) -> str:
    """The sentence as NCCL might print it."""
    text = text.replace('\\"', '"').replace("\\n", " ").replace("\\t", " ")
    for pattern, value in _FILLED:
        text = re.sub(pattern, value, text)
    return text


def main() -> int:
    """Print releases and counts, and with --show the sentences that no signature knows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clone", type=Path)
    parser.add_argument("--show", action="store_true")
    args = parser.parse_args()
    found: dict[str, str] = {}
    tags = releases(args.clone)
    for tag in tags:
        for path in git(args.clone, "ls-tree", "-r", "--name-only", tag, "src").decode().split():
            if path.endswith((".cc", ".h", ".c", ".cu")):
                for text in sentences(git(args.clone, "show", f"{tag}:{path}").decode("utf-8", "replace")):
                    found.setdefault(text, path)
    unknown = []
    for text, path in found.items():
        line = f"n0:1:2 [0] {path.removeprefix('src/')}:9 NCCL WARN {printed(text)}"
        if all(each.match(line, line.lower()) is None for each in SIGNATURES.values()):
            unknown.append(line)
    print(f"{tags[0]} to {tags[-1]}: {len(found)} warnings, {len(found) - len(unknown)} known")
    print("\n".join(unknown) if args.show else "", end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
