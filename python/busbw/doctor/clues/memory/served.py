"""Clues of a GPU's memory that a server shares out by its options: weights, KV cache, graphs, and a draft model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text

_FULL = "a GPU's memory is full"


@dataclass(frozen=True, slots=True)
class _Server:
    """How a server shows in a log, the option for its part of the memory, its default, and what else helps."""

    name: str
    words: re.Pattern[str]
    option: re.Pattern[str]
    flag: str
    usual: str
    less: str


_SERVERS = (
    _Server(
        "SGLang",
        re.compile(r"sglang[/.](?:srt|launch_server|bench)|\bsglang is using\b|\bsglang serve\b"),
        re.compile(r"\bmem[-_]fraction[-_]static['\"]?(?:[ =:]{1,3})(?P<value>0?\.\d{1,3})\b"),
        "--mem-fraction-static",
        "chosen by the server",
        "smaller --cuda-graph-max-bs, --max-running-requests and --chunked-prefill-size",
    ),
    _Server(
        "vLLM",
        re.compile(r"/vllm/(?:v1|worker|engine|entrypoints|model_executor)/|\bvllm serve\b|\bvLLM API server"),
        re.compile(r"\bgpu[-_]memory[-_]utilization['\"]?(?:[ =:]{1,3})(?P<value>0?\.\d{1,3}|1(?:\.0)?)\b"),
        "--gpu-memory-utilization",
        "0.9",
        "smaller --max-num-seqs, --max-num-batched-tokens and --max-model-len, fewer sizes of graphs "
        "(--cuda-graph-sizes), or --enforce-eager",
    ),
    _Server(
        "TensorRT-LLM",
        re.compile(r"\[TensorRT-LLM\]|\[TRT-LLM\]|\btensorrt_llm\b"),
        re.compile(
            r"\b(?:kv_cache_)?free_gpu_mem(?:ory)?_fraction['\"]?(?:[ =:]{1,3}"
            r"|[^\n]{0,20}\bvalue: ?\{ ?string_value: ?)['\"]?(?P<value>0?\.\d{1,3}|1(?:\.0)?)\b"
        ),
        "kv_cache_free_gpu_mem_fraction",
        "0.9",
        "smaller max_tokens_in_paged_kv_cache, max_batch_size and max_num_tokens",
    ),
)
_TRAINS = re.compile(
    r"\b(?:verl|openrlhf|trl|slime|nemo_rl|WorkerDict|loss\.backward|optimizer\.step|deepspeed/runtime|fsdp)\b"
)
"""Where a server shares its GPUs with training, other options count."""
_CAPTURE = re.compile(
    r"(?:cuda_graph_runner|cudagraph|graph_runner)\.py|\bin capture_model\b|_capture_cudagraphs|capture_one_batch_size"
    r"|Capture (?:draft |target verify )?cuda graph (?:begin|failed)|Capturing (?:CUDA|cudagraph)"
)
_DRAFT = re.compile(
    r"\b(?:eagle|nextn|mtp|draft)\w{0,40}(?:graph_runner|worker|model)\w{0,20}\.py|draft_\w{0,20}capture|/speculative/"
)
_LEFT = re.compile(
    r"(?:Memory pool end|(?:Load weight|Capture cuda graph) begin)\.[^\n]{0,60}? avail mem=(?P<left>[\d.]{1,8}) GB"
)
_CACHE = re.compile(r"Allocated (?P<gib>\d{1,4}(?:\.\d{1,3})?) GiB for max tokens in paged KV cache")
"""What TensorRT-LLM says of its cache."""
_PASSED = re.compile(r"The server is fired up|Application startup complete|Uvicorn running|throughput: [1-9]|\| READY ")
_NEAR = 4000


def part_of_server(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A server's own options leave too little: which, when, and how much there was."""
    if not finding.title.startswith(_FULL) or any(_TRAINS.search(text.text) for text in texts):
        return None
    for text in texts:
        server = next((each for each in _SERVERS if each.words.search(text.text)), None)
        at = _begin(finding, text)
        if server is None or at is None:
            continue
        near = text.text[max(0, at - _NEAR) : at + 400]
        draft = _DRAFT.search(near) is not None
        running = _PASSED.search(text.text, 0, at) is not None
        when = (
            f"while graphs of the {'draft model' if draft else 'model'} are captured"
            if _CAPTURE.search(near) and not running
            else "while requests are served"
            if running
            else "while the server starts"
        )
        option = server.option.search(text.text)
        part = f"{server.flag} {option['value']}" if option else f"{server.flag} ({server.usual})"
        rows = list(_LEFT.finditer(text.text, 0, at))
        least = min(rows, key=lambda row: float(row["left"]), default=None)
        left = f", which had left {least['left']} GB free" if least else ""
        if cache := _CACHE.search(text.text, 0, at):
            left = f", which took {cache['gib']} GiB for the paged KV cache"
        lower = f"from {option['value']} to {_lower(option['value'])}" if option else "to 0.8"
        also = "the draft model's weights and graphs come on top of that part. " if draft else ""
        seen: list[Evidence] = [text.evidence(option.start())] if option else []
        if cache:
            seen.append(text.evidence(cache.start()))
        if least:
            seen.append(text.evidence(least.start()))
        return Sharper(
            f"{finding.title}: {when}, as {server.name}'s part for weights and KV cache is too large ({part}){left}",
            f"lower {server.flag} {lower} or less: {also}What is left must hold graphs, activations and NCCL. Also "
            f"{server.less}, or more GPUs. What other ranks say of closed connections follows from it",
            tuple(seen),
        )
    return None


def _lower(value: str) -> str:
    return f"{max(0.5, float(value) - 0.08):.2f}"


def _begin(finding: Finding, text: Text) -> int | None:
    """Where the first line of the finding stands in that text."""
    line = next((seen.line for seen in finding.evidence if seen.where == text.source and seen.line), None)
    if line is None:
        return None
    at = 0
    for _ in range(line - 1):
        at = text.text.find("\n", at) + 1
    return at
