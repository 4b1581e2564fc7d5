"""`busbw all_reduce ...` and the other collectives: the engine with the same words, and a record kept by default."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from busbw.cli.kept_record import destination_for, explain_named, own_rank, report
from busbw.launch.engine import find_engine
from busbw.launch.foreground import replace_by, spawn
from busbw.launch.options import LaunchWords, split
from busbw.runs.destination import split_record_options


def run_words(verb: str, words: Sequence[str]) -> int:
    """Measure one collective in this process's place, or as many ranks where the words ask for a launch."""
    if asks_for_several(words):
        from busbw.cli import libraries

        return libraries.run((verb,), words)
    split_words = split(words)
    if split_words.launch:
        return _launch(verb, split_words)
    engine = find_engine()
    choice = split_record_options(words)
    argv = [str(engine), verb, *choice.words]
    destination = destination_for(choice, os.environ)
    if destination is None:
        if choice.named and own_rank(os.environ) == 0:
            code = spawn(argv, os.environ)
            explain_named(Path(choice.named))
            return code
        replace_by(argv)
    destination.create()
    code = spawn([*argv, "--record", str(destination.record)], {**os.environ, "BUSBW_RUN_ID": destination.run_id})
    report(destination)
    return code


def asks_for_several(words: Sequence[str]) -> bool:
    """Whether the words name more than one library; one or none is the engine's own affair."""
    return sum(word == "--library" or word.startswith("--library=") for word in words) > 1


def _launch(verb: str, words: LaunchWords) -> int:
    from busbw.cli.launching import launch, ranks_per_process, understand
    from busbw.launch.request import Program

    choice = split_record_options(words.rest)
    args = understand(verb, words.launch)
    program = Program(find_engine(), (verb, *choice.words), ranks_per_process(choice.words))
    return launch(args, program, choice)
