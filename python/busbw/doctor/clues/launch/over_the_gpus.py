"""A clue of mpirun without a list of hosts: all ranks start on the first one, and it has fewer GPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_REFUSED = re.compile(r"Failed to set (?:cuda )?device|invalid device ordinal|cudaErrorInvalidDevice", re.IGNORECASE)
_MPIRUN = re.compile(
    r"\b(?:mpirun|mpiexec|orterun|prterun)(?P<before>(?: (?!-np? )[^\s|;&]{1,200}){0,40}?) -np? (?P<n>\d{1,5})\b"
    r"(?P<behind>[^\n|;&]{0,400})"
)
_HOSTS = re.compile(r"(?<!\S)--?(?:H|host|hosts|hostfile|machinefile|f|npernode|ppn|N|map-by|rankfile|rf)\b")
"""What tells mpirun where ranks are to run; batch systems tell it by themselves."""
_BATCH = re.compile(r"\b(?:SLURM_JOB_ID|salloc|sbatch|srun|PBS_NODEFILE|qsub|bsub|LSB_HOSTS)\b")
_DIED = re.compile(r"\bprocess rank (?P<rank>\d{1,6}) with PID \d{1,9} on node (?P<host>[\w.-]{1,80}) exited\b")
_FAILS = re.compile(r"noticed that process rank|terminate called|Traceback \(most|\bAborted\b|\b[Ff]ailed\b|\bERROR\b")
_PASSES = re.compile(
    r"\bnum ranks: {0,4}\d|avg bus bandwidth|\b(?:pass(?:es|ed)|works?|ok|success\w*)\b|^\s{2,12}\d{3,12}\s{2,24}\d",
    re.IGNORECASE | re.MULTILINE,
)
_MOST = 16


def more_than_gpus(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The command names no host, its ranks are refused a GPU, and one host alone is told of."""
    if not any(_REFUSED.search(seen.fact) for seen in finding.evidence):
        return None
    for text in texts:
        runs = list(islice(_MPIRUN.finditer(text.text), _MOST))
        many = next((each for each in runs if not _HOSTS.search(f"{each['before']}{each['behind']}")), None)
        hosts = {each["host"] for each in _DIED.finditer(text.text)}
        if many is None or int(many["n"]) < 2 or len(hosts) > 1 or _BATCH.search(text.text):
            continue
        host = next(iter(hosts), "")
        fewer = _passes(text, runs, many)
        where = named(host, 60) if host else "the host where it is called"
        passes = f"; with -np {fewer['n']} it passes" if fewer else ""
        each = fewer["n"] if fewer else "N"
        return Sharper(
            f"mpirun -np {many['n']} names no hosts, so that all {many['n']} ranks start on {where}, and it has fewer "
            f"GPUs{passes}",
            f"give it the hosts, with as many ranks on each as it has GPUs (nvidia-smi -L): -H "
            f"{named(host, 60) or 'HOST1'}:{each},{_other(text, host) or 'HOST2'}:{each}, or a hostfile with "
            f"slots={each}. The program stands at the same path on all, and ssh asks for no password. On one host "
            f"alone -np {each} is right",
            (
                text.evidence(many.start()),
                *((text.evidence(died.start()),) if (died := _DIED.search(text.text)) else ()),
                *((text.evidence(fewer.start()),) if fewer else ()),
            ),
        )
    return None


def _passes(text: Text, runs: Sequence[re.Match[str]], many: re.Match[str]) -> re.Match[str] | None:
    """A run of fewer ranks of which the output shows that it came through."""
    for at, each in enumerate(runs):
        end = runs[at + 1].start() if at + 1 < len(runs) else len(text.text)
        said = text.text[each.end() : end]
        if int(each["n"]) < int(many["n"]) and _PASSES.search(said) and not _FAILS.search(said):
            return each
    return None


def _other(text: Text, host: str) -> str:
    """Another host of which the text tells, named as this one but for its last letter or number."""
    stem = re.match(r"[\w.-]{2,60}?(?=(?:[a-z]|\d{1,3})$)", host)
    if stem is None:
        return ""
    found = re.finditer(rf"(?<![\w.-]){re.escape(stem[0])}(?:[a-z]|\d{{1,3}})(?![\w-]|\.\w)", text.text)
    return next((named(each[0], 60) for each in islice(found, 400) if each[0] != host), "")
