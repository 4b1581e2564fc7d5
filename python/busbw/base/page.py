"""An HTML page that opens offline: it loads nothing, runs its own script alone, and no text becomes markup."""

from __future__ import annotations

import base64
import hashlib
from html import escape

from busbw.base.text import clean


def escaped(value: object) -> str:
    """A text as text."""
    return escape(clean(value))


def document(title: str, style: str, body: str, script: str = "") -> str:
    """The whole page around a body. Whatever else a text smuggled in could not run, nor ask even for an image."""
    allowed = f"; script-src '{_hash(script)}'" if script else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'{allowed}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escaped(title)}</title>
<style>{style}</style>
</head>
<body>
{body}
{f"<script>{script}</script>" if script else ""}
</body>
</html>
"""


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
