"""What carries a matrix: strings of JSON, tables of commas or LaTeX, web pages; and the names of GPUs beside it."""

from __future__ import annotations

import csv
import html
import re
import unicodedata

from busbw.base.errors import UserError

_INVISIBLE = re.compile("[\u200b-\u200f\u2060\ufeff]")
_WIDE = re.compile("[\uff01-\uff5e]")
_ESCAPED = re.compile(r"\\t ?GPU1|\\nGPU0|\\tGPU0")
_COMMAS = re.compile(
    r"""^[ \t]{0,80}"?"?(?:[,;\t]|(?=GPU0[,;]))[ \t]{0,80}"?GPU0(?P<quote>"?)(?P<mark>[,;\t])"""
    r"""[ \t]*"?(?:GPU1|CPU|NIC|mlx)""",
    re.MULTILINE,
)
_QUOTED = re.compile(r"""^[ \t]*(?:\[\d+\][ \t]*|[\w"]{1,40}:[ \t]*\[?)?["'\[]+|["'],?[ \t]*\]?,?$""", re.MULTILINE)
_RTF = re.compile(r"\\(?:par|line)\b ?")
_AMPERSANDS = re.compile(r"^[^\n&]{0,80}&[^\n]{0,80}GPU0\b", re.MULTILINE)
_HEADS = {"cpu affinity": "CPU Affinity", "numa affinity": "NUMA Affinity", "gpu numa id": "GPU NUMA ID"}
_SMALL = re.compile(
    r"\b(?:cpu affinity|numa affinity|gpu numa id)\b|\b(?:gpu|nic)\d{1,3}\b|\b(?:nv\d{1,2}|sys|node|phb|pxb|pix|x)\b"
)
_PAGE = re.compile(rb"<(?:!DOCTYPE html|html|body|div|pre|p|table|code|span|br)\b", re.IGNORECASE)
_BREAKS = re.compile(r"<(?:br|/tr|/p|/div|/pre|/li)\b[^>]{0,200}>", re.IGNORECASE)
_CELLS = re.compile(r"</t[dh]\b[^>]{0,200}>", re.IGNORECASE)
_TAGS = re.compile(r"<[^<>]{1,2000}>")
_RANGE = re.compile(r"\d{1,5}(?:-\d{1,5})?")

# `nvidia-smi -L`, and a row of the table of `nvidia-smi`.
_LISTED = re.compile(r"^.{0,60}?\bGPU (\d{1,3}): ([^\n(]{3,80}?) \(UUID: ", re.MULTILINE)
_TABLED = re.compile(
    r"^.{0,60}?\|\s{1,6}(\d{1,3})\s{2}((?:NVIDIA|Tesla|GeForce|Quadro|A\d|H\d|B\d)[^|\n]{2,60}?)"
    r"\s+(?:On|Off|N/A)\s*\|",
    re.MULTILINE,
)
_HEADING = re.compile(r"^\s*GPU0((?:[\s|]+GPU\d{1,3})+)(?:\s.{0,4000})?$")
_CELL = re.compile(r"\b(?:NV\d{1,2}|SYS|NODE|PHB|PXB|PIX)\b")

# Output of other programs, and what it does not say.
_OTHERS = (
    (r"\bTopology Information\b|\bTo GPU \d+\s*\|", "`dcgmi topo`"),
    (r"\bNPU0\b|\bHCCS\b", "a topology of Ascend NPUs (npu-smi)"),
    (r"\bNUMANode L#0|\bPackage L#0|\bHostBridge L#0", "`lstopo`"),
    (r"^[ \t]*\*-(?:display|network|pci)\b", "`lshw`"),
    (r"^CA '\w+'", "`ibstat`"),
    (r"^hca_id:\s", "`ibv_devinfo`"),
    (r"^available: \d+ nodes \(", "`numactl -H`"),
    (r"^\S+ port \d+ ==> \S+ \(", "`ibdev2netdev`"),
)


