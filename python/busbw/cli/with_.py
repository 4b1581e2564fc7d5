"""`busbw with -- PROGRAM ...`: any program, with busbw's collectives or another library in front of its NCCL."""

from __future__ import annotations

import argparse
import os
import sys

from busbw.base.errors import UsageError, UserError

EXAMPLES = """\
examples:
  busbw with -- python train.py
  busbw with -- torchrun --nproc-per-node 8 train.py
  busbw with --library ./libmscclpp_nccl.so -- all_reduce_perf -b 8 -e 1G -f 2
  busbw with --check -- python train.py

The program finds the library wherever it looks for NCCL: linked to it, or
opened by name or path. Signals, output and exit code are the program's own.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this verb."""
    parser.usage = "busbw with [options] -- PROGRAM [its options]"
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--library", default="busbw", help="busbw (default), or the path of a library with the NCCL API"
    )
    parser.add_argument(
        "--nccl", metavar="PATH", help="the NCCL that stands behind; else the one that the program opens"
    )
    parser.add_argument("--check", action="store_true", help="do every accelerated call by NCCL too, and compare")
    parser.add_argument("--quiet", action="store_true", help="do not say which NCCL stands behind")
    parser.add_argument(
        "--by",
        choices=["auto", "audit", "preload"],
        default="auto",
        help="how the loader is brought to it (default auto)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the shell line and start nothing")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="...", help="the program and its options")


def run(args: argparse.Namespace) -> int:
    """Become the program, in an environment that brings the library in front of NCCL."""
    from busbw.launch import in_front

    words = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not words:
        raise UsageError("say which program to start, after --; `busbw with --help` has examples")
    program = in_front.resolve_program(words[0], os.environ)
    front = in_front.find_front(args.library, args.by)
    in_front.check(program, front.library, os.environ)
    nccl = in_front.check_nccl(args.nccl) if args.nccl else None
    environ = in_front.environment(front, os.environ, nccl)
    if args.check:
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
