"""What a bisection goes through, in order: values of a setting, launch profiles, libraries in a folder."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.base.errors import UsageError
from busbw.base.quantities import parse_bytes
from busbw.base.words import launch_words
from busbw.experiment.factors import UNSET, VARIABLE, Level

MOST_VALUES = 512
_STEP = re.compile(r"(?P<first>\w+)\.\.(?P<last>\w+?)(?:\+(?P<step>\w+))?")
_VERSION = re.compile(r"(\d{1,4}(?:\.\d{1,4}){1,3})(?:(a|b|rc)(\d{1,3}))?(?:\.post(\d{1,3}))?(?:\.dev(\d{1,9}))?")
_BEFORE = {"a": 0, "b": 1, "rc": 2}
_FINAL = 3


def of_setting(text: str) -> list[Level]:
    """`NAME=1M..16M` (each twice the one before), `NAME=4..32+4` (in steps), or `NAME=A,B,C` in that order."""
    name, equals, rest = text.partition("=")
    if not equals or not VARIABLE.fullmatch(name) or not rest:
        raise UsageError(f"'{text}' is no setting; write NAME=1M..16M, NAME=4..32+4 or NAME=A,B,C")
    values = _range(name, rest) if ".." in rest else rest.split("|" if "|" in rest else ",")
    return _distinct(f"--setting {text}", [Level(value, {name: None if value == UNSET else value}) for value in values])


def _range(name: str, text: str) -> list[str]:
    found = _STEP.fullmatch(text)
    if not found:
        raise UsageError(f"'{name}={text}' is no range; write {name}=1M..16M or {name}=4..32+4")
    try:
        first, last = parse_bytes(found["first"]), parse_bytes(found["last"])
        step = parse_bytes(found["step"]) if found["step"] else 0
    except ValueError as problem:
        raise UsageError(f"'{name}={text}' is no range of numbers: {problem}") from None
    if first == last or first < 0 or last < 0 or (found["step"] and step < 1):
        raise UsageError(f"'{name}={text}' holds no two values; the ends differ and a step is at least 1")
    low, high = sorted((first, last))
    if not step and low == 0:
        raise UsageError(f"'{name}={text}': twice 0 is 0; say the step, such as {name}={text}+1")
    values = [low]
    while (following := values[-1] + step if step else 2 * values[-1]) <= high and len(values) <= MOST_VALUES:
        values.append(following)
    if values[-1] != high:
        values.append(high)
    return [str(value) for value in (values if first < last else reversed(values))]


def of_profiles(texts: Sequence[str]) -> list[Level]:
    """`NAME=LAUNCH OPTIONS` each: machines, drivers or images, in the order in which they came."""
    levels = []
    for text in texts:
        name, equals, rest = text.partition("=")
        if not equals or not name or name.startswith("-"):
            raise UsageError(f"--profile '{text}' has no name; write --profile 'driver-570=--launcher srun --nodes 2'")
        try:
            levels.append(Level(name, launch=launch_words(rest)))
        except ValueError as problem:
            raise UsageError(f"--profile {name}: {problem}") from None
    return _distinct("--profile", levels)


def _distinct(what: str, levels: list[Level]) -> list[Level]:
    labels = [level.label for level in levels]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise UsageError(f"{what} names '{twice}' twice")
    if not 2 <= len(levels) <= MOST_VALUES:
        raise UsageError(f"{what} names {len(levels)}; between 2 and {MOST_VALUES} values make a bisection")
    return levels


def parse_range(text: str) -> tuple[str, str]:
    """`2.27.3..2.32.3`: the first and the last release."""
    first, dots, last = text.partition("..")
    if not dots or not _VERSION.fullmatch(first) or not _VERSION.fullmatch(last):
        raise UsageError(f"--libraries {text} is no range of releases; write it as 2.27.3..2.32.3")
    if version_key(first) >= version_key(last):
        raise UsageError(f"--libraries {text}: the first release is the older one, from which on things got slower")
    return first, last


def version_key(version: str) -> tuple[int, ...]:
    """For sorting: 2.26.2rc1 < 2.26.2 < 2.26.2.post1 < 2.26.5."""
    found = _VERSION.fullmatch(version)
    if found is None:
        raise UsageError(f"'{version}' is no version")
    number, kind, before, post, dev = found.groups()
    parts = [int(part) for part in number.split(".")]
    # A development version comes before what it leads to: 2.26.2.dev1 < 2.26.2a1.
    stage = _BEFORE[kind] if kind else -1 if dev and not post else _FINAL
    return (*parts, *[0] * (4 - len(parts)), stage, int(before or 0), int(post or 0), int(dev) if dev else 1 << 30)


def is_early(version: str) -> bool:
    """Whether it is no final release: 2.29.2rc1."""
    found = _VERSION.fullmatch(version)
    return found is not None and (found[2] is not None or found[5] is not None)


def version_in(name: str) -> str | None:
    """The release that a file or folder's name holds: libnccl.so.2.28.9, nccl-2.28.9, nvidia_nccl_cu12-2.28.9-py3..."""
    found = re.search(rf"(?<!\d)(?<!\d\.)(?:{_VERSION.pattern})(?![\d])", name)
    return found[0] if found else None


def within(versions: Sequence[str], first: str, last: str, where: str) -> list[str]:
    """The releases from the first to the last, both included; UsageError where an end is not among them.

    As pip does, it leaves out what is no final release, unless an end is none.
    """
    early = is_early(first) or is_early(last)
    known = sorted((each for each in set(versions) if early or not is_early(each)), key=version_key)
    missing = next((end for end in (first, last) if end not in known), None)
    if missing is not None:
        near = [each for each in known if each.split(".")[:2] == missing.split(".")[:2]] or known
        shown = ", ".join(near[-8:])
        raise UsageError(f"NCCL {missing} is not in {where}; near it are {shown or 'none'}")
    return [each for each in known if version_key(first) <= version_key(each) <= version_key(last)]
