"""A clue of a timeout at a place where ranks part easily: the end of an epoch, or a step that saves or evaluates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from busbw.doctor.clues.program.all_alike import OPEN
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_TIMEOUT = re.compile(r"Watchdog caught collective operation timeout|(?:Timeout|watchdog)[^\n]{0,60} at (?:NCCL )?work")
_BAR = re.compile(r"\b(?P<done>\d{1,9})/(?P<of>\d{1,9}) \[\d[\d:]{3,9}<")
"""As tqdm writes it."""
_LOGGED = re.compile(
    r"\b(?:global_?step|iteration|step|iter)\W{0,3} {0,10}(?P<done>\d{1,9})\b(?: ?/ {0,8}(?P<of>\d{1,9}))?"
    r"|\bepoch\b[^\n]{0,24}?\[ ?(?P<done2>\d{1,9})/(?P<of2>\d{1,9})\]",
    re.IGNORECASE,
)
_EPOCH = re.compile(r"\bepoch\b", re.IGNORECASE)
_OWN = re.compile(
    r"\b(?:eval\w{0,8}|valid\w{0,8}|test\w{0,4}|map|tokeniz\w{1,4}|load\w{0,4}|download\w{0,4})\b", re.IGNORECASE
)
"""Bars of other work than training."""
_DUE = re.compile(
    r"(?<![\w-])(?:-{1,2}|[\"']|\b)(?P<name>(?P<what>save|eval|evaluation|val|validation|checkpoint|ckpt|test)[_-]"
    r"(?:steps|interval|freq|frequency|every|every_n_steps|iters))[\"']?\s{0,4}[ =:]\s{0,4}(?P<n>\d{1,7})\b",
    re.IGNORECASE,
)
_RESULT = re.compile(
    r"\beval\w{0,3}_(?:loss|runtime)\b\W{1,3}\d|\bvalidation loss at iteration\b|\bval(?:id)?_loss\W{1,3}\d"
)
_SHARDED = (
    (
        re.compile(r"\bzero_stage['\"]?\s{0,2}[:=]\s{0,2}3\b|['\"]stage['\"]: ?3\b|\bzero-?_?3\b", re.IGNORECASE),
        "ZeRO-3",
    ),
    (re.compile(r"\bfsdp\b|FullyShardedDataParallel", re.IGNORECASE), "FSDP"),
)
_ALIKE = re.compile(
    r"\b(?:rest|others?|all other ranks|remaining)\b[^\n]{0,40}\b(?:same|identical|alike|likewise)\b", re.IGNORECASE
)
_NO_MORE = re.compile(r"\bnone (?:of these )?lags\b|, and others wait for it \(")
_LINES, _FEWEST = 40, 5
"""A number that is met at each or nearly each step says nothing."""
_FIND = (
    "py-spy dump --pid PID on all ranks shows who stands elsewhere, and TORCH_NCCL_TRACE_BUFFER_SIZE=2000 with "
    "TORCH_NCCL_DUMP_ON_TIMEOUT=1 (flight recorder) what each rank called"
)


@dataclass(frozen=True, slots=True)
class _Place:
    """The last step of which a log tells before the timeout, and where."""

    done: int
    of: int
    line: str
    text: Text
    at: int


def at_boundary(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The last step before the timeout ends an epoch, or is one at which a checkpoint or an evaluation is due."""
    if not finding.title.startswith("a collective (") or _NO_MORE.search(finding.title):
        return None
    place = next((each for text in texts for each in _last(text)), None)
    if place is None:
        return None
    alike = next(((text, said) for text in texts if (said := _ALIKE.search(text.text))), None)
    title, more = finding.title, list[Evidence]()
    if alike is not None and title.endswith(OPEN):
        title = f"{title.removesuffix(OPEN)}, and the others say the same, by the log's own words"
        more = [alike[0].evidence(alike[1].start())]
    return _of_save(title, place, texts, more) or _of_epoch(title, place, more)


def _of_epoch(title: str, place: _Place, more: Sequence[Evidence]) -> Sharper | None:
    if not _EPOCH.search(place.line) or place.of <= 2 or not 0 <= place.of - place.done <= 1:
        return None
    return Sharper(
        f"at the end of an epoch ({place.done} of {place.of} steps) ranks do not go on together: {title}",
        "give all ranks the same number of batches of equal size: drop_last=True, a sampler that fills up, the same "
        "data for all ranks of a group of sequence or tensor parallelism. Then look what runs there on some ranks "
        f"alone (validation, save, log, a new sampler). {_FIND}. As a test: one epoch, or that group of size 1. A "
        "longer time changes nothing",
        (place.text.evidence(place.at), *more),
    )


def _of_save(title: str, place: _Place, texts: Sequence[Text], more: Sequence[Evidence]) -> Sharper | None:
    found = {
        ("save" if each["what"].lower() in ("save", "checkpoint", "ckpt") else "evaluate"): (text, each)
        for text in texts
        for each in islice(_DUE.finditer(text.text), 200)
        if int(each["n"]) >= _FEWEST and place.done and place.done % int(each["n"]) == 0
    }
    over = _RESULT.search(place.text.text[max(0, place.at - 3000) : place.at]) if "evaluate" in found else None
    if not found:
        return None
    words = {"save": "a checkpoint", "evaluate": "an evaluation"}
    due = " and ".join(words[each] for each in sorted(found))
    are = "are" if len(found) > 1 else "is"
    by = ", ".join(named(each[0].strip("\"'- "), 40) for _, each in found.values())
    ended = ". The evaluation gave its result, so that the checkpoint is next" if over and len(found) > 1 else ""
    sharded = next((name for regex, name in _SHARDED if any(regex.search(text.text) for text in texts)), "")
    gathers = (
        f"Under {sharded} the parts of all ranks are gathered for it: call save and evaluate on all ranks, outside of "
        "is_main_process. Save in shards (zero3_save_16bit_model false, SHARDED_STATE_DICT), or take a newer release "
        "of the trainer. "
        if sharded
        else "Call save and evaluate on all ranks alike, outside of is_main_process; with equal numbers of batches. "
    )
    return Sharper(
        f"the job stands at step {place.done}, where {due} {are} due ({by}){ended}. {title[0].upper()}{title[1:]}",
        f"look at the rank that saves first, rank 0 mostly: it may still gather or write, or stand elsewhere. {_FIND}. "
        f"{gathers}A run without save, and one without evaluation, tell which it is. A longer time (ddp_timeout) helps "
        "only where the rank that writes is merely slow",
        (place.text.evidence(place.at), *(text.evidence(each.start()) for text, each in found.values()), *more),
    )


def _last(text: Text) -> Iterator[_Place]:
    """The nearest step above the first timeout."""
    waits = _TIMEOUT.search(text.text)
    end = text.text.rfind("\n", 0, waits.start()) if waits else -1
    for _ in range(_LINES):
        if end <= 0:
            return
        begin = text.text.rfind("\n", 0, end) + 1
        line = text.text[begin:end][-600:]
        found = next(reversed(list(_BAR.finditer(line))), None) or _LOGGED.search(line)
        if found is not None and not _OWN.search(line[: found.start()]):
            said = found.groupdict()
            done, of = said["done"] or said.get("done2"), said["of"] or said.get("of2")
            yield _Place(int(done or 0), int(of or 0), line, text, begin)
            return
        end = begin - 1
