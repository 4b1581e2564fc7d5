"""Completion for bash, zsh and fish, made from the list of verbs and the table of options."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from busbw.base.options import MEASURING, Option, actions_of, options_of, words_of
from busbw.cli.verbs import COLLECTIVES, VERBS

SHELLS = ("bash", "zsh", "fish")
_FILES = {"FILE", "PATH", "DIR", "FOLDER", "RUN"}
"""Values and words for which the shell's own names of files are the best guess."""


def script(shell: str) -> str:
    """The script that this shell reads."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()


def key_of(verb: str) -> str:
    """As the table calls a verb."""
    return MEASURING if verb in COLLECTIVES else verb


def spellings(options: Sequence[Option]) -> list[str]:
    """Every way to write these options' names."""
    return [word for each in options for word in ([f"-{each.letter}"] if each.letter else []) + [f"--{each.name}"]]


def plain_words(verb: str) -> list[str]:
    """What may stand for a verb's first word that is no option, where the table can tell."""
    if actions := actions_of(verb):
        return list(actions)
    names = {each.name for each in words_of(verb)}
    if any("COLLECTIVE" in name for name in names):
        return list(COLLECTIVES)
    return list(SHELLS) if "SHELL" in names else ["make"] if "make" in names else []


def all_options(verb: str) -> tuple[Option, ...]:
    """A verb's options with those of its actions."""
    key = key_of(verb)
    found = {each.name: each for action in actions_of(key) for each in options_of(f"{key} {action}")}
    return tuple({**found, **{each.name: each for each in options_of(key)}}.values())


def _bash() -> str:
    lines = [
        "# Completion of busbw for bash: source <(busbw completion bash)",
        "_busbw() {",
        '  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb="" each words',
        '  for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        f'    case $each in {"|".join(verb.name for verb in VERBS)}) verb=$each ;; esac',
        "  done",
        "  COMPREPLY=()",
        '  case $verb:$before in',
    ]  # fmt: skip
    for verb in VERBS:
        for option in all_options(verb.name):
            names = [f"-{option.letter}"] if option.letter else []
            pattern = "|".join(f"{verb.name}:{name}" for name in (*names, f"--{option.name}"))
            if option.choices:
                lines.append(
                    f'    {pattern}) COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$word")); return ;;'
                )
            elif option.value in _FILES:
                lines.append(f'    {pattern}) COMPREPLY=($(compgen -f -- "$word")); return ;;')
            elif option.value is not None:
                lines.append(f"    {pattern}) return ;;")
    lines += ["  esac", "  case $verb in"]
    for verb in VERBS:
        words = " ".join([*plain_words(verb.name), *spellings(all_options(verb.name))])
        lines.append(f'    {verb.name}) words="{words}" ;;')
    lines += [
        f'    *) words="{" ".join(verb.name for verb in VERBS)} --help --version" ;;',
        "  esac",
        '  COMPREPLY=($(compgen -W "$words" -- "$word"))',
        '  [ -n "${COMPREPLY[*]}" ] || COMPREPLY=($(compgen -f -- "$word"))',
        "}",
        "complete -o filenames -F _busbw busbw",
    ]
    return "\n".join(lines) + "\n"


def _zsh() -> str:
    lines = ["#compdef busbw", "# Completion of busbw for zsh: source <(busbw completion zsh)", "_busbw() {",
             "  local verb=${words[2]}", "  if (( CURRENT == 2 )); then", "    local -a verbs=("]  # fmt: skip
    lines += [f"      {_single(f'{verb.name}:{verb.help}')}" for verb in VERBS]
    lines += [
        "    )",
        "    _describe verb verbs",
        "    return",
        "  fi",
        "  shift words; (( CURRENT-- ))",
        "  case $verb in",
    ]
    for verb in VERBS:
        lines.append(f"    {verb.name})")
        lines.append("      _arguments -s \\")
        for option in all_options(verb.name):
            lines += [f"        {each} \\" for each in _zsh_option(option)]
        plain = " ".join(plain_words(verb.name))
        lines.append(f"        {_single(f'*::word:({plain})' if plain else '*:file:_files')} ;;")
    lines += ["  esac", "}", '[ "${funcstack[1]}" = _busbw ] && _busbw "$@" || compdef _busbw busbw']
    return "\n".join(lines) + "\n"


def _zsh_option(option: Option) -> Iterable[str]:
    said = option.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    often = "*" if option.repeats else ""
    value = ""
    if option.value is not None:
        name = option.value.replace(":", " ").replace("'", "")
        action = f"({' '.join(option.choices)})" if option.choices else "_files" if option.value in _FILES else " "
        value = f":{name}:{action}"
    if option.letter:
        yield _single(f"{often}-{option.letter}[{said}]{value}")
    equals = "=" if option.value is not None else ""
    yield _single(f"{often}--{option.name}{equals}[{said}]{value}")


def _fish() -> str:
    lines = ["# Completion of busbw for fish: busbw completion fish | source", "complete -c busbw -f"]
    for verb in VERBS:
        lines.append(f"complete -c busbw -n __fish_use_subcommand -a {verb.name} -d {_single(verb.help)}")
        seen = f"-n '__fish_seen_subcommand_from {verb.name}'"
        if plain := plain_words(verb.name):
            lines.append(f"complete -c busbw {seen} -a {_single(' '.join(plain))}")
        elif words_of(verb.name):
            lines.append(f"complete -c busbw {seen} -F")
        for option in all_options(verb.name):
            letter = f" -s {option.letter}" if option.letter else ""
            value = ""
            if option.choices:
                value = f" -x -a {_single(' '.join(option.choices))}"
            elif option.value is not None:
                value = " -r -F" if option.value in _FILES else " -x"
            lines.append(f"complete -c busbw {seen}{letter} -l {option.name}{value} -d {_single(option.help)}")
    return "\n".join(lines) + "\n"


def _single(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
