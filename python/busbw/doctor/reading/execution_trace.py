"""Execution traces of PyTorch: they have what was called and no errors, so another verb reads them."""

from __future__ import annotations

import re

_HEAD = 4096
_SCHEMA = re.compile(r'"schema"\s*:\s*"\d[\w.]*-chakra')


def looks_like(text: str) -> bool:
    """Whether a file that begins so is such a trace."""
    return text[:_HEAD].lstrip()[:1] == "{" and _SCHEMA.search(text, 0, _HEAD) is not None
