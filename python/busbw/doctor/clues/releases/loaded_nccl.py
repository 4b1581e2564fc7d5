"""Clues of the NCCL that is loaded: what a program says that it runs with, against what it was installed with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_MOST = 200
_RUNS = re.compile(r"\bNCCL version (?P<version>2\.\d{1,3}\.\d{1,3})")
_WANTS = re.compile(
    r"^\s{0,4}(?:\[(?:pip3?|conda)\] )?nvidia-nccl-cu\d\d(?:==|[ \t]{1,40})(?P<version>2\.\d{1,3}\.\d{1,3})"
    r"|torch\.cuda\.nccl\.version\(\)[^\n]{0,120}(?:\n[^\n(]{0,80})?\((?P<a>2), (?P<b>\d{1,3}), (?P<c>\d{1,3})\)",
    re.MULTILINE,
)
_BY = re.compile(
    r"(?:^|[\s\"'-])(?P<name>LD_PRELOAD|VLLM_NCCL_SO_PATH|SGLANG_NCCL_SO_PATH)[=:] ?['\"]?"
    r"(?P<path>[^\s'\"]{0,120}libnccl[\w.-]{0,30})"
    r"|libnccl\.so(?:\.\d{1,3}){0,3} => (?P<ldd>/\S{3,160})"
    r"|\s(?P<map>/\S{2,160}/libnccl\.so\.2(?:\.\d{1,3}){0,2})$",
    re.MULTILINE,
)
_SYSTEM = re.compile(r"^ii\s{1,4}(?P<name>libnccl2)\s{1,40}(?P<version>2\.\d{1,3}\.\d{1,3})-", re.MULTILINE)
_UNDEFINED = re.compile(r"-2147483648\b|\b0x80000000\b")
"""What the initializer of ncclConfig_t puts into fields that nobody sets: a newer library knows it."""


def older_than_installed(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """NCCL says that it is older than the one that was installed beside PyTorch."""
    said = (Text("", "\n".join(seen.fact for seen in finding.evidence)), *texts)
    runs = {found["version"] for text in texts for found in islice(_RUNS.finditer(text.text), _MOST)}
    wants = next(((text, found) for text in texts if (found := _WANTS.search(text.text))), None)
    if len(runs) != 1 or wants is None:
        return None
    run, want = runs.pop(), _version(wants[1])
    if _ordered(run) >= _ordered(want):
        return None
    by = next(((text, found) for text in texts if (found := _BY.search(text.text))), None)
    system = next(
        ((text, each) for text in texts for each in _SYSTEM.finditer(text.text) if each["version"] == run), None
    )
    undefined = finding.name == "invalid-argument" and any(_UNDEFINED.search(seen.fact) for seen in finding.evidence)
    effect = (
        "it refuses the value of fields that a newer ncclConfig_t leaves undefined (-2147483648), which nobody set"
        if undefined
        else finding.title
    )
    how, cure = _how(by[1] if by else None, system is not None)
    return Sharper(
        f"the NCCL that is loaded ({run}{how}) is older than the one that PyTorch was built for ({want}): {effect}",
        f"{cure}, so that PyTorch loads the {want} of its own package. Or bring that library to {want} or newer"
        f"{'. Nothing is to be set in the program, NCCL variables or the network' if undefined else ''}",
        tuple(_evidence(each) for each in (_first_run(said, run), wants, by, system) if each is not None),
    )


def _how(by: re.Match[str] | None, system: bool) -> tuple[str, str]:
    """By which way that library comes, and what ends it."""
    if by is not None and by["name"]:
        return f", by {by['name']}={named(by['path'], 80)}", f"unset {by['name']}"
    path = (by["ldd"] or by["map"]) if by is not None else ""
    if path or system:
        where = named(path, 80) if path else "the system's package libnccl2"
        remove = " or remove it (apt remove libnccl2 libnccl-dev)" if system else ""
        return f", {where}", f"leave its folder out of LD_LIBRARY_PATH and LD_PRELOAD{remove}"
    return "", "leave other copies of libnccl.so.2 out of LD_PRELOAD and LD_LIBRARY_PATH (ldconfig -p | grep nccl)"


def _version(found: re.Match[str]) -> str:
    return found["version"] or f"{found['a']}.{found['b']}.{found['c']}"


def _ordered(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _first_run(texts: Sequence[Text], run: str) -> tuple[Text, re.Match[str]] | None:
    words = re.compile(rf"\bNCCL version {re.escape(run)}\b")
    return next(((text, found) for text in texts if text.source and (found := words.search(text.text))), None)


def _evidence(seen: tuple[Text, re.Match[str]]) -> Evidence:
    return seen[0].evidence(seen[1].start() + 1)
