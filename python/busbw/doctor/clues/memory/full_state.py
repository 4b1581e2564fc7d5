"""Host memory that a checkpoint fills: each rank gathers all of the model's state, and not its own part."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_EACH = re.compile(r"\brank0_only['\"]?\s{0,4}[=:]\s{0,4}['\"]?[Ff]alse\b")
_FULL = re.compile(r"\b[Ff]ull[_ ]state[_ ]dict\b|\bFULL_STATE_DICT\b|\bFullStateDictConfig\b|\bfull_state_dict\b")
_SAVES = re.compile(r"\b[Ss]av(?:e|ing|ed)\b[^\n]{0,80}|\b[Cc]heckpoint[^\n]{0,80}|\bsave_\w{1,40}\(")
_KILLED = re.compile(r"oom[-_ ]?kill|Out Of Memory|[Oo]ut of memory: Kill|OUT_OF_ME|signal: 9|SIGKILL|exitcode ?: ?-9")
_LIMIT = re.compile(
    r"\((?P<size>\d{1,6}(?:\.\d{1,2})? [GMT]i?B)/node\)|--mem[= ](?P<mem>[1-9]\d{0,8}[KMGT]?)\b"
    r"|\bmem_per_node['\"]?[=:] ?(?P<other>[1-9]\d{0,6}[KMGT]?B?)\b"
)
_COPIES = re.compile(r"^[^\n]{0,160}\b(?:copy|copies) per (?:local )?rank\b[^\n]{0,60}", re.MULTILINE)
_NEAR = 4000


def full_state_on_all(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A process was killed as a checkpoint was saved whose whole state each rank puts into host memory."""
    for text in texts:
        each, full = _EACH.search(text.text), _FULL.search(text.text)
        if each is None or full is None:
            continue
        killed = next((one for one in _KILLED.finditer(text.text) if _saved_before(text, one.start())), None)
        if killed is None:
            continue
        limit = _LIMIT.search(text.text)
        size = next(filter(None, limit.groups()), "") if limit else ""
        of_job = f" reaches the job's own limit ({named(size, 20)} per node)" if size else " fills it"
        copies = _COPIES.search(text.text)
        more = ". Data that each rank loads for itself stands there as well" if copies else ""
        less = " Share the data of a host: np.memmap or one copy in /dev/shm for all its ranks." if copies else ""
        return Sharper(
            f"each rank puts the full state of the model into host memory for a checkpoint ({named(each[0], 30)}): as "
            f"many copies as a host has ranks. That{of_job}, and the kernel killed a process{more}",
            "save in shards: torch.distributed.checkpoint, StateDictType.SHARDED_STATE_DICT, fsdp_state_dict_type in "
            "Accelerate. Or FullStateDictConfig(offload_to_cpu=True, rank0_only=True), so that one rank alone holds "
            f"it.{less} Only then ask for more (--mem=0 gives all that the node has). Errors of the network follow",
            tuple(
                text.evidence(at)
                for at in (each.start(), killed.start(), *(one.start() for one in (limit, copies) if one))
            ),
        )
    return None


def _saved_before(text: Text, at: int) -> bool:
    return _SAVES.search(text.text, max(0, at - _NEAR), at) is not None
