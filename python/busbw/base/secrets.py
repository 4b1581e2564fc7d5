"""What is a secret: the one rule by which records, bundles, imports, dry runs, reports and errors leave it out.

The rule is data, in secret_rules.txt; the engine is built from the same file.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

HIDDEN = "***"
RULES = Path(__file__).with_name("secret_rules.txt")

# NAME=value, NAME: value, "name": "value", --name value: one that names a secret loses its value.
# The words in the middle are those of NCCL_DEBUG=INFO.
_NAME = re.compile(
    r"""(?<![\w-])(["']?)(-{0,2}[A-Za-z_][\w.-]{0,100})\1"""
    r"""([ \t]{0,20}[=:][ \t]{0,20}| set (?:by environment )?to |[ \t]{1,20})"""
)
_VALUE = re.compile(r"""(?P<quote>["'])[^"'\n]*(?P=quote)|[^\s"',;&|)]+""")
# Without one of these there is nothing to hide: most lines of a log end here.
_SUSPECT = re.compile(
    r"token|secret|pass|cred|jwt|cookie|auth|private|signature|precondition|sas|pwd|pat|dsn|key|:/|bearer|basic|sig="
    r"|eyJ|gh[pousr]_|glpat|hf_|npm_|xox|sk-|AKIA|ASIA",
    re.IGNORECASE,
)
_SPLIT = re.compile(r"[^A-Z0-9]+")
# Letters of both cases and digits in one long word are seldom anything else; the names of GPUs are.
_RANDOM = re.compile(
    r"(?<![\w/.+=-])(?!(?:GPU|MIG)-)(?=[\w-]*[A-Z])(?=[\w-]*[a-z])(?=(?:[\w-]*\d){4})[\w-]{40,}(?![\w/.])"
)


@cache
def _rules(kind: str) -> tuple[str, ...]:
    lines = RULES.read_text(encoding="ascii").splitlines()
    return tuple(line.partition(" ")[2] for line in lines if line.partition(" ")[0] == kind)


@cache
def _values() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in _rules("value"))


@cache
def is_secret_name(name: str) -> bool:
    """Whether the value of a variable or option of this name is a secret, or may be."""
    upper = name.upper()
    if any(part in upper.replace("-", "_") for part in _rules("part")):
        return True
    for word in filter(None, (part for piece in _SPLIT.split(upper) for part in piece.split("_"))):
        if word in _rules("word"):
            return True
        if word.endswith(_rules("ending")) and word not in _rules("harmless"):
            return True
    return False


def hide_values(text: str) -> str:
    """The text without what looks like a secret wherever it stands: credentials in addresses, tokens, private keys."""
    for pattern in _values():
        text = pattern.sub(lambda found: f"{found[1]}{HIDDEN}", text)
    return text


def hide(text: str) -> str:
    """A command, a script or a log without secrets, those that a name announces too."""
    if not _SUSPECT.search(text):
        return text
    text = hide_values(text)
    parts: list[str] = []
    at = 0
    for name in _NAME.finditer(text):
        value = _VALUE.match(text, name.end()) if name.start() >= at and _announces(text, name) else None
        # What a shell puts in, and what is made at start, is no secret yet.
        if value and not value[0].startswith(("$", "<", *("-" if name[3].isspace() else ()))):
            parts += [text[at : value.start()], HIDDEN]
            at = value.end()
    return "".join([*parts, text[at:]])


def _announces(text: str, found: re.Match[str]) -> bool:
    # A blank after a plain word is prose ("the key is"); after an option, or in csh, a value follows.
    name, sign = found[2], found[3]
    set_so = text[max(0, found.start() - 8) : found.start()].rstrip().endswith("setenv")
    if name.upper() in {"KEY", "KEYS"}:  # of a table or a manifest
        return False
    return (not sign.isspace() or name.startswith("-") or set_so) and is_secret_name(name.lstrip("-"))


def hide_random(text: str) -> str:
    """As `hide_values`, and without long random words: for values of variables, not where hashes may stand."""
    return _RANDOM.sub(HIDDEN, hide_values(text))