def unpacked(text: str) -> str:
    """The text without what carries it: each form is known by what it makes of the heading."""
    text = re.sub(r"\*\*(\w{1,20})\*\*", r"\1", _INVISIBLE.sub("", text))
    front = text[:65536]
    if _WIDE.search(front):
        text = unicodedata.normalize("NFKC", text)
    if front.startswith("{\\rtf"):
        text = _RTF.sub("\n", text).replace("\\tab ", "\t")
    elif _ESCAPED.search(front):
        text = text.replace("\\r\\n", "\n").replace("\\n", "\n").replace("\\t", "\t")
        text = _QUOTED.sub("", text.replace("', '", "\n").replace('", "', "\n"))
    elif re.search(r"""^[ \t]*(?:\[\d+\] )?["'][^"'\n]*\bGPU0\b[^"'\n]*["'],?$""", front, re.MULTILINE):
        text = _QUOTED.sub("", text)
    elif (found := _COMMAS.search(front)) and (found["mark"] != "\t" or found["quote"]):
        text = _of_commas(text, found["mark"])
    elif _AMPERSANDS.search(front):
        text = text.replace("\\\\", "").replace("&", "\t").replace("\\_", "_")
    if "GPU0" not in front.upper():
        return text
    return text if "GPU0" in text else _SMALL.sub(lambda found: _HEADS.get(found[0]) or found[0].upper(), text)


def _of_commas(text: str, mark: str) -> str:
    """Tabs for commas or semicolons; a list of processors that had no quotation marks is one cell again."""
    lines = []
    for row in csv.reader((line[:20_000] for line in text.replace("\0", "").splitlines()), delimiter=mark):
        cells: list[str] = []
        for cell in (each.strip() for each in row):
            listed = cells and "-" in cells[-1] and _RANGE.fullmatch(cells[-1].rpartition(",")[2])
            if listed and "-" in cell and _RANGE.fullmatch(cell):
                cells[-1] += f",{cell}"
            else:
                cells.append(cell)
        lines.append("\t".join(cells))
    return "\n".join(lines)


def text_of_page(data: bytes) -> bytes | None:
    """The text of a web page or of a piece of one; None for what is none."""
    if not _PAGE.search(data[:65536]) or b"<system" in data[:65536] or b"GPU0" not in data:
        return None
    text = _CELLS.sub("\t", _BREAKS.sub("\n", data.decode("utf-8", "replace")))
    return html.unescape(_TAGS.sub("", text)).replace("\xa0", " ").encode()


def names_beside(text: str) -> dict[int, str]:
    """Names of GPUs by their number, from a listing or table of nvidia-smi in the same text."""
    found = {int(number): name.strip() for number, name in _LISTED.findall(text)}
    for number, name in _TABLED.findall(text):
        found.setdefault(int(number), name.strip())
    return found


def refuse_several(text: str, source: str) -> None:
    """UserError where the text shows machines of several sizes: which one is meant nobody said."""
    sizes: dict[int, int] = {}
    lines = text.splitlines()[:20_000]
    for number, line in enumerate(lines, 1):
        if (found := _HEADING.match(line[:5000])) and any(_CELL.search(each) for each in lines[number : number + 3]):
            sizes.setdefault(found[1].count("GPU") + 1, number)
    if len(sizes) > 1:
        said = " and ".join(f"one of {count} GPUs (line {number})" for count, number in list(sizes.items())[:3])
        raise UserError(f"{source} shows several matrices: {said}; give one machine at a time")


def refuse_other_programs(text: str, source: str) -> None:
    """UserError where the text is output of a program that does not say how GPUs are joined."""
    front = text[:65536]
    if "GPU0" in front and "HCCS" not in front:
        return
    for pattern, what in _OTHERS:
        if re.search(pattern, front, re.MULTILINE):
            raise UserError(
                f"{source} is {what}, which busbw does not read; give `nvidia-smi topo -m`, `nvidia-smi -q -x`, "
                "`lspci` or NCCL's XML of that machine"
            )
