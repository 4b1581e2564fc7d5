"""Whose output it is that stands in a log: the host or container of the prompt, or of the line, above it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.doctor.shown_texts import Text

STAMP = r"(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]{0,12}Z? ?)?"
"""The time that a runner puts before each line."""
_HOST = r"[A-Za-z][\w.-]{0,60}?"
_PROMPT = re.compile(
    # The name of a Python environment may stand before it.
    rf"^{STAMP}(?:\([\w.-]{{1,40}}\) )?"
    rf"(?:\[?[\w.-]{{1,32}}@(?P<user>{_HOST})(?::[^\n$#]{{0,60}}| [^\n$#]{{0,60}}\])? ?[$#] ?\S"
    rf"|\[?(?P<bare>{_HOST})\]?(?::[^\n$#\s]{{0,60}})?(?: ?\$|#) \S"
    rf"|\[(?P<boxed>{_HOST})\] [$#] \S"
    rf"|(?:\+ |[^\n]{{0,60}}[$#] ?)hostname(?: -\w)?\s{{0,3}}\n{STAMP}(?P<told>[A-Za-z][\w.-]{{0,60}})\s{{0,3}}$"
    rf"|(?:\+{{1,4}}|[^\n]{{0,60}}[$#]) ssh "
    rf"(?:-\w \S{{1,40}} |-\w )*(?:[\w.-]{{1,32}}@)?(?P<far>[A-Za-z][\w.-]{{0,60}}) \S"
    rf"|(?:-{{2,8}}|={{2,8}}|#{{2,8}}) ?(?:node-check |node |host |on )(?P<head>[A-Za-z][\w.-]{{0,60}})\b"
    # A word of prose has no digit, and further words behind it.
    rf"(?:(?<=[\d.-])|(?<=\d\w)|(?=\s{{0,3}}(?:[-=#:(,]|$)))"
    # A loop over hosts prints the bare name; those of devices stand there as well, and so a host's needs a digit.
    r"|[-=#]{1,8} ?(?!GPU|mlx|roce|ibp?\d|eth\d|en[opsP]\d|bond)"
    r"(?P<titled>[A-Za-z](?=[\w.-]{0,60}\d)[\w.-]{1,60})"
    r"[ :]{0,2}[-=#]{0,8}\s{0,3}$)",
    re.MULTILINE,
)
_SSH = re.compile(r"\bssh (?:-\w \S{1,40} |-\w )*(?:[\w.-]{1,32}@)?(?P<host>[A-Za-z][\w.-]{0,60}) \S")
_OF_OTHERS = re.compile(
    r"[$#] .{0,80}?\b(?:mpirun|mpiexec|srun|sbatch|torchrun|deepspeed|accelerate|horovodrun|ray"
    r"|kubectl|oc|pdsh|clush|ansible)\b"
    r"|[$#] .{0,200}\.(?:log|out|err|txt)\b"
)
_BACK = 20_000
"""Letters above in which the prompt may stand."""


def host_before(text: Text, at: int) -> str:
    """The host whose prompt or name stands last before that letter, or at which ssh ran the command; "" for none."""
    return _before(text, at)[0]


def own_host_before(text: Text, at: int) -> str:
    """As `host_before`; "" where the command there shows what other hosts print: a launcher, or a log's file."""
    host, line = _before(text, at)
    return "" if _OF_OTHERS.search(line) else host


def _before(text: Text, at: int) -> tuple[str, str]:
    """That host, and the line that names it."""
    last = None
    for found in _PROMPT.finditer(text.text, max(0, at - _BACK), at):
        last = found
    if last is None:
        return "", ""
    end = text.text.find("\n", last.start())
    line = text.text[last.start() : end if end >= 0 else len(text.text)]
    away = _SSH.search(line)
    return away["host"] if away else next(each for each in last.groups() if each), line


def hosts_in(text: Text, letters: int) -> Iterator[str]:
    """Every host whose prompt or name stands within so many letters, as often as it does."""
    for found in _PROMPT.finditer(text.text, 0, letters):
        yield next(each for each in found.groups() if each)
