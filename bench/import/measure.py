#!/usr/bin/env python3
"""Runs `busbw import` with the given words as its own process and prints wall time and peak memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import time


def main() -> int:
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "busbw", "import", "--quiet", *sys.argv[1:]], check=False)
    seconds = time.monotonic() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"  {' '.join(sys.argv[2:])}: {seconds:.2f} s, {peak:.0f} MiB at most, exit code {done.returncode}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
