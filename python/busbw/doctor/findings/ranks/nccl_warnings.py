"""Warnings of NCCL that no signature knows: told by the part of its source that says them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from busbw.base.secrets import shortened
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.lines import benign
from busbw.doctor.lines.scan import knowing
from busbw.doctor.lines.scanned import Scan
from busbw.doctor.lines.trouble import is_cut_warning
from busbw.doctor.meanings.nccl_parts import part_of
from busbw.doctor.meanings.topics import topic
from busbw.doctor.signature import Stage
from busbw.doctor.signatures import SIGNATURES
from busbw.machine.nccl.log_model import Message, NcclLog

NAME = "nccl-warnings"
MOST = 5
_NAMED = frozenset(
    {
        "gdr-unavailable",
        "imex",
        "nvlink-error",
        "fabric-manager",
        "nvswitch-error",
        "gpu-memory-error",
        "gdrcopy",
        "sharp",
    }
    | {"shm-full", "host-memory", "disk-full", "pcie-errors", "driver-not-loaded", "dns"}
)
"""What a sentence may name that tells more than the file of NCCL's source that says it."""
_FILE = re.compile(
    r"\b(?:open|find|read|load|access|stat|pars|exist)\w*\b.{0,60}?(?P<path>(?<![\w:])/(?!dev/|proc/|sys/)[\w.+/-]{3,200})"
)
_BY_WORDS = tuple(
    (re.compile(words, re.IGNORECASE), name)
    for words, name in (
        (r"plugin|symbol", "old-plugin"),
        (r"version|incompatib", "version-mismatch"),
        (r"out of memory|alloc", "host-memory"),
        (r"time[d ]*out|deadline", "connection-timeout"),
        (r"refused", "connection-refused"),
        (r"regist", "registration-failed"),
        (r"permission|permitted|denied", "gpu-permission"),
    )
)
_NOTHING = "look the sentence up in NCCL's source and issues; the first warning of the first rank tells most"
_ALL = tuple(SIGNATURES.values())
_PROOF = Proof(instruction="run once more with NCCL_DEBUG=INFO on all ranks and give all logs to `busbw doctor`")


def examine(facts: Facts) -> Iterator[Finding]:
    for log, scan in zip(facts.logs, facts.scans, strict=True):
        cut = cut_warning(log, scan)
        unknown = [each for each in log.warnings if not _has_signature(f"{each.where} NCCL WARN {each.text}")]
        for each in [each for each in unknown if each is not cut][:MOST]:
            if not _was_retried(each, scan):
                told = _finding(each, log.source)
                over = scan.course.had_ended(scan.alive, each.line) or each.line < scan.course.checked
                yield replace(told, severity=Severity.NOTE) if over else told


def _was_retried(said: Message, scan: Scan) -> bool:
    """Whether it was only said while something was tried again, after which the job went on."""
    return benign.is_retry(said.text) and max(said.line, scan.retried[0]) < max(scan.alive, scan.course.done)


def cut_warning(log: NcclLog, scan: Scan) -> Message | None:
    """The warning of which the log's last line holds a few letters."""
    last = next((each for each in log.warnings if each.line == scan.lines), None)
    return last if last is not None and is_cut_warning(f"NCCL WARN {last.text}") else None


def _cure_of_words(text: str) -> str:
    """What mends a warning of a part that nobody knows, such as a plugin, by what its sentence speaks of."""
    return next((SIGNATURES[name].cure for words, name in _BY_WORDS if words.search(text)), _NOTHING)


def _finding(said: Message, source: str) -> Finding:
    times = f" ({said.count} times)" if said.count > 1 else ""
    part = part_of(said.where.rpartition(" ")[2])
    named = topic(said.text)
    path = _FILE.search(said.text)
    if path:
        cure = (
            f"see that {shortened(path['path'], 100)} exists and may be read in every container and on every host, or "
        )
        cure += "correct or unset the variable that names it (env | grep NCCL_, nccl.conf)"
    elif named in _NAMED:
        cure = SIGNATURES[named].cure
    else:
        cure = part.cure if part else _cure_of_words(said.text)
    about = f"NCCL warns about {part.what}" if part else "NCCL warns"
    return Finding(
        NAME,
        Severity.WARNING,
        f"{about}: {shortened(said.text, 160)}{times}",
        (Evidence(said.where, source, said.line),),
        Cost("the operation failed or took a slower way"),
        cure,
        _PROOF,
        stage=Stage.FAILURE,
    )


def _has_signature(text: str) -> bool:
    text, known = knowing(text, _ALL)
    lowered = text.lower()
    return any(each.match(text, lowered, patterns) is not None for each, patterns in known)
