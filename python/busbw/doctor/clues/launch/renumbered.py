"""A clue of a GPU that is not there: its number in the host was taken where the visible ones are numbered anew."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_ASKED = "invalid device ordinal"
_SPLITS = re.compile(r"CUDA_VISIBLE_DEVICES['\"]?[\])]?[^\n]{0,40}(?:\.split\(| ?= ?\w)")
_CODE = re.compile(
    r"(?P<code>\b[\w.]{1,30} ?= ?int\(\w{1,30}\[[\w.]{0,30}(?:rank|id|idx|index|gpu|i)\]\)"
    r"|set_device\((?:int\()?\w{1,30}\[[\w.]{1,30}\]\)?\))"
)
"""A program that looks its GPU up in the list of the host's numbers."""
_LIST = re.compile(r"CUDA_VISIBLE_DEVICES['\"]?\]?\s?[=:]\s?['\"]?(?P<list>\d{1,2}(?:, ?\d{1,2}){0,15})(?![\w,])")
_NUMBER = re.compile(
    r"(?P<code>\bcuda:(?P<a>\d{1,2})\b|set_device\((?P<b>\d{1,2})\)|\.cuda\((?P<c>\d{1,2})\)"
    r"|device_ids ?= ?\[(?P<d>\d{1,2})\b|--(?:gpus?|device|gpu[-_]ids?)[= ](?P<e>\d{1,2})(?![\w,]))"
)
_CURE = (
    "take the local rank itself: torch.cuda.set_device(local_rank), .cuda(local_rank), device_ids=[local_rank]. The "
    "list in CUDA_VISIBLE_DEVICES alone says which GPUs these are; set it before the first call of CUDA, best in the "
    "shell. Or leave it out, and take the host's numbers. GPUs, driver and the number of processes are right"
)


def takes_number_of_host(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The program takes the number that a GPU has in the host, though CUDA counts the visible ones from 0."""
    if not any(_ASKED in text.text for text in texts):
        return None
    for text in texts:
        if _SPLITS.search(text.text) and (code := _CODE.search(text.text)):
            return _sharper(named(code["code"], 60), (text, code.start()), "")
    for text in texts:
        for shown in _LIST.finditer(text.text):
            numbers = [int(each) for each in shown["list"].split(",")]
            for asked in (each for other in texts for each in _NUMBER.finditer(other.text)):
                number = int(next(asked[name] for name in "abcde" if asked[name]))
                if number in numbers and number >= len(numbers):
                    left = f": {shown['list']} are its numbers 0 to {len(numbers) - 1}"
                    return _sharper(named(asked["code"], 60), (text, shown.start()), left)
    return None


def _sharper(code: str, at: tuple[Text, int], left: str) -> Sharper:
    text, start = at
    return Sharper(
        f"a rank takes the number that a GPU has in the host ({code}), but CUDA_VISIBLE_DEVICES numbers the visible "
        f"ones anew from 0{left or ', so that higher numbers are not there'}",
        _CURE,
        (text.evidence(start),),
    )
