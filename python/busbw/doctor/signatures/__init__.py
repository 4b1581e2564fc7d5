"""All signatures: each file here holds one; `busbw.doctor.signature` says what one is."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from busbw.doctor.signature import Signature


def _found() -> list[Signature]:
    """One of each file, in the order of their names."""
    return [
        import_module(f"{__name__}.{file}").SIGNATURE for file in sorted(each.name for each in iter_modules(__path__))
    ]


SIGNATURES: Mapping[str, Signature] = {signature.name: signature for signature in _found()}
