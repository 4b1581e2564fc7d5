"""Findings of the signatures that logs hold: merged over logs and ranks, causes told from what follows of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor import at_limit
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.lines.first_failure import Failed, earliest
from busbw.doctor.lines.hit import MAX_WHO, Hit
from busbw.doctor.lines.scanned import Scan
from busbw.doctor.meanings.particulars import WENT_ON
from busbw.doctor.order import TOLD_BY_PEERS, Found, failed_before, only_aborted, placed, refuted, speakers
from busbw.doctor.order import first as first_line
from busbw.doctor.over import UNTIL_BEGUN, survivors
from busbw.doctor.signature import Signature, Stage
from busbw.doctor.signatures import SIGNATURES
from busbw.doctor.whose import Homes, is_elsewhere

MAX_EVIDENCE = 3
MAX_TEXT = 320


_ONLY_WITH_EFFECTS = frozenset({"connection-backlog", "ucx-without-cuda"})
"""What hosts say now and then, and is a fault where something shows that was lost by it."""


def recognise(
    scans: Sequence[Scan],
    *,
    one_node: bool = False,
    whole: frozenset[str] = frozenset(),
    begun: Mapping[str, int] = MappingProxyType({}),
    homes: Homes = MappingProxyType({}),
) -> list[Finding]:
    """One finding for each signature that any log holds.

    `one_node` says that the job ran, and on one node; `whole` are the logs in which no rank's init remained open, and
    those that tell of no init; `begun` says in which line of a log all ranks had begun an init, `homes` where they run.
    """
    merged: dict[str, list[tuple[str, Hit]]] = defaultdict(list)
    for each in scans:
        for name, hit in each.hits.items():
            merged[name].append((each.source, placed(hit, each)))
    for name in [name for name, found in merged.items() if not _tells(SIGNATURES[name], found)]:
        del merged[name]
    first = earliest(frozenset[Failed]().union(*(each.first_failed for each in scans)))
    light = {name for name, found in merged.items() if _is_light(SIGNATURES[name], found)}
    light |= {name for name in ("ib-port-down",) if name in merged and _unused(merged[name], scans)}
    light |= refuted(merged)
    for name in _ONLY_WITH_EFFECTS & merged.keys():
        light |= {name} if not _lost_by(SIGNATURES[name], merged) else set()
    causes = {name: found for name, found in merged.items() if name not in light}
    aborted = _aborted(causes, first)
    survived = survivors(merged, scans, whole, begun, light)
    # A transfer that failed was between nodes, or went through the network of one.
    one_node = one_node and ("ib-completion-error" not in merged or "ib-completion-error" in survived)
    causes = {name: found for name, found in causes.items() if name not in survived & UNTIL_BEGUN}
    apart = ((a, b) for a in causes for b in causes if is_elsewhere(SIGNATURES[a], SIGNATURES[b], causes, homes))
    job = _Job(aborted, one_node, first, frozenset(apart))
    follows = {name: _cause_of(name, causes, job) for name in causes}
    follows |= _of_limit(causes, at_limit.before_limit(causes, survived, scans), job)
    if one_node and (calm := _harmless_there(follows)):
        # What follows of no fault on one node ended nothing there either.
        known = {name: hits for name, hits in causes.items() if name not in calm}
        follows |= {name: _cause_of(name, known, job) for name in known}
    _break_circles(follows, causes)
    # What NCCL only warns of is an error where a call failed by it.
    grave = {cause.name for name, cause in follows.items() if cause and _is_ended_by(SIGNATURES[name], cause)}
    findings = []
    for name, found in merged.items():
        if SIGNATURES[name].echo and follows.get(name):
            continue
        # Where a call failed by a setting, that matters on one node, too.
        alone = one_node and not (name in grave and SIGNATURES[name].stage is Stage.SETTING)
        told = _finding(SIGNATURES[name], found, follows.get(name), one_node=alone, survived=name in survived)
        if name in grave and told.severity is Severity.WARNING:
            told = replace(told, severity=Severity.ERROR, cost=Cost("the job fails"))
        findings.append(replace(told, severity=Severity.NOTE) if name in light else told)
    last_errors: frozenset[str] = frozenset().union(*(each.last_errors for each in scans))
    return [_of_first(each, first) for each in _ended_by(findings, last_errors)]


@dataclass(frozen=True, slots=True)
class _Job:
    """What is known of the job as a whole; `elsewhere` are pairs of cause and effect of which hosts or GPUs differ."""

    aborted: Signature | None
    one_node: bool
    first: frozenset[str]
    elsewhere: frozenset[tuple[str, str]]


def _of_limit(causes: Mapping[str, Found], earlier: Collection[str], job: _Job) -> dict[str, Signature | None]:
    """What stood before a limit of time ended the job is no sequel of that, but its cause."""
    if not earlier:
        return {}
    known = {name: found for name, found in causes.items() if name != at_limit.NAME}
    told = {name: _cause_of(name, known, job) for name in known}
    roots = [name for name in earlier if told[name] is None] or list(earlier)
    root = SIGNATURES[min(roots, key=lambda name: (SIGNATURES[name].stage, first_line(causes[name])))]
    ends = {name: told[name] or root for name in at_limit.BY_LIMIT & told.keys()}
    return {**told, **ends, at_limit.NAME: root}


def _harmless_there(follows: Mapping[str, Signature | None]) -> set[str]:
    """What is only another word for something that is no fault on one node."""
    return {
        name
        for name, cause in follows.items()
        if cause is not None and cause.between_nodes and SIGNATURES[name].stage < Stage.CRASH
    }


def _is_ended_by(effect: Signature, cause: Signature) -> bool:
    """Whether it is an error that is no more than what that cause leads to."""
    return effect.name in cause.explains and effect.severity is Severity.ERROR and effect.stage < Stage.CRASH


def _break_circles(follows: dict[str, Signature | None], merged: Mapping[str, Found]) -> None:
    """Of sequels that are each other's cause one stands for itself.

    It is one that explains others of them, then the first in the log; no process aborts before it met an error.
    """
    for start in follows:
        chain: list[str] = []
        name: str | None = start
        while name is not None and name not in chain:
            chain.append(name)
            cause = follows.get(name)
            name = cause.name if cause else None
        if name is None:
            continue
        circle = chain[chain.index(name) :]

        def late(each: str, others: frozenset[str] = frozenset(circle)) -> tuple[bool, bool, int]:
            return each in _ENDS, others.isdisjoint(SIGNATURES[each].explains), first_line(merged[each])

        follows[min(circle, key=late)] = None


def _of_first(finding: Finding, first: frozenset[str]) -> Finding:
    """With the rank that failed first, where one is known and the finding is of a rank's end."""
    named = finding.name in _ENDS and len(first) == 1
    return replace(finding, title=f"{finding.title}; {min(first)} was the first") if named else finding


