"""Stacks that somebody took of ranks that stand still: most wait in a collective, and one is at something else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.lines.speakers import rank_of
from busbw.doctor.shown_texts import Text, named

_HEAD = re.compile(
    r"^.{0,60}?(?:\bProcess (?P<pid>\d{1,9}): |(?P<thread>\bThread 0x[0-9a-fA-F]{1,16} (?:\(\w{1,12}\)|\[))"
    r"|\bThread \d{1,9} \(\w{1,12}\)|(?:Current thread|Thread) 0x[0-9a-f]{1,16}.{0,80}\(most recent call first\))"
)
"""How py-spy begins what it tells of a process and of a thread, and faulthandler what it tells of a thread."""
_FRAME = re.compile(
    r"^.{0,24}?\s{2,12}(?P<name>[\w<>.]{1,80}) \((?P<file>[^()\n:]{1,200}):(?P<line>\d{1,7})\)"
    r'|^.{0,24}?\s{2}File "(?P<path>[^"\n]{1,300})", line (?P<at>\d{1,7}) in (?P<call>[\w<>.]{1,80})'
)
_SIDE = re.compile(r"_bootstrap_inner|_worker_loop|_pin_memory_loop|\b_feed\b")
"""Threads beside the main one, and workers of a data loader: they wait in every healthy job."""
_COLLECTIVE = re.compile(
    r"^(?:barrier|monitored_barrier|all_?reduce|_?all_gather\w*|reduce_scatter\w*|broadcast\w*|all_to_all\w*) "
    r".{0,200}(?:distributed_c10d|c10d_logger|comm/torch|torch_dist|_functional_collectives)"
)
_RANK = re.compile(r"--(?:local[-_])?rank[= ](\d{1,6})\b|\brank\W{0,3}(\d{1,6})\b", re.IGNORECASE)
_USE = re.compile(
    r"^nvidia-smi says of GPU (?P<gpu>\d{1,3}): [^\n]{0,200}?\butilization\.gpu[^:\n]{0,6}: (?P<use>\d{1,3})\b",
    re.MULTILINE,
)
"""As the lists of nvidia-smi are read."""
_MOST, _FAR, _BUSY, _IDLE = 20_000, 3, 90, 5


@dataclass(frozen=True, slots=True)
class _Kind:
    words: re.Pattern[str]
    does: str
    cure: str


_KINDS = tuple(
    _Kind(re.compile(words), does, cure)
    for words, does, cure in (
        (
            r"dataloader\.py|\b(?:_next_data|_try_get_data|_get_data|_chunk_iterator) |/data/\w{0,20}iterators?\.py"
            r"|\b(?:get|load|next|fetch)_batch |\bwebdataset/|\bstreaming/|datasets/iterable_dataset\.py"
            r"|_utils/fetch\.py",
            "waits for its data",
            "look why its data loader gives nothing: py-spy dump --pid of its workers (ps --ppid PID) shows it. A "
            "worker was killed (dmesg), storage does not answer, or a fork took a lock with it. Try num_workers=0 or "
            'multiprocessing_context="spawn"; DataLoader(timeout=...) makes it an error. NCCL only waits',
        ),
        (
            r"\b_?(?:torch_|async_)?save\w{0,40} |\bwrite_data ",
            "saves a checkpoint",
            "look at the storage that it writes to (df, dmesg, a write by dd): a write may hang there. Save in shards "
            "from all ranks, or in the background (torch.distributed.checkpoint async_save)",
        ),
        (
            r"\b(?:load_checkpoint|load_state_dict|torch_load|from_pretrained|load_weights|safetensors_\w{1,30}) ",
            "loads weights or a checkpoint",
            "look at the storage that it reads from: compare how fast the nodes read one file, or use local disks",
        ),
        (
            r"_inductor/|_dynamo/|triton/(?:compiler|runtime)|cpp_extension\.py|file_baton\.py",
            "compiles, or waits for who does",
            "remove stale lock files of its cache, keep the cache on a local disk, and compile on all ranks at once",
        ),
        (
            r"\b(?:evaluat\w{1,20}|validat\w{1,20}|predict\w{0,20}|run_eval\w{0,20}|test_epoch|compute_metrics) ",
            "evaluates",
            "evaluate on all ranks with the same number of batches, or let the others wait in a barrier with a longer "
            "time",
        ),
    )
)


@dataclass(slots=True)
class _Stack:
    """One thread's stack: whose it is, where it stands in the log, and its frames as `name (file:line)`."""

    pid: str
    rank: str
    at: int
    named: bool = False
    frames: list[tuple[str, int]] = field(default_factory=list)


