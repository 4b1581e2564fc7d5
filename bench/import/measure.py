#!/usr/bin/env python3
"""Runs `busbw import` with the given words as its own process and prints wall time, processor time and peak memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import time


def main() -> int:
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "busbw", "import", "--whole", "--quiet", *sys.argv[1:]], check=False)
    seconds = time.monotonic() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    how = " ".join(sys.argv[2:])
    print(f"  {how}: {seconds:.2f} s ({processor:.2f} s of processor), {peak:.0f} MiB at most, exit {done.returncode}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
