"""Where a rank of torch-bench begins: it watches those who started it before torch, which takes seconds to import."""

from __future__ import annotations

import os
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
    from busbw.torch_bench.worker import main as measure

    return measure(words)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except UserError as error:
        print(f"busbw torch-bench: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
