"""The help of a verb, laid out for a terminal of 80 columns from the table of options."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from busbw.base.options import MEASURING, Option, Positional, actions_of, groups, options_of, title, words_of

WIDTH = 80
_TEXT = 31  # column at which an option's meaning begins

MEASURING_EPILOG = """\
examples:
  busbw {collective} -b 8 -e 64M -f 2 -t 2
  busbw {collective} -b 1M -e 1M -t 2 --precision 1%
  busbw {collective} -b 1K -e 1G -f 4 -t 4 --library system --library torch
  busbw {collective} -b 8 -e 8G --launcher slurm --nodes 2 --gpus-per-node 8
"""


def verb_help(verb: str, epilog: str) -> str:
    """What `busbw VERB --help` prints."""
    from busbw.cli.verbs import VERBS

    said = next(each.help for each in VERBS if each.name == verb)
    actions = actions_of(verb)
    parts = [f"usage: busbw {verb} " + ("[ACTION] [options]" if actions else _words(words_of(verb)))]
    parts.append(_wrapped(f"{said[0].upper()}{said[1:]}."))
    parts += _positionals(words_of(verb))
    parts += option_groups(options_of(verb))
    parts += [_action(verb, action) for action in actions[1:]]  # the first is what the verb does by itself
    return "\n\n".join([*parts, epilog.rstrip()]) + "\n"


def measuring_help(collective: str) -> str:
    """What `busbw all_reduce --help` prints: the engine's options, those of a launch, those of the record."""
    said = (
        "Measures latency and bandwidth of a collective over every size from -b to -e, out of place and in place, and "
        "checks the result. Letters, long names and output are those of nccl-tests 2.19.6; a long name of these may be "
        "shortened as far as it stays unique. Launching options start it as several ranks."
    )
    parts = [f"usage: busbw {collective} [options]", _wrapped(said), *option_groups(options_of(MEASURING))]
    return "\n\n".join([*parts, MEASURING_EPILOG.format(collective=collective).rstrip()]) + "\n"


def option_groups(options: Sequence[Option]) -> list[str]:
    """A paragraph for each group, in the table's order."""
    found = []
    for group in groups():
        inside = [option for option in options if option.group == group]
        if inside:
            found.append("\n".join([f"{title(group)}:", *(line for each in inside for line in _described(each))]))
    return found


def meaning(option: Option) -> str:
    """What an option does, with its default."""
    usual = option.said or option.default
    often = "; may be repeated" if option.repeats and "wo or more" not in option.help else ""
    return option.help + often + (f" (default {usual})" if usual else "")


def spelling(option: Option) -> str:
    """`-b, --minbytes SIZE`."""
    left = f"-{option.letter}, " if option.letter else "    "
    return f"{left}--{option.name}" + (f" {option.value}" if option.value else "")


def _described(option: Option) -> Iterable[str]:
    return _two_columns(spelling(option), meaning(option))


def _two_columns(left: str, text: str) -> list[str]:
    lines = textwrap.wrap(text, WIDTH - _TEXT, break_on_hyphens=False) or [""]
    if len(left) + 4 > _TEXT:
        return [f"  {left}", *(" " * _TEXT + line for line in lines)]
    return [f"  {left:<{_TEXT - 2}}{lines[0]}", *(" " * _TEXT + line for line in lines[1:])]


def _words(wanted: Sequence[Positional]) -> str:
    shapes = {"1": "{}", "?": "[{}]", "*": "[{} ...]", "+": "{} ...", "rest": "[{}]"}
    return " ".join(["[options]", *(shapes[each.count].format(each.name) for each in wanted)])


def _positionals(wanted: Sequence[Positional]) -> list[str]:
    lines = [line for each in wanted for line in _two_columns(each.name, each.help)]
    return ["\n".join(["Words:", *lines])] if lines else []


def _action(verb: str, action: str) -> str:
    name = f"{verb} {action}"
    own = [each for each in options_of(name) if each.name != "help" and each not in options_of(verb)]
    words = [line for each in words_of(name) for line in _two_columns(each.name, each.help)]
    usage = f"busbw {name} {_words(words_of(name)).removeprefix('[options] ' if not own else '')}"
    usage = usage.removesuffix("[options]").rstrip() if not own else usage
    return "\n".join([f"{usage}:", *words, *(line for each in own for line in _described(each))])


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, WIDTH, break_on_hyphens=False))
