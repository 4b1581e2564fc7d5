"""Counts the tests in a folder of JUnit files and prints the one closing line that ends a test run."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree


def outcome(case: ElementTree.Element) -> str:
    """passed, failed or skipped; a test that ctest could not start has failed."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None or case.get("status") == "disabled":
        return "failed" if "Unable to find executable" in "".join(case.itertext()) else "skipped"
    return "failed" if case.get("status") in {"fail", "notrun"} else "passed"


def cases(path: Path) -> list[ElementTree.Element]:
    """Every test of one file; an unreadable file is one failure."""
    try:
        return list(ElementTree.parse(path).iter("testcase"))
    except ElementTree.ParseError as error:
        broken = ElementTree.Element("testcase", name=f"{path.name} is not readable: {error}")
        ElementTree.SubElement(broken, "failure")
        return [broken]


def mended(folder: Path, path: Path) -> set[tuple[str | None, str | None]]:
    """The tests of one file that passed when they were tried once more."""
    again = folder / "again" / path.name
    found = cases(again) if again.exists() else []
    return {(case.get("classname"), case.get("name")) for case in found if outcome(case) == "passed"}


def count(folder: Path) -> Counter[str]:
    """All outcomes; a test that passed at the second try has passed, and is named on stderr."""
    counts: Counter[str] = Counter()
    for path in sorted(folder.glob("*.xml")):
        second = mended(folder, path)
        for case in cases(path):
            found = outcome(case)
            if found == "failed" and (case.get("classname"), case.get("name")) in second:
                print(
                    f"failed, then passed when tried again: {case.get('classname')} {case.get('name')}", file=sys.stderr
                )
                found = "passed"
            counts[found] += 1
    return counts


def name_failures(paths: list[Path]) -> None:
    """Print the name of each test that failed and what it wrote."""
    for path in paths:
        for case in cases(path):
            if outcome(case) == "failed":
                print(f"failed: {path.stem}: {case.get('name')}")
                print((case.findtext("system-out") or "").strip())


def main(words: list[str]) -> int:
    """Name failures, or count a folder."""
    if words[0] == "--failures":
        name_failures([Path(word) for word in words[1:] if Path(word).exists()])
        return 0
    folder = Path(words[0])
    counts = count(folder)
    counts["skipped"] += sum(int(path.read_text()) for path in folder.glob("*.skipped"))
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
