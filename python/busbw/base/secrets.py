"""What is a secret: the one rule by which records, bundles, imports, dry runs, reports and errors leave it out.

The rule is data, in secret_rules.txt; the engine is built from the same file.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

HIDDEN = "***"
_LONGEST_LINE = 1 << 16  # of a program's output; what is longer is read in parts
_BEGINS_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY")
_LONGEST_KEY = 200
_LONGEST_WORD, _SHORTEST_CUT = 4096, 8  # of a word that a cut goes through
Shown = TypeVar("Shown")
RULES = Path(__file__).with_name("secret_rules.txt")

# NAME=value, NAME: value, "name": "value", \"name\": \"value\", b'name': b'value', name => value, ENV['NAME'] = value,
# a block of YAML below its name, --name value, and what HTML and addresses make of quotes: a name of a secret loses
# its value. The words in the middle are those of NCCL_DEBUG=INFO.
_QUOTE = r"""(?:\\{0,3}["']|`|&quot;|&#3[49];|%2[27])"""
_COLOUR = r"(?:\x1b\[[\d;]{0,12}m)?"
_NAME = re.compile(
    rf"""(?<![\w-])(?:\[[\d;]{{0,12}}m|b(?=["']))?({_QUOTE}?)(-{{0,2}}[A-Za-z_][\w.-]{{0,100}})\1(?:["']?[\]}}])?{_COLOUR}"""
    rf"""([ \t]{{0,20}}(?:=>|:=|->|:[A-Z]{{3,10}}=|:[ \t]{{1,5}}[|>][+-]?[ \t]{{0,5}}\r?\n(?=[ \t])|[=:]|%3[AD])"""
    rf"""[ \t]{{0,20}}{_COLOUR}"""
    rf"""(?:[&!][\w-]{{1,40}}[ \t]{{1,4}}|\{{\s{{0,20}}["']?value["']?[ \t]{{0,3}}[:=][ \t]{{0,20}})?"""
    rf"""| set (?:by environment )?to """
    rf"""|[ \t]{{0,20}}[,|][ \t]{{0,20}}(?:\r?\n[ \t]{{0,80}}(?=["']))?| to |[ \t\0]{{1,20}})""",
)
# A pair: `- name: NAME` and `value: ...` on the next line, both in one JSON object, or attributes of XML.
_PAIR = re.compile(
    r"""(\b(?:name|key)["']?[:=]\s{0,20}["']?([\w.-]{1,100})["']?,?"""
    r"""(?:\s{1,80}|[ \t]{0,20}\r?\n[^\r\n"']{1,80}\s)["']?value["']?[:=][ \t]{0,20})"""
    r"""("[^"\n]*"|'[^'\n]*'|[^\s,}]+)"""
)
_VALUE = re.compile(
    r"""b?(?P<quote>\\{1,3}["']|&quot;|&#3[49];|%2[27]|"{3}|'{3})(?:(?!(?P=quote))[^\n])*(?P=quote)"""
    r"""|\w{0,20}\([^()\n]{1,200}\)|[b$]?"(?:\\.|[^"\\\n])*"|[b$]?'(?:\\.|''|[^'\\\n])*'|\[[^\]\n]*\]|[^\s\0"',;&|)\x1b]+"""
)
# Words after which a name and a blank announce a value; what precedes a quoted assignment, whose blanks are its own.
_SETS = re.compile(r"(?:\bsetenv|\bsetx|\bset -\w{1,3}|-g?env|--setenv|%env|\bENV|\bARG)\s+$", re.IGNORECASE)
_WHOLE = re.compile(r"""(?:(?:-[ex]|--env|\bexport)[ =]|[\[,({]\s{0,2})["']$""")
# A value that no word of a sentence looks like.
_NO_WORD = re.compile(r"""["']?(?=[^\s"']{0,100}\d)(?=[^\s"']{0,100}[A-Za-z])[^\s"',|]{6,}""")
# A name whose value stands on the next line, or behind an empty one; a line that has a name of its own.
_BELOW = re.compile(
    r"""((?:\b(?:api|access|secret|private|account|auth)[ ]key|(?<![\w.-])[A-Za-z_][\w.-]{1,100}))["'`]?\]?"""
    r"""[ \t]{0,5}(?:=>|:=|->|[=:])[ \t]{0,20}\r?\n""",
    re.IGNORECASE,
)
_NAMED = re.compile(r"""["']?[A-Za-z_][\w.-]*["']?(?::$|[:=](?=[^=]))""")
# A line whose value stands below it: `NAME:`, `- name: NAME`; that one may be empty.
_GOES_ON = re.compile(r"""(?:(?:[:=>|]|\bname["']?[:=][^\n]{1,100})[ \t\r]*\n|:[ \t\r]*\n[ \t\r]*\n)$""")
_BELOW_LINES = 2
_EMPTY = re.compile(r"[ \t\r]*\n")
_KEY = re.compile(r"""["'][0-9A-Za-z_-]{24,}["']""")
_HEX_PART = re.compile(r"[0-9a-f]{32}|[0-9A-F]{32}")
_SPLIT = re.compile(r"[^A-Z0-9]+")
# Words that may be random, in base 62, 64 or its form for addresses.
_LONG = re.compile(r"[A-Za-z0-9_~+/-]{20,}")
_DIGEST = re.compile(r"(?:sha\d{1,3}|md5)[:-]?$", re.IGNORECASE)
# What a resource of Oracle's cloud is called: its kind, its realm and its region come before drawn letters.
_RESOURCE = re.compile(r"(?<![A-Za-z0-9_.-])ocid1\.[a-z0-9.-]{4,80}(?<=\.)$")
_BEFORE = 100
"""Characters before a word that tell what it is."""
_PUBLIC = ("AAAAB3NzaC1", "AAAAC3NzaC1", "AAAAE2VjZHNh")
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
def _values() -> tuple[tuple[tuple[str, ...], re.Pattern[str]], ...]:
    """The forms of values, each with the words without which it is not there."""
    made: list[tuple[tuple[str, ...], re.Pattern[str]]] = []
    where: tuple[str, ...] = ()
    for line in RULES.read_text(encoding="ascii").splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "where":
            where = tuple(rest.split("|"))
        elif kind == "value":
            made.append((where, re.compile(rest, re.IGNORECASE)))
            where = ()
    return tuple(made)


@cache
def _whole(kind: str, *, cases: bool = False) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{rule})" for rule in _rules(kind)), 0 if cases else re.IGNORECASE)


@cache
def _tails() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(rule, re.IGNORECASE) for rule in _rules("tail"))


