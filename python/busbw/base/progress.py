"""What is going on, told on stderr: lines always, and on a terminal a moving line once it lasts over two seconds."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from busbw.base.sentences import visible

AFTER_S = 2.0
"""What is over sooner needs no moving line."""


@contextmanager
def progress(title: str, *, after_s: float = AFTER_S) -> Iterator[Callable[[str], None]]:
    """A function that tells a line; meanwhile `title` with the time that has passed is drawn below the lines.

    Drawn by rich, where it is installed; into a pipe or a file go the lines alone.
    """
    display = _display()
    if display is None:
        yield lambda line: print(f"busbw: {line}", file=sys.stderr, flush=True)
        return
    display.add_task(visible(title), total=None)
    timer = threading.Timer(after_s, display.start)
    timer.daemon = True
    timer.start()
    try:
        # Straight to the terminal: only what we spell out here gets past the guard of busbw.base.terminal.
        yield lambda line: display.console.print(f"busbw: {visible(line)}", markup=False, highlight=False)
    finally:
        timer.cancel()
        timer.join()
        display.stop()


def _display() -> Any:
    """The moving line, not started yet; None where nobody would see it or nothing can draw it."""
    terminal = sys.__stderr__
    if terminal is None or not terminal.isatty() or os.environ.get("TERM", "dumb") == "dumb" or not sys.stderr.isatty():
        return None
    try:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    except ImportError:
        return None
    words = TextColumn("{task.description}", markup=False)
    console = Console(file=terminal)
    return Progress(SpinnerColumn(), words, TimeElapsedColumn(), console=console, transient=True, redirect_stdout=False,
                    redirect_stderr=False)  # fmt: skip
