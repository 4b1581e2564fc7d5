"""What is a secret: the one rule by which records, bundles, imports, dry runs, reports and errors leave it out.

The rule is data, in secret_rules.txt; the engine is built from the same file.
"""

from __future__ import annotations

import re
import string
from dataclasses import fields, is_dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

HIDDEN = "***"
_LONGEST_LINE = 1 << 16  # of a program's output; what is longer is read in parts
Shown = TypeVar("Shown")
RULES = Path(__file__).with_name("secret_rules.txt")

# NAME=value, NAME: value, "name": "value", \"name\": \"value\", b'name': b'value', name => value, ENV['NAME'] = value,
# a block of YAML below its name, --name value, and what HTML and addresses make of quotes: a name of a secret loses
# its value. The words in the middle are those of NCCL_DEBUG=INFO.
_QUOTE = r"""(?:\\{0,3}["']|&quot;|&#3[49];|%2[27])"""
_COLOUR = r"(?:\x1b\[[\d;]{0,12}m)?"
_NAME = re.compile(
    rf"""(?<![\w-])(?:b(?=["']))?({_QUOTE}?)(-{{0,2}}[A-Za-z_][\w.-]{{0,100}})\1(?:["']?[\]}}])?{_COLOUR}"""
    rf"""([ \t]{{0,20}}(?:=>|:=|->|:[A-Z]{{3,10}}=|:[ \t]{{1,5}}[|>][+-]?[ \t]{{0,5}}\r?\n(?=[ \t])|[=:]|%3[AD])"""
    rf"""[ \t]{{0,20}}{_COLOUR}| set (?:by environment )?to |[ \t]{{0,20}}[,|][ \t]{{0,20}}| to |[ \t]{{1,20}})""",
)
# A pair: `- name: NAME` and `value: ...` on the next line, both in one JSON object, or attributes of XML.
_PAIR = re.compile(
    r"""(\b(?:name|key)["']?[:=]\s{0,20}["']?([\w.-]{1,100})["']?,?\s{1,80}["']?value["']?[:=][ \t]{0,20})"""
    r"""("[^"\n]*"|'[^'\n]*'|[^\s,}]+)"""
)
_VALUE = re.compile(
    r"""b?(?P<quote>\\{1,3}["']|&quot;|&#3[49];|%2[27]|"{3}|'{3})(?:(?!(?P=quote))[^\n])*(?P=quote)"""
    r"""|[b$]?"(?:\\.|[^"\\\n])*"|[b$]?'(?:\\.|''|[^'\\\n])*'|\[[^\]\n]*\]|[^\s"',;&|)\x1b]+"""
)
# Words after which a name and a blank announce a value; what precedes a quoted assignment, whose blanks are its own.
_SETS = re.compile(r"(?:\bsetenv|\bsetx|\bset -\w{1,3}|-g?env|--setenv)\s+$", re.IGNORECASE)
_WHOLE = re.compile(r"""(?:(?:-[ex]|--env|\bexport)[ =]|[\[,({]\s{0,2})["']$""")
# A value that no word of a sentence looks like.
_NO_WORD = re.compile(r"""["']?(?=[^\s"']{0,100}\d)(?=[^\s"']{0,100}[A-Za-z])[^\s"',|]{6,}""")
# Without one of these there is nothing to hide: most lines of a log end here.
_SUSPECT = (
    "token", "secret", "pass", "cred", "jwt", "cookie", "auth", "private", "signature", "precondition", "sas", "pwd",
    "pat", "dsn", "key", ":/", "bearer", "basic", "sig=", "code=", "login", "mysql", " -u", "--user", "eyj", "ghp_",
    "gho_", "ghu_", "ghs_", "ghr_", "glpat", "glrt", "glptt", "gldt", "glcbt", "hf_", "npm_", "xox", "xapp", "sk-",
    "sk_", "rk_", "hvs.", "hvb.", "hvr.", "nvapi", "pypi", "aiza", "ya29", "gocspx", "sg.", "gla_", "glc_", "glsa_",
    "glsc_", "wandb_v", "hooks", "a3t", "akia", "asia", "ldap", "redis", "ipmi", "sudo", "thin:", "docker", "podman",
    "proxy", "sessionid", "sessid", "pw", "psk", " -p", "\ttrue\t", "\tfalse\t",
)  # fmt: skip
_HEX_PART = re.compile(r"[0-9a-f]{32}|[0-9A-F]{32}")
_SPLIT = re.compile(r"[^A-Z0-9]+")
# Words that may be random, in base 62, 64 or its form for addresses.
_LONG = re.compile(r"[A-Za-z0-9_~+/-]{20,}")
_DIGEST = re.compile(r"(?:sha\d{1,3}|md5)[:-]?$", re.IGNORECASE)
_HEX = re.compile(r"(?:0x)?(?:[0-9a-f]+|[0-9A-F]+)")
_HEX_VALUE = re.compile(r"[0-9a-f]{32,}|[0-9A-F]{32,}")
_DIGITS_APART = re.compile(r"[0-9][^0-9]+[0-9]")
_PIECES = re.compile(r"[^A-Za-z0-9]+")
_CLASSES = str.maketrans(
    string.ascii_lowercase + string.ascii_uppercase + string.digits, "a" * 26 + "A" * 26 + "0" * 10
)
_RUNS = re.compile(r"a+|A+|0+")
_SHORTEST = 20
_SHORTEST_ONE_CASE = 32


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
    if upper.lstrip("-").replace("-", "_") in _rules("known"):
        return False
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
    return _hide_words(text)