@cache
def _of_values() -> tuple[str, ...]:
    """Without one of these no value is hidden by its form: most lines of a log end here."""
    return tuple(dict.fromkeys(word for where, _ in _values() for word in where))


@cache
def _of_names() -> tuple[str, ...]:
    """What a name of a secret holds, in small letters."""
    return tuple(text.lower() for kind in ("part", "word", "ending") for text in _rules(kind))


@cache
def is_secret_name(name: str) -> bool:
    """Whether the value of a variable or option of this name is a secret, or may be."""
    upper = "_".join(filter(None, _SPLIT.split(name.upper())))
    if upper in _rules("known"):
        return False
    upper = f"_{upper}_"
    for words in _rules("harmless"):
        while f"_{words}_" in upper:
            upper = upper.replace(f"_{words}_", "_")
    if any(part in upper for part in _rules("part")):
        return True
    return any(word in _rules("word") or word.endswith(_rules("ending")) for word in upper.split("_"))


def hide_values(text: str) -> str:
    """The text without what looks like a secret wherever it stands: credentials in addresses, tokens, private keys."""
    lowered = text.lower()
    if not any(each in lowered for each in _of_values()) and not _HEX_PART.search(text):
        return _hide_words(text)
    for where, pattern in _values():
        if any(each in lowered for each in where) if where else _HEX_PART.search(text):
            text = pattern.sub(lambda found: f"{found[1]}{HIDDEN}", text)
    return _hide_words(text)


def _hide_words(text: str) -> str:
    shown = _LONG.sub(lambda found: _word_hidden(found[0], text[max(0, found.start() - _BEFORE) : found.start()]), text)
    return _hide_tails(shown)


def _hide_tails(text: str) -> str:
    for pattern in _tails() if HIDDEN in text else ():
        text = pattern.sub(lambda found: f"{found[1]}{HIDDEN}", text)
    return text


