"""Limits of power and clocks in what `nvidia-smi` shows: which of them are a GPU's own, and which somebody set."""

from __future__ import annotations

import re

from busbw.doctor.reading.smi_rows import SPELLED

_CAPPED = re.compile(r"\s+SW Power Cap\s*: Active\s*$")
_POWER = re.compile(r"\s+(Current|Default) Power Limit\s*: (\d{2,4}\.\d\d W)")
_OF_TABLE = re.compile(r"\|.{0,40}\b\d{1,4}W / {1,3}(\d{2,4})W \|")
_IN_WORDS = re.compile(r"(?<![\w.])\d{2,4}(?:\.\d{1,2})? ?W (?:of|/|out of) (?:its |the )?(\d{2,4})(?:\.\d{1,2})? ?W\b")
"""A draw and its limit as people write them beside a list of reasons."""
_POWER_WORD = re.compile(r"\bpower (?:limit|draw|usage)|\d ?W\b", re.IGNORECASE)
_OTHER_REASONS = ("HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown", "SW Thermal Slowdown")


def without_full_power(lines: list[str]) -> list[str]:
    """The text of `nvidia-smi -q` without its word for a GPU at its limit, where each limit is the GPU's own.

    That is how healthy GPUs work under full load; a limit that was lowered shows beside its default. A list of all
    reasons without limits (`-d PERFORMANCE`) says the same where no other reason holds.
    """
    if not any(map(_CAPPED.match, lines)):
        return lines
    limits: dict[str, list[str]] = {"Current": [], "Default": []}
    for found in filter(None, map(_POWER.match, lines)):
        limits[found[1]].append(found[2])
    # The table of plain `nvidia-smi` above it names the limits, too.
    limits["Current"] += [] if limits["Current"] else _limits_of_table(lines)
    limits["Current"] += [] if any(limits.values()) else _limits_in_words(lines)
    if limits["Default"] or limits["Current"]:
        if limits["Current"] != limits["Default"] and not _is_full(limits["Current"], lines):
            return lines
    elif any(_POWER_WORD.search(line) for line in lines) or not all(
        any(reason in line and line.rstrip().endswith(": Not Active") for line in lines) for reason in _OTHER_REASONS
    ):
        return lines
    return ["" if _CAPPED.match(line) else line for line in lines]


def _limits_of_table(lines: list[str]) -> list[str]:
    return [f"{found[1]}.00 W" for found in filter(None, map(_OF_TABLE.search, lines))]


def _limits_in_words(lines: list[str]) -> list[str]:
    return [f"{found[1]}.00 W" for line in lines if " W" in line or "W " in line for found in _IN_WORDS.finditer(line)]


_HIGHEST = (
    ("H200 NVL", 600), ("H100 NVL", 400), ("H100 PCIe", 350), ("A100-SXM", 400), ("A100-PCI", 300), ("A30", 165),
    ("A40", 300), ("A10", 150), ("L40S", 350), ("L40", 300), ("L4", 72), ("V100-SXM2", 300), ("RTX A6000", 300),
    ("H200", 700), ("H100", 700), ("H800", 700),
)  # fmt: skip
"""What boards draw at most, in W, the special ones first. Source: NVIDIA's data sheets."""
_BOARDS = re.compile(r"\b(?:" + "|".join(name + r"(?!\d)" * name[-1].isdigit() for name, _ in _HIGHEST) + ")")
_OF_SXM = "700.00 W"
"""What H100 and H200 of SXM boards draw at most, by their maker; only later GPUs have a higher limit."""
_LATER = re.compile(r"\b(?:G?B[123]00|R[12]00)\b")


def _highest(lines: list[str]) -> str:
    """The limit of the one kind of board that the text names; that of SXM boards where it names none."""
    named = {found[0] for line in lines if (found := _BOARDS.search(line)) is not None}
    return f"{dict(_HIGHEST)[named.pop()]}.00 W" if len(named) == 1 else "" if named else _OF_SXM


def _is_full(current: list[str], lines: list[str]) -> bool:
    """Whether a limit that is shown without its default is the highest that such GPUs have, and nothing else holds."""
    return (
        set(current) == {_highest(lines)}
        and not any("Default Power Limit" in line or _LATER.search(line) for line in lines)
        and all(any(reason in line and ": Not Active" in line for line in lines) for reason in _OTHER_REASONS)
    )


_CLOCKS = re.compile(r"\s{4,8}((?:Max )?Clocks)\s*$")
_SM = re.compile(r"\s{6,12}SM\s*: (\d{2,4}) MHz")
_BY_HAND = re.compile(r"\s+Applications Clocks Setting\s*: Active\s*$")
_LOW = 0.6  # of the highest clock; a GPU that its own default keeps lower stays above


def with_low_clocks(lines: list[str]) -> list[str]:
    """The text of `nvidia-smi -q`, where a clock set by hand holds a GPU far below its highest, with that in words."""
    if not any(map(_BY_HAND.match, lines)):
        return lines
    kept, section, now, by_hand = list[str](), "", 0, False
    for line in lines:
        kept.append(line)
        if line.startswith("GPU "):
            section, now, by_hand = "", 0, False
        elif _BY_HAND.match(line):
            by_hand = True
        elif found := _CLOCKS.match(line):
            section = found[1]
        elif section and (clock := _SM.match(line)):
            if section == "Max Clocks" and by_hand and 0 < now < _LOW * int(clock[1]):
                kept[-1] = f"{SPELLED}GPU clocks are limited to {now} MHz of {clock[1]} MHz: clocks set by hand"
            now, section = (int(clock[1]) if section == "Clocks" else now), ""
    return kept
