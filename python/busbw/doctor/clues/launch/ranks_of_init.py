"""Clues of a communicator that NCCL refuses without a reason: ranks with a gap, several on one GPU, device too late."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_REFUSED = re.compile(r"\binvalid[ _](?:usage|argument)|\bncclInvalid(?:Usage|Argument)", re.IGNORECASE)
_REASON = re.compile(r"Duplicate GPU detected|NCCL WARN ")
_RANK = re.compile(r"['\"]rank['\"]: ?(?P<rank>\d{1,5})\b")
"""A worker of a dictionary that RAFT hands to each of them: its name there becomes its rank."""
_OUT = re.compile(
    r"(?<!node )(?<!local )\brank[ =:]{1,3}(?P<rank>\d{1,5}),? {0,2}(?:nranks|n_ranks|world[_ ]size)[ =:]{1,3}"
    r"(?P<n>\d{1,5})\b",
    re.IGNORECASE,
)
_MOST = 500


def ranks_with_gap(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Ranks that are not 0 to n - 1, as where the numbers of chosen devices become ranks."""
    if not _refused(finding, texts):
        return None
    for text in texts:
        for at, line in _lines(text, _RANK):
            ranks = sorted({int(found["rank"]) for found in _RANK.finditer(line)})
            if len(ranks) > 1 and ranks[-1] >= len(ranks):
                return Sharper(
                    f"a rank is out of range: {len(ranks)} workers have the ranks {', '.join(map(str, ranks[:8]))}, "
                    f"and NCCL takes 0 to {len(ranks) - 1} alone. The workers' names became their ranks",
                    "give devices without a gap that begin at 0: choose them by CUDA_VISIBLE_DEVICES="
                    f"{','.join(map(str, ranks[:8]))} and name them {', '.join(map(str, range(len(ranks))))} "
                    "(dask_worker_devices). Or a newer RAFT, which numbers the workers itself. Network, GPUs and "
                    "driver are not at fault",
                    (text.evidence(at),),
                )
        for found in islice(_OUT.finditer(text.text), _MOST):
            rank, size = int(found["rank"]), int(found["n"])
            if size and rank >= size:
                return Sharper(
                    f"a rank is out of range: rank {rank} of {size}, and NCCL takes 0 to {size - 1} alone",
                    f"number the ranks from 0 without a gap, and give each the same count ({size}). See where the "
                    "number comes from: the launcher's rank, a worker's name, or a count that begins at 1",
                    (text.evidence(found.start()),),
                )
    return None


def _refused(finding: Finding, texts: Sequence[Text]) -> bool:
    """Whether NCCL refused what it was given, and says nowhere why."""
    said = any(_REFUSED.search(seen.fact) for seen in finding.evidence)
    return said and not any(_REASON.search(text.text) for text in texts)


def _lines(text: Text, words: re.Pattern[str]) -> list[tuple[int, str]]:
    """The lines that have those words, and where they begin."""
    begins = dict.fromkeys(
        text.text.rfind("\n", 0, found.start()) + 1 for found in islice(words.finditer(text.text), _MOST)
    )
    return [(at, text.text[at : at + 8000].partition("\n")[0]) for at in begins]


_WORKER = re.compile(
    r"\bRegister(?:ing|ed)? worker\b[^\n]{0,160}?\bname: (?P<name>[A-Za-z0-9][\w.:/-]{1,100}-\d{1,3})\b"
)
_AGAIN = re.compile(r"(?P<first>.{1,100}-\d{1,3})-\d{1,3}$")
_ONE_GPU = re.compile(
    # "On a single GPU it works" tells of another run.
    r"^(?![^\n]{0,400}\b(?:works?|worked|runs?|ran|fine|trains?|pass(?:es|ed)|ok|succe\w{2,8}|instead|unlike|without)\b)"
    r"[^\n]{0,200}?\b(?P<one>(?:(?:have|has|had|got|with|of) (?:only )?(?:a|one) single|only one|just one|the same) "
    r"(?:NVIDIA |physical )?(?:GPU|(?:GTX|RTX|Tesla|Quadro|A|H|V|T|L)\s?\d{2,4}))\b",
    re.IGNORECASE | re.MULTILINE,
)
_SEVERAL = re.compile(
    r"\b(?:two|three|four|five|six|eight|[2-9]) (?:\w{1,12} )?(?:workers|ranks|processes|actors)\b"
    r"|(?:-np?|--nproc[-_]per[-_]node|--num[-_]workers|n_workers|num_workers|--ntasks)[ =](?:[2-9]|\d\d)\b",
    re.IGNORECASE,
)


def workers_of_one_gpu(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Several workers were started for one GPU: by names that Dask numbers anew, or as somebody tells it."""
    if not _refused(finding, texts):
        return None
    for text in texts:
        workers = {found["name"]: found.start() for found in islice(_WORKER.finditer(text.text), _MOST)}
        for name, at in workers.items():
            again = _AGAIN.fullmatch(name)
            if again is not None and (first := again["first"]) in workers:
                several = sum(each == first or each.startswith(f"{first}-") for each in workers)
                return _shared(
                    f"{several} workers of one host were started for the same GPU ({named(first)}, {named(name)})",
                    text,
                    at,
                )
    one = next(((text, found) for text in texts if (found := _ONE_GPU.search(text.text))), None)
    if one is None or not any(_SEVERAL.search(text.text) for text in texts):
        return None
    return _shared(f"most likely several ranks share one GPU ({named(one[1]['one'])})", one[0], one[1].start("one"))


def _shared(what: str, text: Text, at: int) -> Sharper:
    return Sharper(
        f"{what}, and NCCL refuses two ranks of a communicator on one GPU",
        "start one worker or rank per GPU (dask-cuda-worker once on each host starts one for each GPU). More of them "
        "need more GPUs; one alone runs. NCCL_DEBUG=WARN would name it: Duplicate GPU detected. Network and versions "
        "are not at fault",
        (text.evidence(at),),
    )


_MAKES = re.compile(
    r"^(?![^\n]{0,40}\bFile \")[^\n#]{0,100}?\b(?P<call>NcclCommunicator|ncclCommInitRank\w{0,12}"
    r"|nccl\.init_rank|Communicator\.init|NCCLCommunicator)\([^\n]{0,120}",
    re.MULTILINE,
)
_CHOOSES = re.compile(
    r"^[^\n#]{0,100}?(?P<call>\b(?:cuda|cp\.cuda|cupy\.cuda|torch\.cuda)\.(?:Device|set_device|device)|\bcudaSetDevice"
    r"|\bset_device)\([^\n]{0,80}",
    re.MULTILINE,
)
_SHOWN_ONE = re.compile(r"CUDA_VISIBLE_DEVICES")


def device_after(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The script makes the communicator first, and chooses the rank's GPU after that."""
    if not _refused(finding, texts):
        return None
    for text in texts:
        made = _MAKES.search(text.text)
        chosen = _CHOOSES.search(text.text)
        if made is None or chosen is None or chosen.start() < made.end() or _SHOWN_ONE.search(text.text):
            continue
        return Sharper(
            f"the script makes the communicator ({named(made['call'])}) before it chooses the rank's GPU "
            f"({named(chosen['call'])}): all ranks are on device 0 then, and NCCL refuses two ranks on one GPU",
            f"choose the device first, by the rank on its host: {named(chosen['call'])}(LOCAL_RANK) before the "
            "communicator is made, or CUDA_VISIBLE_DEVICES with one GPU for each process. Id and network are right",
            (text.evidence(made.start("call")), text.evidence(chosen.start("call"))),
        )
    return None
