"""A rank that lags and whose dumped stacks show two of its threads in the program's own code, as at two locks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_LAGS = re.compile(r"\brank (?P<rank>\d{1,6}) lags")
_DUMP = re.compile(r"^Timeout \(\d{1,3}:\d\d:\d\d(?:\.\d{1,6})?\)!|^Fatal Python error: [^\n]{1,80}", re.MULTILINE)
_THREAD = re.compile(
    r"^(?:Current thread|Thread) 0x[0-9a-f]{1,16}[^\n]{0,80}\(most recent call first\):\n"
    r"(?P<frames>(?:  File \"[^\n]{1,400}\n?){1,40})",
    re.MULTILINE,
)
_FRAME = re.compile(r"  File \"(?P<file>[^\"\n]{1,300})\", line (?P<line>\d{1,7}) in (?P<call>[\w<>.]{1,80})")
_LIBRARY = re.compile(r"site-packages/|dist-packages/|/lib/python\d|<frozen")
_IDLE = re.compile(r"sleep|wait|poll|select|recv|accept|heartbeat", re.IGNORECASE)
_MOST_DUMPS = 64


@dataclass(frozen=True, slots=True)
class _Stack:
    calls: str
    main: bool
    at: int


def waits_for_locks(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """In one dump the main thread and another stand in the program's own lines; other dumps show the main one alone."""
    lags = _LAGS.search(finding.title)
    if lags is None:
        return None
    for text in texts:
        dumps = list(_dumps(text.text))
        pairs = [each for each in dumps if len(each) > 1 and sum(stack.main for stack in each) == 1]
        # Where all ranks have such a thread, it is one that sleeps between its work.
        if not pairs or len(dumps) < 2 or len(pairs) == len(dumps):
            continue
        stacks = pairs[0]
        main = next(each for each in stacks if each.main)
        other = next(each for each in stacks if not each.main)
        return Sharper(
            f"rank {lags['rank']} lags, and a dump of stacks shows two of its threads held up in the program's own "
            f"lines: the main one in {named(main.calls, 70)}, another in {named(other.calls, 70)}. Where both take "
            "locks, each holds one that the other waits for",
            "look at these lines for `with lock` and acquire(). Take the locks in one order everywhere, or hold one at "
            "a time: copy what is needed, release it, then write files or call other objects. The other ranks only "
            "wait in their collective; a longer timeout and the network change nothing",
            (text.evidence(main.at), text.evidence(other.at)),
        )
    return None


def _dumps(text: str) -> Iterator[list[_Stack]]:
    """By dump: the threads whose innermost frame is a line of the program itself."""
    begins = [each.start() for each in _DUMP.finditer(text)][:_MOST_DUMPS]
    for begin, end in pairwise((*begins, len(text))):
        stacks = []
        for thread in _THREAD.finditer(text, begin, end):
            frames = list(_FRAME.finditer(thread["frames"]))
            if not frames or _LIBRARY.search(frames[0]["file"]) or _IDLE.search(frames[0]["call"]):
                continue
            own = [each for each in frames if not _LIBRARY.search(each["file"])][:2]
            calls = " from ".join(
                f"{each['call']} ({each['file'].rpartition('/')[2]}:{each['line']})" for each in own
                if each["call"] != "<module>"
            )  # fmt: skip
            main = frames[-1]["call"] == "<module>"
            if not calls:
                continue
            stacks.append(_Stack(calls, main, thread.start("frames")))
        yield stacks
