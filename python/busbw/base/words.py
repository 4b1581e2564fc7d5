"""Reads the words of a command line against the table of options, as getopt_long does; there is no other reader."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from busbw.base.errors import UsageError
from busbw.base.options import ENGINE, LAUNCH, MEASURING, Option, Positional, actions_of, options_of, words_of
from busbw.base.overwriting import refuse_overwriting
from busbw.base.quantities import parse_bytes, parse_number, parse_percent, parse_ranges, parse_seconds, parse_whole

RELEASE = "the old name goes with the next release"
_PLACES = {"FILE", "DIR", "FOLDER", "PATH"}
_UNPRINTABLE = set(" \t\n\r\x0b\x0c'\"`$\\\x7f") | {chr(code) for code in range(32)}


class Args(SimpleNamespace):
    """The values of a verb's options and words, by name; what was not given has its default, else None, False or []."""


@dataclass(frozen=True)
class Given:
    """An option as somebody wrote it; `option` is None for a word that is none, or none that we know."""

    option: Option | None
    text: str | None
    words: tuple[str, ...]


def _given(option: Option, text: str | None, *written: str) -> Given:
    """The engine's words stay as they were written; ours get their full name, whatever verb they go on to."""
    if option.half == ENGINE:
        return Given(option, text, written)
    return Given(option, text, (f"--{option.name}",) if text is None else (f"--{option.name}={text}",))


@dataclass(frozen=True)
class Read:
    """What was read, in the order in which it was written; `rest` is what follows the word at which reading stopped."""

    given: tuple[Given, ...]
    rest: tuple[str, ...] = ()

    @property
    def plain(self) -> list[str]:
        """Words that are no options."""
        return [each.words[0] for each in self.given if each.option is None]

    def has(self, name: str) -> bool:
        return any(each.option is not None and each.option.name == name for each in self.given)


class Reader:
    """Takes one option after the other. `lenient` leaves to the engine what this table does not know."""

    def __init__(self, known: Sequence[Option], prog: str, *, lenient: bool = False) -> None:
        self._known = known
        self._prog = prog
        self._lenient = lenient

    def read(self, words: Sequence[str], until: Callable[[str], bool] = lambda _: False) -> Read:
        """All words, or those before the first that is no option and for which `until` is true."""
        found: list[Given] = []
        at = 0
        while at < len(words):
            word = words[at]
            if word == "--":
                return Read(tuple(found), tuple(words[at + 1 :]))
            if not word.startswith("-") or word == "-":
                if until(word):
                    return Read(tuple(found), tuple(words[at:]))
                found.append(Given(None, None, (word,)))
                at += 1
                continue
            at += 1
            following = words[at] if at < len(words) else None
            each, taken = self._name(word, following) if word.startswith("--") else self._letters(word, following)
            found += each
            at += taken
        return Read(tuple(found))

    def _name(self, word: str, following: str | None) -> tuple[list[Given], int]:
        name, equals, text = word[2:].partition("=")
        option = self._named(name)
        if option is None:
            return [self._unknown(word)], 0
        if option.value is None:
            if equals:
                self.refuse(f"{option.shown} takes no value")
            return [_given(option, None, word)], 0
        if equals:
            return [_given(option, text, word)], 0
        text = self._value(option, following)
        return [_given(option, text, word, text)], 1

    def _letters(self, word: str, following: str | None) -> tuple[list[Given], int]:
        found: list[Given] = []
        rest = word[1:]
        while rest:
            letter, rest = rest[0], rest[1:]
            option = self._lettered(letter)
            if option is None:
                return [*found, self._unknown(f"-{letter}{rest}" if self._lenient else f"-{letter}")], 0
            if option.value is None:
                found.append(_given(option, None, f"-{letter}"))
            elif rest:
                return [*found, _given(option, rest, f"-{letter}{rest}")], 0
            else:
                text = self._value(option, following)
                return [*found, _given(option, text, f"-{letter}", text)], 1
        return found, 0

    def _value(self, option: Option, following: str | None) -> str:
        return self.refuse(f"{option.shown} needs a value: {option.value}") if following is None else following

    def _lettered(self, letter: str) -> Option | None:
        return next((each for each in self._known if each.letter == letter), None) or self._formerly(f"-{letter}")

    def _named(self, name: str) -> Option | None:
        wanted = name.replace("-", "_")
        exact = next((each for each in self._known if each.name.replace("-", "_") == wanted), None)
        if exact is not None:
            return exact
        if found := self._formerly(f"--{name.replace('_', '-')}"):
            return found
        # As the engine reads them: a beginning that is unique among nccl-tests' names keeps its meaning.
        engine = [o for o in self._known if o.half == ENGINE and o.name.replace("-", "_").startswith(wanted) and wanted]
        theirs = [each for each in engine if each.theirs] or engine
        if len(theirs) > 1:
            names = " and ".join(f"--{each.name}" for each in theirs)
            self.refuse(f"'--{name}' is the beginning of several options: {names}")
        return theirs[0] if theirs else None

    def _formerly(self, spelling: str) -> Option | None:
        found = next((each for each in self._known if spelling in each.old), None)
        if found is not None and found.half != ENGINE:  # the engine says it of its own
            print(f"busbw: {spelling} is now --{found.name}; {RELEASE}", file=sys.stderr)
        return found

    def _unknown(self, word: str) -> Given:
        if self._lenient:
            return Given(None, None, (word,))
        from busbw.base.nearest import nearest

        names = [each.name for each in self._known]
        near = nearest(word[2:].partition("=")[0].replace("_", "-"), names) if word[:2] == "--" else None
        return self.refuse(f"there is no option '{word}'" + (f"; did you mean '--{near}'?" if near else ""))

    def refuse(self, sentence: str) -> NoReturn:
        """One sentence that names the way to the help."""
        raise UsageError(f"{sentence}; see `{self._prog} --help`")


