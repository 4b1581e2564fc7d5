"""What may stand for the word under the cursor, by the table of options; scripts of bash, zsh and fish ask it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from busbw.base.options import MEASURING, Option, actions_of, options_of, words_of
from busbw.cli.verbs import COLLECTIVES, VERBS

SHELLS = ("bash", "zsh", "fish")
FILES = "/"
"""Said instead of words where the shell's own names of files are the best guess."""
_FILES = {"FILE", "PATH", "DIR", "FOLDER", "RUN", "-- PROGRAM its options"}

Offer = tuple[str, str]
"""A word, and what it means."""

_BASH = """\
# Completion of busbw for bash: source <(busbw completion bash)
_busbw() {
  local word=${COMP_WORDS[COMP_CWORD]}
  mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  if [ "${COMPREPLY[0]}" = / ]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  elif [[ $word != --*=* ]]; then # --option=value is three words to bash
    COMPREPLY=("${COMPREPLY[@]#--*=}")
  fi
}
complete -o filenames -F _busbw busbw
"""
_ZSH = """\
#compdef busbw
# Completion of busbw for zsh: source <(busbw completion zsh)
_busbw() {
  local -a offered
  offered=("${(@f)$("${words[1]}" completion zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ ${offered[1]} == / ]]; then
    _files
  elif [[ -n ${offered[1]} ]]; then
    _describe 'word' offered
  fi
}
[ "${funcstack[1]}" = _busbw ] && _busbw "$@" || compdef _busbw busbw
"""
_FISH = """\
# Completion of busbw for fish: busbw completion fish | source
function __busbw_offered
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    test -n "$word"; or set word ""
    set -l offered ($words[1] completion fish -- $words[2..-1] $word 2>/dev/null)
    if test "$offered[1]" = /
        __fish_complete_path $word
    else
        printf '%s\\n' $offered
    end
end
complete -c busbw -f -a '(__busbw_offered)'
"""


def script(shell: str) -> str:
    """The script that this shell reads."""
    return {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[shell]


def lines(shell: str, words: Sequence[str]) -> list[str]:
    """What is offered for the last of the words behind `busbw`, as this shell's script takes it."""
    found = offered(_joined(words) if shell == "bash" else words)
    if found is None:
        return [FILES]
    if shell == "bash":
        return [word for word, _ in found]
    between, colon = (":", "\\:") if shell == "zsh" else ("\t", ":")
    return [f"{word.replace(':', colon)}{between}{said}" for word, said in found]


def _joined(words: Sequence[str]) -> list[str]:
    """With --option=value, which bash cuts at its =, as one word."""
    found: list[str] = []
    for word in words:
        if found and found[-1].startswith("--") and (word == "=" or found[-1].endswith("=")):
            found[-1] += word
        else:
            found.append(word)
    return found


def offered(words: Sequence[str]) -> list[Offer] | None:
    """What may stand for the last of the words behind `busbw`; None where it names a file."""
    *before, word = words or [""]
    if not before:
        verbs = [(each.name, each.help) for each in VERBS]
        return _fitting(word, [*verbs, ("--help", "this text"), ("--version", "the version of busbw")])
    place = _Place(before)
    name, equals, text = word.partition("=")
    if place.awaited is not None:
        return _values(place.awaited, word)
    if equals and (option := place.named(name)) is not None:
        found = _values(option, text)
        return [(f"{name}={each}", said) for each, said in (_files(text) if found is None else found)]
    if word.startswith("-"):
        return _fitting(word, place.spellings())
    return place.plain(word)


def all_options(verb: str) -> tuple[Option, ...]:
    """A verb's options with those of its actions."""
    key = MEASURING if verb in COLLECTIVES else verb
    found = {each.name: each for action in actions_of(key) for each in options_of(f"{key} {action}")}
    return tuple({**found, **{each.name: each for each in options_of(key)}}.values())


class _Place:
    """Where in a command line the next word stands."""

    def __init__(self, before: Sequence[str]) -> None:
        self._verb = before[0]
        self._options = all_options(self._verb)
        self._actions = actions_of(self._verb)
        self._words = words_of(MEASURING if self._verb in COLLECTIVES else self._verb)
        self._rest = False
        self.awaited: Option | None = None
        """The option whose value comes next."""
        for word in before[1:]:
            self._pass(word)

    def _pass(self, word: str) -> None:
        if self.awaited is not None:
            self.awaited = None
        elif word == "--":
            self._rest = True
        elif word.startswith("-") and "=" not in word:
            option = self.named(word)
            self.awaited = option if option is not None and option.value is not None else None
        elif word in self._actions:
            self._options, self._words = options_of(f"{self._verb} {word}"), words_of(f"{self._verb} {word}")
            self._actions = ()
        elif word in COLLECTIVES and any("measuring options" in each.name for each in self._words):
            self._options, self._words = all_options(word), ()

    def named(self, word: str) -> Option | None:
        """The option of this name or letter."""
        return next((each for each in self._options if word in (f"--{each.name}", f"-{each.letter}")), None)

    def spellings(self) -> list[Offer]:
        """Every way to write the options' names."""
        letters = [(f"-{each.letter}", each.help) for each in self._options if each.letter]
        return [*letters, *((f"--{each.name}", each.help) for each in self._options)]

    def plain(self, word: str) -> list[Offer] | None:
        """What may stand here that is no option."""
        if self._actions:
            return _fitting(word, [(each, "") for each in self._actions])
        wanted = [each for each in self._words if each.count == "rest" or not self._rest]
        found: list[Offer] = []
        for each in wanted:
            of_collectives = COLLECTIVES if "COLLECTIVE" in each.name else ()
            found += [(offer, each.help) for offer in each.offers or of_collectives]
        fitting = _fitting(word, dict(found).items())
        return None if not fitting and any(each.name in _FILES for each in wanted) else fitting


def _values(option: Option, text: str) -> list[Offer] | None:
    fitting = _fitting(text, [(each, "") for each in option.choices or option.offers])
    return None if option.value in _FILES or (option.offers and not option.choices and not fitting) else fitting


def _files(text: str) -> list[Offer]:
    folder, slash, name = text.rpartition("/")
    try:
        found = sorted(Path(f"{folder}{slash}" or ".").iterdir())
    except OSError:
        return []
    return [(f"{folder}{slash}{each.name}{'/' * each.is_dir()}", "") for each in found if each.name.startswith(name)]


def _fitting(beginning: str, offers: Iterable[Offer]) -> list[Offer]:
    return [(word, said) for word, said in offers if word.startswith(beginning)]