def _hide_words(text: str) -> str:
    return _LONG.sub(lambda found: _word_hidden(found[0], text[max(0, found.start() - 8) : found.start()]), text)


def _word_hidden(word: str, before: str) -> str:
    if not _DIGITS_APART.search(word):
        return word
    # What a C++ compiler makes of names looks random, and digests in base 64 are no secrets.
    if word.startswith("_Z") or _DIGEST.search(before) or _DIGEST.match(word.partition("-")[0]):
        return word
    marks = word.count("/") + word.count("+")
    if word[0] not in "/~" and marks * 8 <= len(word) and is_random(word, of_one_case=marks == 0):
        return HIDDEN
    if not marks:
        return word
    # A part of a path: one of lower case alone may be a package's hash.
    return re.sub(r"[^/+]{20,}", lambda part: HIDDEN if is_random(part[0], of_one_case=False) else part[0], word)


def is_random(word: str, *, of_one_case: bool) -> bool:
    """Whether a word has letters of both cases and digits in no order, or (if asked) one case and digits so.

    In base 62 two neighbours are of different classes (capital, small, digit) 62 times of 100; in names that people
    make of words less often. Pieces of hexadecimal digits are left out: they name GPUs, commits and containers.
    engine/record/random_words.cc says the same in C++.
    """
    if not _DIGITS_APART.search(word):
        return False
    body = "".join(piece for piece in _PIECES.split(word) if not _HEX.fullmatch(piece))
    classes = body.translate(_CLASSES)
    runs = _RUNS.findall(classes)
    groups = sum(run[0] == "0" for run in runs)
    changes_in_100 = 100 * (len(runs) - 1)
    small, capital = classes.count("a"), classes.count("A")
    if small and capital:
        beyond_hex = sum("g" <= c <= "z" for c in body)
        mixed = min(capital, beyond_hex) >= 2 and groups >= 2 and changes_in_100 >= 42 * (len(body) - 1)
        return mixed and len(body) >= _SHORTEST
    return of_one_case and len(body) >= _SHORTEST_ONE_CASE and groups >= 4 and changes_in_100 >= 15 * (len(body) - 1)


