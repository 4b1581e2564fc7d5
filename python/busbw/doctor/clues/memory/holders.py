"""Clues of memory that is full because somebody else's process holds it: which, whose, and which GPUs are free."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_LEAST_MIB, _FREE_MIB, _OF_HOST = 2048, 1024, 1000
"""What a holder has at least; what a free GPU has at most; numbers of processes in a container are below this."""
_ROWS = (
    # The list below the table of `nvidia-smi`, with and without the columns of MIG.
    re.compile(
        r"^\|\s{1,8}(?P<gpu>\d{1,3})\s{1,8}(?:(?:N/A|\d{1,3})\s{1,8}(?:N/A|\d{1,3})\s{1,16})?(?P<pid>\d{2,9})\s{1,8}"
        r"(?:C|C\+G|M\+C)\s{1,8}(?P<name>\S[^|\n]{0,80}?)\s{1,60}(?P<much>\d{3,7})MiB \|",
        re.MULTILINE,
    ),
    # `nvidia-smi --query-compute-apps=[gpu_uuid,]pid,[process_name,]used_memory --format=csv`.
    re.compile(
        r"^(?:[\w:.-]{8,60}, )?(?P<pid>\d{2,9}), (?:(?P<name>[^,\n]{1,120}), )?(?P<much>\d{3,7}) MiB\s*$", re.MULTILINE
    ),
    # `nvidia-smi pmon -s m` (or um), with the memory in MB behind the type or behind the load.
    re.compile(
        r"^\s{2,8}(?P<gpu>\d{1,3})\s{2,12}(?P<pid>\d{2,9})\s{1,8}(?:C|C\+G)\s{1,10}(?:(?:\d{1,3}|-)\s{1,8}){0,6}?"
        r"(?P<much>\d{4,7})\s{1,10}(?:(?:\d{1,7}|-)\s{1,8}){0,2}(?P<name>[A-Za-z/]\S{0,80})\s*$",
        re.MULTILINE,
    ),
    # gpustat -up.
    re.compile(
        r"^(?=[^\n]{0,60}\[(?P<gpu>\d{1,3})\] [^|\n]{3,60}\|)[^\n]{20,300}?[| ](?P<user>[a-z][\w.-]{0,31})"
        r"(?::[\w.-]{1,32})?/(?P<pid>\d{2,9})\((?P<much>\d{3,7})M\)",
        re.MULTILINE,
    ),
)
_OPEN = (
    # `fuser -v /dev/nvidia*`.
    re.compile(
        r"^/dev/nvidia(?P<gpu>\d{1,3}):\s{1,12}(?P<user>[a-z][\w.-]{0,31})\s{1,12}(?P<pid>\d{2,9})\s{1,4}[.\w]{3,8}\s{1,4}"
        r"(?P<name>\S{2,60})",
        re.MULTILINE,
    ),
    # `nvidia-smi pmon` without memory.
    re.compile(
        r"^\s{2,8}(?P<gpu>\d{1,3})\s{2,12}(?P<pid>\d{2,9})\s{1,8}C\s{1,10}(?:(?:\d{1,3}|-)\s{1,8}){2,6}"
        r"(?P<name>[A-Za-z/]\S{0,80})\s*$",
        re.MULTILINE,
    ),
)
"""Rows of processes that use a GPU, without what they hold."""
_CARD = re.compile(
    r"^\|\s{1,4}(?P<gpu>\d{1,3})\s{1,4}[A-Z][^|\n]{3,60}\|[^|\n]{10,60}\|[^|\n]{3,60}\|\s*\n"
    r"\|[^|\n]{3,80}\|\s{0,12}(?P<used>\d{1,7})MiB / \s{0,8}(?P<total>\d{3,7})MiB \|",
    re.MULTILINE,
)
_ON_GPU = re.compile(r"\bGPU (?P<gpu>\d{1,3})\b")
_HOME = re.compile(r"(?<![\w.])/(?:home|users)/(?P<user>[a-z][\w.-]{1,31})/")
_PROGRAM = re.compile(r"(?:[\w./-]{1,120}/)?(?P<script>[\w-]{2,60}\.(?:py|sh))\b|-m (?P<module>[\w.]{2,80})")
_SYSTEM = frozenset({"root", "pid", "user"})


@dataclass(frozen=True, slots=True)
class _Holder:
    """A process that holds memory of a GPU; "" where nothing tells a part of it."""

    gpu: str
    pid: str
    much: int
    name: str
    user: str
    seen: Evidence


def held_by_another(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The memory is held by a process that is none of the job's, as commands beside the error show it."""
    holders = list(_holders(texts))
    said = _ON_GPU.search(finding.title)
    wanted = [each for each in holders if not said or each.gpu in ("", said["gpu"])] or (holders if not said else [])
    if not wanted:
        return None
    holder = max(wanted, key=lambda each: each.much)
    cards = {found["gpu"]: found for text in texts for found in _CARD.finditer(text.text)}
    user, command, seen = _process(holder, texts)
    if not _is_other(holder, user, command, texts, alone=len({each.gpu for each in holders}) < len(cards)):
        return None
    card = cards.get(holder.gpu)
    where = f"GPU {holder.gpu}" if holder.gpu else f"GPU {said['gpu']}" if said else "a GPU"
    of = f" of its {card['total']}" if card else ""
    much = f"{holder.much}{of} MiB" if holder.much else "memory there"
    who = f"{named(command or holder.name or 'a process', 60)} (pid {holder.pid}{f', user {user}' if user else ''})"
    free = sorted((gpu for gpu, found in cards.items() if int(found["used"]) < _FREE_MIB), key=int)
    take = "take GPUs that are free"
    if free:
        take += f": CUDA_VISIBLE_DEVICES={','.join(free[:16])}, with {len(free)} rank{'s' * (len(free) > 1)}"
    ask = f"ask {user} whether it may end" if user and user not in _SYSTEM else "end it where it is yours"
    return Sharper(
        f"{where} is full, as a process that is none of this job holds {much}: {who}",
        f"{take}. Or wait for that process, or {ask} (kill {holder.pid}). Where people share a host, let a scheduler "
        "give GPUs out, or look by nvidia-smi before each start. Smaller batches, settings of the allocator and NCCL's "
        "buffers do not help",
        (holder.seen, *seen),
    )


