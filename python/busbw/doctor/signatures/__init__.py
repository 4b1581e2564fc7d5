"""All signatures: each file holds one, in the folder of its stage; `busbw.doctor.signature` says what one is."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from busbw.doctor.signature import Signature


def _found() -> list[Signature]:
    """One of each file, in the order of the files' names."""
    folders = [import_module(f"{__name__}.{each.name}") for each in iter_modules(__path__) if each.ispkg]
    files = [(each.name, folder.__name__) for folder in folders for each in iter_modules(folder.__path__)]
    return [import_module(f"{folder}.{file}").SIGNATURE for file, folder in sorted(files)]


SIGNATURES: Mapping[str, Signature] = {signature.name: signature for signature in _found()}
