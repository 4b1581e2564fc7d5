"""A server's own all-reduce (vLLM, SGLang) over P2P of GPUs gives wrong data: its answers are one character."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Finding, Proof, Severity
from busbw.doctor.shown_texts import texts_of
from busbw.doctor.signature import Stage

NAME = "custom-all-reduce"
_ON = re.compile(
    r"custom_all_reduce(?:_utils)?\.py:\d{1,5}\]? ?(?:Registering \d|(?:generating|reading) GPU P2P)"
    r"|\bdisable_custom_all_reduce=False\b|Registering \d{1,7} cuda graph addresses"
)
_OFF = re.compile(
    r"\bdisable_custom_all_reduce['\"]?[=:] ?True\b"
    r"|--disable-custom-all-reduce\b(?![^\n]{0,60}(?:fine|help|ok\b))"
)
_GARBAGE = re.compile(
    r"^[\s\"'`]{0,8}!{12,}|\"(?:content|text)\": ?\"\s?!{8,}|[`\"'|]\s?!{5,}\s?[`\"'|]"
    r"|\b(?:answers?|outputs?|replies|tokens|completions?) (?:is|are) (?:only |all |just )?"
    r"(?:gibberish|garbage|nonsense|corrupt\w{0,3})",
    re.MULTILINE | re.IGNORECASE,
)
"""A token of number 0 again and again, which logits that are not numbers give; or what people call it."""
_PATCHED = re.compile(
    r"\bp2p[- ](?:fork|patch\w{0,3}|driver|enabled driver)|\bpatched (?:\w{1,20} )?(?:driver|p2p|kernel module)"
    r"|tinygrad/open-gpu|aikitoria|open-gpu-kernel-modules[^\n]{0,40}p2p|\bdriver\b[^\n]{0,40}\bp2p (?:fork|patch)",
    re.IGNORECASE,
)
_ONE_IS_FINE = re.compile(
    r"(?:\btp ?[=:]? ?1\b|tensor[-_]parallel[-_]size[ =]1\b|\bone GPU\b|\bsingle GPU\b)"
    r"[^\n]{0,60}\b(?:fine|ok|works|correct|good)\b",
    re.IGNORECASE,
)


def examine(facts: Facts) -> Iterator[Finding]:
    texts = texts_of(facts)
    found = [
        next(((text, at) for text in texts if (at := words.search(text.text))), None)
        for words in (_ON, _GARBAGE, _PATCHED, _ONE_IS_FINE)
    ]
    on, garbage, patched, fine = found
    if on is None or garbage is None or not (patched or fine) or any(_OFF.search(text.text) for text in texts):
        return
    by = " of a patched driver" if patched else ""
    yield Finding(
        NAME,
        Severity.ERROR if patched else Severity.WARNING,
        f"the server's own all-reduce (custom all-reduce of vLLM or SGLang) gives wrong data over P2P{by}: answers are "
        f"garbage with several GPUs{', and right with one' if fine else ''}",
        tuple(text.evidence(at.end() - 1) for text, at in filter(None, (garbage, on, patched, fine))),
        Cost("answers are wrong, and no error tells it"),
        "start the server with --disable-custom-all-reduce: NCCL then adds up, and may keep its own P2P. "
        "NCCL_P2P_DISABLE does not reach that code. Or go back to the stock driver, under which P2P is off on GeForce "
        "cards. Models, quantisation and KV cache are not at fault",
        Proof(instruction="the same prompt with temperature 0 by --disable-custom-all-reduce and without it"),
        stage=Stage.PROGRAM,
    )
