"""A rank whose batch is shorter than those of the others, by the shapes that ranks print: a shard's last batch."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.lines.speakers import rank_by_words
from busbw.doctor.shown_texts import Text, named

_SHAPE = re.compile(
    r"^(?P<front>[^\n]{0,160}?)(?P<name>\b[A-Za-z_][\w.]{0,40})['\"]?(?:\.shape|\.size\(\))?[ =:]{1,3}"
    r"(?P<shape>(?:torch\.Size\()?[\[(]{1,2}(?P<first>\d{1,7})(?P<rest>(?:, ?\d{1,9}){0,5}),?[\])]{1,3})",
    re.MULTILINE,
)
_SIZE = re.compile(
    r"^(?P<front>[^\n]{0,160}?)\b(?P<name>(?:local_|last_)?batch[_ ]size|len\(batch\)|bs)[ =:]{1,3}"
    r"(?P<shape>(?P<first>\d{1,7}))(?P<rest>)(?![\d.,/:])",
    re.MULTILINE | re.IGNORECASE,
)
_STEP = re.compile(r"\b(?:global_)?(?:step|iter(?:ation)?|batch(?:_idx)?)\W{1,3}(?P<step>\d{1,9})\b", re.IGNORECASE)
_SHARD = re.compile(
    r"^(?P<front>[^\n]{0,200}?)(?<![\d./])(?P<number>\d{2,12}) "
    r"(?P<what>pairs|samples|examples|rows|records|images|sequences|items|files)\b",
    re.MULTILINE,
)
_OF_SHARD = re.compile(r"shard|data|loaded|split|\bpart|file|csv|tar\b|parquet|jsonl|\blocal", re.IGNORECASE)
_NO_SHAPE = re.compile(r"coord|pos|mesh|group|topo|rank|device", re.IGNORECASE)
_KEEPS = re.compile(r"\bdrop_last\b['\"]?\s{0,8}[=:]\s{0,4}False\b")
_MOST, _NAMED = 20_000, 6
_SURE = ("message-truncated", "collective-mismatch")
"""What ranks say whose tensors differ in size."""

Said = dict[str, tuple[int, str, int]]
"""By rank the first dimension, the shape, and where it stands."""


def shorter_batch(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Few ranks print a smaller first dimension than the others, of one tensor at one step."""
    for text in texts:
        shards = _shards(text)
        keeps = _KEEPS.search(text.text)
        apart = _apart(text)
        # Ranks may have batches of any size where each reduces gradients alone.
        if apart is None or (finding.name not in _SURE and shards is None and keeps is None):
            continue
        name, step, ranks = apart
        most = max(first for first, _, _ in ranks.values())
        few = sorted((rank for rank in ranks if ranks[rank][0] < most), key=int)
        other = next(rank for rank in ranks if ranks[rank][0] == most)
        at = f" at step {step}" if step else ""
        last = "last batch" if shards or keeps else "batch"
        why = f". {shards[0]}" if shards and shards[2] & set(few) else ""
        kept = " (drop_last is False)" if keeps else ""
        return Sharper(
            f"the {last} of rank {', '.join(few[:_NAMED])} is shorter{kept}: {named(name, 40)} is "
            f"{named(ranks[few[0]][1], 60)} there{at}, and {named(ranks[other][1], 60)} on the others. A gather of "
            f"tensors of one size fails with it{why}",
            "set drop_last=True for the loader of training, or give all ranks shards of equal size. "
            "DistributedSampler does both. Where each sample counts, pad the batch to one size before all_gather and "
            "cut it after, or gather the sizes first. NCCL's variables, plugins and the network have no part in it",
            (
                *(text.evidence(ranks[rank][2]) for rank in (few[0], other)),
                *((shards[1],) if why and shards else ()),
                *((text.evidence(keeps.start()),) if keeps else ()),
            ),
        )
    return None


def _is_size(found: re.Match[str]) -> bool:
    """Whether the number in brackets is of a tensor, and no place of a rank or name of a device."""
    if _NO_SHAPE.search(found["name"]):
        return False
    return found.re is _SIZE or bool(found["rest"]) or "ize" in found[0] or ".shape" in found[0]


def _apart(text: Text) -> tuple[str, str, Said] | None:
    """The tensor and step of which most ranks print one shape, and few a shorter one."""
    said: defaultdict[tuple[str, str], Said] = defaultdict(dict)
    rests: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for words in (_SHAPE, _SIZE):
        for found in islice(words.finditer(text.text), _MOST):
            if not (rank := rank_by_words(found["front"])) or not _is_size(found):
                continue
            of = _STEP.search(found["front"])
            key = (found["name"], of["step"] if of else "")
            said[key][rank] = (int(found["first"]), found["shape"], found.start("name"))
            rests[key].add(found["rest"].replace(" ", ""))
    for (name, step), ranks in reversed(said.items()):
        sizes = [first for first, _, _ in ranks.values()]
        shorter = sum(size < max(sizes) for size in sizes)
        # Without most ranks alike it is a batch by tokens, whose size differs at all times.
        if len(ranks) > 1 and len(rests[name, step]) == 1 and 0 < shorter <= len(ranks) // 2 and 0 not in sizes:
            return name, step, ranks
    return None


def _shards(text: Text) -> tuple[str, Evidence, set[str]] | None:
    """How many samples the smallest shard has, where ranks tell theirs and they differ; and whose it is."""
    found: dict[str, tuple[int, str, int]] = {}
    for each in islice(_SHARD.finditer(text.text), _MOST):
        if (rank := rank_by_words(each["front"])) and _OF_SHARD.search(each["front"]):
            found.setdefault(rank, (int(each["number"]), each["what"], each.start("number")))
    fewest, most = (pick((count for count, _, _ in found.values()), default=0) for pick in (min, max))
    if fewest == most:
        return None
    ranks = {rank for rank, (count, _, _) in found.items() if count == fewest}
    count, what, at = found[min(ranks, key=int)]
    return f"Its shard has {count} {what}, and the largest {most}", text.evidence(at), ranks
