"""A clue of tensors whose types differ between ranks: each host chose its precision by what its own GPU can do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_TITLE = re.compile(r"with tensors of different types\b")
_CHOSE = re.compile(
    r"\b(?:mixed[_ ]precision|precision|(?:amp|compute|param|torch|model|train\w{0,5})?[_ ]?dtype|autocast)\b\W{0,6}"
    r"(?:is |set to |to )?(?:torch\.)?(?P<type>bf16|fp16|fp32|bfloat16|float16|float32|half)\b",
    re.IGNORECASE,
)
_GPU = re.compile(r"\b(?:NVIDIA |Tesla |GeForce )(?P<name>(?:RTX )?[A-Z]{1,3}\d{1,4}\b)")
_SAME = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32"}
_MOST = 2000


_SWITCHED = re.compile(
    r"\brank\W{0,2}(?P<rank>\d{1,6})\b[^\n]{0,160}?\b(?:now|switch\w{0,4}|fall(?:s|ing)? ?back|fell back|"
    r"chang\w{1,3}|lower\w{1,3}|downcast\w{0,3}|reduc\w{1,3} to|instead)\b[^\n]{0,60}?"
    r"\b(?:torch\.)?(?:bf16|fp16|fp32|fp8|bfloat16|float16|float32|half)\b",
    re.IGNORECASE,
)
"""A rank says that it takes another type from now on."""
_FRONT = re.compile(r"^rank\W{0,2}\d{1,6}\W{0,3}", re.IGNORECASE)


def _switched(texts: Sequence[Text]) -> tuple[Text, re.Match[str]] | None:
    """The last such line, where one rank alone says it."""
    found = [(text, each) for text in texts for each in islice(_SWITCHED.finditer(text.text), _MOST)]
    found = [(text, each) for text, each in found if "mismatch between coll" not in each[0]]
    return found[-1] if len({each["rank"] for _, each in found}) == 1 else None


def types_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The lines in which ranks say which precision they take."""
    if not _TITLE.search(finding.title):
        return None
    said: dict[str, tuple[Text, int]] = {}
    for text in texts:
        for found in islice(_CHOSE.finditer(text.text), _MOST):
            kind = found["type"].lower()
            said.setdefault(_SAME.get(kind, kind), (text, found.start()))
    gpus = sorted({found["name"] for text in texts for found in islice(_GPU.finditer(text.text), _MOST)})
    if (own := _switched(texts)) is not None:
        text, found = own
        return Sharper(
            f"{finding.title}. Rank {found['rank']} alone changed its type ({named(_FRONT.sub('', found[0]), 110)})",
            "let no rank choose the type by itself: fix one type for the whole run. Or decide for all of them: "
            "all-reduce a flag (MAX) over the ranks, then change on all in the same step. What made that rank change, "
            "such as memory of a long sample, differs from rank to rank and is no fault",
            (text.evidence(found.start()),),
        )
    how = f": the program chose {' on some and '.join(sorted(said))} on others" if len(said) > 1 else ""
    why = f", by what each GPU can do ({named(', '.join(gpus), 60)})" if how and len(gpus) > 1 else ""
    return Sharper(
        f"{finding.title}{how}{why}",
        "set one precision for all ranks: fp16 (with a GradScaler) or fp32 where one GPU of the job has no bfloat16 "
        "(V100, T4 and older), bf16 where all have it. Do not let each host ask is_bf16_supported() alone: rank 0 "
        "decides and broadcasts it. Or take GPUs of one kind",
        tuple(text.evidence(at) for text, at in said.values())[:3],
    )