def _word_hidden(word: str, before: str) -> str:
    if not _DIGITS_APART.search(word):
        return word
    # What a C++ compiler makes of names looks random, and digests in base 64 are no secrets.
    # Public keys of SSH neither.
    if word.startswith(("_Z", *_PUBLIC)) or _DIGEST.search(before) or _DIGEST.match(word.partition("-")[0]):
        return word
    if word.isalnum() and word.islower() and _RESOURCE.search(before):
        return word
    marks = word.count("/") + word.count("+")
    if word[0] not in "/~" and marks * 8 <= len(word) and is_random(word, of_one_case=marks == 0):
        return HIDDEN
    if not marks:
        return word
    # A part of a path: one of lower case alone may be a package's hash. Paths seldom hold a +, numbers in base 64 do.
    shown = re.sub(r"[^/+]{20,}", lambda part: HIDDEN if is_random(part[0], of_one_case=False) else part[0], word)
    return HIDDEN if shown != word and "+" in word else shown


def is_random(word: str, *, of_one_case: bool) -> bool:
    """Whether a word has letters of both cases and digits in no order, or (if asked) one case and digits so.

    In base 62 two neighbours are of different classes (capital, small, digit) 62 times of 100; in names that people
    make of words less often. Pieces of hexadecimal digits are left out: they name GPUs, commits and containers.
    engine/record/random_words.cc says the same in C++.
    """
    if not _DIGITS_APART.search(word) or _has_many_joints(word):
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


def _has_many_joints(word: str) -> bool:
    """Whether a word has more joints than drawn ones have: the name of a kernel, with its sizes and types."""
    return (word.count("_") + word.count("-")) * 9 > len(word)


def hide(text: str) -> str:
    """A command, a script or a log without secrets, those that a name announces too."""
    text = hide_values(text)
    lowered = text.lower()
    if not any(each in lowered for each in _of_names()):
        return text
    text = _PAIR.sub(lambda found: f"{found[1]}{HIDDEN}" if is_secret_name(found[2]) else found[0], text)
    text = _without(text, _values_beside(text))
    return _hide_tails(_without(text, _values_below(text)))


def _values_beside(text: str) -> Iterator[tuple[int, int]]:
    """Where values stand in the line of their names."""
    at = 0
    for name in _NAME.finditer(text):
        end = _end_of_value(text, name) if name.start() >= at and _announces(text, name) else 0
        if end:
            yield name.end(), end
            at = end


def _values_below(text: str) -> Iterator[tuple[int, int]]:
    """Where a value stands alone in the line below its name, behind the same words of a log or none."""
    for name in _BELOW.finditer(text):
        if name[1].upper().endswith(("KEYS", "TOKENS")) or name[1].upper() == "KEY" or not is_secret_name(name[1]):
            continue
        before = text[text.rfind("\n", 0, name.start()) + 1 : name.start()].rstrip("\"'`")
        start = _behind_prefix(text, before, name.end())
        empty = _EMPTY.match(text, start)
        start = _behind_prefix(text, before, empty.end()) if empty else start
        line = text[start : text.find("\n", start) % (len(text) + 1)]
        word = line.strip(" \t\r\"',;").removeprefix("- ").strip(" \"'")
        quoted = line.strip(" \t\r,;")[:1] in {'"', "'"} and word and " " not in word
        if (quoted or _NO_WORD.fullmatch(word)) and not _NAMED.match(word) and not _tells_nothing(name[1], word):
            begin = start + line.index(word)
            yield begin, begin + len(word)


def _behind_prefix(text: str, before: str, at: int) -> int:
    """Where a line begins behind what a log writes before each: the words before the name but for a few of its own."""
    for _ in range(5):
        same = re.compile(r"\d+".join(map(re.escape, re.split(r"\d+", before)))).match(text, at)
        if same or not before:
            break
        before = before.rstrip()[: before.rstrip().rfind(" ") + 1]
    return same.end() if same else at


def _without(text: str, places: Iterator[tuple[int, int]]) -> str:
    parts: list[str] = []
    at = 0
    for begin, end in places:
        if begin >= at:
            parts += [text[at:begin], HIDDEN]
            at = end
    return "".join([*parts, text[at:]])


