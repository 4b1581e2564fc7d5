"""A clue of ranks that exchange different sizes: each host built a model of its own size, by its own tokenizer."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.lines.speakers import rank_of
from busbw.doctor.shown_texts import Text, named

_SIZE = re.compile(
    r"\b(?P<what>resize_token_embeddings|padded vocab|vocab(?:ulary)?(?:[_ ]size)?|len\(tokenizer\)|num_embeddings"
    r"|embedding size|(?:trainable |total |number of |num_)?param(?:eter)?s|num_labels|num_classes)\b"
    r"(?P<rest>[^\n]{0,80})",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?P<size>\d[\d,_]{0,14}(?:\.\d{1,6})?[KMB]?)\b(?: \((?P<more>\+ ?\d{1,6})\b)?")
_OF_PARTS = re.compile(r"\b(?:pipeline|tensor|stage|shard|local|per[- ](?:rank|gpu))\b", re.IGNORECASE)
"""Parts of one model differ by design."""
_FILES = re.compile(
    r"(?:^|[\s='\"])(?P<path>/[\w./-]{0,100}(?:tok|vocab|bpe|spm|sentencepiece)[\w./-]{0,60})", re.IGNORECASE
)
_DIFFER = re.compile(r"different (?:sizes?|shape)|different collectives|^ranks send and receive")
_MOST, _SHOWN = 20_000, 4
_CURE = (
    "give all hosts the same files: compare {of} by sha256sum on each, and copy it once, or read it from one shared "
    "path. Pin the library that adds tokens. Or let rank 0 build it, and broadcast the size. Order of collectives, "
    "NCCL_PROTO and the network are not it"
)


def models_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Ranks name one size of their model with different numbers."""
    if not _DIFFER.search(finding.title):
        return None
    for text in texts:
        sizes: dict[str, dict[str, tuple[str, int]]] = defaultdict(dict)
        at = 0
        for line in islice(text.text.split("\n"), _MOST):
            here, at = at, at + len(line) + 1
            found = _SIZE.search(line) if len(line) < 600 else None
            if found is None or _OF_PARTS.search(line) or not (rank := rank_of(line)):
                continue
            if number := _NUMBER.search(found["rest"]):
                size = number["size"] + (f" {number['more']}" if number["more"] else "")
                sizes[found["what"].lower()].setdefault(rank, (size, here + found.start()))
        apart = {what: ranks for what, ranks in sizes.items() if len({size for size, _ in ranks.values()}) > 1}
        if not apart:
            continue
        # That which most ranks tell.
        what = max(apart, key=lambda each: len(apart[each]))
        groups: dict[str, list[str]] = defaultdict(list)
        for rank, (size, _) in apart[what].items():
            groups[size].append(rank)
        told = "; ".join(f"{named(size, 30)} on rank {', '.join(ranks[:_SHOWN])}" for size, ranks in groups.items())
        path = next((each["path"] for other in texts if (each := _FILES.search(other.text))), "")
        first = {size: at for ranks in apart.values() for size, at in ranks.values()}
        return Sharper(
            f"ranks built models of different size, so that their gradients do not fit ({_word(what)} {told[:160]})",
            _CURE.format(of=named(path, 80) or "tokenizer and config"),
            tuple(text.evidence(at) for at in list(first.values())[:4]),
        )
    return None


def _word(what: str) -> str:
    """What the size is of, in words."""
    if "param" in what:
        return "parameters:"
    if "vocab" in what or "tokenizer" in what:
        return "vocabulary:"
    return "rows of the embedding:" if "embedding" in what else "classes:"
