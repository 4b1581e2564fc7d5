"""Clues of what stands before a timeout: the end of the training, or a checkpoint after which nothing went on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_ALONE = re.compile(r"(?P<head>a collective \((?P<op>\w{2,40})\).{0,200}?): rank 0 waited in number \d{1,12}\b")
_WAITS = re.compile(r"Watchdog caught collective operation timeout|(?:Timeout|watchdog)[^\n]{0,60} at (?:NCCL )?work")
_ENDED = re.compile(
    r"['\"]train_runtime['\"]: ?\d|\btrain_runtime +=|[Tt]raining (?:is |has )?(?:completed?|finished|done"
    r"|ended|over)\b(?! (?:epoch|step|batch|iter))|\b(?:[Ff]inished|[Cc]ompleted) training\b|`Trainer\.fit` stopped:"
    r"|\b[Ss]aving (?:the )?(?:final|last|trained|full|consolidated) (?:model|checkpoint|weights|state)"
)
_SAVED = re.compile(
    r"\b(?:checkpoint|model|states?|weights|safetensors|ckpt|global_step\d{1,9})\b[^\n]{0,160}"
    r"\b(?:saved|is ready now|written|committed)\b"
    r"|\b[Ss](?:aved|uccessfully saved)\b[^\n]{0,120}(?:checkpoint|model|states?\b|weights|\.pt\b|\.ckpt\b|safetensors)"
)
_NOT = re.compile(
    r"\b(?:not|about to|will|to) (?:be )?(?:saved|written)|\b(?:shard|part) \d|\b(?:fail|error|[Cc]ould not)",
    re.IGNORECASE,
)
_STEP = re.compile(
    r"'loss': ?[\d-]|\bloss ?[:=] ?\d|\b(?:iteration|step|iter) {0,4}\d{1,9}/ {0,4}\d|^\s{0,4}\d{1,2}%\|", re.IGNORECASE
)
_LINES, _FEWEST = 12, 12
_GATHERS = re.compile(r"GATHER")


def alone_after_training(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The training has ended, and rank 0 alone waits in a collective, as where it alone saves."""
    title = _ALONE.match(finding.title)
    if title is None:
        return None
    for text, at, line in _before(texts):
        if _ENDED.search(line) is None:
            continue
        gathers = _GATHERS.search(title["op"])
        what = "it gathers the parts of all ranks, as saving a sharded model does (FSDP, ZeRO-3)" if gathers else ""
        what = what or "it saves, evaluates or logs alone"
        return Sharper(
            f"after the end of the training rank 0 alone calls {title['op']}, and no other rank comes: {what}: "
            f"{title['head']}",
            "let all ranks call what saves: trainer.save_model(), accelerator.get_state_dict(), state_dict() under "
            "FSDP, save_checkpoint() of DeepSpeed. Keep them out of `if rank == 0` and is_main_process: rank 0 alone "
            "writes the result. No rank may end before that, so put a barrier after it. A longer time changes nothing",
            (text.evidence(at),),
        )
    return None


def stood_after_saving(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A checkpoint was written to its end, and no step came after it."""
    if not finding.title.startswith("a collective ("):
        return None
    for text, at, line in _before(texts):
        if _STEP.search(line):
            return None
        if _SAVED.search(line) is None or _NOT.search(line):
            continue
        return Sharper(
            f"after a checkpoint was saved ranks do not go on together ({named(_said(line), 100)}): {finding.title}",
            "look what the program does behind the save on some ranks alone: deleting old checkpoints, an upload, a "
            "callback, an evaluation, a barrier behind a condition. py-spy dump --pid PID on all ranks shows who "
            "stands elsewhere; TORCH_NCCL_TRACE_BUFFER_SIZE=2000 (flight recorder) keeps what each rank called. "
            "A longer time helps only where the save itself takes as long",
            (text.evidence(at),),
        )
    return None


def _said(line: str) -> str:
    """The message behind what a logger puts before it."""
    message = line.rpartition("] ")[2]
    return message if len(message) > _FEWEST else line


def _before(texts: Sequence[Text]) -> Iterator[tuple[Text, int, str]]:
    """The lines above the first timeout of each log, the nearest first, and where they begin."""
    for text in texts:
        if (waits := _WAITS.search(text.text)) is None:
            continue
        end = text.text.rfind("\n", 0, waits.start())
        for _ in range(_LINES):
            if end <= 0:
                break
            begin = text.text.rfind("\n", 0, end) + 1
            yield text, begin, text.text[begin:end][:600]
            end = begin - 1