def _end_of_value(text: str, name: re.Match[str]) -> int:
    """Where the value behind a name ends; 0: there is none to hide."""
    value = _VALUE.match(text, name.end())
    # What a shell puts in, and what is made at start, is no secret yet; an object's members have names of their own.
    if not value or re.match(r"\{(?:[\"'\w]|$)", value[0]) or re.match(r"""\$(?!["'])|<""", value[0]):
        return 0
    if (not name[3].strip(" \t\0") or name[3].strip() == ",") and value[0].lstrip("\"'").startswith("-"):
        return 0
    if _tells_nothing(name[2], value[0].strip("\\\"'")):
        return 0
    if not name[1] and "=" in name[3] and _WHOLE.search(text, max(0, name.start() - 12), name.start()):
        closing = text.find(text[name.start() - 1], name.end())
        if value.end() < closing and "\n" not in text[value.end() : closing]:
            return closing
    return value.end()


def _tells_nothing(name: str, value: str) -> bool:
    """Whether a value is no secret although its name is one of a secret: `max_new_tokens=512`, `AuthType=munge`."""
    if _whole("nothing").fullmatch(value) or _whole("path", cases=True).fullmatch(value):
        return True
    if _whole("counts").search(name) and _whole("count").fullmatch(value):
        return True
    if "(" in value and "signature" in name.lower():  # of a function
        return True
    about = _whole("about").fullmatch(name) or _whole("camel", cases=True).fullmatch(name)
    return bool(about and _whole("plain").fullmatch(value))


def _announces(text: str, found: re.Match[str]) -> bool:
    # A blank after a plain word is prose ("the key is"); after an option, or in csh, a value follows.
    name, sign = found[2], found[3].strip(" \t\r\n\0")
    if name.upper() in {"KEY", "KEYS"}:  # of a table or a manifest, where its value does not look otherwise
        return bool(sign in {"=", ":"} and _KEY.match(text, found.end()))
    if not is_secret_name(name.lstrip("-")) or found[0] == "PASS: ":  # of a test
        return False
    # --name value, and "--name", "value" in a list of words
    if sign not in {"", "to", ",", "|"} or (sign in {"", ","} and name.startswith("-")):
        return True
    if not sign and _SETS.search(text, max(0, found.start() - 12), found.start()):
        return True
    # A row of a table, a pair in brackets, a sentence: only where a variable is named so.
    if "\t" in found[3] and name.upper() == name and (found.start() == 0 or text[found.start() - 1] == "\n"):
        return True
    return name.upper() == name and "_" in name and bool(_NO_WORD.match(text, found.end()))


@lru_cache(maxsize=4096)
def hide_variable(name: str, value: str) -> str:
    """The value of a variable as it may be shown."""
    return HIDDEN if is_secret_name(name) else hide_random(value)


def shortened(text: str, most: int) -> str:
    """The first `most` characters, without a secret that the cut would make too short to be known by its form."""
    if len(text) <= most:
        return text
    start, end = most, most
    while start > 0 and not text[start - 1].isspace():
        start -= 1
    while end < min(len(text), start + _LONGEST_WORD) and not text[end].isspace():
        end += 1
    word = text[start:end]
    return (hide_values(text[:end]) if end - start >= _SHORTEST_CUT and not word.isalpha() else text)[:most]


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
    of_key = 0  # lines that a private key may still have
    try:
        with path.open(errors="surrogateescape", newline="") as source, \
             beside.open("w", errors="surrogateescape", newline="") as target:  # fmt: skip
            held = ""
            while line := held + source.readline(_LONGEST_LINE):
                line, held = _without_end(line)
                of_key = 0 if "-----END" in line else of_key - 1
                for _ in range(_BELOW_LINES):
                    if of_key > 0 or not _GOES_ON.search(line):
                        break
                    line += source.readline(_LONGEST_LINE)
                shown = f"{HIDDEN}\n" if of_key > 0 else hide(line.removesuffix("\n")) + "\n" * line.endswith("\n")
                if _BEGINS_KEY.search(line) and "-----END" not in line:
                    of_key = _LONGEST_KEY
                changed |= shown != line
                target.write(shown)
        if changed:
            beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _without_end(line: str) -> tuple[str, str]:
    """A part of a line that is read in several, without the word at its end, which may go on; and that word."""
    if len(line) < _LONGEST_LINE or line.endswith("\n"):
        return line, ""
    at = max(line.rfind(" "), len(line) - _LONGEST_WORD)
    return line[:at], line[at:]


def hide_random(text: str) -> str:
    """As `hide`, and without values that are one long hexadecimal number: for variables, not where hashes may stand."""
    return HIDDEN if _HEX_VALUE.fullmatch(text) else hide(text)
