"""A kernel whose launch CUDA refuses: threads of a block, shared memory or registers, by what stands around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

MOST_THREADS, USUAL_SHARED = 1024, 49_152
"""Of a block, on every GPU; bytes of shared memory that a kernel gets without asking for more."""
_REFUSED = re.compile(
    r"CUDA_ERROR_INVALID_VALUE|invalid argument|invalid configuration argument|cudaErrorInvalidConfiguration",
    re.IGNORECASE,
)
_TOO_MUCH = re.compile(
    r"LAUNCH_OUT_OF_RESOURCES|too many resources requested|cudaErrorLaunchOutOfResources", re.IGNORECASE
)
_TRITON = re.compile(
    r"out of resource: (?P<what>shared memory|tensor memory|threads|registers), Required: (?P<need>\d{1,12}), "
    r"Hardware limit: (?P<limit>\d{1,12})"
)
_LAUNCH = re.compile(
    r"\b(?:cu)?[Ll]aunch_?[Kk]ernel\w{0,8}\b|\bcuFuncSetBlockShape\b|\bRawKernel\b|\bcudaLaunchKernel\w{0,8}\b"
    r"|\bcuda/function\.pyx|numba[\w/.]{0,40}dispatcher\.py"
)
_NUMBER = r"(?P<n>\d{1,9})"
_THREADS = (
    re.compile(
        r"(?<!\S)-{1,2}(?:block(?:[-_]?(?:size|dim|x))?|threads?(?:[-_]per[-_]block)?|tpb|nthreads|num[-_]threads)"
        rf"[= ]{_NUMBER}\b"
    ),
    re.compile(rf"\b(?:threads?_?per_?block|block_?(?:size|dim)|tpb|TPB|BLOCK\w{{0,8}})\s?[:=]\s?{_NUMBER}\b"),
    re.compile(rf"\[[\w ()+*/-]{{1,60}}, ?{_NUMBER}(?:, ?[\w ]{{1,30}}){{0,2}}\]\("),
    re.compile(
        r"\bblock=\((?P<n>\d{1,6}(?:, ?\d{1,6}){0,2}),?\)"
        r"|\(\([^()\n]{1,60}\), ?\((?P<n2>\d{1,6}(?:, ?\d{1,6}){0,2}),?\)"
    ),
    re.compile(rf"<<<[^<>\n]{{1,80}}?, ?{_NUMBER}\s?(?:,[^<>\n]{{1,60}})?>>>"),
)
_SHARED = re.compile(r"\b(?:shared_mem\w{0,8}|smem\w{0,8}|dynamic_shared\w{0,12})\s?[:=]\s?(?P<n>\d{1,9})\b")
_NEAR = 4000
"""Letters in front of the error in which its traceback stands."""
_THREADS_CURE = (
    f"take at most {MOST_THREADS} threads per block (128 or 256 are usual; fewer where a kernel takes many registers), "
    "and more blocks in their place: grid = ceil(n / block). No size of grid or block may be 0, as of an empty batch"
)
_SHARED_CURE = (
    f"more than {USUAL_SHARED} bytes of shared memory have to be asked for (CuPy: "
    "kernel.max_dynamic_shared_size_bytes, CUDA: cudaFuncAttributeMaxDynamicSharedMemorySize), "
    "up to 163 KiB on A100 and 227 KiB on H100. Else smaller tiles"
)
_REGISTERS_CURE = (
    "take fewer threads per block (half of them), or let the compiler take fewer registers: Numba "
    "@cuda.jit(max_registers=64), CuPy RawKernel(options=('-maxrregcount=64',)), __launch_bounds__ in CUDA"
)


def launch_sizes(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The error is that of a launch; which size is too large, where the command or the program's line shows it."""
    said = " ".join((finding.title, *(seen.fact for seen in finding.evidence)))
    if tile := _TRITON.search(said):
        return Sharper(
            f"a Triton kernel wants {tile['need']} of {tile['what']}, and this GPU has {tile['limit']} for a block",
            "smaller block sizes (BLOCK_M, BLOCK_N, BLOCK_K), num_stages or num_warps for that GPU; with autotune "
            "leave such configurations out (prune_configs_by). Or the release of the kernel that knows this GPU",
        )
    refused, much = _REFUSED.search(said), _TOO_MUCH.search(said)
    if not refused and not much:
        return None
    around = next((each for each in (_around(text, finding) for text in texts) if each), "")
    launch = _LAUNCH.search(f"{said}\n{around}") is not None
    if not launch and not much and "configuration" not in said.lower():
        return None
    # A model's block_size is its context: a program's own numbers count where its own launch is seen.
    for text in texts if launch else ():
        if (sharper := _by_numbers(text, bool(much))) is not None:
            return sharper
    if much:
        return Sharper(
            "a kernel was launched with more threads per block than its registers or shared memory allow (CUDA error "
            "701)",
            f"{_REGISTERS_CURE}. {_SHARED_CURE}",
        )
    return Sharper(
        f"CUDA refused the sizes of a kernel's launch: more than {MOST_THREADS} threads per block, a grid or block of "
        "0, or more shared memory than was asked for",
        f"print grid, block and shared memory there. {_THREADS_CURE}. {_SHARED_CURE}",
    )


def _around(text: Text, finding: Finding) -> str:
    """What stands in front of the first line of the evidence."""
    seen = next((each for each in finding.evidence if each.where == text.source and each.line), None)
    at = text.text.find(seen.fact[:60]) if seen is not None else -1
    return text.text[max(0, at - _NEAR) : at] if at > 0 else ""


def _by_numbers(text: Text, much: bool) -> Sharper | None:
    """The block or the shared memory that the command or the program's own line asks for, where it is too large."""
    for words in _THREADS:
        for found in words.finditer(text.text):
            groups = found.groupdict()
            asked = groups["n"] or groups.get("n2") or ""
            threads = prod(int(each) for each in asked.split(","))
            if threads > MOST_THREADS:
                return Sharper(
                    f"a block of {threads} threads is asked for ({named(found[0], 40)}) where a kernel is launched, "
                    f"and a CUDA block holds at most {MOST_THREADS}",
                    _THREADS_CURE,
                    (_line(text, found),),
                )
    shared = next((each for each in _SHARED.finditer(text.text) if int(each["n"]) > USUAL_SHARED), None)
    if shared is not None and not much:
        return Sharper(
            f"a kernel was launched with {shared['n']} bytes of shared memory, more than the {USUAL_SHARED} that it "
            "gets without asking",
            _SHARED_CURE,
            (_line(text, shared),),
        )
    return None


def _line(text: Text, found: re.Match[str]) -> Evidence:
    return text.evidence(found.start())
