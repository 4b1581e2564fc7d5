"""What was read, what was not, and so how much the findings, or their absence, say: silence is never health."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from enum import Enum

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.findings.ranks.nccl_warnings import cut_warning
from busbw.doctor.findings.ranks.p2p_hangs import STANDS
from busbw.doctor.lines.scanned import Scan
from busbw.doctor.meanings.topics import is_dull
from busbw.doctor.of_files import hidden_by_files, shown_by_files, unjudged_machine
from busbw.machine.nccl.log_model import NcclLog

MAX_NOTES = 5
_NOT_SEARCHED = re.compile(r"tables of results|of the lines \d|costs? too much")
"""In a note: where a table may stand that nobody looked for."""
_IN_PART = re.compile(
    r"costs? too much|only the first .{1,40} were read|were searched for heads"
    r"|contradicts? (?:itself|themselves|each other)"
)
"""In notes on what was not read, as it is too large: a fault may stand there."""


class Outcome(Enum):
    """The word of the doctor; its number is the exit code."""

    HEALTHY = 0
    FOUND = 1
    UNKNOWN = 3

    @property
    def text(self) -> str:
        """In words."""
        return {0: "healthy as far as was seen", 1: "faults were found", 3: "cannot judge"}[self.value]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome; `read` says what was examined, `unread` what was not there to examine, a sentence each.

    `seen` says of which jobs a log shows that they went on, and that no fault was found in it.
    """

    outcome: Outcome
    read: tuple[str, ...]
    unread: tuple[str, ...]
    seen: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The outcome in words; beside what was seen it is about what was not."""
        limited = self.outcome is Outcome.UNKNOWN and self.seen
        return f"{self.outcome.text} more than that: see what is unseen" if limited else self.outcome.text


def verdict(facts: Facts, findings: Sequence[Finding]) -> Verdict:
    """Found where a finding is above a note; healthy only where something that tells health was read."""
    read = tuple(_read(facts))
    unread = tuple(_unread(facts, {(seen.where, seen.line) for each in findings for seen in each.evidence}))
    if any(each.severity is not Severity.NOTE for each in findings):
        outcome = Outcome.FOUND
    else:
        healthy = _tells_health(facts) and not any(each.undecided for each in findings)
        outcome = Outcome.HEALTHY if healthy else Outcome.UNKNOWN
    seen = () if outcome is Outcome.FOUND else tuple(filter(None, map(_seen_of, facts.scans)))
    return Verdict(outcome, read, unread, seen)


def _seen_of(scan: Scan) -> str | None:
    """That the job of a log went on, or ended as it should; None where the log shows neither."""
    went_on, ended = scan.course.beats, scan.ended or scan.course.done
    if (not went_on and not ended) or _last_words(scan) or scan.passed_over or _stands_still(scan):
        return None
    if went_on:
        lines = f"{went_on} lines of progress, up to line {scan.alive}" if went_on > 1 else f"line {scan.alive}"
        progress = f"the job went on ({lines})"
        whole = scan.kinds["rows"] and scan.kinds["ends"] >= scan.kinds["headers"]
        if whole and went_on == 1 and not ended:
            progress, as_table = "its benchmark's table is complete", ""  # the table's last line is the one
        else:
            as_table = "; its benchmark's table is complete" if whole else "; the log ends while it goes on"
        end = " and ended as it should" if ended else as_table
    else:
        progress, end = f"the job says in line {ended} that it ended as it should", ""
    return f"{scan.source}: {progress}{end}; no fault was found in it"


def _tells_health(facts: Facts) -> bool:
    """Whether anything was read that a fault would have left its mark on."""
    snapshot = facts.snapshot
    if any(map(_stands_still, facts.scans)) or any(map(cut_warning, facts.logs, facts.scans)):
        return False
    stopped = any(_was_stopped(facts, *each) for each in zip(facts.logs, facts.scans, strict=True))
    if stopped or any(map(_last_words, facts.scans)) or any(each.passed_over for each in facts.scans):
        return False
    in_part = any(map(_IN_PART.search, snapshot.notes))
    if in_part or facts.stranger or any(each.missing for each in facts.expected):
        # Lines that tell health of an init say nothing of the rate.
        return False
    if snapshot.logs:
        # Of several logs one that tells nothing takes nothing from the others; alone it cannot be judged.
        return any(_initialised(log) for log in facts.logs) or _judged_tables(facts)
    if unjudged_machine(facts):
        return False
    seen = facts.machine is not None and bool(facts.machine.gpus)
    return seen or bool(facts.records or any(each.entries for each in facts.confs) or snapshot.graph)


def _initialised(log: NcclLog) -> bool:
    return any(place.complete for each in log.communicators for place in each.ranks)


_BROKEN_OFF = re.compile(r"^\s{0,4}\^C\s{0,3}$|^[^\n]{0,120}\b(?:[Cc]trl-C|SIGINT|KeyboardInterrupt)\b")
_MOST_LINES = 20_000


def _was_stopped(facts: Facts, log: NcclLog, scan: Scan) -> bool:
    """Whether nothing follows the init of a log, and somebody broke off there, or says that it hangs."""
    end = max((place.end for each in log.communicators for place in each.ranks), default=0)
    if not end or scan.alive > end or scan.ended or scan.kinds["steps"] or scan.kinds["rows"]:
        return False
    text = next((each.text for each in facts.snapshot.logs if each.path == log.source), None) or ""
    behind = text.splitlines()[end : end + _MOST_LINES]
    return any(_BROKEN_OFF.search(line[:500]) or STANDS.search(line[:500]) for line in behind if "NCCL" not in line)


def _stands_still(scan: Scan) -> bool:
    """Whether a benchmark's table has rows and no end: it was cut off, or the next size never came back."""
    return bool(scan.kinds["headers"] and scan.kinds["rows"] and not scan.kinds["ends"])