def _ended_by(findings: list[Finding], last_errors: frozenset[str]) -> list[Finding]:
    """What NCCL goes on after in other cases is an error where it is NCCL's last one, and nothing else ended a call."""
    if any(each.severity is Severity.ERROR and each.stage < Stage.CRASH for each in findings):
        return findings
    return [
        replace(each, severity=Severity.ERROR, cost=Cost("the job fails"))
        if each.name in last_errors and each.severity is Severity.WARNING
        else each
        for each in findings
    ]


_TASK = re.compile(r"\s{0,6}\d{1,7}: ")
"""What `srun --label` puts before a line: the task, whatever rank that takes itself for."""


def _tells(signature: Signature, found: Found) -> bool:
    """Whether there are lines enough for what the signature says."""
    if signature.differs and all(len(hit.groups) < 2 for _, hit in found):
        return False
    if signature.holds is not None and not signature.holds(_groups(found)):
        return False
    return not signature.repeats or _repeated(found)


def _is_light(signature: Signature, found: Found) -> bool:
    """Whether it tells of no fault, such as of what was corrected."""
    return signature.light is not None and signature.light(_groups(found), sum(hit.count for _, hit in found))


def _unused(found: Found, scans: Sequence[Scan]) -> bool:
    """Whether every line is of a port that nothing uses, or was down while the kernel started, as each port is."""
    booted = all(each.kinds["boots"] for each in scans)
    calm = sum("boot" in each or (booted and "early" in each) for each in _groups(found))
    return calm + sum(each.unused_ports for each in scans) == sum(hit.count for _, hit in found)


def _groups(found: Found) -> list[dict[str, str]]:
    """The groups of all lines of all logs."""
    return [dict(each) for _, hit in found for each in hit.groups]


def _repeated(found: Found) -> bool:
    """Whether the same was said twice in one log; of several logs each may be of another start."""
    return any(_said(hit) > len(hit.groups) for _, hit in found)


def _said(hit: Hit) -> int:
    """By how many: a task that says it again has begun again."""
    labelled = all(_TASK.match(text) for _, text in hit.lines)
    return len(hit.who) if labelled and len(hit.who) < MAX_WHO else hit.count


