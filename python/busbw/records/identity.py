"""Identifiers of runs: unique over hosts and time for new runs, the same for the same content of imported ones."""

from __future__ import annotations

import re
import secrets
from datetime import datetime, timezone
from functools import lru_cache
from hashlib import sha256


def new_run_id(name: str) -> str:
    """An identifier that sorts by start time, such as 20260102T030405Z-all_reduce-0a1b2c3d."""
    now = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    return f"{now}-{_slug(name)}-{secrets.token_hex(4)}"


def content_run_id(name: str, content: bytes) -> str:
    """An identifier that depends on the content only, so that a second import of one file adds nothing new."""
    return f"{_slug(name)}-{sha256(content).hexdigest()[:12]}"


@lru_cache(maxsize=16)
def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.")[:40] or "run"
