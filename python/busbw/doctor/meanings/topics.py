"""What an error that no signature knows is about: told by the parts of the system that its words name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.lines.excuse import is_handled
from busbw.doctor.lines.kernel_lines import is_of_driver
from busbw.doctor.lines.scanned import Scan
from busbw.doctor.lines.speakers import named_rank, speaker
from busbw.doctor.lines.stored import of_store, without_addresses
from busbw.doctor.lines.trouble import LOGGERS, is_said_error
from busbw.doctor.meanings.advice import BY_NAMES, OF_MPI, mpi_advice
from busbw.doctor.meanings.codes import code_in
from busbw.doctor.meanings.sentences import meant
from busbw.doctor.meanings.topic_rows import TOPICS
from busbw.doctor.signature import Stage
from busbw.doctor.signatures import SIGNATURES

MAX_TITLE, MAX_LOOK = 160, 600
_DULL = re.compile(
    r"NCCL INFO|^(?:\d{1,6}: )?(?:\[\w{1,12}\]:? ?)?(?:Exception raised from |frame #\d{1,4}: )|^\W*not found\W*$"
    r"|help / error messages"
    r"|(?<!NCCL)(?:^|[^\w<])(?-i:WARN|INFO)\W|(?<=\[)(?:warn|warning|info)\]|^\W{0,3}(?:warn|warning|info) ?[:|]",
    re.IGNORECASE,
)
"""Lines with a word of an error that tell of none: choices, what a level calls less than an error."""
_COUNTS = re.compile(r"(?:=|: |(?<=s):|(?<=err):) *(?:0|no|none|n/a|false|disabled|not supported)\W*$", re.IGNORECASE)
"""A counter or choice of which there is none; the sentence of an exception may end like one."""
_RAISED = re.compile(r"(?:^|[\s\]>|.])[A-Z]\w{0,40}(?:Error|Exception): \w[^=:]{20}")


def is_dull(text: str) -> bool:
    """Whether a line with a word of an error tells of none."""
    return _DULL.search(text) is not None or (_COUNTS.search(text) is not None and not _RAISED.search(text[:MAX_LOOK]))


def guessed(scans: Sequence[Scan], findings: Sequence[Finding]) -> Finding | None:
    """What the nearest to a cause of the unknown errors is about, where no finding tells a cause."""
    loud = [each for each in findings if each.severity is not Severity.NOTE]
    if any(each.name not in _EMPTY | _WAITING and each.stage < Stage.EFFECT for each in _reasons(loud)):
        return None
    loud = _reasons(loud)
    effects = {each.name for each in loud if each.name not in _EMPTY}
    found = list(_before(scans, effects) if effects else _found(scans))
    if not loud:
        found = found or list(_hinted(scans)) or list(_unknown(scans)) or list(_cut_off(scans))
        found = found or list(_retried(scans)) or list(_stuck(scans))
    elif all(each.name in _ENDS for each in loud):
        found = found or list(_unknown(scans, _OF_ENDS)) or list(_hinted(scans))
    if not found:
        return None
    nearest = min(found, key=lambda each: each.stage)
    # What only says that something ended does not stand before what ended it.
    return replace(nearest, severity=Severity.ERROR, stage=min(nearest.stage, Stage.PROGRAM)) if loud else nearest


def _reasons(loud: Sequence[Finding]) -> list[Finding]:
    """Without what only costs time, where the job failed: a slow way of the network ends no program."""
    failed = any(each.severity is Severity.ERROR and each.stage >= Stage.CRASH for each in loud)
    costs = {each.name for each in loud if each.severity is Severity.WARNING and each.name not in _OF_LOGS}
    return [each for each in loud if not (failed and each.name in costs)]


_OF_LOGS = frozenset({*SIGNATURES, "nccl-warnings"})
"""What lines of a log say went wrong; the other findings weigh what a job ran on, and with."""
_WAITING = frozenset({"init-incomplete"})
"""These say that ranks wait: what ended a program before is why."""
_EMPTY = frozenset({"killed-by-launcher", "process-crashed", "job-cancelled"})
"""These say that something ended, and nothing of why."""
_ENDS = _EMPTY - {"job-cancelled"} | {"rank-ended"}
"""Beside these the first error is told too, whatever its words: it is nearer to the cause than they are."""


_OF_END = re.compile(
    r"cancel|shut(?:ting)? ?down|closed|disconnect|destroy|finali[sz]|tear|leak|terminat|unregister|deregister|\bexit"
    r"|^\W{0,40}Exception in thread",
    re.IGNORECASE,
)
"""What is said of parts of a program that end."""


def _is_of_end(scan: Scan, line: int, text: str) -> bool:
    """Whether the job's work was done before, and the line only tells that its parts end."""
    return scan.course.had_ended(scan.alive, line) and _OF_END.search(text[:MAX_LOOK]) is not None


