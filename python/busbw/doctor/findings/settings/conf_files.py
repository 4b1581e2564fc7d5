"""nccl.conf: variables that are set silently, that hide one another, or that NCCL reads otherwise than meant."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.base.secrets import shortened
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.remedy import without
from busbw.machine.nccl.conf import OLD_ONLY, ConfFile, Origin

NAME = "conf-files"
_NOTHING = Proof(instruction="correct the file, then let busbw doctor look again")
_HARMLESS = {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}


def examine(facts: Facts) -> Iterator[Finding]:
    for file in facts.confs:
        yield from _misread(file)
        yield from _silent(facts, file)
    hidden = [
        Evidence(
            f"{name}={value} has no effect: {setting.origin.where} sets {setting.value}", origin.where, origin.line
        )
        for name, setting in facts.settings.items()
        for value, origin in setting.hidden
        if value != setting.value
    ]  # fmt: skip
    if hidden:
        yield Finding(
            NAME, Severity.NOTE, "a variable is set in several places with different values", tuple(hidden[:10]),
            Cost("none by itself; whoever edits the file that loses wonders why nothing changes"),
            "keep each variable in one place", _NOTHING,
        )  # fmt: skip


def _misread(file: ConfFile) -> Iterator[Finding]:
    if file.problems:
        nccl = "NCCL up to 2.29" if all(each.text.startswith(OLD_ONLY) for each in file.problems) else "NCCL"
        yield Finding(
            NAME, Severity.WARNING, f"{nccl} reads lines of {file.path} otherwise than meant",
            tuple(Evidence(each.text, file.path, each.line) for each in file.problems[:10]),
            Cost("the settings that were meant are not in force"),
            "write NAME=value without spaces or quotes, numbers in digits alone (4194304, not 4M) and names as NCCL "
            "has them; a comment begins with # in the first column", _NOTHING,
        )  # fmt: skip


def _silent(facts: Facts, file: ConfFile) -> Iterator[Finding]:
    live = [
        (entry, facts.settings[entry.name])
        for entry in file.entries
        if entry.name.startswith("NCCL_") and entry.name not in _HARMLESS
        and facts.settings[entry.name].origin == Origin(file.path, entry.line, conf=True)
    ]  # fmt: skip
    if live:
        yield Finding(
            NAME, Severity.NOTE, f"{file.path} sets {_variables(len(live))} for every program that uses NCCL",
            tuple(
                Evidence(shortened(f"{entry.name}={entry.value}", 200), file.path, entry.line) for entry, _ in live[:20]
            ),
            Cost("see the findings about each; those without one are not known to cost anything"),
            "keep only what was measured on this machine", without(*(setting for _, setting in live)),
        )  # fmt: skip


def _variables(count: int) -> str:
    return f"{count} variable{'s' * (count > 1)}"
