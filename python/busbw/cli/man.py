"""`busbw man`: prints the manual page busbw(1)."""

from __future__ import annotations

from busbw.base.words import Args

EPILOG = """\
examples:
  busbw man | man -l -
  busbw man > ~/.local/share/man/man1/busbw.1
"""


def run(_: Args) -> int:
    """Print the page."""
    from busbw.cli.arguments.man import page

    print(page(), end="")
    return 0
