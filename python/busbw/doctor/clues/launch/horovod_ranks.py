"""A clue of Horovod's local rank: the script takes its GPU by it, and it was the same in several processes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_TAKEN = re.compile(
    r"(?:set_device\(|visible_device_list ?= ?str\(|set_visible_devices\(gpus\[|device\(['\"]cuda['\"], ?)\s{0,2}"
    r"(?:hvd|horovod\.\w{2,12})\.local_rank\(\)"
)
_ALIKE = re.compile(
    r"\blocal[_ ]?rank\b[^\n]{0,80}\b0\b[^\n]{0,20}\b(?:for|in|on) (?:both|all|every|each)\b"
    r"|\blocal[_ ]?rank\b[^\n]{0,40}\b(?:both|all|always)\b[^\n]{0,12}\b0\b",
    re.IGNORECASE,
)


def same_in_horovod(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The script sets the device as it should, and the local rank it takes was alike for two ranks of one host."""
    for text in texts:
        taken = _TAKEN.search(text.text)
        if taken is None:
            continue
        alike = _ALIKE.search(text.text)
        return Sharper(
            f"{finding.title}: the script takes its GPU by hvd.local_rank(), and Horovod gave several ranks of this "
            "host the same one (each takes itself for alone on its host)",
            "print hvd.rank(), hvd.local_rank() and hvd.local_size() in each process: local_size must be the number of "
            "ranks of the host. Start with the launcher that Horovod was built for (horovodrun --check-build; --mpi or "
            "--gloo by name), in one container or job step per host, with one host name for all. Until then take the "
            "number from the launcher: OMPI_COMM_WORLD_LOCAL_RANK, SLURM_LOCALID. Or set CUDA_VISIBLE_DEVICES for "
            "each rank. The GPUs are all there",
            (text.evidence(taken.start()), *([text.evidence(alike.start())] if alike else [])),
        )
    return None
