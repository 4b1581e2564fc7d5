"""Counts of the lines of a log by who writes such lines, and of the rows of its benchmark's tables."""

from __future__ import annotations

import re

_TAG = r"(?:\[\d{1,7}(?:,\d{1,7})?\](?:<std\w{3}>:?)?)?"
"""What a launcher puts before each piece that a process writes: a row's size and its times come in two."""
ROW = re.compile(
    r"(?:^|[\s\]:])\d{1,20}\s+\d{1,20}\s+[a-z]\w{2,10}\s+(?:[a-z]\w*\s+)?(?:-?\d{1,7}" + _TAG + r"\s+)?[\d.]+"
)
_OF_OTHERS = re.compile(r"\s{0,40}\d{1,20}(?:\s{1,40}\d{1,16}(?:\.\d{1,9})?){2,12}\s{0,40}$")
"""A row of a table of somebody's own: figures alone."""
_TWICE = 1 << 40
_DEVICE = re.compile(r"#\s+Rank\s+(\d{1,7}) ")
_OWN_LINE = re.compile(rf"\s{{0,8}}(?:\d{{1,6}}: )?{_TAG}\s{{0,4}}#")
_KERNEL_TIME = re.compile(r"\[ *\d+\.\d{6}\]")


def count_kind(line: str, kinds: dict[str, int]) -> None:
    """Who writes such a line."""
    if "ProcessGroup" in line or "torch." in line or "c10d" in line:
        kinds["torch"] += 1
    elif "NVRM" in line or "kernel:" in line or _KERNEL_TIME.match(line):
        kinds["kernel"] += 1
        kinds["boots"] += line.startswith("[    0.0")  # the first lines that a kernel writes


def count_table(line: str, kinds: dict[str, int]) -> None:
    """Headers and rows of nccl-tests: a header without rows is a test that never came back."""
    if "algbw" in line and "busbw" in line:
        kinds["headers"] += 1
    elif kinds["headers"] and (ROW.search(line) or _OF_OTHERS.match(line)):
        kinds["rows"] += 1
    elif "# Out of bounds" in line or "# Avg bus" in line:
        kinds["ends"] += 1
    elif "# nThread " in line:
        kinds["starts"] += 1
        # A second start before any row: copies that know nothing of each other print at the same time.
        kinds["alone"] += kinds["starts"] > 1 and not kinds["rows"]
    elif found := _DEVICE.search(line):
        kinds["zeros"] += found[1] == "0"
        if kinds["alone"] >= _TWICE:
            return
        # Ranks beyond 0 speak for a job that knows its size, unless there are two of rank 0 before any row.
        # Without any head of a run, lists of ranks that stand at their lines' begin: each copy shows its own.
        several = kinds["starts"] > 1 or (not kinds["starts"] and _OWN_LINE.match(line) is not None)
        twice = kinds["zeros"] > 1 and several and not kinds["rows"]
        kinds["alone"] = _TWICE if twice else kinds["alone"] if found[1] == "0" else -(1 << 30)
