"""Limits of power below a GPU's default in what `nvidia-smi` shows in blocks, in its table, and as it sets them."""

from __future__ import annotations

import re

_HOST = r"(?P<host>\s{0,6}[A-Za-z][\w.-]{0,80}: )?"
_SET_LIMIT = re.compile(
    rf"{_HOST}\s{{0,16}}(?P<kind>Enforced |Current |Default )?Power Limit\s{{1,24}}: (?P<W>\d{{2,4}})\.\d\d W"
)
_BLOCK = re.compile(rf"{_HOST}GPU [0-9A-Fa-f]{{4,8}}:[0-9A-Fa-f]{{2}}:[0-9A-Fa-f]{{2}}\.\d\s*$")
_ROW_OF_NAME = re.compile(
    rf"{_HOST}\| {{1,6}}(?P<gpu>\d{{1,3}}) {{1,4}}(?P<name>[A-Z][\w /.-]{{2,40}}?) {{1,20}}\S{{0,10}} {{0,4}}\|"
)
_ROW_OF_DRAW = re.compile(rf"{_HOST}\|.{{0,30}}\bP\d {{1,30}}(?P<draw>\d{{1,4}})W / {{1,3}}(?P<cap>\d{{2,4}})W \|")
_WAS_SET = re.compile(
    r"Power limit for GPU \S{4,20} was set to (?P<to>\d{2,4})\.\d\d W from (?P<before>\d{2,4})\.\d\d W"
)
_BY_BOARD = (
    (re.compile(r"A[18]00-SXM"), 400), (re.compile(r"H[128]00(?! NVL| PCIe)\b"), 700), (re.compile(r"B200\b"), 1000),
    (re.compile(r"L40S\b"), 350), (re.compile(r"V100-SXM2"), 300), (re.compile(r"A40\b|RTX A6000\b"), 300),
)  # fmt: skip
"""The default limit in W of boards that come with one alone. Source: NVIDIA's data sheets."""
_LOW, _LOW_OF_BOARD, _FULL = 0.95, 0.8, 0.9
"""Of the default that stands beside it; of the one by the board's name; of the limit, that GPUs at work draw."""


def with_low_limits(lines: list[str]) -> list[str]:
    """The lines, those that show a limit of power below the GPU's default with that in words behind them."""
    if not any("W" in line and ("ower" in line or "W / " in line) for line in lines):
        return lines
    kept, blocks, gpu, usual = list[str](), dict[str, dict[str, int]](), "", 0
    for line in lines:
        said = ""
        if found := _BLOCK.match(line):
            blocks[found["host"] or ""] = {}
        elif "Power Limit" in line and (found := _SET_LIMIT.match(line)):
            limits = blocks.setdefault(found["host"] or "", {})
            limits[(found["kind"] or "Current").strip()] = int(found["W"])
            said = _of_block(limits)
        elif found := _ROW_OF_NAME.match(line):
            gpu = found["gpu"]
            usual = next((watts for words, watts in _BY_BOARD if words.search(found["name"])), 0)
        elif usual and "W / " in line and (found := _ROW_OF_DRAW.match(line)):
            draw, cap = int(found["draw"]), int(found["cap"])
            # A limit that somebody chose costs where work reaches it.
            if cap < _LOW_OF_BOARD * usual and draw >= _FULL * cap:
                said = f" (GPU {gpu} power is limited to {cap} W of {usual} W)"
            usual = 0
        elif "was set to" in line and (found := _WAS_SET.search(line)) and int(found["to"]) < int(found["before"]):
            said = f" (GPU power is limited to {found['to']} W of {found['before']} W)"
        kept.append(f"{line}{said}")
    return kept


def _of_block(limits: dict[str, int]) -> str:
    """What is told of a block's limits once both stand there; they are of the next part then."""
    usual, now = limits.get("Default"), limits.get("Enforced") or limits.get("Current")
    if usual is None or now is None:
        return ""
    limits.clear()
    return f" (GPU power is limited to {now} W of {usual} W)" if now < _LOW * usual else ""
