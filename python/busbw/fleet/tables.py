"""Reads which leaf each node is below from tables with a head, as inventories, gcloud and kubectl print them."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

_NODE = ("node", "nodename", "name", "hostname", "host", "server")
_POD = ("leaf", "leafswitch", "tor", "torswitch", "switch", "leafgroup", "subblock", "rack", "block", "pod",
        "physicalhost", "podname", "rackname", "switchname")  # fmt: skip
_COLUMNS = 64
OfLabels = Callable[[Sequence[Mapping[str, str]]], list[str | None]]
"""The place of each Kubernetes node by its labels."""


def of_table(text: str, of_labels: OfLabels) -> Iterator[tuple[int, str, str]] | None:
    """Line, pod and node of each row; None where no head names a column of nodes and one of places."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if len(lines) < 2:
        return None
    split = _splitter(lines[0][1])
    head = [re.sub(r"[^a-z0-9]", "", word.lower()) for word in split(lines[0][1])][:_COLUMNS]
    node = next((head.index(word) for word in _NODE if word in head), None)
    pod = next((head.index(word) for word in _POD if word in head), None)
    labels = head.index("labels") if "labels" in head else None
    if node is None or (pod in {None, node} and labels is None):
        return None
    return _rows(lines[1:], split, (node, pod, labels), of_labels)


def _splitter(line: str) -> Callable[[str], Sequence[str]]:
    if "," in line or ";" in line or "\t" in line:
        mark = next(mark for mark in ("\t", ";", ",") if mark in line)
        return lambda text: [word.strip() for word in next(csv.reader([text], delimiter=mark), [])]
    return lambda text: re.split(r" {2,}" if "  " in line.strip() else r" +", text.strip())


def _rows(
    lines: Sequence[tuple[int, str]],
    split: Callable[[str], Sequence[str]],
    at: tuple[int, int | None, int | None],
    of_labels: OfLabels,
) -> Iterator[tuple[int, str, str]]:
    node, pod, labels = at
    rows = [(number, split(line)) for number, line in lines]
    if labels is not None:
        places = of_labels([dict(word.partition("=")[::2] for word in "".join(words[labels : labels + 1]).split(","))
                            for _, words in rows])  # fmt: skip
    else:
        places = [words[pod] if pod is not None and pod < len(words) else None for _, words in rows]
    for (number, words), place in zip(rows, places, strict=True):
        if place and place not in {"<none>", "-", "NULL"} and node < len(words) and words[node]:
            yield number, place, words[node]