def _came_through(scan: Scan, line: int, text: str) -> bool:
    """Whether the job went on after the same line before, or the line says that it does without, or is tried again."""
    if _tried_again(scan, line):
        return True
    on = max(scan.alive, scan.course.whole)
    shape = text.translate(_DIGITS)
    return on > 0 and (
        is_handled(text[:MAX_LOOK]) or any(at < on and said.translate(_DIGITS) == shape for at, said in scan.strange)
    )


_DIGITS = str.maketrans("", "", "0123456789")


def _found(scans: Sequence[Scan]) -> Iterator[Finding]:
    for scan in scans:
        for line, text in scan.strange:
            if _is_of_end(scan, line, text) or _came_through(scan, line, text):
                continue
            if line > max(scan.alive, scan.course.whole) and not is_dull(text) and (name := topic(text)):
                yield _finding(name, text, Evidence(shortened(clean(text), 200), scan.source, line))


def _hinted(scans: Sequence[Scan]) -> Iterator[Finding]:
    """By words that may be of an error, in a log in which nothing ever went on."""
    for scan in scans:
        for line, text in () if scan.alive or scan.course.whole else scan.odd:
            if name := topic(text) or _of_writer(scan, text):
                yield _finding(name, text, Evidence(shortened(clean(text), 200), scan.source, line))


UNKNOWN = "unknown-error"
_STAMP = re.compile(r"\b(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?!\d)")


_OF_ENDS = re.compile(
    r"exit(?:ed|code| ?code| status)|non-zero|\.\w{1,4} FAILED\W*$|terminat|\bsignals?\b|kill|abort|shut|\bstop"
    r"|elastic/|container failed|root cause|failures?:\W*$|encountered an? \w{0,12} ?(?:error|exception)\W*$",
    re.IGNORECASE,
)
"""Lines of those who end a job's other processes, or report that one ended."""
_OF_OTHERS = re.compile(_OF_ENDS.pattern + r"|\bpeer\b|remote|connection", re.IGNORECASE)
"""Lines of those who lost others, too."""
_TIMED_OUT = re.compile(r"time[sd]? ?out|timeout|timing out|deadline", re.IGNORECASE)
_OF_RANKS = re.compile(
    r"\b[nrhm]?ccl|gloo|c10d|\bstore\b|rendezvous|rdzv|\branks?\b|collective|all_?(?:reduce|gather|to)|barrier"
    r"|broadcast|reduce_?scatter|watchdog|heartbeat|\bpairs?\b|\bwait"
    r"|\bworkers?\b|socket|\brpc\b|handshake|process ?group|\bengine|scheduler|coordinat",
    re.IGNORECASE,
)
"""What ranks wait for each other in: where that times out, another one may be the cause."""


def _waits(text: str) -> bool:
    """Whether a line may only tell that somebody waits for others, or lost them."""
    return bool(_OF_OTHERS.search(text) or (_TIMED_OUT.search(text) and _OF_RANKS.search(text)))


def _unknown(scans: Sequence[Scan], dull: re.Pattern[str] = _DULL) -> Iterator[Finding]:
    """The first line that speaks of an error, where nothing at all says what it is about."""
    for scan in scans:
        for line, text in scan.strange:
            if dull.search(text) or _is_of_end(scan, line, text) or _came_through(scan, line, text):
                continue
            thrown = _THROWN.search(text[:MAX_LOOK]) is not None
            # After a sign of life an error of some helper may be nothing; what ends a program is never that.
            if is_dull(text):
                continue
            if line > max(scan.alive, scan.course.whole) and not scan.ended and (thrown or not scan.alive):
                seen, name = Evidence(shortened(clean(text), 200), scan.source, line), _of_writer(scan, text)
                yield _finding(name, text, seen) if name else _first_unknown(text, seen)
                break


