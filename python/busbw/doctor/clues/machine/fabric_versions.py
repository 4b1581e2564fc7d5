"""A fabric manager of another release than the driver: both versions, the host, and the package that is in the way."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.base.text import clean
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_BOTH = re.compile(
    r"version (?P<manager>\d{3}(?:\.\d{1,3}){1,2}) (?:don't|doesn't|does not|do not) match with (?:the )?driver "
    r"version (?P<driver>\d{3}(?:\.\d{1,3}){1,2})"
)
_MANAGER = re.compile(r"Fabric Manager [Vv]ersion(?: is)? ?: (?P<version>\d{3}(?:\.\d{1,3}){1,2})\b")
_PACKAGE = re.compile(
    r"\b(?P<name>nvidia-fabric-?manager(?:-\d{3})?)(?:-|[/ ][^\n]{0,40}?\s)"
    r"(?P<version>\d{3}(?:\.\d{1,3}){1,2})(?:-[\w.~-]{1,24})?"
)
_DRIVER = re.compile(
    r"(?:\bDriver Version ?: |NVRM version: [^\n]{5,60}?|driver_version\W{1,3})"
    r"(?P<version>\d{3}(?:\.\d{1,3}){1,2})\b"
)
_HOST = re.compile(r"[A-Za-z][\w.-]{1,60}")
_OPERATOR = re.compile(r"gpu-operator|nvidia-driver-daemonset|nvidia-driver-ctr")
_ABOVE = 6
"""Lines over a package in which the name of its host may stand alone."""


def of_another_release(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The versions of fabric manager and driver differ, by the manager's own words or by what is installed."""
    versions = _versions(texts)
    if versions is None:
        return None
    manager, driver, text, at = versions
    where, package, seen = "", "", [text.evidence(at)]
    for each in texts:
        found = next((one for one in _PACKAGE.finditer(each.text) if one["version"] == manager), None)
        if found is not None:
            package, where = " ".join(found[0].split()), _host(each.text, found.start())
            seen.append(each.evidence(found.start()))
            break
    on = f" on {where}" if where else ""
    title = f"the fabric manager{on} is of {manager}, the driver of {driver}: it refuses to start, so that no CUDA runs"
    title += f" ({clean(package)} is installed)" if package else ""
    if any(_OPERATOR.search(each.text) for each in texts):
        cure = f"remove the host's own fabric manager{f' ({clean(package)})' if package else ''}{on}: the driver's "
        cure += (
            f"container brings the one of {driver}. Or install that release; then restart the driver's pod or the node"
        )
    else:
        cure = f"install nvidia-fabricmanager of exactly {driver}{on} (or the driver of {manager}), and hold both "
        cure += "packages so that they change together. Then systemctl restart nvidia-fabricmanager, or reboot"
    return Sharper(title, f"{cure}. nvidia-smi -q must show Fabric State: Completed", tuple(seen))


def _versions(texts: Sequence[Text]) -> tuple[str, str, Text, int] | None:
    """Both versions, where they differ: of one line that compares them, else of two that tell one each."""
    for text in texts:
        if found := _BOTH.search(text.text):
            return found["manager"], found["driver"], text, found.start()
    drivers = {found["version"] for text in texts for found in _DRIVER.finditer(text.text)}
    for words in (_MANAGER, _PACKAGE):
        for text in texts:
            managers = {found["version"]: found.start() for found in words.finditer(text.text)}
            if len(managers) == 1 and len(drivers) == 1 and not drivers & managers.keys():
                ((manager, at),) = managers.items()
                return manager, drivers.pop(), text, at
    return None


def _host(text: str, at: int) -> str:
    """The host whose package it is: before the line, or alone in a line over it."""
    begin = text.rfind("\n", 0, at) + 1
    before = text[begin:at].strip()
    if before.endswith(":") and _HOST.fullmatch(before[:-1]):
        return clean(before[:-1])
    above = text[max(0, begin - 400) : begin].split("\n")[:-1]
    return next((clean(each) for each in reversed(above[-_ABOVE:]) if _HOST.fullmatch(each) and _names(each)), "")


def _names(word: str) -> bool:
    """Whether a word alone in a line may be a host's name: packages and answers are none."""
    return not word.startswith(("nvidia", "kmod", "lib", "cuda")) and any(each in word for each in "-.0123456789")
