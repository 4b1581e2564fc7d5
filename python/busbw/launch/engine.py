"""Finds the native program that measures."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from busbw.base.errors import UserError

PROGRAM = "busbw-engine"
VARIABLE = "BUSBW_ENGINE"


def find_engine(environ: Mapping[str, str] = os.environ) -> Path:
    """The engine named by BUSBW_ENGINE, else the one installed beside us, else the one built in this checkout."""
    chosen = environ.get(VARIABLE)
    if chosen:
        if not _executable(Path(chosen)):
            raise UserError(f"{VARIABLE} is '{chosen}', which is no program that can be run; unset it or correct it")
        return Path(chosen).absolute()
    for place in _places():
        if _executable(place / PROGRAM):
            return place / PROGRAM
    on_path = shutil.which(PROGRAM, path=environ.get("PATH"))
    if on_path:
        return Path(on_path)
    raise UserError(
        f"the measuring program {PROGRAM} was not found; build it with `make build`, or name it in {VARIABLE}"
    )


def checkout() -> Path | None:
    """The repository that this package runs from, or None where it is installed."""
    root = Path(__file__).resolve().parents[3]
    return root if (root / "CMakeLists.txt").is_file() else None


def _places() -> Iterator[Path]:
    root = checkout()
    if root is None:
        # Installed: scripts of one installation share a folder, in a venv, under a prefix and in ~/.local alike.
        yield Path(sys.argv[0]).absolute().parent
        yield Path(sys.prefix) / "bin"
        # PREFIX/lib/busbw/python/busbw/launch/engine.py of `make install`.
        yield from (above / "bin" for above in list(Path(__file__).resolve().parents)[5:6])
    else:
        yield root / "build" / "bin"


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