_CHECKED = {"perftest": "ibv-call-failed", "dcgm": "health-check", "gpud": "health-check"}


_CHOICE = re.compile(
    r"\b(?:only|requires?|incompatible|must|should be|out of range|please (?:choose|provide|check command)|invalid"
    r"|does(?: not|n't) support|not (?:possible|supported|available)|(?:isn|doesn)'t (?:support|work))\b|--\w",
    re.IGNORECASE,
)
"""What a program says of options that do not go together."""


def _of_writer(scan: Scan, text: str) -> str | None:
    """What is checked by the program that printed the log, where it says that it is one of those."""
    if scan.kinds.get("perftest") and _CHOICE.search(text[:MAX_LOOK]):
        return "bad-arguments"
    return next((name for writer, name in _CHECKED.items() if scan.kinds.get(writer)), None)


def _tried_again(scan: Scan, line: int) -> bool:
    """Whether its program tried again behind that line, and came on or is at it no more."""
    return scan.course.tried_again(line) and (line < max(scan.alive, scan.course.done) or not scan.retried[0])


def _cut_off(scans: Sequence[Scan]) -> Iterator[Finding]:
    """A log that ends within a traceback: a program failed, and of what is cut off."""
    for scan in scans:
        line, text = scan.thrown
        if line:
            found = _first_unknown(text, Evidence(shortened(clean(text), 200), scan.source, line))
            yield replace(found, title="the log ends within a traceback, before the exception that it is of")


def _retried(scans: Sequence[Scan]) -> Iterator[Finding]:
    """A log that ends while something that failed is tried again."""
    for scan in scans:
        line, text = scan.retried
        if (
            line
            and line > max(scan.alive, scan.course.whole)
            and not scan.ended
            and scan.lines - line < NEAR
            and not LOGGERS.search(text)
        ):
            seen, name = Evidence(shortened(clean(text), 200), scan.source, line), topic(text)
            found = _finding(name, text, seen) if name else _first_unknown(text, seen)
            title = f"something is tried again until the log ends: {shortened(clean(text), MAX_TITLE)}"
            yield replace(found, title=title)


STUCK = "stuck-at-start"
NEAR = 6
"""Lines that other parts of a program may still print while its ranks wait."""


_CAME = re.compile(r"\bworld_size=(\d{1,7}), (?:num_workers_joined|worker_count)=(\d{1,7})\b")


def _stuck(scans: Sequence[Scan]) -> Iterator[Finding]:
    """A log that ends where ranks look for each other."""
    for scan in scans:
        line, text = scan.began
        if line and not scan.alive and not scan.ended and scan.lines - line < NEAR:
            came = _CAME.search(text)
            yield Finding(
                STUCK,
                Severity.WARNING,
                f"the log ends where ranks look for each other{f', and {came[2]} of {came[1]} came' if came else ''}: "
                "unless the log was cut off, one of them never came, or they cannot reach each other",
                (Evidence(shortened(clean(text), 200), scan.source, line),),
                Cost("the job never starts"),
                "see that every rank of every host was started and printed this line. Over hosts name the interface "
                "they share (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME) and open all ports. On one host try "
                "NCCL_P2P_DISABLE=1 (ACS, IOMMU) and a larger /dev/shm",
                Proof(instruction="confirm: NCCL_DEBUG=INFO on all ranks, py-spy dump --pid PID on each that waits"),
                stage=Stage.FAILURE,
            )


_OF_LIBRARIES = frozenset({"nccl-error", "cuda-call-failed", "gloo-error"})
_REFUSED = re.compile(r"\b(?:Type|Value|Key|Attribute|Assertion|Index|Name|NotImplemented|Import)Error: ")
_CHECKED_BY = re.compile(r"\b(?:RuntimeError|Environment\w*|[A-Z]\w{1,40}(?:ConfigurationException|ConfigError)): ")
_LIBRARY_SAYS = re.compile(
    r"\b(?:cuda|nccl|gloo|cublas|cudnn|driver)\w{0,20}[ :]{0,3}(?:runtime |driver )?(?:error|failure|failed"
    r"|returned)|[A-Z]{2,9}_(?:ERROR|STATUS)_"
    r"|cudaError|nccl\w*Error|NCCL WARN|unhandled|initiali|out of memory|\.(?:cc|cpp|cu|h):\d|capab"
    r"|(?-i:\bcu[A-Z]\w+\b)|P2P|peer",
    re.IGNORECASE,
)
"""By which a library itself tells of an error, and not a program of a setting."""


