"""`busbw all_reduce ...` and the other collectives: the engine with the same words, and a record kept by default."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from busbw.base.errors import UsageError, UserError
from busbw.cli.arguments.measuring import Measurement, understand
from busbw.cli.kept_record import destination_for, explain_named, own_rank, report
from busbw.launch.engine import find_engine
from busbw.launch.foreground import replace_by, spawn
from busbw.launch.hosts import check_names


def run_words(verb: str, words: Sequence[str]) -> int:
    """Measure one collective in this process's place, or as many ranks where the words ask for a launch."""
    return measure(understand(verb, words))


def measure(asked: Measurement) -> int:
    """Show help, measure several libraries in turn, start ranks, or become the engine."""
    if asked.has("help"):
        from busbw.cli.arguments.help import measuring_help

        print(measuring_help(asked.collective), end="")
        return 0
    if len(asked.texts("library")) > 1:
        from busbw.cli import libraries

        return libraries.run(asked)
    if asked.has("budget"):
        raise UsageError(
            "--budget bounds the comparison of several libraries, and one is named; --time-limit ends a run"
        )
    if asked.starts_ranks:
        from busbw.cli.launching import launch
        from busbw.launch.launchers import in_pods
        from busbw.launch.request import Program

        # An image brings its own engine: none need be built here. A pod writes no file of ours.
        pods = in_pods(asked.launch.launcher)
        engine = Path("busbw-engine") if pods else find_engine()
        words = (asked.without("record") if pods else asked).engine_words
        program = Program(engine, (asked.collective, *words), asked.ranks_per_process)
        return launch(asked.launch, program, asked.record)
    return _here(asked)


def _here(asked: Measurement) -> int:
    choice = asked.record
    _check_address(os.environ)
    argv = [str(find_engine()), asked.collective, *asked.engine_words]
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


def _check_address(environ: Mapping[str, str]) -> None:
    """UserError where the host of process 0 has no address here: the engine would try for a minute.

    In Kubernetes the names of pods come late, so that the engine has to try.
    """
    address = environ.get("BUSBW_ADDRESS", "")
    host = address[1:].partition("]")[0] if address.startswith("[") else address.partition(":")[0]
    if not host or own_rank(environ) == 0 or "KUBERNETES_SERVICE_HOST" in environ:
        return
    try:
        check_names([host])
    except UserError as problem:
        raise UserError(f"BUSBW_ADDRESS: {problem}") from None
