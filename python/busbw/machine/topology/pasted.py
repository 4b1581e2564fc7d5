"""Saved and pasted output of a terminal: its encoding, escapes, quotation marks and the labels before each line."""

from __future__ import annotations

import html
import re

from busbw.base.errors import UserError

# Colours and character sets: as they are, as `cat -v` writes them, and with the escape character lost.
_ESCAPES = re.compile(
    r"(?:\x1b|\^\[)(?:\[[0-9;]{0,16}[A-Za-z]|\([A-Z0-9])|\[(?:\d{1,2}(?:;\d{1,2}){0,4})?m(?=[\sGNC]|$)"
)
# What comments, quotations, srun -l, mpirun --tag-output, pdsh, kubectl and tables put before a line.
_LABEL = re.compile(
    r"\s*(?:(?:>\s?)+|\+(?=\s|GPU|NIC)|#+(?=\s)|//+|\*(?=\s)|\|(?=\s*[GN|])|\[\d+,\d+\](?:<std\w+>:)?|\[\d+\]:?(?=\s)"
    r"|\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|[+-]\d\d:?\d\d)?(?=\s)|(?!NIC\d|GPU)[\w.-]{1,64}:(?=\s|GPU|NIC))"
)
_XML = re.compile(rb"<\?xml|<!--|<!DOCTYPE|<system\b|<graphs\b|<nvidia_smi_log\b")
_ENDS = re.compile(rb"</(?:system|graphs|nvidia_smi_log)>")
_FRONT = 4096
_LABELS = 4

# What a command said in place of its output, and what to do.
_SAID = (
    (r"No devices were found", "shows no GPU: nvidia-smi found none on that machine"),
    (r"Failed to initialize NVML.{0,80}", "holds no matrix: nvidia-smi reached no driver ({0})"),
    (r"NVIDIA-SMI has failed.{0,40}", "holds no matrix: nvidia-smi reached no driver ({0})"),
    (r"nvidia-smi: (?:command )?not found", "holds no matrix: nvidia-smi was not found there"),
    (r"=NVSMI LOG=", "is `nvidia-smi -q` as text; busbw reads it as XML: nvidia-smi -q -x"),
)
_AMD = re.compile(
    r"ROCm System Management Interface|\bamd-smi\b|\b(?:Weight|Hops|Link Type) between two GPUs|\bXGMI\b"
    r"|^ACCESS TABLE:",
    re.MULTILINE,
)


def decoded(data: bytes) -> str:
    """The text in the encoding that its first bytes tell, such as PowerShell's UTF-16."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    for encoding, at in (("utf-16-le", 1), ("utf-16-be", 0)):
        if len(data) >= 8 and data[at:256:2].count(0) > len(data[at:256:2]) * 0.8:
            return data.decode(encoding, "replace")
    return data.decode("utf-8-sig", "replace")


def plain_lines(text: str, most: int) -> list[str]:
    """At most so many lines, without escapes and without what stands before each of them."""
    return [_plain(line[:4096]) for line in text.splitlines()[:most]]


def _plain(line: str) -> str:
    if "[" in line or "\x1b" in line:
        line = _ESCAPES.sub("", line)
    for _ in range(_LABELS):
        if (label := _LABEL.match(line)) is None:
            break
        line = line[label.end() :]
    return line.replace("|", " ").replace("`", " ")


def xml_of(data: bytes) -> bytes | None:
    """The XML in a file: after a prompt or between the fences of a page too; None where there is none.

    Lines before it are kept as empty ones, so that a message names the line of the file.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        data = data.decode("utf-16", "replace").encode()
    front = data[:_FRONT]
    if b"&lt;" in front and b"<system" not in front and b"<graphs" not in front:
        data = html.unescape(data.decode("utf-8", "replace")).encode()
        front = data[:_FRONT]
    start = front.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"<"):
        return data
    found = _XML.search(front)
    if found is None:
        return None
    ends = [end.end() for end in _ENDS.finditer(data)]
    return b"\n" * data[: found.start()].count(b"\n") + data[found.start() : ends[-1] if ends else len(data)]


def refuse_others(text: str, source: str) -> None:
    """UserError where the text is what a command said in place of its output, or AMD's."""
    front = text[:65536]
    if _AMD.search(front):
        raise UserError(
            f"{source} shows GPUs of AMD (rocm-smi, amd-smi): busbw measures them through RCCL, but does not read "
            "their topology and expects nothing of them"
        )
    if re.search(r"\bGPU0\b", front):
        return
    for pattern, sentence in _SAID:
        if found := re.search(pattern, front):
            raise UserError(f"{source} {sentence.format(found[0].strip())}")
