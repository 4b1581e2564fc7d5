"""Files of two kinds in one, as people paste them: a matrix, `lspci` or variables, and lines of a log behind them."""

from __future__ import annotations

import re
from collections.abc import Callable

from busbw.base.errors import UsageError
from busbw.doctor.finding import Severity
from busbw.doctor.lines.scan import scan
from busbw.doctor.reading.snapshot import TextFile
from busbw.doctor.signatures import SIGNATURES

MAX_LINES, MOST_COMMENTS = 20_000, 100
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*=")
_ASSIGNMENT = re.compile(r"(?:export |declare -x )?[A-Za-z_]\w*=|#|\s*$")
_TOPOLOGY = re.compile(
    r"\s*(?:GPU|NIC)\d{1,3}\b[^|]*$|\s*mlx\d_\d|\s*Link \d|\s+\S+\s+=\s|\s*(?:NIC )?Legend:|\s*$|\$ "
    r"|(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] \S"
)
"""Lines of `nvidia-smi topo -m`, of its links and of `lspci`."""
_GONE = ("(rev ff)", "Unknown header type 7f")
"""What `lspci` says of a device that no longer answers: no part of a machine."""


def beside_topology(text: str) -> str:
    """The lines that are of no matrix and no `lspci`, each in its place; "" where none of them tells of a fault."""
    # What `lspci` tells of a device is set in; a matrix, its heading and its legend are set in too.
    return _others(
        text,
        lambda line: (
            not any(each in line for each in _GONE)
            and (line.startswith(("\t", "   ")) or _TOPOLOGY.match(line) is not None)
        ),
    )


_PROMPT = re.compile(
    r"(?:\[[^\]\n]{1,80}\]|[\w.@~:/()-]{0,80})\s?[$#%>] ?"
    r"(?:sudo )?(?:cat|less|more|head|grep|egrep|env|printenv|echo|set|ssh)\b"
)
"""A shell's prompt with a command: what stands below it is what somebody looked at, and no file."""


_MEANT = re.compile(
    r"\s{0,20}(?:(?:export|setenv|declare -x|#)\s)?\s{0,20}(?:[A-Za-z_][\w.]{0,80}\s{0,20}=|NCCL_[A-Z])"
)
"""A line that is an assignment, or was meant as one."""
_LEAST = 0.5


def as_conf(file: TextFile) -> TextFile:
    """The file that was given as an nccl.conf; UsageError where it is something else, whose lines would be findings."""
    if file.text is not None and not may_be_conf(file.text):
        raise UsageError(
            f"{file.path} is no nccl.conf: most of its lines are no NAME=value; "
            "without --conf the doctor looks at it for what it is"
        )
    return file


def may_be_conf(text: str) -> bool:
    """Whether half of the lines that are no comments are assignments or were meant so; an empty file is one."""
    lines = [line for line in text.split("\n")[:MAX_LINES] if line.strip() and not line.lstrip().startswith("#")]
    return "\0" not in text and sum(map(bool, map(_MEANT.match, lines))) >= len(lines) * _LEAST


def is_conf(text: str, name: str = "") -> bool:
    """Whether most lines that are no comments are assignments of variables, as in an nccl.conf; its name may tell."""
    if name.endswith(".conf"):
        return may_be_conf(text)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if any(map(_PROMPT.match, lines[:100])):
        return False
    return len([line for line in lines if _VARIABLE.match(line)]) * 2 > len(lines)


def beside_assignments(text: str) -> str:
    """The lines that are no assignments, each in its place; "" where none of them tells of a fault or of a job."""
    return _others(text, lambda line: _ASSIGNMENT.match(line) is not None)


def assignments(text: str) -> str:
    """The lines that are assignments, each in its place."""
    is_script = CONF not in text
    lines = (line if _ASSIGNMENT.match(line) else "" for line in text.split("\n"))
    return "\n".join(as_set(line) if is_script else line for line in lines)


CONF = "nccl.conf"
"""Where a paste names that file, its lines are read as NCCL reads them."""


_EXPORTED = re.compile(r"(?:export|declare -x) (?P<name>[A-Za-z_]\w{0,60})=(?P<mark>[\"']?)(?P<value>.*?)(?P=mark)\s*$")


def as_set(line: str) -> str:
    """An assignment as the shell that reads it makes it: a script that exports is no nccl.conf."""
    found = _EXPORTED.match(line)
    return f"{found['name']}={found['value']}" if found else line


def tells_fault(text: str) -> bool:
    """Whether a signature above a note, or a word of an error, is in the text."""
    found = scan(text.split("\n")[:MAX_LINES], "", tuple(SIGNATURES.values()))
    return bool(found.strange) or any(SIGNATURES[name].severity is not Severity.NOTE for name in found.hits)


def _others(text: str, own: Callable[[str], bool]) -> str:
    lines = ["" if own(line) else line for line in text.split("\n")[:MAX_LINES]]
    others = "\n".join(lines)
    return others if any(lines) and (tells_fault(others) or tells_job(others)) else ""


def tells_job(text: str) -> bool:
    """Whether the text shows a job that goes on, or that its work is done."""
    found = scan(text.split("\n")[:MAX_LINES], "", ())
    return bool(found.alive or found.course.done)


_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def is_one_xml(text: str) -> bool:
    """Whether the text is one XML file and no more, whatever its comments say."""
    if text.count("<!--") > MOST_COMMENTS:
        return False
    bare = _COMMENT.sub("", text).strip("\ufeff \t\r\n")
    root = re.match(r"(?:<\?xml[^>]{0,200}\?>\s{0,99})?(?:<!DOCTYPE[^>]{0,200}>\s{0,99})?<(\w{1,40})[\s>]", bare)
    return root is not None and bare.endswith(f"</{root[1]}>") and bare.count(f"</{root[1]}>") == 1
