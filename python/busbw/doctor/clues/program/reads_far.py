"""A rank that others wait for reads its data over the network: its stack stands in a socket below a data set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.program.dumped_status import lagging
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_LAGS = re.compile(r"\brank (?P<rank>\d{1,6}) (?:lags|never came)")
_ONE = (
    r"[ \t]{2,24}(?:[\w<>.]{1,80} \([^()\n:]{1,200}:\d{1,7}\)"
    r"|File \"[^\"\n]{1,300}\", line \d{1,7},? in [\w<>.]{1,80})[^\n]{0,40}"
)
_STACK = re.compile(rf"^{_ONE}(?:\n{_ONE}){{2,80}}", re.MULTILINE)
_FRAME = re.compile(
    r"(?P<name>[\w<>.]{1,80}) \((?P<file>[^()\n:]{1,200}):(?P<line>\d{1,7})\)"
    r"|File \"(?P<path>[^\"\n]{1,300})\", line (?P<at>\d{1,7}),? in (?P<call>[\w<>.]{1,80})"
)
_SOCKET = re.compile(r"(?:^|/)(?:ssl|socket|selectors)\.py:")
_FAR = re.compile(
    r"(?:^|/)(?:urllib3?|http|requests|httpx|httpcore|botocore|boto3|s3transfer|s3fs|gcsfs|adlfs|aiohttp|fsspec"
    r"|smart_open|huggingface_hub)/"
)
_DATA = re.compile(
    r"(?:^|/)(?:datasets|webdataset|streaming|torchdata|litdata|torch/utils/data|data)/|data(?:set|loader|pipe)\w{0,30}"
    r"|\b\w{0,20}(?:batch|loader|sampl)\w{0,20}, ",
    re.IGNORECASE,
)
_JOINS = re.compile(r"distributed_c10d|\b(?:all_reduce|all_gather\w{0,30}|reduce_scatter\w{0,30}|barrier), ")
_WHO = re.compile(r"(?<!local )(?<!local_)(?<!local-)\brank[ #:=]{0,2}(?P<rank>\d{1,6})\b", re.IGNORECASE)
_ABOVE, _INNER, _MOST = 400, 12, 400


def reads_over_network(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The rank that lags has a stack of its own, whose innermost frames wait for an answer from a server of data."""
    lags, dumped = _LAGS.search(finding.title), lagging(texts)
    rank = lags["rank"] if lags else dumped[0] if dumped else ""
    if not rank:
        return None
    for text in texts:
        for stack in islice(_STACK.finditer(text.text), _MOST):
            who = list(_WHO.finditer(text.text, max(0, stack.start() - _ABOVE), stack.start()))
            frames = [_words(each) for each in _FRAME.finditer(stack[0])]
            if not who or who[-1]["rank"] != rank or any(map(_JOINS.search, frames)):
                continue
            inner = [each.partition(", ")[2] for each in frames[:_INNER]]
            far = [frame for frame, place in zip(frames, inner, strict=False) if _FAR.search(place)]
            data = [each for each in frames if _DATA.search(each) and each not in far]
            if not any(map(_SOCKET.search, inner)) or not (far and data):
                continue
            return Sharper(
                f"rank {rank} waits for an answer over the network as it reads its data ({named(far[-1], 80)}; called "
                f"from {named(data[-1], 80)}), and the others wait for rank {rank}: {named(finding.title, 160)}",
                "give reads of data a time limit and retries: timeout= of requests, aiohttp or the S3 client, "
                "HF_HUB_DOWNLOAD_TIMEOUT. Let loader workers fetch ahead (num_workers, prefetch_factor, "
                "DataLoader(timeout=...)), or copy the data to a local disk before the job. Branches, the order of "
                "groups and NCCL are right, and a longer time only hides it",
                (text.evidence(who[-1].start()), text.evidence(stack.start())),
            )
    return None


def _words(found: re.Match[str]) -> str:
    """A frame as `name, file:line`."""
    name, file, line = found["name"] or found["call"], found["file"] or found["path"], found["line"] or found["at"]
    return f"{name}, {'/'.join(file.split('/')[-4:])}:{line}"
