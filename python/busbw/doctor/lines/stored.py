"""Addresses of stored objects: names in them are the user's, and tell nothing of who fails."""

from __future__ import annotations

import re

_ADDRESS = re.compile(
    r"(?:\b(?:gs|s3a?|abfss?|az|wasbs?|oss|cos|r2|hdfs|swift|b2|obs|tos)://|\bhttps?://(?:storage|[\w.-]{1,80}\.blob"
    r"|[\w.-]{0,80}s3[\w.-]{0,40})\.[\w.-]{2,80}/|/gcs/|/(?:mnt|gcsfuse)/gcs/)[^\s'\"<>)\]]{0,600}",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"\b40[13]\b|forbidden|access ?denied|permission|credential|unauthori[sz]ed|signature", re.IGNORECASE
)


def without_addresses(text: str) -> str:
    """The text with the names of objects taken out."""
    return _ADDRESS.sub("an-object", text) if "/" in text else text


def of_store(text: str, name: str | None) -> str | None:
    """What an error is about that names an object and no other part: the store, or who may read it."""
    if name not in (None, "python-exception", "remote-error", "connection-timeout") or not _ADDRESS.search(text):
        return name
    return "credentials" if _REFUSED.search(text) else "file-system"
