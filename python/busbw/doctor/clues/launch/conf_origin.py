"""A variable that the environment does not show: the log tells of an nccl.conf, which NCCL reads without a word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_FIX = re.compile(r"remove (?P<name>NCCL_\w{2,50}) from where that run got it \(its environment or an nccl\.conf\)")
_PATH = r"(?P<path>(?:/[\w.~-]{1,60}){0,8}/\.?nccl\.conf)"
_MOUNT = re.compile(
    rf"^(?P<from>\S{{1,200}}) on {_PATH} type \w|:{_PATH.replace('path', 'bound')}(?::\w{{1,12}})?(?=\s|$|,)",
    re.MULTILINE,
)
"""What `mount` lists, and what an option of a container binds."""
_LISTED = re.compile(rf"^-[rwxs-]{{9}}\S?\s[^\n]{{10,80}}\s{_PATH}(?: -> \S{{1,200}})?$", re.MULTILINE)
_SHOWN = re.compile(
    rf"(?:\b(?:cat|grep|head|tail|less)\b[^\n]{{0,80}}?\s|^(?:==> |# ?)?){_PATH}\S{{0,4}}[^\n]{{0,40}}\n", re.MULTILINE
)
_PROMPT = re.compile(r"^\S{1,60}[$#>] \S|^[$>] \S|^\W{0,3}\w[\w.-]{0,40}@[\w.-]{1,60}[:~ ]|^```")
_LISTS_ENVIRONMENT = re.compile(
    r"(?:^|[$#>] ?)\s{0,4}(?:env|printenv|export -p|set)\s{0,4}\|\s{0,4}e?grep[^\n]{0,40}NCCL[^\n]{0,40}\n",
    re.MULTILINE,
)
_MOST = 40


def from_conf(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """No command and no list of the environment names the variable, and the log shows an nccl.conf."""
    found = _FIX.search(finding.fix)
    if found is None or any(_by_command(text, found["name"]) for text in texts):
        return None
    name = found["name"]
    for text in texts:
        for where in _SHOWN.finditer(text.text):
            if (line := _line_of(text, where.end(), name)) is not None:
                number, at = line
                place = f"line {number} of {named(where['path'], 60)}"
                return _told(finding, found[0], f"remove {place}", f"by {place}", (text.evidence(at),))
    for text in texts:
        listed = _MOUNT.search(text.text) or _LISTED.search(text.text)
        if listed is None:
            continue
        said = listed.groupdict()
        path = named(said.get("path") or said.get("bound") or "", 60)
        mounted = " that is mounted into the container" if listed.re is _MOUNT else ""
        empty = next(((each, env) for each in texts if (env := _LISTS_ENVIRONMENT.search(each.text))), None)
        why = "no command here sets it" + (", and the environment that is listed has no such variable" if empty else "")
        seen = (text.evidence(listed.start()), *((empty[0].evidence(empty[1].end() - 1),) if empty else ()))
        cure = f"remove {name} from {path} on every host" + (
            ": the file comes from the host, so mend it there or do not mount it" if mounted else ""
        )
        return _told(finding, found[0], cure, f"most likely by {path}{mounted}: {why}", seen)
    return None


def _told(finding: Finding, old: str, cure: str, by: str, seen: tuple[Evidence, ...]) -> Sharper:
    return Sharper(f"{finding.title}; it is set {by}", finding.fix.replace(old, cure), seen)


def _by_command(text: Text, name: str) -> bool:
    """Whether a command, a script or a list of the environment sets it."""
    if name not in text.text:
        return False
    said = re.compile(rf"(?<![\w#]){name}['\"]?\]?\s{{0,2}}[=:]\s{{0,2}}['\"]?\w")
    shown = [(where.end(), _end(text, where.end())) for where in _SHOWN.finditer(text.text)]
    return any(
        not any(begin <= each.start() < end for begin, end in shown) for each in said.finditer(text.text)
    ) or bool(re.search(rf"-x {name}\b", text.text))


def _end(text: Text, begin: int) -> int:
    """Where the file that a command shows ends: at the next prompt, or after so many lines."""
    at = begin
    for line in islice(text.text[begin : begin + 8000].split("\n"), _MOST):
        if _PROMPT.match(line):
            return at
        at += len(line) + 1
    return at


def _line_of(text: Text, begin: int, name: str) -> tuple[int, int] | None:
    """In which line of the file that is shown there the variable stands, and that line's place."""
    at = begin
    for number, line in enumerate(text.text[begin : _end(text, begin)].split("\n"), 1):
        if re.match(rf"\s{{0,8}}{name}\s{{0,4}}=", line):
            return number, at
        at += len(line) + 1
    return None
