"""Clues of a host's memory: what ZeRO or FSDP offload there, and the limit of Dask's workers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_USED = re.compile(
    r"CPU Virtual Memory:\s{1,4}used = (?P<gb>\d{1,6}(?:\.\d{1,4})?) GB, percent = (?P<share>\d{1,3})\.\d"
)
_OFFLOADS = re.compile(
    r"\bcpu_adam op\b|\bCPUAdam\b|DeepSpeedCPUAdam|Adam Optimizer #\d is created with AVX|Parameter Offload: Total"
    r"|offload_(?:optimizer|param)[\"'.:\w ]{1,12}[^\n]{0,40}\bcpu\b|offload_params['\"]?\s?[=:]\s?[Tt]rue"
    r"|\bCPUOffloadPolicy\b|\bCPUOffload\(offload_params=True"
)
_MAKES = re.compile(
    r"(?:Before|After) (?:creating fp32 partitions|initializing optimizer states)"
    r"|Creating \S{2,40} ZeRO stage \d optimizer"
    r"|offload(?:ing|ed)? (?:optimizer|param\w*|gradients)[^\n]{0,40} to (?:the )?cpu",
    re.IGNORECASE,
)
_FULL = 80
"""Per cent of the host's memory, at the last time that DeepSpeed counted it."""


def of_offload(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The last that a log shows is parameters and states of the optimizer that go to the host's memory."""
    for text in texts:
        offloads = next(_OFFLOADS.finditer(text.text), None)
        used = list(_USED.finditer(text.text))
        makes = list(_MAKES.finditer(text.text))
        lines = [seen.line for seen in finding.evidence if seen.line and seen.where == text.source]
        full = bool(used) and int(used[-1]["share"]) >= _FULL
        if offloads is None or not (makes or full) or not lines:
            continue
        last = used[-1] if full else makes[-1]
        if text.text.count("\n", 0, last.start()) + 1 > lines[0]:
            continue
        share, gb = (int(used[-1]["share"]), float(used[-1]["gb"])) if full else (0, 0.0)
        count = f": {gb:g} GB were in use, {share} % of about {100 * gb / share:.0f}" if full else ""
        grew = f" ({used[0]['share']} % at its begin)" if full and int(used[0]["share"]) < share else ""
        return Sharper(
            f"the host ran out of memory by what is offloaded to it (parameters and states of the optimizer in fp32, "
            f"16 bytes and more per parameter){count}{grew}",
            "more memory for host or pod, or offload less (offload_optimizer and offload_param: none or nvme). Else "
            "ZeRO stage 2, a smaller model, LoRA, 8-bit optimizer, more nodes. pin_memory false saves some. Memory of "
            "the GPUs is not what is short",
            (text.evidence(offloads.start()), text.evidence(last.start())),
        )
    return None


_BUDGET = re.compile(r"\bexceeded (?P<share>\d{2,3})% memory budget", re.IGNORECASE)
_LIMIT = re.compile(
    r"Worker memory limit: (?P<limit>\d[\d.]{0,8} ?[kMGT]?i?B)|--memory-limit[ =](?P<set>\d[\d.]{0,8} ?[kMGT]?i?B)"
)


def of_dask(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Dask's nanny ended a worker that took more of the host's memory than it may."""
    for text in texts:
        budget = _BUDGET.search(text.text)
        if budget is None:
            continue
        limit = _LIMIT.search(text.text)
        size = f" of {named(limit['limit'] or limit['set'])}" if limit else ""
        seen = [text.evidence(each.start()) for each in (budget, limit) if each]
        return Sharper(
            f"a Dask worker went over {budget['share']} % of its limit of host memory{size}, and its nanny ended it: "
            "what ran over all workers broke by it",
            "a higher limit (dask worker --memory-limit, LocalCUDACluster(memory_limit=)). Its default is the host's "
            "memory by the number of workers. Or fewer workers per host, smaller partitions, float32. memory_limit=0 "
            "switches the nanny's watch off. Closed streams and a failed Allreduce follow from it",
            tuple(seen),
        )
    return None
