"""What TeX prints while it sets a paper: its errors are of no job, whatever they name."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MARK = re.compile(
    r"(?:\d{4}-\d\d-\d\dT\S{8,24} )?(?:This is (?:pdf|Xe|Lua|LuaHB|e-|up|p)?TeX, Version|This is (?:BibTeX|Biber)\b"
    r"|(?:LaTeX2e|L3 programming layer) <\d{4}"
    r"|Transcript written on |! (?:Pdf|La|Xe)?TeX (?:Error|capacity exceeded)|! (?:Package|Class) \S{1,60} Error:"
    r"|(?:LaTeX|Package|Class) (?:\S{1,60} )?(?:Font )?Warning: |(?:Over|Under)full \\[hv]box "
    r"|! (?:Undefined control sequence|Emergency stop|Missing \S{1,12} inserted|Extra [}\\]|Paragraph ended before"
    r"|Argument of \\|Misplaced |Too many |Illegal parameter|File ended while)|!  ==> Fatal error occurred"
    r"|Latexmk: |Output written on \S{1,200}\.(?:pdf|dvi|xdv)\b|Runaway argument\?|No pages of output\.)"
)
"""How lines begin that TeX and its helpers alone print."""
_BEGINS = re.compile(r"This is \w{0,8}TeX, Version|Latexmk: This is")
_ENDS = re.compile(r"Transcript written on |No pages of output\.|Latexmk: (?:Errors|All targets|Nothing)")
_OF_A_JOB = re.compile(
    r"NCCL (?:INFO|WARN)|Traceback \(most recent call|\b(?:srun|sbatch|mpirun|torchrun|slurmstepd|NVRM)\b"
    r"|\bCUDA (?:error|out of)|ProcessGroup\w{2,8}\.cpp|\b(?:step|epoch|iteration)\b.{0,40}\bloss\b|^\[?rank ?\d",
    re.IGNORECASE,
)


_WORDS = ("TeX", "Latexmk", "\\hbox", "\\vbox", "! Undefined control", "! Missing ", "! Emergency stop")
"""One of these is in each text that such a line is in, as a rule."""


def without_tex(lines: Sequence[str]) -> list[str]:
    """The lines; none of a transcript of TeX, or beside a job's lines none that TeX printed."""
    if not any(words in line for line in lines for words in _WORDS) or not any(map(_MARK.match, lines)):
        return list(lines)
    if not any(_OF_A_JOB.search(line[:400]) for line in lines):
        return [""] * len(lines)
    ends = [at for at, line in enumerate(lines) if _ENDS.match(line)]
    kept, left = list[str](), 0
    for at, line in enumerate(lines):
        if _BEGINS.match(line):
            left = next((end - at + 1 for end in ends if end > at), left)
        kept.append("" if left > 0 or _MARK.match(line) else line)
        left -= 1
    return kept
