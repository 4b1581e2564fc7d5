"""What torch-bench is told: collectives, sizes, types, and how often; no torch is imported for it."""

from __future__ import annotations

import argparse
import re

from busbw.base.errors import UsageError

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv")
ALIASES = {"all_to_all": "alltoall", "send_recv": "sendrecv"}
TYPES = ("float", "double", "half", "bfloat16", "int32", "int64", "uint8")
OPS = ("sum", "prod", "max", "min", "avg")
PAGE_BYTES = 4_000_000_000
"""The bandwidth page's benchmark moves a matrix of 500000 x 2000 floats."""
PAGE_TRIALS = 5
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

EXAMPLES = """\
examples:
  busbw torch-bench --ranks 2 all_reduce -b 8 -e 64M -f 2
  busbw torch-bench --launcher torchrun --gpus-per-node 8 all_reduce alltoall -b 1M -e 1G -f 2
  busbw torch-bench --launcher slurm --nodes 2 --gpus-per-node 8 --partition gpu --page
  torchrun --nproc-per-node 8 --no-python busbw torch-bench all_reduce -b 8 -e 8G -f 2
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what is measured; how ranks are started is declared elsewhere."""
    parser.epilog = EXAMPLES
    group = parser.add_argument_group("measuring")
    group.add_argument(
        "collectives",
        nargs="*",
        metavar="COLLECTIVE",
        type=lambda word: ALIASES.get(word, word),
        help=f"of {', '.join(COLLECTIVES)} (default all_reduce)",
    )
    group.add_argument(
        "--backend", choices=("nccl", "gloo", "mpi"), help="default nccl where there are GPUs, else gloo"
    )
    group.add_argument("-b", "--minbytes", type=size, metavar="SIZE", help="first size (default 32M)")
    group.add_argument("-e", "--maxbytes", type=size, metavar="SIZE", help="last size, inclusive (default: the first)")
    group.add_argument("-f", "--stepfactor", type=int, default=2, metavar="N", help="from one size to the next")
    group.add_argument("-d", "--datatype", choices=TYPES, default="float", help="type of the elements")
    group.add_argument("-o", "--op", choices=OPS, default="sum", help="reduction")
    group.add_argument("-r", "--root", type=int, default=0, metavar="RANK", help="root of a broadcast")
    group.add_argument("-n", "--iters", type=int, metavar="N", help="timed calls of a batch (default 20)")
    group.add_argument("-w", "--warmup_iters", type=int, default=5, metavar="N", help="untimed calls before them")
    group.add_argument("--batches", type=int, default=1, metavar="N", help="timed batches; each is a sample")
    group.add_argument("-z", "--blocking", action="store_true", help="wait after each call, on the host's clock")
    group.add_argument("-c", "--check", type=int, choices=(0, 1), default=1, help="0: do not check the results")
    group.add_argument("-T", "--timeout", type=int, default=300, metavar="S", help="longest wait for a peer")
    group.add_argument(
        "--page",
        action="store_true",
        help="the bandwidth page's benchmark: 4 GB of floats, 5 trials, each rank in Gbps",
    )
    group.add_argument("--record", metavar="FILE", help=argparse.SUPPRESS)


def check(args: argparse.Namespace) -> None:
    """Refuse what cannot be measured, and fill in what depends on something else."""
    for name in args.collectives:
        if name not in COLLECTIVES:
            raise UsageError(f"torch-bench cannot measure '{name}'; it takes {', '.join(COLLECTIVES)}")
    if args.page and args.collectives not in ([], ["all_reduce"]):
        raise UsageError("--page is a benchmark of all_reduce; leave the collective out")
    args.collectives = list(dict.fromkeys(args.collectives)) or ["all_reduce"]
    args.minbytes = args.minbytes or (PAGE_BYTES if args.page else 32 << 20)
    args.maxbytes = args.maxbytes or args.minbytes
    args.iters = args.iters or (PAGE_TRIALS if args.page else 20)
    if args.maxbytes < args.minbytes:
        raise UsageError(f"-e {args.maxbytes} is below -b {args.minbytes}: no size is left to measure")
    if args.stepfactor < 2:
        raise UsageError(f"-f {args.stepfactor}: sizes grow by a factor of at least 2")
    for option, value, least in (("-n", args.iters, 1), ("-w", args.warmup_iters, 0), ("--batches", args.batches, 1),
                                 ("-r", args.root, 0), ("-T", args.timeout, 1)):  # fmt: skip
        if not least <= value <= 1_000_000:
            raise UsageError(f"{option} {value}: it must lie between {least} and 1000000")


def sizes(args: argparse.Namespace) -> list[int]:
    """Bytes of each payload."""
    found = [args.minbytes]
    while found[-1] * args.stepfactor <= args.maxbytes:
        found.append(found[-1] * args.stepfactor)
    return found


def size(text: str) -> int:
    """`8`, `64M`, `1G`: powers of 1024, as nccl-tests has them."""
    found = re.fullmatch(r"(\d{1,15})([KMG]?)B?", text, re.IGNORECASE)
    if not found or not int(found[1]):
        raise argparse.ArgumentTypeError(f"'{text}' is no size; write bytes, or a number with K, M or G")
    return int(found[1]) * _UNITS[found[2].upper()]
