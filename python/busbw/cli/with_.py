"""`busbw with -- PROGRAM ...`: any program, with busbw's collectives or another library in front of its NCCL."""

from __future__ import annotations

import os
import sys

from busbw.base.errors import UsageError, UserError
from busbw.base.words import Args

EPILOG = """\
examples:
  busbw with -- python train.py
  busbw with -- torchrun --nproc-per-node 8 train.py
  busbw with --library ./libmscclpp_nccl.so -- all_reduce_perf -b 8 -e 1G -f 2
  busbw with --check -- python train.py

The program finds the library wherever it looks for NCCL: linked to it, or
opened by name or path. Signals, output and exit code are the program's own.
"""


def run(args: Args) -> int:
    """Become the program, in an environment that brings the library in front of NCCL."""
    from busbw.launch import in_front

    words = list(args.rest)
    if not words:
        raise UsageError("say which program to start, after --; `busbw with --help` has examples")
    program = in_front.resolve_program(words[0], os.environ)
    front = in_front.find_front(args.library, args.by)
    in_front.check(program, front.library, os.environ)
    nccl = in_front.check_nccl(args.nccl) if args.nccl else None
    environ = in_front.environment(front, os.environ, nccl)
    if args.check:
        if front.library.name != in_front.FILES["busbw"]:
            raise UsageError(
                f"--check compares busbw's GPU library with NCCL; {front.library.name} compares nothing: "
                "leave out --library or --check"
            )
        environ["BUSBW_CHECK"] = "1"
    if args.quiet:
        environ["BUSBW_WITH_QUIET"] = "1"
    if args.dry_run:
        print(_shell_line(environ, words))
        return 0
    if front.auditor is None and not args.quiet:
        print(
            f"busbw with: {front.library.name} is preloaded: programs that open NCCL by dlopen pass it by",
            file=sys.stderr,
        )
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(program, words, environ)
    except OSError as error:
        raise UserError(f"{program} cannot be started: {error.strerror}") from error


def _shell_line(environ: dict[str, str], words: list[str]) -> str:
    from shlex import join, quote

    new = [f"{name}={quote(value)}" for name, value in environ.items() if os.environ.get(name) != value]
    return " ".join([*new, join(words)])
