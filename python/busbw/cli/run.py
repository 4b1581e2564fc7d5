"""`busbw run --ranks 4 all_reduce ...`: several ranks, here or by any launcher, without MPI at build time."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.base.errors import UsageError
from busbw.base.options import options_of
from busbw.base.words import Given, Reader
from busbw.cli.arguments.measuring import understand
from busbw.cli.measure import measure
from busbw.cli.verbs import COLLECTIVES

EPILOG = """\
examples:
  busbw run --ranks 4 all_reduce -b 8 -e 64M -f 2
  busbw run --ranks 2 --bind cores --time-limit 60s sendrecv -b 1M -e 1M
  busbw run --ranks 8 --dry-run all_gather
  busbw run --launcher slurm --nodes 2 --gpus-per-node 8 --partition gpu \\
      all_reduce -b 8 -e 8G -f 2
  busbw run --launcher mpirun --hosts a:8,b:8 --gpus-per-node 8 \\
      alltoall -b 1M -e 1G -f 2

The same options may follow a collective:
  busbw all_reduce -b 8 --launcher torchrun --ranks 2
What follows the collective are measuring and launching options;
`busbw COLLECTIVE --help` lists them.
"""

_LAUNCHER = next(option for option in options_of("run") if option.name == "launcher")
_LOCAL = (Given(_LAUNCHER, "local", ("--launcher=local",)),)
"""`run` starts ranks, even where nothing is said about a launch; what is said wins, since it comes later."""


def run_words(verb: str, words: Sequence[str]) -> int:
    """The words before the collective say how ranks are started, those after it may."""
    reader = Reader(options_of(verb), f"busbw {verb}")
    read = reader.read(words, until=lambda _: True)
    if read.has("help"):
        from busbw.cli.arguments.help import verb_help

        print(verb_help(verb, EPILOG), end="")
        return 0
    if not read.rest:
        reader.refuse("name the collective to measure, such as all_reduce")
    collective, *rest = read.rest
    if collective not in COLLECTIVES:
        from busbw.base.nearest import nearest

        near = nearest(collective.removesuffix("_perf"), COLLECTIVES)
        hint = f"did you mean {near}?" if near else f"it takes one of {', '.join(COLLECTIVES)}"
        raise UsageError(f"there is no collective '{collective}'; {hint}")
    return measure(understand(collective, rest, (*_LOCAL, *read.given)))
