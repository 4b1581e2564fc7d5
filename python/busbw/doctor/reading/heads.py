"""Which host a part of a log is of: by a heading over it, by the shell's prompt, or by the command that went there."""

from __future__ import annotations

import re

_HEAD = re.compile(
    r"\W{0,4}(?:==>|={2,8}|-{2,8}|host:?) ?(?P<titled>[A-Za-z][\w.-]{0,80})[ :=<>-]{0,8}$"
    r"|(?:\S{0,80}[$#] )?ssh (?:-\S{1,20} ){0,4}(?:\w{1,30}@)?(?P<over>[A-Za-z][\w.-]{1,80}) "
    r"|\[?\S{0,40}@(?P<prompt>[\w.-]{1,80})[: ]"
    r"|(?P<bare>[A-Za-z][\w.-]{1,80})[$#] (?=(?:sudo )?(?:nvidia-smi|ipmitool|dcgmi)\b)"
)
_MAY = ("=", "-", "host", "Host")


def host_of(line: str) -> str:
    """The host that the line names for those below it; "" where it names none."""
    if not (line.startswith(_MAY) or any(mark in line for mark in ("@", "ssh ", "$ ", "# "))):
        return ""
    found = _HEAD.match(line)
    return next(filter(None, found.groups())) if found else ""
