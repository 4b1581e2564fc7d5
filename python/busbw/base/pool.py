"""Several processes of our own for one function over many inputs; they end with us, and one that is killed is said."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from busbw.base.errors import UserError
from busbw.base.lifeline import end_with

Given = TypeVar("Given")
Made = TypeVar("Made")

PARTS = 8
"""Pieces of the work for each process, so that one slow piece holds nobody up for long."""


def mapped(function: Callable[[Given], Made], given: Sequence[Given], processes: int) -> list[Made]:
    """What the function makes of each, in their order."""
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import active_children

    try:
        with ProcessPoolExecutor(processes, initializer=end_with, initargs=(os.getpid(),)) as pool:
            try:
                return list(pool.map(function, given, chunksize=max(1, len(given) // (processes * PARTS))))
            except BaseException:  # leaving waits for them, and what they still make is for nobody
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in active_children():
                    worker.kill()
                raise
    except BrokenProcessPool:
        raise UserError(
            "a process of busbw that read files was killed; if the machine ran out of memory, give fewer files at once"
        ) from None