def _last_words(scan: Scan) -> Sequence[tuple[int, str]]:
    """Lines that may be of an error and that no signature knows, behind the last sign that the job went on."""
    kept = [*scan.strange, *scan.odd]
    return [] if scan.ended else [each for each in kept if each[0] > scan.alive and not is_dull(each[1])]


def _judged_tables(facts: Facts) -> bool:
    return any(each.found for each in facts.expected)


def _read(facts: Facts) -> Iterator[str]:
    for log, scan in zip(facts.logs, facts.scans, strict=True):
        parts = [f"{scan.lines - scan.unread} of {scan.lines} lines" if scan.unread else f"{scan.lines} lines"]
        if scan.kinds["nccl"]:
            parts.append(f"{scan.kinds['nccl']} of NCCL")
        parts += [f"of {word}" for word, key in (("PyTorch", "torch"), ("the kernel", "kernel")) if scan.kinds[key]]
        ranks = {(each.id, place.rank) for each in log.communicators for place in each.ranks}
        done = {(each.id, place.rank) for each in log.communicators for place in each.ranks if place.complete}
        if ranks:
            count = len(log.communicators)
            parts.append(f"{count} communicator{'s' * (count > 1)}, init ended on {len(done)} of {len(ranks)} ranks")
        flights = [each for each in facts.flights if each.source == log.source]
        if flights:
            parts.append(f"flight recorder of {len(flights)} rank{'s' * (len(flights) > 1)}")
        yield f"{log.source}: {', '.join(parts)}"
    yield from shown_by_files(facts)
    if facts.records:
        yield f"{len(facts.records)} sweep{'s' * (len(facts.records) > 1)} of a benchmark"
    for basis in list(dict.fromkeys(each.basis for each in facts.expected if each.basis))[:MAX_NOTES]:
        yield f"bandwidth: judged {basis}"


