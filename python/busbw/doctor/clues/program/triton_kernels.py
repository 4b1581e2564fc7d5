"""Clues of a kernel of Triton that failed while it ran: its name, the file that starts it, and who brings it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_ERROR = re.compile(
    r"Triton Error \[(?:CUDA|HIP)\]: (?:Code: \d{1,4}, Mess\w{1,6}: )?(?P<what>an illegal memory access was encountered"
    r"|unspecified launch failure|misaligned address|an illegal instruction was encountered|device-side assert\w{0,9})"
)
_START = re.compile(
    r'File "(?P<path>[^"\n]{1,300})", line (?P<line>\d{1,6}), in [^\n]{1,120}\n[^\n]{0,120}?'
    r"\b(?P<kernel>[A-Za-z_]\w{2,80})\[[^\n]{0,160}\]\([^\n]{0,200}(?:\n|$)"
)
"""The line of a program that starts such a kernel: its name, and the grid in brackets."""
_NEAR = 6000
_BROKEN = re.compile(r"\bXid\b[^\n]{0,40}: (?:48|63|64|79|94|95|14[4-9])\b")
_FLAGS = {
    "vllm": "vLLM: a smaller --max-model-len, fewer tokens in a batch, or another quantization",
    "sglang": "SGLang: a smaller --context-length and --chunked-prefill-size, or another --quantization",
}
_LONG = re.compile(
    r"\b(?:long (?:prompt|context|input|sequence)s?|(?:prompt|context|input)s? ?> ?\d{1,6}k?)\b", re.IGNORECASE
)


def kernel_of_triton(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The kernel that Triton started last before it told of the access."""
    if any(_BROKEN.search(text.text) for text in texts):
        return None
    for text in texts:
        if (error := _ERROR.search(text.text)) is None:
            continue
        before = max(0, error.start() - _NEAR)
        started = [each for each in _START.finditer(text.text, before, error.start()) if "/triton/" not in each["path"]]
        last = started[-1] if started else None
        name = f" {named(last['kernel'], 60)}" if last else ""
        file = f" ({named(last['path'].rpartition('/')[2], 50)}, line {last['line']})" if last else ""
        program = next((word for word in _FLAGS if last and f"/{word}/" in last["path"]), "")
        less = _FLAGS.get(program, "smaller inputs, other block sizes, or the operation without that kernel")
        long = _LONG.search(text.text)
        size = ". Offsets beyond 2^31 elements are its usual fault with long inputs" if long else ""
        return Sharper(
            f"Triton's kernel{name}{file} failed while it ran: {error['what']}. It is a fault of that kernel of the "
            "program, which NCCL only reports",
            "take a newer release of the program that brings the kernel, and report it there with the shapes of its "
            f"inputs{size}. Until then {less}. CUDA_LAUNCH_BLOCKING=1 tells whether it is that kernel, as such errors "
            "are told late. Xid 31 on several GPUs fits a program; no GPU need be replaced",
            tuple(text.evidence(each.start()) for each in (error, last, long) if each is not None),
        )
    return None