_SEGFAULTS = frozenset({"11", "-11", "139", "SIGSEGV", "11 (SIGSEGV)", "Segmentation fault"})


def _lost_by(signature: Signature, merged: Mapping[str, Found]) -> bool:
    """Whether something shows that was lost by it; of crashes those alone in which memory was used that is none."""
    effects = merged.keys() & set(signature.explains)
    if "process-crashed" in effects and _SEGFAULTS.isdisjoint(
        each.get("how", "") for each in _groups(merged["process-crashed"])
    ):
        effects.discard("process-crashed")
    return bool(effects)


_ABORTS = frozenset(
    {"6", "-6", "134", "SIGABRT", "6 (SIGABRT)", "Aborted", "after throwing", "recursively", "without", "core dumped"}
)
_FOLLOWS = frozenset({"killed-by-launcher", "job-cancelled", "remote-error", "store-lost"})
"""What other ranks and the launcher say of any end: none of it is why a process aborted itself."""


def _aborted(merged: Mapping[str, Found], first: frozenset[str]) -> Signature | None:
    """Why processes ended themselves, where the only crashes are aborts: a program aborts after it met an error.

    What only others say than the `first` that failed is no reason of theirs.
    """
    if "process-crashed" not in merged:
        return None
    groups = [dict(each) for _, hit in merged["process-crashed"] for each in hit.groups]
    # Where nobody says how, it is told by those who watch it: for them each end is unexpected.
    if not all(each.get("how") in _ABORTS for each in groups):
        return None
    reasons = [SIGNATURES[name] for name in merged if name not in _FOLLOWS and name != "process-crashed"]
    crash = SIGNATURES["process-crashed"]
    reasons = [each for each in reasons if each.severity is not Severity.NOTE and not _by_others(each, merged, first)]
    # Launchers tell of an abort before the ranks' own output reaches the log.
    reasons = [each for each in reasons if groups or not _precedes(crash, each, merged)]
    # What costs speed alone ends no process, where an error stands beside it.
    return min(reasons, key=lambda each: (each.severity is not Severity.ERROR, each.stage), default=None)


_ENDS = frozenset({"rank-ended", "process-crashed"})
"""What is said of a rank's end."""


_ABORTS_NCCL = "watchdog-timeout"
"""What aborts communicators: its own words come before what the program then gets."""


def _by_others(signature: Signature, merged: Mapping[str, Found], first: frozenset[str]) -> bool:
    """Whether it is an effect that only others speak of than the ranks that failed first."""
    who = speakers(merged[signature.name])
    return bool(signature.stage >= Stage.FAILURE and first and who and not who & first)


def _cause_of(name: str, merged: Mapping[str, Found], job: _Job) -> Signature | None:
    """The found signature of which this one is a sequel; None where it stands for itself."""
    aborted, first = job.aborted, job.first
    mine = SIGNATURES[name]
    others = [SIGNATURES[other] for other in merged if other != name]
    if first and name in _ENDS:
        others = [each for each in others if not _by_others(each, merged, first) and each.name not in _FOLLOWS]
    elif name in TOLD_BY_PEERS and _by_others(mine, merged, first) and (ended := _ENDS & merged.keys()):
        return SIGNATURES[min(ended)]
    elif name == "killed-by-launcher" and first and "rank-ended" in merged:
        return SIGNATURES["rank-ended"]
    if _ABORTS_NCCL in merged and "nccl-error" in merged and only_aborted(merged["nccl-error"]):
        if name == "nccl-error":
            return SIGNATURES[_ABORTS_NCCL]
        others = [each for each in others if each.name != "nccl-error"]
    # What is no fault on a single node ended nothing there. What stands beside it is another word for it.
    others = [each for each in others if not (job.one_node and each.between_nodes and each.stage != mine.stage)]
    others = [each for each in others if (each.name, name) not in job.elsewhere]
    # Nor is that which others say of a rank that had failed before the reason why it did.
    others = [each for each in others if not failed_before(mine, each, merged, first)]
    if aborted and name == "process-crashed":
        return aborted
    if aborted:
        others = [each for each in others if each.name != "process-crashed"]
    unexplained = name == "job-cancelled" and not any(
        "why" in dict(each) for _, hit in merged[name] for each in hit.groups
    )
    causes = [
        other
        for other in others
        if failed_before(other, mine, merged, first)
        or (name in other.explains and not _precedes(mine, other, merged))
        or (name in other.later and first_line(merged[other.name]) < first_line(merged[name]))
        # Somebody ended a job after it had failed already.
        or (
            unexplained
            and other.stage < Stage.CRASH
            and other.severity is not Severity.NOTE
            and first_line(merged[other.name]) < first_line(merged[name])
        )
        or _waited_for(other, mine, merged)
        # A last resort names who reports; whoever knows what happened stands before it.
        or (mine.last and not other.last and other.stage <= mine.stage and other.severity is not Severity.NOTE)
        or (
            mine.stage >= Stage.CRASH
            and other.stage < mine.stage
            and other.name not in mine.explains
            and other.severity is not Severity.NOTE
            and not _waited_for(mine, other, merged)
        )
    ]
    return min(causes, key=lambda each: each.stage, default=None)


