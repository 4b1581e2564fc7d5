"""What torch-bench is told: collectives, sizes, types, and how often; no torch is imported for it."""

from __future__ import annotations

from busbw.base.errors import UsageError
from busbw.base.options import ENGINE, options_of
from busbw.base.words import Args

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv")
ALIASES = {"all_to_all": "alltoall", "send_recv": "sendrecv"}
PAGE_BYTES = 4_000_000_000
"""The bandwidth page's benchmark moves a matrix of 500000 x 2000 floats."""
PAGE_TRIALS = 5

EPILOG = """\
examples:
  busbw torch-bench --ranks 2 all_reduce -b 8 -e 64M -f 2
  busbw torch-bench --launcher torchrun --gpus-per-node 8 \\
      all_reduce alltoall -b 1M -e 1G -f 2
  busbw torch-bench --launcher slurm --nodes 2 --gpus-per-node 8 \\
      --partition gpu --page
  torchrun --nproc-per-node 8 --no-python \\
      busbw torch-bench all_reduce -b 8 -e 8G -f 2
"""


def check(args: Args) -> None:
    """Refuse what cannot be measured, and fill in what depends on something else."""
    args.collective = [ALIASES.get(word, word) for word in args.collective]
    for name in args.collective:
        if name not in COLLECTIVES:
            raise UsageError(f"torch-bench cannot measure '{name}'; it takes {', '.join(COLLECTIVES)}")
    if args.page and args.collective not in ([], ["all_reduce"]):
        raise UsageError("--page is a benchmark of all_reduce; leave the collective out")
    args.collective = list(dict.fromkeys(args.collective)) or ["all_reduce"]
    args.minbytes = args.minbytes or (PAGE_BYTES if args.page else 32 << 20)
    args.maxbytes = args.maxbytes or args.minbytes
    args.iters = args.iters or (PAGE_TRIALS if args.page else 20)
    if args.maxbytes < args.minbytes:
        raise UsageError(f"-e {args.maxbytes} is below -b {args.minbytes}: no size is left to measure")


def measuring(args: Args) -> dict[str, object]:
    """What was asked of the ranks, by the options' names."""
    wanted = [o for o in options_of("torch-bench") if o.half == ENGINE or o.key in {"backend", "batches", "page"}]
    return {option.name: getattr(args, option.key) for option in wanted if option.key != "help"}


def sizes(args: Args) -> list[int]:
    """Bytes of each payload."""
    found = [args.minbytes]
    while found[-1] * args.stepfactor <= args.maxbytes:
        found.append(found[-1] * args.stepfactor)
    return found
