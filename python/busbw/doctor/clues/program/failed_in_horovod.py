"""Clues of a rank that hands Horovod nothing, since its own program failed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_WAITED_FOR = re.compile(r"^rank (?P<rank>\d{1,6}) never hands (?P<what>\S{1,120}) to Horovod")
_ERROR = (
    r"^\[\d{{1,3}},{rank}\](?:<std(?:err|out)>:)?\s{{0,2}}(?P<error>(?:[A-Za-z_]\w{{0,40}}\.){{0,6}}"
    r"[A-Z]\w{{2,60}}(?:Error|Exception)(?:: [^\n]{{1,300}})?)\s*$"
)
"""The last line of a traceback, with the rank that mpirun or horovodrun puts before it."""
_OF_PEERS = re.compile(r"Horovod has been shut down|HorovodInternalError|UnknownError|ncclRemote|CancelledError")
"""What a rank says of others that ended."""
_DENIED = re.compile(r"[Pp]ermission ?[Dd]enied|Errno 13\b|Read-only file system|Errno 30\b")
_NO_ROOM = re.compile(r"No space left|Errno 28\b|[Qq]uota exceeded")


def failed_itself(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The rank that is waited for ended by an error of its own."""
    waited = _WAITED_FOR.match(finding.title)
    if waited is None:
        return None
    words = re.compile(_ERROR.format(rank=waited["rank"]), re.MULTILINE)
    for text in texts:
        found = next((each for each in words.finditer(text.text) if not _OF_PEERS.search(each["error"])), None)
        if found is None:
            continue
        error, rank = named(found["error"], 120), waited["rank"]
        cure = (
            f"let rank {rank} write there: see owner and rights of the folder on its host (ls -ld, id), or name "
            "another one (checkpoint_dir, an absolute path)"
            if _DENIED.search(error)
            else f"make room where rank {rank} writes (df -h, quota), or name another folder"
            if _NO_ROOM.search(error)
            else f"mend that error in the program of rank {rank}: its traceback stands above the line"
        )
        return Sharper(
            f"rank {rank} failed with an error of its own ({error}), and the others wait for what it never hands to "
            "Horovod",
            f"{cure}. Tensors, network and NCCL have no part in it: the ranks that wait only tell of the sequel",
            (text.evidence(found.start("error")),),
        )
    return None
