"""The manual page busbw(1) in roff, made from the list of verbs and the table of options."""

from __future__ import annotations

from busbw import __version__
from busbw.base.options import MEASURING, actions_of, groups, options_of, title, words_of
from busbw.cli.arguments.help import meaning
from busbw.cli.verbs import COLLECTIVES, VERBS

_ENVIRONMENT = (
    ("BUSBW_RUNS", "folder in which runs are kept, where --runs is not given"),
    ("BUSBW_ENGINE", "the measuring program, where it is not the one beside busbw"),
    ("BUSBW_TABLE", "the table of algorithms that `busbw tune` writes and our GPU library reads"),
)


def page() -> str:
    """The whole page."""
    lines = [
        f'.TH BUSBW 1 "" "busbw {__version__}" "User Commands"', ".SH NAME",
        "busbw \\- measures collectives, says what slows them down, and makes them faster", ".SH SYNOPSIS",
        ".B busbw", ".I VERB", "[options]", ".SH VERBS",
    ]  # fmt: skip
    for verb in VERBS:
        lines += [".TP", f".B {_text(verb.name)}", _text(verb.help)]
    lines += [".SH MEASURING", f"These options belong to {_text(', '.join(COLLECTIVES))}, and to the same words after",
              ".BR \"busbw run\" .", "The programs named *_perf take all but those of a launch."]  # fmt: skip
    lines += _options(MEASURING)
    for verb in VERBS:
        if verb.name in COLLECTIVES:
            continue
        for name in [f"{verb.name} {action}" for action in actions_of(verb.name)] or [verb.name]:
            lines += [f".SH {_text(name.upper())}", f".B busbw {_text(name)}", "[options]",
                      *(f".I {_text(each.name)}" for each in words_of(name))]  # fmt: skip
            lines += _options(name)
    lines += [".SH ENVIRONMENT"]
    for name, said in _ENVIRONMENT:
        lines += [".TP", f".B {_text(name)}", _text(said)]
    lines += [".SH EXIT STATUS", "0 success; 1 something failed, or was found; 2 the words cannot be understood; ",
              "7 wrong data; 124 a time limit was reached; 130 interrupted.", ".SH SEE ALSO",
              "The reference of every verb is in docs/reference of the sources."]  # fmt: skip
    return "\n".join(lines) + "\n"


def _options(verb: str) -> list[str]:
    lines = []
    options = options_of(verb)
    for group in groups():
        inside = [each for each in options if each.group == group]
        if inside:
            lines.append(f".SS {_text(title(group))}")
        for each in inside:
            names = ", ".join(([f"-{each.letter}"] if each.letter else []) + [f"--{each.name}"])
            value = f" \\fI{_text(each.value)}\\fR" if each.value else ""
            lines += [".TP", f"\\fB{_text(names)}\\fR{value}", _text(meaning(each))]
    return lines


def _text(text: str) -> str:
    """Text that roff takes as it is."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in {".", "'"} else escaped
