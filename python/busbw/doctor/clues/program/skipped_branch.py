"""Ranks that call different collectives: from which lines of the program, and a branch that one of them left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.lines.speakers import rank_of
from busbw.doctor.shown_texts import Text, named

_RANKS = r"\d{1,7})(?:, \d{1,7}){0,6} calls "
"""What follows on the first rank of a group."""
_TITLE = re.compile(
    rf"ranks call different collectives(?P<number> as number \d{{1,12}})?: rank (?P<one>{_RANKS}(?P<a>\w{{2,40}})"
    rf"[^,;\n]{{0,60}}?(?: of shape \[[\d, ]{{0,80}}\])?[,;] rank (?P<other>{_RANKS}(?P<b>\w{{2,40}})"
)
_FRAME = re.compile(
    r"^[^\n]{0,60}?\bFile \"(?P<file>[^\"\n]{1,300})\", line (?P<line>\d{1,6}), in (?P<name>[\w<>.]{1,80})",
    re.MULTILINE,
)
_ENDS = re.compile(r"\bDetected mismatch between collectives on ranks\. Rank (?P<rank>\d{1,7}) is running\b")
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python\d|torch/distributed/")
_LACKS = (
    r"\b(?:no|0|zero|without(?: any)?|0 ?/ ?\d{1,6}|0 of \d{1,6}|empty) (?:valid |positive |input |pixel[_ ])?"
    r"(?:images?|values|videos?|audios?|masks?|boxes|objects|targets?|labels?|positives|tokens|frames|features)\b"
    r"|\btext[- ]only\b"
)
_LEAVES = (
    r"\bskip(?:s|ped|ping)?\b (?:the )?(?:[\w.]{1,60}\(\)|\w{0,30}"
    r"(?:encod|vision|image|branch|loss|backward|forward|layer|head|tower|module|expert|optimizer|reduc)\w{0,30})"
)
_SAYS = re.compile(
    rf"^[^\n]{{0,120}}?\brank\W{{0,3}}(?P<rank>\d{{1,6}})\b[^\n]{{0,200}}?(?:{_LACKS}|{_LEAVES})",
    re.MULTILINE | re.IGNORECASE,
)
_SHOWN = re.compile(rf"(?:{_LACKS}|{_LEAVES})(?:[^\n]{{0,60}}{_LEAVES})?[()]{{0,2}}", re.IGNORECASE)
_MOST = 20_000


def leaves_branch_out(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Two ranks call different collectives; their stacks say from where, and a line that one skipped a part."""
    calls = _TITLE.search(finding.title)
    if calls is None or calls["a"] == calls["b"]:
        return None
    ranks = (calls["one"], calls["other"])
    frames = {rank: found for text in texts for rank, found in _frames(text, ranks).items()}
    said = _said(texts, ranks)
    if not frames and said is None:
        return None
    called = " and ".join(
        f"rank {rank} calls {name}{f' ({named(frames[rank][0], 90)})' if rank in frames else ''}"
        for rank, name in zip(ranks, (calls["a"], calls["b"]), strict=True)
    )
    number = calls["number"] or ""
    seen = (*((said[0].evidence(said[1]),) if said else ()), *(at for _, at in frames.values()))
    if said is None:
        return Sharper(
            f"ranks take different ways through the program, and call different collectives{number}: {called}",
            "look at the condition between these lines: it holds on one rank and not on the other, as what is in a "
            "batch, a loss or a file does. Let all ranks run the call, or decide on rank 0 and broadcast it. Shapes, "
            "padding and the network have no part in it",
            seen,
        )
    return Sharper(
        f"rank {said[2]} leaves out a part of the model in which the others call a collective ({named(said[3], 100)}): "
        f"{called}{number and ','}{number}",
        "run that part on all ranks in each step: where a batch has none of its inputs, give it a dummy one and add "
        "its output with factor 0. Else let each batch hold some (a sampler by kind), or keep collectives out of that "
        "branch. Padding, drop_last and the network have no part in it",
        seen,
    )


def _frames(text: Text, ranks: Sequence[str]) -> dict[str, tuple[str, Evidence]]:
    """By rank the program's own innermost frames of the stack that ends with the error, and their line of the log."""
    last: dict[str, list[tuple[str, int]]] = {}
    # Stacks of what follows from the error stand below it. Where a watchdog finds it, a stack stands anywhere.
    ends = {each["rank"]: each.start() for each in _ENDS.finditer(text.text) if each["rank"] in ranks}
    for found in islice(_FRAME.finditer(text.text), _MOST):
        rank = rank_of(found[0])
        if found.start() < ends.get(rank, 0) and not _LIBRARY.search(found["file"]):
            place = f"{found['file'].rpartition('/')[2]}:{found['line']}"
            last.setdefault(rank, []).append((f"{found['name']}, {place}", found.start("file")))
    return {
        rank: (" from ".join(words for words, _ in reversed(own[-2:])), text.evidence(own[-1][1]))
        for rank, own in last.items()
    }


def _said(texts: Sequence[Text], ranks: Sequence[str]) -> tuple[Text, int, str, str] | None:
    """Who of these ranks says last that it lacks or leaves out something, where not all of them do."""
    said = {
        str(int(found["rank"])): (text, found.start("rank"), found)
        for text in texts
        for found in islice(_SAYS.finditer(text.text), _MOST)
    }
    mine = [rank for rank in ranks if rank in said]
    if len(mine) != 1:
        return None
    text, at, found = said[mine[0]]
    end = text.text.find("\n", at)
    shown = _SHOWN.search(text.text, at, end if end >= 0 else len(text.text))
    return text, at, mine[0], shown[0] if shown else found[0]
