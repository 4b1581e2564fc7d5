"""Clues of what is cut into parts, and of what lies on one host's disk alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_FIRST = re.compile(r"[Ff]irst dimension of the tensor (?:should be|is not) divisible by tensor parallel size")
_CUT = re.compile(
    r"scatter_to_sequence_parallel_region|--sequence[-_]parallel\b|\bsequence_parallel['\"]?\s?[=:]\s?[Tt]rue"
)
_LENGTH = re.compile(
    r"(?:--seq[-_]length|--max[-_]seq[-_]len(?:gth)?|\bseq(?:uence)?_length['\"]?)(?:\s{1,4}|\s?[=:]\s?|\s?\.{3,60}\s?)"
    r"(?P<n>\d{1,8})\b"
)
_TENSOR = re.compile(
    r"(?:--tensor[-_]model[-_]parallel[-_]size|\btensor_model_parallel_size['\"]?|tensor-model-parallel size)"
    r"(?:\s{1,4}|\s?[=:]\s?|\s?\.{3,60}\s?)(?P<n>\d{1,5})\b"
)


def sequence_in_parts(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Sequence parallelism cuts each sequence by the tensor parallel size, and a length is no multiple of it."""
    if not any(_FIRST.search(seen.fact) for seen in finding.evidence):
        return None
    cut = next(((text, found) for text in texts if (found := _CUT.search(text.text))), None)
    if cut is None:
        return None
    length, parts = (
        next((int(found["n"]) for text in texts if (found := words.search(text.text))), 0)
        for words in (_LENGTH, _TENSOR)
    )
    known = length > 0 and parts > 1 and length % parts > 0
    by = f" ({parts})" if parts > 1 else ""
    which = f"the sequence length {length}" if known else "the length of a batch's sequences"
    up = f" (here {-(-length // parts) * parts})" if known else ""
    return Sharper(
        f"{which} is no multiple of the tensor parallel size{by}, by which sequence parallelism cuts sequences into "
        "parts",
        f"take a sequence length that is a multiple of the tensor parallel size{up}: --seq-length, or pad batches to "
        "such a multiple (pad_to_multiple_of, variable lengths too). Else leave --sequence-parallel out, or choose "
        "another tensor parallel size. Heads, layers and the number of GPUs fit",
        (cut[0].evidence(cut[1].start()),),
    )


_MISSES = re.compile(
    r"^(?P<front>[^\n]{0,120}?)FileNotFoundError: [^\n]{0,80}No such file or directory: '(?P<path>[^'\n]{1,300})'",
    re.MULTILINE,
)
_SPEAKS = re.compile(
    r"^\W{0,2}\(?[^()\n]{1,60}\bip=(?P<ip>\d{1,3}(?:\.\d{1,3}){3})\)"
    r"|^(?P<host>[A-Za-z][\w.-]{1,60}): (?=\[|\s|File|Trace)",
    re.MULTILINE,
)
"""The host in front of a line, as Ray or pdsh writes it."""
_INDEX = re.compile(r"[^\n]{0,300}(?:index|indices|cache|mapping|shuffle|_idx)[^\n]{0,200}", re.IGNORECASE)


def on_another_disk(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Ranks of some hosts miss a file that no rank of rank 0's host misses."""
    if not any("FileNotFoundError" in seen.fact for seen in finding.evidence):
        return None
    for text in texts:
        missed = [(_host(found[0]), found) for found in _MISSES.finditer(text.text)]
        hosts = {host for host, _ in missed}
        others = {found["ip"] or found["host"] for found in _SPEAKS.finditer(text.text)} - hosts
        if not missed or "" in hosts or not others or not _INDEX.fullmatch(missed[0][1]["path"]):
            continue
        found = missed[0][1]
        where = named(", ".join(sorted(hosts)), 80)
        return Sharper(
            f"ranks of {where} do not find {named(found['path'], 120)}, and no rank of {named(sorted(others)[0])} "
            "misses it: rank 0 writes it to a disk of its own node",
            "put data and the cache of its index on a file system that all nodes share (Megatron: --data-cache-path). "
            "Or build it on each node: copy it there before the job, or let each node's first rank write "
            "(local rank 0). What other ranks say of lost connections follows from it",
            (text.evidence(found.start("path")),),
        )  # fmt: skip
    return None


_NO_MAP = re.compile(
    r"^(?:\[?rank\s?)?(?P<rank>\d{1,6})\]?: [^\n]{0,200}?(?:Memory Map for (?P<map>/\S{1,300}?) is not found"
    r"|(?:FileNotFoundError|OSError|ValueError|RuntimeError): [^\n]{0,160}?(?P<path>/[^\s'\"\n]{1,240}?"
    r"(?:\.idx|\.npy|\.info|\.bin|indexmap|index_mapping|\.mmap)[\w.-]{0,40}))",
    re.MULTILINE,
)
"""A rank, in front of its line as srun -l or torchrun write it, that misses a file which is made of the data."""
_BUILDS = re.compile(
    r"^(?:\[?rank\s?)?(?P<rank>\d{1,6})\]?: [^\n]{0,200}?"
    r"(?:[Bb]uilding (?:idx|index|data) files?|[Bb]uilding \w{0,20} ?ind(?:ex|ices)"
    r"|[Ss]av(?:ed|ing) (?:\w{1,20} )?ind(?:ex|ices)|building the \w{0,20} ?index|_idx_map files)",
    re.MULTILINE,
)
_RANKS_OF_NODE = re.compile(
    r"\b(?:devices|gpus_per_node|nproc[-_]per[-_]node|ntasks-per-node)['\"]?\s?[:= ]\s?(?P<n>[2-9]|\d{2,3})\b"
)


def index_of_first_node(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Only ranks of other nodes than the first miss an index that rank 0 built."""
    for text in texts:
        missed = list(_NO_MAP.finditer(text.text))
        builds = next((found for found in _BUILDS.finditer(text.text) if int(found["rank"]) == 0), None)
        size = next((int(found["n"]) for found in _RANKS_OF_NODE.finditer(text.text)), 0)
        if not missed or builds is None or size == 0 or min(int(each["rank"]) for each in missed) < size:
            continue
        ranks = sorted({int(each["rank"]) for each in missed})
        what = named(missed[0]["map"] or missed[0]["path"].rstrip("."), 120)
        who = f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks[:8]))}"
        return Sharper(
            f"rank 0 built the index of {what} on a disk of its own node, and ranks of another node do not find it "
            f"({who}; {size} ranks per node)",
            "put data and index on a file system that all nodes share. Or copy data with its index files to each "
            "node before the job, or let each node's first rank build it (NeMo: a newer release, "
            "index_mapping_dir). Path, rights and NCCL are right, and a longer barrier does not help",
            (text.evidence(builds.start()), text.evidence(missed[0].start())),
        )
    return None


def _host(line: str) -> str:
    found = _SPEAKS.match(line)
    return (found["ip"] or found["host"]) if found else ""
