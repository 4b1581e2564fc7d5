"""A process group that some ranks alone make: they wait in the store for the others' addresses."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.lines.speakers import rank_of
from busbw.doctor.shown_texts import Text, named

_KEYS = re.compile(r"(?:wait timeout after \d{1,9} ?ms|Timeout waiting)[^\n]{0,20}keys?: (?P<keys>/\S{1,200})")
_MAKES = re.compile(r"\bin (?P<call>new_group|new_subgroups\w{0,20}|_new_group_with_tag)\b")
_CALLS = re.compile(r"\bFile \"(?P<file>[^\"\n]{1,300})\", line (?P<line>\d{1,7}), in ")
_STARTS = re.compile(r"Traceback \(most recent call last\)")
_LIBRARY = re.compile(r"site-packages/|/lib/python\d|/torch/distributed/")
_RANK = re.compile(r"\brank[ =:]{0,2}(?P<rank>\d{1,6})\b", re.IGNORECASE)
_BACK = 8000
_FEW = re.compile(
    r"store based barrier on rank: (?P<rank>\d{1,7}), for key: \S{0,60}?:(?P<key>\d{1,4}) "
    r"\(world_size=(?P<size>\d{1,7}), (?:worker_count|num_workers_joined)=(?P<came>\d{1,7})"
)
"""How older releases of PyTorch tell who waits for a group, and how many came."""
_BRANCH = re.compile(
    r"^(?:\d{1,5}[: ])?(?P<indent>[ \t]{0,40})if (?P<if>[^\n:]{0,60}(?:is_(?:local_)?main_process|is_world_process_zero"
    r"|is_global_zero|rank(?:\(\))? ?(?:==|<|in)|stage)[^\n:]{0,30}):[^\n]{0,40}\n"
    r"(?:[^\n]{0,200}\n){0,6}?[^\n]{0,80}\bnew_(?:sub)?groups?\w{0,20}\(",
    re.MULTILINE,
)
_ALL_CALL_IT = (
    "call new_group on all ranks, those without a part in the group too, in the same order and outside of "
    "`if rank == 0`. Keep it out of classes that one rank alone makes, or pass a group that was made before. "
    "It is a collective, with a time of its own. Longer times, ports and the network change nothing"
)


def group_of_few(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A rank gave up in new_group's barrier in the store, to which fewer than all came; the first group had all."""
    for text in texts:
        for found in _FEW.finditer(text.text):
            stack = _stack(text.text, found.start())
            made = _MAKES.search(stack)
            if made is None or int(found["key"]) < 2 or int(found["came"]) >= int(found["size"]):
                continue
            places = [each for each in _CALLS.finditer(stack[: made.start()]) if not _LIBRARY.search(each["file"])]
            at = f", {places[-1]['file'].rpartition('/')[2]}:{places[-1]['line']}" if places else ""
            branch = next(((each, one) for each in texts if (one := _BRANCH.search(each.text))), None)
            why = f": it stands under `if {named(branch[1]['if'], 50)}`" if branch else ""
            return Sharper(
                f"{found['came']} of {found['size']} ranks came to the new process group (rank {found['rank']} waits "
                f"in new_group{named(at, 60)}): the others do not call it{why}",
                _ALL_CALL_IT,
                (text.evidence(found.start()), *((branch[0].evidence(branch[1].start("if")),) if branch else ())),
            )
    return None


def group_of_some(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A rank gave up in new_group, and other ranks that the log knows never stood there."""
    for text in texts:
        if "new_group" not in text.text and "new_subgroups" not in text.text:
            continue
        makers: dict[str, tuple[str, int]] = {}
        for found in _KEYS.finditer(text.text):
            stack = _stack(text.text, found.start())
            if (made := _MAKES.search(stack)) is not None and (rank := rank_of(_line(text.text, found.start()))):
                places = [each for each in _CALLS.finditer(stack[: made.start()]) if not _LIBRARY.search(each["file"])]
                at = f"at {places[-1]['file'].rpartition('/')[2]}:{places[-1]['line']}" if places else ""
                makers.setdefault(rank, (at, found.start()))
        if not makers:
            continue
        known = {rank_of(line) or (said["rank"] if (said := _RANK.search(line[:200])) else "")
                 for line in text.text.split("\n")[:4000]} - {""}  # fmt: skip
        missing = sorted(known - makers.keys(), key=int)
        if not missing:
            continue
        rank = min(makers, key=int)
        where, begin = makers[rank]
        more = " and others" if len(missing) > 6 else ""
        return Sharper(
            f"rank {', '.join(sorted(makers, key=int)[:6])} makes a process group (new_group{where and ' '}"
            f"{named(where, 60)}) and waits there for the others. Rank {', '.join(missing[:6])}{more} started, too, "
            "and did not call it in that time: new_group is a collective of all ranks",
            _ALL_CALL_IT,
            (text.evidence(begin),),
        )
    return None


def _stack(text: str, end: int) -> str:
    """The traceback that ends there."""
    part = text[max(0, end - _BACK) : end]
    starts = list(_STARTS.finditer(part))
    return part[starts[-1].start() :] if starts else ""


def _line(text: str, at: int) -> str:
    begin = text.rfind("\n", 0, at) + 1
    return text[begin : begin + 200]