def stacks_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The stack of one process tells what it does while others stand in a collective."""
    for text in texts:
        if "MainThread" not in text.text and "most recent call first" not in text.text:
            continue
        waits: list[tuple[_Stack, str, int]] = []
        busy: list[tuple[_Stack, _Kind, str, int]] = []
        for stack in _main(list(_stacks(text.text))):
            inner = next(((said, at) for said, at in stack.frames if _COLLECTIVE.match(said)), None)
            if inner is not None:
                waits.append((stack, *inner))
            elif (found := _does(stack)) is not None:
                busy.append((stack, *found))
        if waits and busy and len({stack.pid or stack.at for stack, *_ in busy}) <= len(waits):
            return _told(finding, text, waits[0], busy[0])
    return None


def _told(
    finding: Finding, text: Text, waits: tuple[_Stack, str, int], busy: tuple[_Stack, _Kind, str, int]
) -> Sharper:
    stack, kind, frame, at = busy
    who = f"rank {stack.rank}" if stack.rank else f"process {stack.pid}" if stack.pid else "one rank"
    idle, seen = _idle(text)
    what = "" if finding.title.startswith("a stack shows") else f": {named(finding.title, 120)}"
    return Sharper(
        f"{who} {kind.does} ({named(frame, 70)}){idle}, while others stand in {waits[1].partition(' ')[0]} and wait "
        f"for it{what}",
        kind.cure,
        (text.evidence(at), text.evidence(waits[2]), *seen),
    )


def _idle(text: Text) -> tuple[str, tuple[Evidence, ...]]:
    """The only GPU that does nothing while the others are busy: a rank in a collective lets its GPU turn."""
    uses = [(found["gpu"], int(found["use"]), found.start()) for found in islice(_USE.finditer(text.text), _MOST)]
    idle = [(gpu, at) for gpu, use, at in uses if use <= _IDLE]
    if len(idle) != 1 or len(uses) < 2 or any(_IDLE < use < _BUSY for _, use, _ in uses):
        return "", ()
    return f"; GPU {idle[0][0]} is idle", (text.evidence(idle[0][1]),)


def _does(stack: _Stack) -> tuple[_Kind, str, int] | None:
    """What the thread is at, by its innermost frame that tells it."""
    for said, at in stack.frames:
        for kind in _KINDS:
            if kind.words.search(said):
                return kind, said, at
    return None


def _main(stacks: list[_Stack]) -> Iterator[_Stack]:
    """The stacks of main threads: those that py-spy names so, else those that no thread's start stands under."""
    for each in stacks:
        if each.named or not (
            any(_SIDE.search(said) for said, _ in each.frames)
            or any(other.named and other.pid == each.pid for other in stacks)
        ):
            yield each


def _stacks(text: str) -> Iterator[_Stack]:
    pid = rank = ""
    stack: _Stack | None = None
    at, before = 0, [""] * _FAR
    for line in islice(text.split("\n"), _MOST):
        if head := _HEAD.search(line[:300]):
            if stack is not None and stack.frames:
                yield stack
            if head["pid"]:
                pid, stack = head["pid"], None
                found = _RANK.search(line) or next((each for each in map(_RANK.search, before) if each), None)
                rank = (found[1] or found[2]) if found else ""
            else:
                stack = _Stack(pid, rank or rank_of(line), at, "MainThread" in line)
        elif stack is not None and (frame := _FRAME.match(line[:500])):
            where = f"{frame['file']}:{frame['line']}" if frame["name"] else f"{frame['path']}:{frame['at']}"
            stack.frames.append((f"{frame['name'] or frame['call']} ({where})", at))
        before = [*before[1:], line[:200]]
        at += len(line) + 1
    if stack is not None and stack.frames:
        yield stack
