"""`busbw torch-bench`: what PyTorch gets, measured through torch.distributed into the same record."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from busbw.base.errors import UserError
from busbw.base.programs import ask, with_this_package
from busbw.base.words import Args
from busbw.cli.kept_record import destination_for, report
from busbw.cli.launching import launch
from busbw.launch.launchers import in_pods
from busbw.launch.request import Program
from busbw.runs.destination import RecordChoice
from busbw.torch_bench.options import EPILOG, check, measuring
from busbw.torch_bench.place import FOLDER, find_place

PYTHON = "BUSBW_TORCH_PYTHON"

__all__ = ["EPILOG", "run"]


def run(args: Args) -> int:
    """Measure as the rank that a launcher made us, or start ranks."""
    check(args)
    choice = RecordChoice(args.runs, not args.no_record, args.record and str(args.record))
    words = measuring_words(args)
    if _is_rank(os.environ) and not (args.ranks or args.nodes or args.gpus_per_node or args.ranks_per_node):
        return _as_rank(words, choice)
    python = Path(chosen_python(args.python)) if args.dry_run else _python(args.python)
    if in_pods(args.launcher):  # a pod writes no file of ours
        words = measuring_words(Args(**{**vars(args), "record": None}))
    program = Program(python, ("-m", "busbw.torch_bench.rank", *words))
    extra = {"PYTHONPATH": with_this_package(os.environ)["PYTHONPATH"]}
    return launch(args, program, choice, extra=extra, folder=FOLDER)


def measuring_words(args: Args) -> list[str]:
    """The measuring options again, as words for the ranks."""
    words: list[str] = list(args.collective)
    for name, value in measuring(args).items():
        if value not in (None, False):
            text = value.absolute() if isinstance(value, Path) else value
            words.append(f"--{name}" + ("" if value is True else f"={text}"))
    return words


def _is_rank(environ: Mapping[str, str]) -> bool:
    try:
        return find_place(environ) is not None
    except UserError:
        return True


def _as_rank(words: list[str], choice: RecordChoice) -> int:
    """A launcher of the user's own started us, once for each rank."""
    if find_spec("torch") is None:
        if os.environ.get("LOCAL_RANK", "0") != "0":
            return 1  # the first rank of this host says it for all
        raise UserError(
            f"{sys.executable} has no torch, and a launcher started us as a rank; install it there (pip install torch)"
        )
    from busbw.torch_bench.rank import main

    destination = destination_for(choice, os.environ)
    if destination is None:
        return main(words)
    destination.create()
    os.environ.setdefault("BUSBW_RUN_ID", destination.run_id)
    try:
        return main([*words, "--record", str(destination.record)])
    finally:
        report(destination)


def chosen_python(chosen: str | None) -> str:
    """The Python that the ranks run in, whether or not it has torch."""
    return chosen or os.environ.get(PYTHON) or sys.executable


def _python(chosen: str | None) -> Path:
    python = chosen_python(chosen)
    has_torch = "import importlib.util as u; raise SystemExit(u.find_spec('torch') is None)"
    if ask([python, "-c", has_torch], 60.0).returncode != 0:
        raise UserError(
            f"{python} has no torch; install it there (pip install torch), or name a Python that has it with --python "
            f"or {PYTHON}"
        )
    return Path(python)
