"""Clues of gradients: the parameters that had no part in the loss, and the ranks on which that was so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_UNUSED = re.compile(
    r"Parameters which did not receive grad for rank (?P<rank>\d{1,7}): (?P<names>[A-Za-z_][\w.]{0,200}"
    r"(?:, [A-Za-z_][\w.]{0,200}){0,400})"
)
_INDICES = re.compile(
    r"Parameter indices which did not receive grad for rank (?P<rank>\d{1,7}): (?P<first>\d{1,9})"
    r"(?P<more>(?: \d{1,9}){0,5000})"
)
_EXPERTS = re.compile(
    r"\w{0,30}(?:[Mm]oe|MoE|MOE|[Mm]ixtral)\w{0,30}|\bnum_(?:local_)?experts\b|\.experts\.\d|\b\d{2,3}B-A\d{1,3}B\b"
)
_EXPERT_NAME = re.compile(r"\bexperts?\b|\bmoe\b", re.IGNORECASE)
_SOME, _MOST = 3, 8


def without_gradients(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """DDP lists the parameters that got no gradient, by rank."""
    said = (Text("", "\n".join(seen.fact for seen in finding.evidence)), *texts)
    names = [(text, found) for text in said for found in _UNUSED.finditer(text.text)]
    indices = [(text, found) for text in said for found in _INDICES.finditer(text.text)]
    if not names and not indices:
        return None
    ranks = sorted({int(found["rank"]) for _, found in (*names, *indices)})
    if names:
        which = _common([each for _, found in names for each in found["names"].split(", ")])
    else:
        numbers = [int(each) for each in f"{indices[0][1]['first']}{indices[0][1]['more']}".split()]
        which = f"number {numbers[0]}" + (f" to {max(numbers)}" if len(numbers) > 1 else "")
    text, found = (names or indices)[-1]
    where = f"rank {', '.join(map(str, ranks[:_MOST]))}"
    # Of a mixture of experts the parts without gradients are others on each rank.
    expert = None if names and not _EXPERT_NAME.search(which) else _first_of_experts(texts)
    apart = names or len({each["first"] for _, each in indices}) > 1
    of_experts = (
        f" (most likely experts that got no token there: {named(expert[1][0], 40)})" if expert and apart else ""
    )
    return Sharper(
        f"parameters had no part in the loss on {where}, so that DDP waits for their gradients: {named(which, 100)}"
        f"{of_experts}",
        "DDP(find_unused_parameters=True), or freeze them (requires_grad=False). Else let them take part in each step "
        "on every rank: add 0 * output.sum() where a batch has no samples for that part. A number is the place in "
        "list(model.named_parameters())",
        (text.evidence(found.start()),) if text.source else (),
    )


def _first_of_experts(texts: Sequence[Text]) -> tuple[Text, re.Match[str]] | None:
    """Where a log names a mixture of experts."""
    return next(((each, found) for each in texts if (found := _EXPERTS.search(each.text))), None)


def _common(names: Sequence[str]) -> str:
    """The names, or the begin that all share."""
    names = list(dict.fromkeys(names))
    if len(names) <= _SOME:
        return ", ".join(names)
    levels = zip(*(each.split(".")[:-1] for each in names), strict=False)
    begin = ".".join(level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels))
    return f"{begin}.* ({len(names)} of them)" if begin else f"{', '.join(names[:_SOME])} and {len(names) - _SOME} more"
