"""Ranks that all train on the same samples, by the numbers of samples that each prints of its steps or epochs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.lines.speakers import rank_of
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

NAME = "same-data"
FEWEST = 2
"""Steps or epochs in which all ranks name the same samples: a seed may start all of them with one batch to warm up."""
_SAMPLES = re.compile(
    r"(?<!token )(?<!input )(?<!device )(?<!gpu )(?<!rank )(?<!expert )(?<!layer )"
    r"\b(?:ids|indices|idxs?|samples|examples)[ =:]{1,3}"
    r"[\[(](?P<ids>\d{1,12}(?:, ?\d{1,12}){3,40})",
    re.IGNORECASE,
)
_WHEN = re.compile(r"\b(?P<what>epoch|step|iter(?:ation)?|batch)\b[ =:#]{0,3}(?P<n>\d{1,9})\b", re.IGNORECASE)
_RANK = re.compile(r"\brank[ =:]{0,2}(?P<rank>\d{1,6})\b", re.IGNORECASE)
_NOT_TRAINED = re.compile(
    r"\b(?:val\w{0,8}|eval\w{0,8}|test\w{0,3}|prompts?|tokens?|input_ids|expert|layer|gpus?|devices?)\b", re.IGNORECASE
)
_SHARES_SAMPLES = re.compile(
    r"\b(?:tensor|pipeline|context|sequence|model|expert)[ _-]?(?:model[ _-])?parallel"
    r"|\b(?:tp|pp|cp|sp|ep)(?:[ _-]?(?:size|rank|degree))?[ =:]{1,2}[\d(]"
    r"|\bulysses\b|\bring[ _-]attention\b",
    re.IGNORECASE,
)
"""Ranks that hold parts of one model are given the same samples on purpose."""


def examine(facts: Facts) -> Iterator[Finding]:
    told: defaultdict[str, dict[str, tuple[str, Evidence]]] = defaultdict(dict)
    for shown in facts.shown:
        if any(_SHARES_SAMPLES.search(line) for line in shown.lines):
            return
        for when, rank, ids, seen in _told(shown):
            told[when].setdefault(rank, (ids, seen))
    several = [ranks for ranks in told.values() if len(ranks) > 1]
    if len(several) < FEWEST or any(len({ids for ids, _ in ranks.values()}) > 1 for ranks in several):
        return
    first = several[0]
    named = sorted(first, key=int)
    yield Finding(
        NAME, Severity.WARNING,
        f"ranks {', '.join(named[:8])}{' ...' if len(named) > 8 else ''} train on the same samples in all "
        f"{len(several)} reports of them: the data is not shared out, so that more GPUs repeat the same work",
        tuple(first[rank][1] for rank in named[:2]),
        Cost(f"{len(named)} GPUs do the work of one", float(len(named)), "the log's own numbers of samples"),
        "give each rank its own part: DistributedSampler(dataset, num_replicas=world, rank=rank) with "
        "set_epoch(epoch), or Accelerate's prepare(loader). Lightning: use_distributed_sampler=True, without a sampler "
        "of your own. Iterable data: split by rank and worker, or split_dataset_by_node",
        Proof(instruction="print the first numbers of samples on each rank: they must differ, and an epoch has fewer "
              "batches by the number of ranks"),
        stage=Stage.SETTING,
    )  # fmt: skip


def _told(shown: Shown) -> Iterator[tuple[str, str, str, Evidence]]:
    """Of which step or epoch a line tells, of which rank, and the samples."""
    for number, line in enumerate(shown.lines, 1):
        if "[" not in line and "(" not in line:
            continue
        samples, when, named = _SAMPLES.search(line), _WHEN.search(line), _RANK.search(line)
        rank = rank_of(line) or (str(int(named["rank"])) if named else "")
        if samples is None or when is None or not rank or _NOT_TRAINED.search(line):
            continue
        ids = [int(each) for each in samples["ids"].split(",")]
        if ids == list(range(ids[0], ids[0] + len(ids))):
            continue  # numbers in a row may be of ranks or devices
        seen = Evidence(clean(shortened(line.strip(), 200)), shown.source, number)
        yield f"{when['what'].lower()} {int(when['n'])}", rank, ",".join(map(str, ids)), seen
