"""The frame that every page has: one script by its hash, nothing loaded, no text as markup."""

from __future__ import annotations

import base64
import hashlib

from busbw.base.page import document, escaped


def test_a_page_allows_its_own_script_alone_and_no_text_becomes_markup() -> None:
    script = "document.title += '!'"
    found = document("<b>\x1b", "p{}", f"<p>{escaped('<i>')}</p>", script)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'\"" in found
    assert f"<script>{script}</script>" in found
    assert "<title>&lt;b&gt;\ufffd</title>" in found and "<p>&lt;i&gt;</p>" in found


def test_a_page_without_a_script_allows_none() -> None:
    found = document("title", "", "body")
    assert "script" not in found and "default-src 'none'" in found