_WAITS = frozenset({"rendezvous-timeout", "master-unreachable", "store-lost"})
"""What ranks say that wait for one that never came."""


def _waited_for(cause: Signature, waits: Signature, merged: Mapping[str, Found]) -> bool:
    """Whether a program had ended by that before others gave up waiting for it."""
    return (
        waits.name in _WAITS
        and cause.severity is Severity.ERROR
        and Stage.PROGRAM <= cause.stage <= Stage.CRASH
        and first_line(merged[cause.name]) < first_line(merged[waits.name])
    )


def _precedes(mine: Signature, effect: Signature, merged: Mapping[str, Found]) -> bool:
    """Whether a crash that may be the sequel of an effect stands before it in a log: then it is none."""
    if effect.stage < Stage.EFFECT or mine.stage != Stage.CRASH:
        return False
    firsts = {source: hit.lines[0][0] for source, hit in merged[effect.name] if hit.lines}
    return any(hit.lines[0][0] < firsts.get(source, 0) for source, hit in merged[mine.name] if hit.lines)


_LACKING = frozenset({"ib-devices-missing", "efa-missing"})
"""What a job does without, though it is broken."""


_ASKED = re.compile(
    r"provider efa output empty list|No IB devices found|did not detect devices|Unable to find the Infiniband/RoCE"
    r"|couldn't load driver.{0,200}symbol",
    re.IGNORECASE,
)
"""What tools answer to somebody who looks for RDMA devices, or a driver of theirs that is there and does not fit."""


def _warns(found: Found) -> bool:
    """Whether NCCL itself calls it a warning, or a tool that was asked finds none."""
    return any("NCCL WARN" in text or _ASKED.search(text) for _, hit in found for _, text in hit.lines)


def _finding(signature: Signature, found: Found, cause: Signature | None, *, one_node: bool, survived: bool) -> Finding:
    title = _title(signature, found)
    if survived:
        title += WENT_ON
    passed = survived or (one_node and signature.between_nodes)
    # NCCL goes on without a device of which it warns, and the next job over hosts is slower by that.
    # Of EFA that alone counts between hosts: one host has other ways.
    between = signature.name in _LACKING and not (one_node and signature.name == "efa-missing")
    warned = cause is None and passed and between and _warns(found)
    light = (cause is not None or passed) and not warned
    proof = Proof(instruction=f"confirm: {signature.confirm}")
    return Finding(
        signature.name,
        Severity.NOTE if light else Severity.WARNING if warned else signature.severity,
        f"follows from {cause.name}: {title}" if cause else title,
        tuple(_evidence(found)),
        Cost(signature.cost),
        signature.cure,
        proof,
        stage=signature.stage,
        known=f"{signature.versions}; {signature.source}",
    )


def _title(signature: Signature, found: Found) -> str:
    groups = _groups(found)
    if signature.tell is not None:
        return clean(signature.tell(groups))
    values: defaultdict[str, str] = defaultdict(lambda: "?")
    for each in groups:
        for name, text in each.items():
            values.setdefault(name, shortened(clean(text), 80))
    title = signature.title.format_map(values)
    # What no line names is left out.
    return re.sub(r":? (?:\((?:Xid )?\?\)|\?$)|, (?:Xid )?\?(?=\))", "", title)


def _evidence(found: Found) -> Iterator[Evidence]:
    shown = [(source, line, text) for source, hit in found for line, text in hit.lines][:MAX_EVIDENCE]
    for source, line, text in shown:
        yield Evidence(shortened(clean(text), MAX_TEXT), source, line)
    count = sum(hit.count for _, hit in found)
    who = list(dict.fromkeys(each for _, hit in found for each in hit.who))
    if count > len(shown) or len(who) > 1:
        names = f": {', '.join(map(clean, who[:8]))}{' ...' if len(who) > 8 else ''}" if who else ""
        yield Evidence(f"{count} such lines{names}", found[0][0] if len(found) == 1 else f"{len(found)} logs")
