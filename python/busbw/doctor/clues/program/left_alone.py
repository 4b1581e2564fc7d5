"""A rank that leaves the script before a collective: it returns under a condition, and the others wait behind it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_ONE = re.compile(
    r"^(?P<indent>[ \t]{0,40})if (?P<if>[^\n:]{0,60}\b(?:is_(?:local_)?main_process|is_world_process_zero"
    r"|is_global_zero|is_rank_0|rank(?:\(\))? ?== ?(?P<rank>0)"
    r"|not (?:args\.|self\.|\w{1,20}\.)?rank)\b[^\n:]{0,30}):[^\n]{0,60}$",
    re.MULTILINE,
)
"""A condition that holds on one rank alone."""
_LEAVES = re.compile(
    r"^[ \t]{1,60}(?P<way>return|(?:sys\.|os\._?)?exit\([^\n)]{0,10}\)|quit\(\)|break)\s{0,4}(?:#[^\n]{0,80})?$"
)
_JOINS = re.compile(
    r"(?:^|[\s=(])(?P<call>(?:[\w.]{0,40}\.)?(?:barrier|wait_for_everyone|all_reduce|allreduce|all_gather\w{0,20}"
    r"|reduce_scatter\w{0,20}|broadcast\w{0,20}|monitored_barrier))\("
)
_FREE = re.compile(r"^[ \t]{0,60}(?:elif|else)\b")
_MOST_LINES = 24
_CURE = (
    "let that rank call it as well: take the {way} out of the condition, or put {call} before it. Where one rank works "
    "on alone at the end, let all wait in a barrier behind that, then destroy_process_group() on all. Where that "
    "takes longer than the time of collectives, raise init_process_group(timeout=). Neither the store, whose host "
    "is rank 0, nor the network has a fault"
)


def leaves_before(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The script beside the log ends one rank's part before a call that all others make."""
    for text in texts:
        for found in _ONE.finditer(text.text):
            if "not " in found["if"] and "not rank" not in found["if"]:
                continue  # the others leave there
            if (told := _leaves(text, found)) is None:
                continue
            way, call, at, after = told
            who = "rank 0" if found["rank"] or "zero" in found["if"] or "main" in found["if"] else "one rank"
            title = finding.title.rpartition("): ")[2] if "others wait for it (" in finding.title else finding.title
            return Sharper(
                f"{who} leaves ({way.strip()} under `if {named(found['if'], 40)}`) and never calls {named(call, 40)}, "
                f"in which all others wait: {title}",
                _CURE.format(way=way.partition("(")[0], call=named(call, 40)),
                (text.evidence(found.start("if")), text.evidence(at), text.evidence(after)),
            )
    return None


def _leaves(text: Text, condition: re.Match[str]) -> tuple[str, str, int, int] | None:
    """How the rank leaves, the first call of all ranks behind the condition, and the places of both."""
    depth = len(condition["indent"].expandtabs())
    way, left = "", 0
    at = condition.end() + 1
    for _ in range(_MOST_LINES):
        line = text.text[at : at + 400].partition("\n")[0]
        deep = len(line.expandtabs()) - len(line.expandtabs().lstrip())
        if line.strip():
            if deep > depth:
                if not way and (leaves := _LEAVES.match(line)):
                    way, left = leaves["way"], at
            elif not way or deep < depth or _FREE.match(line):
                return None
            elif joins := _JOINS.search(line):
                return way, joins["call"], left, at + joins.start("call")
        if (end := text.text.find("\n", at)) < 0:
            return None
        at = end + 1
    return None