def _unread(facts: Facts, told: Set[tuple[str, int | None]]) -> Iterator[str]:
    dumps = {each.source for each in facts.flights}
    for log, scan in zip(facts.logs, facts.scans, strict=True):
        if log.source not in dumps:
            yield from _unread_log(log, scan, told)
    if len(facts.flights) == 1:
        yield "the flight recorder of the other ranks: one alone tells what its rank did, not who lags"
    if facts.logs and not facts.records:
        in_part = any(map(_NOT_SEARCHED.search, facts.snapshot.notes))
        rest = "no table was found in what was read, and the rest was not searched for one"
        none = rest if in_part else "no table and no record was given"
        yield f"bandwidth: {none}, so nothing says how fast it ran"
    for missing in list(dict.fromkeys(each.missing for each in facts.expected if each.missing))[:MAX_NOTES]:
        yield f"bandwidth: {missing}, so it could not be judged"
    if facts.stranger:
        yield f"what both show together: {facts.stranger}"
    yield from (f"{each.path}: it sets nothing" for each in facts.confs if not each.entries and not facts.snapshot.live)
    yield from _unread_machine(facts)
    yield from facts.snapshot.notes[:MAX_NOTES]
    if len(facts.snapshot.notes) > MAX_NOTES:
        yield f"{len(facts.snapshot.notes) - MAX_NOTES} further files of this kind"


def _unread_machine(facts: Facts) -> Iterator[str]:
    if said := unjudged_machine(facts) or hidden_by_files(facts):
        yield said
    no_gpus = not (facts.machine and facts.machine.gpus)
    if facts.snapshot.live and no_gpus:
        yield "this machine: no GPU was found: neither NVML (pip install nvidia-ml-py) nor nvidia-smi answered"


def _not_looked_at(log: NcclLog, scan: Scan) -> Iterator[str]:
    if scan.cut:
        yield f"{log.source}: what stood behind line {scan.lines}: the packed file was cut off there"
    if scan.passed_over:
        yield f"{log.source}: {scan.passed_over}"


def _unread_log(log: NcclLog, scan: Scan, told: Set[tuple[str, int | None]]) -> Iterator[str]:
    yield from _not_looked_at(log, scan)
    if not scan.lines:
        yield f"{log.source}: it is empty"
    elif not scan.kinds["nccl"]:
        yield (
            f"{log.source}: it holds no line of NCCL, so that nothing tells how GPUs and hosts were joined; run with "
            "NCCL_DEBUG=INFO"
        )
    elif not log.communicators or not any(each.ranks for each in log.communicators):
        part = "what was read of it" if scan.passed_over else "it"
        yield (
            f"{log.source}: no communicator's init is in {part}; give the log from its start, with NCCL_DEBUG=INFO "
            "and not WARN, of all ranks"
        )
    elif _initialised(log) and not scan.kinds["steps"] and not scan.kinds["rows"]:
        yield (
            f"{log.source}: nothing after the init tells that a collective or a step ended: a job that hangs there "
            "looks the same"
        )
    if cut_warning(log, scan):
        yield f"{log.source}:{scan.lines}: the log ends within a warning of NCCL, whose words are cut off"
    if _stands_still(scan):
        yield f"{log.source}: the table's end: it was cut off, or the size after its last row never came back"
    last = [each for each in _last_words(scan) if (log.source, each[0]) not in told]
    if _initialised(log) and last:
        yield (
            f"{log.source}:{last[0][0]}: the last that the log says may be of an error that no signature knows, and "
            f"nothing tells that the job went on: {shortened(clean(last[0][1]), 120)}"
        )
        return
    for line, text in scan.strange[: 0 if scan.hits else 2]:
        yield f"{log.source}:{line} speaks of an error that no signature knows: {shortened(clean(text), 120)}"
    for line, text in scan.odd[: 0 if scan.hits or scan.strange or scan.alive else 2]:
        yield f"{log.source}:{line} may speak of trouble: {shortened(clean(text), 120)}"
    for each in log.communicators:
        if each.ranks and each.nranks and len(each.ranks) < each.nranks:
            yield f"{log.source}: {len(each.ranks)} of {each.nranks} ranks of communicator {each.id} are in it"
            break