def parse(verb: str, words: Sequence[str], until: Callable[[str], bool] | None = None) -> Args:
    """The options and words of a verb. Raises UsageError with one sentence for what it does not understand.

    A verb that hands words on reads its own until the first word that is no option, or for which `until` is true.
    """
    counts = {each.count for each in words_of(verb)}
    hands_on = "rest" in counts and "1" not in counts
    reader = Reader(_everything(verb), f"busbw {verb}")
    read = reader.read(words, until or (lambda _: hands_on))
    if read.has("help"):
        return Args(help=True)
    refuse_overwriting(read.given, () if hands_on else read.rest)
    plain, name = read.plain, verb
    action = None
    if actions := actions_of(verb):
        action = plain.pop(0) if plain else actions[0]
        name = f"{verb} {action}"
        if action not in actions:
            reader.refuse(f"'{action}' was not expected; it takes one of {', '.join(actions)}")
        _only(reader, read, name)
    known = options_of(name)
    for each in known:
        if each.needs and read.has(each.name) and not read.has(each.needs):
            reader.refuse(f"{each.shown} means nothing without --{each.needs}")
    return Args(
        **vars(values(known, read.given)),
        **_assigned(reader, words_of(name), plain, read.rest),
        **({"action": action} if actions else {}),
    )


def values(known: Sequence[Option], given: Sequence[Given]) -> Args:
    """What was given for these options, by key; the last of several wins unless the option collects them."""
    found: dict[str, Any] = {}
    for option in known:
        texts = [each for each in given if each.option is not None and each.option.name == option.name]
        if option.value is None:
            found[option.key] = bool(texts)
        elif option.repeats:
            found[option.key] = [value_of(option, each.text or "") for each in texts]
        elif texts:
            # The last one wins, but a mistake in an earlier one is a mistake.
            found[option.key] = [value_of(option, each.text or "") for each in texts][-1]
        else:
            found[option.key] = None if option.default is None else value_of(option, option.default)
    return Args(**found)