def hide(text: str) -> str:
    """A command, a script or a log without secrets, those that a name announces too."""
    lowered = text.lower()
    if not any(each in lowered for each in _SUSPECT) and not _HEX_PART.search(text):
        return _hide_words(text)
    text = _PAIR.sub(lambda found: f"{found[1]}{HIDDEN}" if is_secret_name(found[2]) else found[0], hide_values(text))
    parts: list[str] = []
    at = 0
    for name in _NAME.finditer(text):
        end = _end_of_value(text, name) if name.start() >= at and _announces(text, name) else 0
        if end:
            parts += [text[at : name.end()], HIDDEN]
            at = end
    return "".join([*parts, text[at:]])


def _end_of_value(text: str, name: re.Match[str]) -> int:
    """Where the value behind a name ends; 0: there is none to hide."""
    value = _VALUE.match(text, name.end())
    # What a shell puts in, and what is made at start, is no secret yet; an object's members have names of their own.
    if not value or value[0] == "{" or re.match(r"""\$(?!["'])|<""", value[0]):
        return 0
    if name[3].isspace() and value[0].startswith("-"):
        return 0
    if not name[1] and "=" in name[3] and _WHOLE.search(text, max(0, name.start() - 12), name.start()):
        closing = text.find(text[name.start() - 1], name.end())
        if value.end() < closing and "\n" not in text[value.end() : closing]:
            return closing
    return value.end()


def _announces(text: str, found: re.Match[str]) -> bool:
    # A blank after a plain word is prose ("the key is"); after an option, or in csh, a value follows.
    name, sign = found[2], found[3]
    if name.upper() in {"KEY", "KEYS"} or not is_secret_name(name.lstrip("-")):  # of a table or a manifest
        return False
    if sign.strip(" \t") not in {"", "to", ",", "|"} or (sign.isspace() and name.startswith("-")):
        return True
    if sign.isspace() and _SETS.search(text, max(0, found.start() - 12), found.start()):
        return True
    # A row of a table, a pair in brackets, a sentence: only where a variable is named so.
    return name.upper() == name and "_" in name and bool(_NO_WORD.match(text, found.end()))


@lru_cache(maxsize=4096)
def hide_variable(name: str, value: str) -> str:
    """The value of a variable as it may be shown."""
    return HIDDEN if is_secret_name(name) else hide_random(value)


def hide_printed(text: str) -> str:
    """As `hide_values`, at the cost of a look where there is nothing to hide: for all that busbw prints."""
    lowered = text.lower()
    if any(each in lowered for each in _SUSPECT) or _HEX_PART.search(text):
        return hide_values(text)
    return _hide_words(text)


def hidden(value: Shown) -> Shown:
    """A value with `hide` over every text in it: tuples, dictionaries and dataclasses too."""
    made: Any = value
    if isinstance(value, str):
        made = hide(value)
    elif isinstance(value, tuple):
        made = tuple(hidden(each) for each in value)
    elif isinstance(value, dict):
        made = {key: hidden(each) for key, each in value.items()}
    elif is_dataclass(value) and not isinstance(value, type):
        changed = {each.name: hidden(getattr(value, each.name)) for each in fields(value) if each.init}
        made = replace(value, **changed)
    return cast("Shown", made)


def hide_in_file(path: Path) -> None:
    """What a program printed into a file that stays, without secrets: line by line, in the same place."""
    beside = path.with_name(f"{path.name}.hidden")
    changed = False
    try:
        with path.open(errors="surrogateescape", newline="") as source, \
             beside.open("w", errors="surrogateescape", newline="") as target:  # fmt: skip
            while line := source.readline(_LONGEST_LINE):
                shown = hide(line)
                changed |= shown != line
                target.write(shown)
        if changed:
            beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def hide_random(text: str) -> str:
    """As `hide`, and without values that are one long hexadecimal number: for variables, not where hashes may stand."""
    return HIDDEN if _HEX_VALUE.fullmatch(text) else hide(text)
