"""A server that waits for workers which stand still where NCCL's communicators are made: nothing was loaded yet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_SETUP = re.compile(
    # Not what somebody quotes between lines of the log.
    r"(?<![\"'`])(?:NCCL CALL (?P<call>nccl(?:GetUniqueId|CommInitRank\w{0,20}))\b"
    r"|\b(?:vLLM|sglang) is using nccl=="
    r"|\bworld_size=(?:[2-9]|\d\d{1,3}) rank=\d{1,4} local_rank="
    r"|\bDetected \d{1,4} nodes? in the distributed environment|\bInit torch distributed begin)"
)
"""What workers say while they meet."""
_BEYOND = re.compile(
    r"\bInit COMPLETE\b|\bInit START\b|\bLoading (?:safetensors|model|weights|pt checkpoint)|\bStarting to load model"
    r"|\bload(?:ing)? weights?\b|\bModel loading took|\b[Tt]orch\.compile|\bDynamo\b|\bCapturing\b|\bKV cache\b"
    r"|\bassigned as DP rank\b|\bInit torch distributed ends|\bLoad weight\b|\bprofil(?:e|ing) run\b",
    re.IGNORECASE,
)
"""What they say behind it."""
_MOST = 20_000
_CURE = (
    "take the stack of each worker (py-spy dump --pid PID --native): it shows the call that never comes back. Then in "
    "turn NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1 and NCCL_CUMEM_ENABLE=0, and NCCL_DEBUG=INFO on all of them. "
    "Compilation and loading of weights come later: waiting longer does not help"
)


def stands_in_setup(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The last that workers say is of their meeting, and none of them came further."""
    for text in texts:
        said = list(islice(_SETUP.finditer(text.text), _MOST))
        if not said:
            continue
        first, last = said[0], said[-1]
        if _BEYOND.search(text.text, text.text.find("\n", last.end()) + 1 or last.end()):
            continue
        if _BEYOND.search(text.text, first.start(), last.start()):
            continue
        return Sharper(
            "the workers of the server stand still where NCCL's communicators are made, before anything is loaded or "
            f"compiled: the last that they say is {named(last[0], 80)!r}",
            _CURE,
            (text.evidence(last.start()),),
        )
    return None