def value_of(option: Option, text: str) -> Any:
    """The value that a text means for an option."""
    if not text and (option.unit == "path" or option.value in _PLACES):
        raise UsageError(f"{option.shown} names a file or folder, but its value is empty")
    if not text.strip() and not option.empty and text != option.default:
        raise UsageError(f"{option.shown} needs a value: {option.value}")
    if option.choices and text not in option.choices:
        raise UsageError(f"{option.shown} takes one of {', '.join(option.choices)}, not '{text}'")
    try:
        return _UNITS[option.unit](option, text)
    except ValueError as problem:
        raise UsageError(f"{option.shown}: {problem}") from None


def _everything(verb: str) -> tuple[Option, ...]:
    found = {each.name: each for action in actions_of(verb) for each in options_of(f"{verb} {action}")}
    return tuple({**found, **{each.name: each for each in options_of(verb)}}.values())


def _only(reader: Reader, read: Read, name: str) -> None:
    known = {each.name for each in options_of(name)}
    for each in read.given:
        if each.option is not None and each.option.name not in known:
            reader.refuse(f"{each.option.shown} means nothing to `busbw {name}`")


def _assigned(reader: Reader, wanted: Sequence[Positional], plain: list[str], rest: tuple[str, ...]) -> dict[str, Any]:
    left = [*plain, *(() if any(each.count == "rest" for each in wanted) else rest)]
    found: dict[str, Any] = {}
    # An unset variable in a script; as a path it would mean this folder.
    if not all(word.strip() for word in left):
        reader.refuse("a word is empty, as a variable of the shell that is not set makes it")
    for each in wanted:
        if each.count == "rest":
            found["rest"] = rest
        elif each.count in "*+":
            found[each.key], left = left, []
        else:
            found[each.key] = left.pop(0) if left else None
        if each.count in "1+" and not found[each.key]:
            reader.refuse(f"{each.name} is missing: {one_of(each)}")
    if left:
        reader.refuse(f"'{left[0]}' was not expected")
    return found


def one_of(word: Positional) -> str:
    """What stands for a word, in a sentence: help texts point at what is printed below them."""
    if word.offers and word.help.endswith(" below"):
        return f"one of {', '.join(word.offers)}"
    return word.help.removesuffix(" below")


def _count(option: Option, text: str) -> int:
    return _within(option, parse_whole(text, octal=option.half == ENGINE))


def _within(option: Option, value: int) -> int:
    low, high = option.range or (None, None)
    if (low is not None and value < low) or (high is not None and value > high):
        limits = f"at least {low}" if high is None else f"at least {low} and at most {high}"
        raise ValueError(f"it must be {limits}, not {value}")
    return value


def _counts(_: Option, text: str) -> list[int]:
    found = [parse_whole(part) for part in text.split(",")]
    if min(found) < 1:
        raise ValueError(f"numbers from 1 on make sense, not {min(found)}")
    return found


def _word(_: Option, text: str) -> str:
    if not text or _UNPRINTABLE.intersection(text):
        raise ValueError(f"{text!r} is empty, or holds a blank, a newline, a quote or a backslash")
    return text


def launch_words(text: str) -> tuple[str, ...]:
    """Launch options in one text, as words that `busbw run` understands; ValueError or UsageError for others."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as problem:
        raise ValueError(f"{text!r} cannot be split into words: {problem}") from None
    known = [option for option in options_of(MEASURING) if option.half == LAUNCH]
    read = Reader(known, "busbw run").read(words)
    if stray := [*read.plain, *read.rest]:
        raise ValueError(f"'{stray[0]}' is no launch option; see `busbw run --help`")
    values(known, read.given)
    return words


_UNITS: dict[str, Callable[[Option, str], Any]] = {
    "text": lambda _, text: text,
    "word": _word,
    "launch words": lambda _, text: launch_words(text),
    "path": lambda _, text: Path(text),
    "count": _count,
    "counts": _counts,
    "number": lambda _, text: parse_number(text),
    "bytes": lambda option, text: _within(option, parse_bytes(text)),
    "bytes list": lambda _, text: [parse_bytes(part) for part in text.split(",")],
    "sizes": lambda _, text: parse_ranges(text),
    "time": lambda _, text: parse_seconds(text),
    "percent": lambda _, text: parse_percent(text),
}
