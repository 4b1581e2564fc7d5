"""Entry point of `busbw`: finds the verb, imports its module and nothing else, and reports errors in one sentence."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from busbw import __version__
from busbw.base import lifeline
from busbw.base.errors import UsageError, UserError
from busbw.base.files import open_standard_descriptors
from busbw.base.terminal import guarding, no_more_output
from busbw.cli.verbs import VERBS, Verb

INTERRUPTED = 128 + signal.SIGINT
UNREAD = 128 + signal.SIGPIPE
OUTLIVING = ("with", "watch", "azureml")
"""Verbs that do not end with the shell above: a user's own program runs below them, or a job that costs money."""
BEGINS_LATE = "watch"
"""It ends with the shell until that program begins (lifeline.outlive_shell)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    open_standard_descriptors()
    lifeline.begin(os.environ)
    if argv is None and words and words[0] not in OUTLIVING:
        lifeline.take_signals()
    if argv is None and words and (words[0] not in OUTLIVING or words[0] == BEGINS_LATE):
        lifeline.end_with_shell()
    with guarding(), _interruptible(argv is None):
        try:
            return _guarded(words)
        except OSError as problem:
            # No descriptor is left for the rules of secrets: the sentence that there was may hold one.
            said = f"busbw: a file of busbw's own cannot be read: {problem.strerror}; allow more of them: ulimit -n\n"
            os.write(2, said.encode())
            return 1


@contextmanager
def _interruptible(alone: bool) -> Iterator[None]:
    """Ctrl-C is an exception while a verb runs; before and behind it ends a busbw that has this process for itself.

    What is ignored stays so (a job in the background).
    """
    if not alone or signal.getsignal(signal.SIGINT) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _guarded(words: list[str]) -> int:
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except UserError as error:
        _tell(error, words)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Nobody knows what the verb would have said: 0 might be taken for it.
        no_more_output()
        return UNREAD
    except OSError as problem:
        # What a user names is read and written with a sentence of its own; this is most often a full stdout.
        no_more_output()
        where = f" ({problem.filename})" if problem.filename else ""
        print(f"busbw: the system refused to read or write{where}: {problem.strerror or problem}", file=sys.stderr)
        return 1
    except MemoryError:
        os.write(2, b"busbw: there is not enough memory for this\n")  # print would need some
        return 1


def _tell(error: UserError, words: list[str]) -> None:
    from busbw.base.secrets import hide

    if words[:1] != ["fleet"] or not _another_speaks():
        # A sentence may quote an address or a command line of the user's.
        print(f"busbw: {hide(str(error))}", file=sys.stderr)


def _another_speaks() -> bool:
    """Whether rank 0 of several says the same of the same words."""
    from busbw.launch.place import find_place

    try:
        return find_place(os.environ).rank > 0
    except UserError:
        return False


def overall_help() -> str:
    """What `busbw --help` prints: the verbs by group, written by hand so that no verb needs to be imported."""
    lines = [
        "usage: busbw VERB [options]",
        "",
        "busbw measures what a fabric delivers to collectives and checks every result.",
        "",
    ]
    width = max(len(verb.name) for verb in VERBS)
    for group in dict.fromkeys(verb.group for verb in VERBS):
        lines.append(f"{group}:")
        lines += [f"  {verb.name:<{width}}  {verb.help}" for verb in VERBS if verb.group == group]
        lines.append("")
    lines += [
        "Start with:",
        "  busbw all_reduce -b 8 -e 64M -f 2 -t 2    two ranks as threads of one process",
        "  busbw run --ranks 2 all_reduce -b 8 -e 64M -f 2    two ranks as processes",
        "  busbw VERB --help    what VERB takes",
    ]
    return "\n".join(lines)


def _dispatch(words: list[str]) -> int:
    if not words:
        from busbw.cli.welcome import main as welcome

        return welcome()
    if words[0] in {"-h", "--help", "help"}:
        if len(words) == 2 and words[0] == "help":
            return _dispatch([words[1], "--help"])
        print(overall_help())
        return 0
    if words[0] in {"-V", "--version"}:
        print(f"busbw {__version__}")
        return 0
    return _run(_find(words[0]), words[1:])


def _run(verb: Verb, words: list[str]) -> int:
    module: Any = import_module(verb.module)
    if verb.raw:
        code: int = module.run_words(verb.name, words)
        return code
    from busbw.base.words import parse

    args = parse(verb.name, words)
    if args.help:
        from busbw.cli.arguments.help import verb_help

        print(verb_help(verb.name, module.EPILOG), end="")
        return 0
    from busbw.base.effort import EFFORT

    EFFORT.is_cut = False
    if vars(args).get("whole"):
        EFFORT.lift()
    done: int = module.run(args)
    return done or int(EFFORT.is_cut)  # of a part of what the user named nothing is all well


def _find(name: str) -> Verb:
    for verb in VERBS:
        if verb.name == name:
            return verb
    if name.startswith("-"):
        raise UsageError(f"'{name}' came before a verb; write `busbw VERB {name} ...`, `busbw --help` lists the verbs")
    from busbw.base.nearest import nearest

    bare = name.lower().removesuffix("_perf").removesuffix("_mpi").replace("-", "_")
    near = nearest(bare, [verb.name for verb in VERBS])
    hint = f"did you mean `busbw {near}`?" if near else "`busbw --help` lists the verbs"
    raise UsageError(f"there is no verb '{name}'; {hint}")
