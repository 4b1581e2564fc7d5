"""Clues of indices beyond a table: a sequence longer than the positions that a model has."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_FRAME = re.compile(r"\b(?:wpe|position_embeddings?|embed_positions|pos_emb\w{0,10}|position_ids)\b[^\n]{0,40}\(")
_ROOM = re.compile(r"\b(?P<name>n_positions|max_position_embeddings|n_ctx)['\"]?\s?[=:]\s?(?P<n>\d{2,7})\b")
_ASKED = re.compile(
    r"(?P<name>--(?:max[-_])?seq(?:uence)?[-_]?(?:len(?:gth)?)?|--block[-_]size|--max[-_]length|--cutoff[-_]len|--model[-_]max[-_]length)"
    r"[ =](?P<n>\d{2,7})\b"
)


def beyond_positions(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The table of positions ends before the sequences do."""
    if "index" not in finding.title:
        return None
    frame = next(((text, found) for text in texts if (found := _FRAME.search(text.text))), None)
    rooms = [(text, found) for text in texts for found in _ROOM.finditer(text.text)]
    if frame is None or not rooms:
        return None
    room = min(rooms, key=lambda each: int(each[1]["n"]))
    asked = [
        (text, found) for text in texts for found in _ASKED.finditer(text.text) if int(found["n"]) > int(room[1]["n"])
    ]
    if not asked:
        return None
    text, option = asked[0]
    has = f"{room[1]['name']} {room[1]['n']}"
    return Sharper(
        f"a position lies outside of the model's table of positions: sequences have {option['n']} tokens "
        f"({named(option[0], 40)}), and the model has {has}",
        f"shorten the sequences to {room[1]['n']} (truncation, {option['name']}), or give the model more positions "
        f"({room[1]['name']} in its config, trained anew). NCCL and the GPU only report it",
        (text.evidence(option.start()), room[0].evidence(room[1].start()), frame[0].evidence(frame[1].start())),
    )