def _first_unknown(text: str, evidence: Evidence) -> Finding:
    who, when = speaker(text) or named_rank(text), _STAMP.search(text[:120])
    first = "".join([f" of {who}" if who else "", f" at {when[0]}" if when else ""])
    return Finding(
        UNKNOWN,
        Severity.WARNING,
        f"an error that no signature knows, the first{first}: {shortened(clean(text), MAX_TITLE)}",
        (evidence,),
        Cost("the job fails or hangs"),
        "start from this line: read what stands before it in that rank's log. Look for its words without names and "
        "numbers in the issues of the program that prints it. What other ranks and launchers say later follows",
        Proof(
            instruction="confirm: the same command with NCCL_DEBUG=INFO and TORCH_DISTRIBUTED_DEBUG=DETAIL, logs of all"
        ),
        stage=Stage.FAILURE,
    )


_THROWN = re.compile(
    r"(?:^|[\s.\]>:|)])[A-Z]\w{0,60}(?:Error|Exception)\b: .{3}|\b(?:panic|fatal(?: error)?)\b: ", re.IGNORECASE
)
"""What ends a program: of less than that nobody knows whether it is why others wait."""


_OF_LIBRARY = re.compile(r"libfabric:\S{0,120}<warn>|\bUC[XC] +(?:ERROR|FATAL)|\bTL_\w{2,8} +ERROR")
"""Who moves the bytes says that something is wrong: beside ends of which nobody tells why, that is nearest."""


def _before(scans: Sequence[Scan], effects: Collection[str]) -> Iterator[Finding]:
    """What ended a program before others said that they wait for it, or lost it."""
    for scan in scans:
        lines = [line for name, hit in scan.hits.items() if name in effects for line, _ in hit.lines]
        first = min(lines, default=scan.lines + 1)
        said = [each for each in scan.odd if is_of_driver(each[1])]
        for line, text in sorted([*scan.strange, *said]):
            if not scan.alive < line < first or is_dull(text):
                continue
            seen, name = Evidence(shortened(clean(text), 200), scan.source, line), topic(text)
            # That something timed out, alone, is what others say of it too.
            known = name is not None and name != "connection-timeout"
            thrown = _THROWN.search(text[:MAX_LOOK]) is not None
            ended = thrown and known and SIGNATURES[str(name)].stage <= Stage.CRASH
            by_mpi = text.startswith(OF_MPI) or _OF_LIBRARY.search(text[:MAX_LOOK])
            if name and known and (ended or by_mpi or is_of_driver(text)):
                yield _finding(name, text, seen)
            elif (thrown or is_said_error(text[:MAX_LOOK]) or code_in(text)) and not _waits(text):
                yield _finding(name, text, seen) if name and known else _first_unknown(text, seen)


def topic(text: str) -> str | None:
    """The signature whose part of the system the line names; None where it names none."""
    bare = without_addresses(text[:MAX_LOOK])
    name = of_store(text[:MAX_LOOK], next((name for words, name in TOPICS if words.search(bare)), None))
    # Python refuses what a program passes, before any library does; a check that only names a library is the program's.
    if name in _OF_LIBRARIES and _REFUSED.search(text[:MAX_LOOK]):
        return "python-exception"
    found = _CHECKED_BY.search(text[:MAX_LOOK]) if name in _OF_LIBRARIES else None
    if found is not None and not _LIBRARY_SAYS.search(text) and meant(text[found.end() :]):
        return "python-exception"
    return name


def _finding(name: str, text: str, evidence: Evidence) -> Finding:
    known = SIGNATURES[name]
    advice = mpi_advice(text)
    return replace(
        Finding(
            name,
            Severity.WARNING,
            shortened(clean(text), MAX_TITLE + 80)
            if text.startswith(OF_MPI)
            else f"{BY_NAMES}{shortened(clean(text), MAX_TITLE)}",
            (evidence,),
            Cost(known.cost),
            f"MPI's own advice: {advice}. Also: {known.cure}" if advice else known.cure,
            Proof(instruction=f"confirm: {known.confirm}"),
        ),
        stage=min(known.stage, Stage.EFFECT),
    )
