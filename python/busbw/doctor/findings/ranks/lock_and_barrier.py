"""A file lock and a barrier that wait for each other: one rank waits in a collective, others for the lock it holds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.findings.ranks._stale_locks import CURE, left_behind
from busbw.doctor.lines.speakers import rank_of
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

NAME = "lock-and-barrier"
_TIMEOUTS = frozenset({"watchdog-timeout", "rendezvous-timeout", "server-waits"})
_HEAD = re.compile(r"\bThread (?:0x)?[0-9a-fA-F]{1,16}\b[^\n]{0,60}?(?:(?P<main>MainThread)|most recent call|$)")
_PID = re.compile(r"(?:\bProcess|\bdump .{0,20}(?:-p|--pid)[ =]|\bThread|/proc/)\s?(?P<pid>\d{2,9})\b")
_OTHER_THREAD = re.compile(r"threading\.py.{0,20}(?:_bootstrap|run)\b|\b_bootstrap\w* \(threading\.py")
_LOCK = re.compile(
    r"\b_?acquire \(\S{0,80}(?:filelock|fasteners|portalocker)/\w{2,24}\.py:\d"
    r"|\b(?:filelock|fasteners|portalocker)/\w{2,24}\.py\", line \d{1,5},? in (?:_?acquire|lock|__enter__)\b"
    r"|\bfcntl\.(?:flock|lockf)\(|\b(?:locks_lock_inode_wait|__do_sys_flock|fcntl_setlk)\b"
    r"|^#\d{1,3} .{0,40}\b(?:flock|lockf) \("
)
_JOINS = re.compile(
    r"\b(?P<call>(?:monitored_)?barrier|wait_for_everyone|_store_based_barrier|sync_global_devices|MPI_Barrier"
    r"|all_?reduce|all_?gather\w{0,20}|broadcast\w{0,20})\b"
)
_OF_STACK = re.compile(r"\.py:\d{1,6}\)|\bFile \"|^\s{0,8}#\d{1,3} ")
_FRAME = re.compile(
    r"\b(?P<name>\w{1,60}) \((?P<file>[^()\n]{1,200}?\.py):(?P<line>\d{1,6})\)"
    r"|File \"(?P<file2>[^\"\n]{1,300})\", line (?P<line2>\d{1,6}),? in (?P<name2>\w{1,60})"
)
_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|/lib/python3|(?:^|[/\"(])(?:torch|filelock|accelerate|contextlib|fasteners|portalocker"
    r"|megatron/core|deepspeed|mpi4py|transformers|datasets|huggingface_hub)[/.]"
)
_WAITING = re.compile(
    r"\bAttempting to acquire lock (?P<id>\d+) on (?P<a>\S{1,200})"
    r"|\bLock (?P<id2>\d+) not acquired on (?P<b>\S{1,200}?),? "
    r"|[Tt]he file lock '(?P<c>[^'\n]{1,200})' could not be acquired"
    r"|\b(?:waiting|waits) (?:for|on) (?:the )?(?:file ?)?lock\b\W{0,3}(?P<d>\S{0,200})"
)
_TAKEN = re.compile(
    r"\bLock (?P<id>\d+) acquired on (?P<a>\S{1,200})|\b(?:acquired|holds|holding|got|took) (?:the )?(?:file ?)?lock\b"
    r"\W{0,3}(?:on )?(?P<d>\S{0,200})"
)
_GIVEN = re.compile(r"\bLock (?P<id>\d+) released on |\b(?:released?|freed) (?:the )?(?:file ?)?lock\b")
_WORDS = ("filelock/", "fasteners/", "portalocker/", "fcntl.", "lock_inode_wait", "not acquired on", " lock", "flock")


@dataclass
class _Stack:
    """One thread's stack: whose, what it waits for, and the program's own files in it."""

    who: str
    main: bool
    lock: Evidence | None = None
    joins: Evidence | None = None
    call: str = ""
    own: str = ""
    frames: int = 0
    other: bool = False


@dataclass
class _Locks:
    """By rank, the last line that says that it waits for a lock, or holds one."""

    waits: dict[str, tuple[Evidence, str]] = field(default_factory=dict)
    held: dict[str, tuple[Evidence, str]] = field(default_factory=dict)


def examine(facts: Facts) -> Iterator[Finding]:
    alive = {scan.source: scan.alive for scan in facts.scans}
    hits = [hit for scan in facts.scans for name, hit in scan.hits.items() if name in _TIMEOUTS]
    late = {each.get("who", each.get("rank", each.get("lag", ""))) for hit in hits for each in map(dict, hit.groups)}
    for shown in facts.shown:
        if not any(words in line for line in shown.lines for words in _WORDS):
            continue
        stacks, locks = _look(shown)
        found = _of_stacks(stacks, late, shown, timed_out=bool(hits)) or _of_lines(locks, late)
        if found is not None and all((each.line or 0) > alive.get(shown.source, 0) for each in found.evidence[:1]):
            yield found
            return


def _look(shown: Shown) -> tuple[list[_Stack], _Locks]:
    stacks, locks, pid = list[_Stack](), _Locks(), ""
    for number, line in enumerate(shown.lines, 1):
        if named := _PID.search(line):
            pid = named["pid"]
        if "Thread " in line and (head := _HEAD.search(line)):
            rank = rank_of(line)
            who = f"rank {rank}" if rank else f"process {pid}" if pid else ""
            stacks.append(_Stack(who, head["main"] is not None or "most recent call" in line))
        elif _OF_STACK.search(line) or "fcntl." in line or "[<0>]" in line:
            if not stacks or ("[<0>]" in line and pid not in stacks[-1].who):
                stacks.append(_Stack(f"process {pid}" if pid else "", main=True))
            _of_frame(stacks[-1], line, _said(shown, number))
        elif "lock" in line:
            _of_line(locks, line, _said(shown, number))
    return stacks, locks


def _of_frame(stack: _Stack, line: str, said: Evidence) -> None:
    stack.frames += 1
    stack.other = stack.other or _OTHER_THREAD.search(line) is not None
    if stack.lock is None and _LOCK.search(line):
        stack.lock = said
    elif stack.joins is None and stack.lock is None and (found := _JOINS.search(line)):
        stack.joins, stack.call = said, found["call"]
    if not stack.own and (found := _FRAME.search(line)) and not _LIBRARY.search(line):
        file, number, name = (found[key] or found[f"{key}2"] for key in ("file", "line", "name"))
        if not _JOINS.fullmatch(name):
            stack.own = f"{file.rpartition('/')[2]}:{number}"


def _of_line(locks: _Locks, line: str, said: Evidence) -> None:
    if found := _GIVEN.search(line):
        if who := _whose(line, found):
            locks.held.pop(who, None)
            locks.waits.pop(who, None)
    elif found := _TAKEN.search(line):
        if who := _whose(line, found):
            locks.waits.pop(who, None)
            locks.held[who] = said, _file(found)
    elif (found := _WAITING.search(line)) and (who := _whose(line, found)):
        locks.waits[who] = said, _file(found)


def _whose(line: str, found: re.Match[str]) -> str:
    """Who says it: a rank, or the number of the object that stands for the lock in one process."""
    groups = found.groupdict()
    rank, number = rank_of(line), groups.get("id") or groups.get("id2")
    return f"rank {rank}" if rank else f"#{number}" if number else ""


def _file(found: re.Match[str]) -> str:
    return next((text for name, text in found.groupdict().items() if text and not name.startswith("id")), "")


def _said(shown: Shown, number: int) -> Evidence:
    return Evidence(clean(shortened(shown.lines[number - 1].strip(), 160)), shown.source, number)


def _of_stacks(stacks: Sequence[_Stack], late: Collection[str], shown: Shown, *, timed_out: bool) -> Finding | None:
    seen = [each for each in stacks if each.frames and (each.lock or each.joins or (each.main and not each.other))]
    waits = [each for each in seen if each.lock]
    joined = [each for each in seen if each.joins]
    # Somebody who does neither may hold the lock, and works.
    if not waits or len(waits) + len(joined) < len(seen) or not (joined or (timed_out and len(waits) == 1)):
        return None
    where = f" ({waits[0].own})" if waits[0].own else ""
    who, one = _names(waits), len({each.who for each in waits}) < 2
    if (left := left_behind(shown, [each.who for each in waits])) is not None:
        of = f"rank {next(iter(late))} ({who})" if one and len(late) == 1 and next(iter(late)).isdigit() else who
        title = f"{of} wait{'s' * one} for a file lock{where} that no rank holds ({left[0]}), and the others for it"
        return replace(_finding(title, [waits[0].lock, *left[1]]), fix=CURE)
    if not joined:
        return _finding(
            f"{who} waits for a file lock{where}, and others wait for it in a collective: its holder is one of these, "
            "or never gave it back",
            [waits[0].lock],
        )
    holder, call = _names(joined) if len(joined) == 1 else "a rank", joined[0].call
    if holder == "a process":
        holder, who = _known("#", late), "another one" if who == "a process" else who
    there = f" ({joined[0].own})" if joined[0].own else ""
    return _finding(
        f"a file lock and a barrier wait for each other: {holder} holds the lock and waits in {call}{there}, and {who} "
        f"wait{'s' * one} for the lock{where}",
        [waits[0].lock, joined[0].joins],
    )


def _names(stacks: Sequence[_Stack]) -> str:
    names = list(dict.fromkeys(each.who for each in stacks if each.who))
    if len(names) > 3 or not names:
        return f"{len(stacks)} processes" if len(stacks) > 1 else "a process"
    return ", ".join(names)


def _of_lines(locks: _Locks, late: Collection[str]) -> Finding | None:
    """By what ranks say of the lock: one of those whose time was `late` took it, another waits for the same file."""
    for waiting, (said, file) in locks.waits.items():
        for holding, (taken, other) in locks.held.items():
            named = holding.removeprefix("rank ") in late or (holding.startswith("#") and late)
            if not named or holding == waiting or (file and other and file != other):
                continue
            of = f" ({clean(shortened(file or other, 80))})" if file or other else ""
            return _finding(
                f"a file lock and a collective wait for each other: {_known(holding, late)} holds the lock{of} and "
                f"waits for all, and {_known(waiting, ())} waits for the lock",
                [said, taken],
            )
    return None


def _known(who: str, late: Collection[str]) -> str:
    """A rank, as it is or as the only one whose time was over."""
    if not who.startswith("#"):
        return who
    return f"rank {next(iter(late))}" if len(late) == 1 and next(iter(late)) else "a process" if late else "another one"


def _finding(title: str, seen: Sequence[Evidence | None]) -> Finding:
    return Finding(
        NAME, Severity.ERROR, title, tuple(each for each in seen if each is not None),
        Cost("the job hangs until its time is over; a longer time does not help"),
        "give the lock back before the barrier: no collective inside `with FileLock(...)`. Let one rank do the work "
        "(`if rank == 0:`), call dist.barrier() on all ranks after the block, and let the others read then. Where no "
        "rank holds the lock, another job or an ended one does: lslocks or fuser -v FILE names it",
        Proof(instruction="lslocks (fuser -v FILE.lock) names the holder; py-spy dump --pid of it shows the barrier"),
        stage=Stage.PROGRAM,
    )  # fmt: skip
