"""Pings that a loop of the shell calls: the size and the host of each, in the order in which they run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

_LOOP = re.compile(r"\bfor (?P<name>[A-Za-z_]\w{0,20}) in (?P<values>[^;\n]{1,300}?) ?; {0,4}do\b")
_VALUE = re.compile(r"[\w.:-]{1,80}")
_PING = re.compile(r"\bping6? [^|#;&>\n]{1,200}")
_MOST = 64
"""Pings of one line that are followed; who calls more prints only how many failed."""


def unrolled(line: str) -> Iterator[str]:
    """The commands of the one ping that the line's loops call, with their values in place of variables."""
    loops = list(_LOOP.finditer(line))
    pings = list(_PING.finditer(line))
    lists = [found["values"].split() for found in loops]
    # Values that a command or a pattern yields are unknown here.
    if len(pings) != 1 or not lists or not all(_VALUE.fullmatch(each) for values in lists for each in values):
        return
    names = [found["name"] for found in loops]
    asked = pings[0][0]
    runs = list(product(*lists))
    if pings[0].start() < loops[-1].end() or len(runs) > _MOST:
        return
    for values in runs:
        command = asked
        for name, value in zip(names, values, strict=True):
            command = re.sub(rf"[\"']?\$(?:{name}\b|\{{{name}\}})[\"']?", value, command)
        if "$" in command:
            return
        yield command
