"""Clues of a stack in which one rank waits for all within the save of a checkpoint, while the others take steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_FRAME = r"[ \t]{2,12}"
_STACK = re.compile(
    rf"^{_FRAME}(?:barrier|wait_for_everyone|all_?reduce|_?all_gather\w{{0,20}}|all_gather_object|gather_object"
    r"|broadcast\w{0,20}|synchronize) \([^()\n]{1,200}:\d{1,7}\)[^\n]{0,80}\n"
    rf"(?:{_FRAME}[\w<>.]{{1,80}} \([^()\n]{{1,200}}:\d{{1,7}}\)[^\n]{{0,80}}\n){{0,8}}?"
    rf"(?P<frame>{_FRAME}(?P<call>save_(?:checkpoint|state|model|16bit_model|fsdp_\w{{2,20}})|_save_checkpoint) "
    r"\([^()\n]{1,200}:\d{1,7}\))(?P<rest>[^\n]{0,80}(?:\n"
    rf"{_FRAME}[\w<>.]{{1,80}} \([^()\n]{{1,200}}:\d{{1,7}}\)[^\n]{{0,160}}){{0,6}})",
    re.MULTILINE,
)
"""A collective, and above it the save that called it, as py-spy writes them, with the frames that called that."""
_OUTER = re.compile(rf"^{_FRAME}(?P<call>save_\w{{2,30}}) \(", re.MULTILINE)
_ALONE = re.compile(
    r"\bif [^\n]{0,60}?(?P<if>(?:[\w.]{1,40}\.)?is_(?:local_)?(?:main_process|world_process_zero|global_zero|rank_0)"
    r"|\b\w{0,20}rank(?:\(\))? ?== ?0|@?rank_zero_only)"
)
_MOST = 8


def saves_alone(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """One stack alone is in the save, whose collective stands against another one of the others."""
    found = [(text, each) for text in texts for each in islice(_STACK.finditer(text.text), _MOST)]
    if len(found) != 1:
        return None
    text, stack = found[0]
    outer = [each["call"] for each in _OUTER.finditer(stack["rest"])]
    call = named(outer[-1] if outer else stack["call"])
    alone = _ALONE.search(stack["rest"])
    why = f", behind {named(alone['if'])}" if alone else ""
    return Sharper(
        f"one rank alone is in {call}{why}, where it waits for all ranks, and the others went on: {finding.title}",
        f"call {call} on all ranks, outside of conditions such as is_main_process or rank == 0: under DeepSpeed and "
        "FSDP it is a collective, and each rank writes its part. Only prints and files of one rank stay behind the "
        "condition. More time does not help",
        (text.evidence(stack.start("frame")),),
    )
