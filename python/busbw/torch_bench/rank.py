"""Where a rank of torch-bench begins: it watches those who started it before torch, which takes seconds to import."""

from __future__ import annotations

import os
import signal
import sys
import warnings

from busbw.base import lifeline
from busbw.base.errors import UserError
from busbw.torch_bench import siblings


def main(words: list[str]) -> int:
    """Exit code of this rank."""
    lifeline.hold(os.environ)
    siblings.watch(os.environ)
    # torch complains of a missing numpy, which nothing here needs. Not by PYTHONWARNINGS: while Python reads that it
    # forgets a Ctrl-C.
    warnings.filterwarnings("ignore", "Failed to initialize NumPy")
    # PyTorch's import drops a Ctrl-C that Python raises in it, and the rank would measure on: it is deadly until then.
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from busbw.torch_bench.worker import main as measure

    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return measure(words)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except UserError as error:
        print(f"busbw torch-bench: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
