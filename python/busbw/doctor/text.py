"""Findings as text for people: severity, what, evidence, cost, fix, proof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from busbw.base.text import WIDTH, clean, paint, sentences
from busbw.doctor.facts import Facts
from busbw.doctor.finding import SCRATCH, Finding, Severity
from busbw.doctor.remedy import NO_CHANNELS
from busbw.doctor.verdict import Verdict

_STYLES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_LABEL = 9


def describe(finding: Finding, *, colour: bool = False, width: int = WIDTH, brief: bool = False) -> list[str]:
    """The lines of one finding; `brief` leaves only the first sentence and its places."""
    severity = finding.severity.value
    title = sentences([f"{finding.name}: {finding.title}"], indent="", bullet=" " * _LABEL, width=width)
    title[0] = paint(severity, _STYLES[finding.severity], colour=colour) + title[0][len(severity) :]
    if brief:
        return title
    lines = title
    for evidence in finding.evidence:
        lines += _part("seen", f"{evidence.place}: {evidence.fact}", width)
    basis = f" ({finding.cost.basis})" if finding.cost.basis else ""
    lines += _part("cost", finding.cost.text + basis, width)
    lines += _part("fix", finding.fix, width)
    lines += _part("proof", proof_text(finding), width)
    return lines + (_part("known", finding.known, width) if finding.known else [])


def proof_text(finding: Finding) -> str:
    """What shows the cost: the setting to change, or what a person does."""
    proof = finding.proof
    if not proof.runnable:
        return proof.instruction or "nothing to measure"
    changes = [f"unset {name}" for name in proof.unset if name not in proof.neutral]
    changes += [_assignment(name, value) for name, value in (*proof.set.items(), *proof.neutral.items())]
    changes += [f"NCCL_CONF_FILE naming a copy of {each}" for each in proof.copies]
    changes += ["ranks on all processors"] if proof.unbind else []
    return "measure against: " + ", ".join(changes)


def _assignment(name: str, value: str) -> str:
    if value == f"{SCRATCH}/{NO_CHANNELS}":
        return f"{name} naming a file without channels"
    return f"{name}={value}" if value else f"{name} empty"


def verdict_lines(verdict: Verdict) -> list[str]:
    """What was seen of jobs, the verdict, what was read, and what was not."""
    lines = sentences([clean(each) for each in verdict.seen[:4]], bullet="") if verdict.seen else []
    lines += sentences([f"verdict: {verdict.text}"], bullet="")
    for label, said in (("read", verdict.read), ("unseen", verdict.unread)):
        for each in said[:12]:
            lines += _part(label, clean(each), WIDTH)
    return lines


def summary(facts: Facts, findings: Sequence[Finding]) -> str:
    """The closing line: how many of each, and what was looked at."""
    counts = [(severity, sum(each.severity is severity for each in findings)) for severity in Severity]
    found = ", ".join(f"{count} {severity.value}{'s' * (count > 1)}" for severity, count in counts if count)
    return f"{found or 'no findings'}; examined {'; '.join(_examined(facts)) or 'nothing'}"


def _examined(facts: Facts) -> Iterator[str]:
    machine, snapshot = facts.machine, facts.snapshot
    if machine is not None and machine.gpus:
        names = dict.fromkeys(gpu.name or "GPU" for gpu in machine.gpus)
        links = f", {machine.nvlinks_per_gpu} NVLinks each" if machine.nvlinks_per_gpu else ""
        yield clean(f"{machine.source} ({len(machine.gpus)} x {' and '.join(names)}{links})")
    elif snapshot.live:
        yield "this machine (no GPU found)"
    elif snapshot.machine is not None:
        yield clean(f"{snapshot.source} (no GPU in it)")
    files = [each.path for each in (*snapshot.confs, *snapshot.logs, *snapshot.records)]
    files += [each.path for each in (snapshot.graph,) if each is not None]
    yield from (clean(each) for each in files if machine is None or each != machine.source)
    if facts.records:
        yield f"{len(facts.records)} records"


def _part(label: str, text: str, width: int) -> list[str]:
    return sentences([text], indent="  ", bullet=f"{label:<{_LABEL - 2}}", width=width)