def _holders(texts: Sequence[Text]) -> Iterator[_Holder]:
    for text in texts:
        for words in (*_ROWS, *_OPEN):
            for found in words.finditer(text.text):
                told = {"much": "0", **found.groupdict()}
                if words in _OPEN or int(told["much"] or 0) >= _LEAST_MIB:
                    yield _Holder(
                        *(
                            told.get("gpu") or "",
                            found["pid"],
                            int(told["much"] or 0),
                            (told.get("name") or "").strip(),
                        ),
                        told.get("user") or "",
                        text.evidence(found.start("pid")),
                    )


def _process(holder: _Holder, texts: Sequence[Text]) -> tuple[str, str, tuple[Evidence, ...]]:
    """The user and the command of that process, as `ps`, `top` or `fuser -v` tell them."""
    row = re.compile(
        rf"^(?:/dev/nvidia\d{{1,3}}:)?\s{{0,20}}(?:(?P<user>[a-z][\w.+-]{{0,31}})\s{{1,20}}{holder.pid}"
        rf"|{holder.pid}\s{{1,20}}(?:\d{{1,9}}\s{{1,12}})?(?P<user_>[a-z][\w.+-]{{0,31}}))(?=\s)(?P<rest>[^\n]{{0,300}})",
        re.MULTILINE,
    )
    for text in texts:
        if (found := row.search(text.text)) is not None:
            command = _without_times(found["rest"]).strip()
            return found["user"] or found["user_"], command, (text.evidence(found.start("rest")),)
    return holder.user, "", ()


def _without_times(rest: str) -> str:
    """The row's end behind its last time or state: where its command stands."""
    return _LAST_TIME.sub("", rest)


_LAST_TIME = re.compile(
    r"^.{0,120}(?:\d?\d:\d\d(?::\d\d|\.\d\d)?|\s[RSDZT][sl+<NL]{0,4}|[F.]{3,6}m?)(?=\s)(?: 20\d\d\b)?"
)


def _is_other(holder: _Holder, user: str, command: str, texts: Sequence[Text], *, alone: bool) -> bool:
    """Whether it is none of the job's: by its number, its user, its program, or as it fills this GPU alone."""
    mine = re.compile(
        rf":{holder.pid}:\d{{1,9}} \[|\bpid[=: ]{{1,2}}{holder.pid}\b|\bPid\s{{1,6}}{holder.pid} on|\[{holder.pid}\]"
    )
    own = re.compile(r"^[^\n:]{0,80}:(\d{2,9}):\d{2,9} \[\d|\(pid: (\d{2,9})\)", re.MULTILINE)
    if any(mine.search(text.text) for text in texts):
        return False
    homes = {found["user"] for text in texts for found in _HOME.finditer(text.text)} - {user}
    others = {found["user"] for text in texts for found in _HOME.finditer(text.text)}
    if user and user not in _SYSTEM and homes and user not in others:
        return True
    if (program := _PROGRAM.search(command)) is not None:
        words = program["script"] or program["module"]
        return sum(text.text.count(words) for text in texts) == sum(
            line.count(words) for text in texts for line in text.text.split("\n") if holder.pid in line
        )
    known = [int(next(filter(None, each))) for text in texts for each in own.findall(text.text)[:64]]
    # Numbers of a container's processes are not those of its host.
    return alone and bool(known) and min(known) > _OF_HOST
