"""Headings and rows of matrices of rates between GPUs, as p2pBandwidthLatencyTest and nvbandwidth print them."""

from __future__ import annotations

import re

HEAD = re.compile(
    r"(?:P2P=Enabled .{0,60}|memcpy .{0,60}GPU\(row\).{0,60})(?P<what>Bandwidth|Latency|bandwidth|latency)"
    r".{0,60}\((?P<unit>GB/s|us)\)"
)
ROW = re.compile(r"\s*(?P<row>\d{1,2})(?P<cells>(?:\s+(?:N/A|\d{1,9}\.\d{1,3}))+)\s*$")


def is_part(line: str) -> bool:
    """Whether the line is a heading or a row of such a matrix."""
    return HEAD.search(line) is not None or ROW.match(line) is not None
