"""Clues of ranks that decide for themselves: a metric of their own tells some to save or to stop, and others not."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_SAID = re.compile(
    r"^[^\n]{0,60}?\b[Rr]ank[ =:]{0,2}(?P<rank>\d{1,6})\]?:?[^\n]{0,60}?"
    r"\b[Ee](?:poch|val)[ =:#]{0,3}(?P<epoch>\d{1,6})\b"
    r"(?P<rest>[^\n]{0,200})$",
    re.MULTILINE,
)
_METRIC = re.compile(
    r"\b\w{0,20}(?:loss|acc\w{0,5}|ppl|perplexity|score|metric|bleu|wer|f1|reward)\b ?[=:]? ?"
    r"(?P<value>\d{1,9}\.\d{1,8})",
    re.IGNORECASE,
)
_DECIDES = re.compile(
    r"new best|best (?:so far|model)|is (?:a )?best|improv\w{0,8}(?! in)|(?:saving|save|stopping|stop)\b"
    r"|patience (?:over|exhausted|reached)",
    re.IGNORECASE,
)
_NOT = re.compile(r"\b(?:not?|did ?n[o']t|without|no)\b[^\n]{0,12}(?:improv|sav|stop|best)", re.IGNORECASE)
_LEAST = 2


def decides_for_itself(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """In the last epoch that all tell of, some ranks took a decision by values that differ, and others did not."""
    for text in texts:
        epochs: defaultdict[int, dict[int, tuple[str, bool, int]]] = defaultdict(dict)
        for found in _SAID.finditer(text.text):
            value = _METRIC.search(found["rest"])
            if value is None:
                continue
            yes = _DECIDES.search(found["rest"]) is not None and _NOT.search(found["rest"]) is None
            epochs[int(found["epoch"])][int(found["rank"])] = value["value"], yes, found.start()
        full = [epoch for epoch, ranks in epochs.items() if len(ranks) >= _LEAST]
        if not full:
            continue
        last = epochs[max(full)]
        did, did_not = (sorted(rank for rank, each in last.items() if each[1] is yes) for yes in (True, False))
        if not did or not did_not or len({value for value, _, _ in last.values()}) < 2:
            continue
        return Sharper(
            f"ranks decide by a metric of their own: in epoch {max(full)} {_ranks(did)} took a decision (a new best, a "
            f"stop) that {_ranks(did_not)} did not take. So some enter a collective, of a checkpoint or another, while "
            "others go on to the next step",
            "make the decision on all ranks the same: dist.all_reduce the metric (not dist.reduce to rank 0), or let "
            "rank 0 decide and broadcast it before the branch. Collective calls, such as a full state dict of FSDP, "
            "must then be entered by all ranks. A longer timeout and the network change nothing",
            tuple(text.evidence(last[rank][2]) for rank in (did[0], did_not[0])),
        )
    return None


def _ranks(ranks: Sequence[int]) -> str:
    more = " ..." if len(ranks) > 8 else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks[:8]))}{more}"
