"""Which part of which program threw an error, by the files of its traceback."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.lines.beside import Frame

_PACKAGE = re.compile(
    r"/(?:site|dist)-packages/(?P<name>\w{2,40})|/(?P<own>megatron|deepspeed|vllm|sglang|nemo|verl|slime)/"
)
_PARTS = tuple(
    (re.compile(words, re.IGNORECASE), part)
    for words, part in (
        (r"tokeniz", "its tokenizer"),
        (r"checkpoint|serializ|state_dict|save_load|saver|safetensors", "reading or writing checkpoints"),
        (r"model_loader|weight_utils|load_weight|modeling_utils|model_loading", "loading weights"),
        (r"data_?loader|datasets?\b|/data/|collat|/utils/data|webdataset|sampler|/arrow", "loading data"),
        (r"quant|fp8|nvfp4|awq|gptq|bitsandbytes", "quantization"),
        (r"lora|peft|adapter", "adapters (LoRA)"),
        (r"moe|expert", "experts (MoE)"),
        (r"flash|attention|attn|kv_?cache", "attention and its cache"),
        (r"inductor|dynamo|compil|triton|/jit", "compilation"),
        (r"fsdp|/zero|partition", "sharding (FSDP, ZeRO)"),
        (r"pipeline|schedules|p2p_communication", "pipeline parallelism"),
        (r"tensor_parallel|device_mesh|dtensor|parallel_state|parallel_dims|tensor/", "parallel groups and meshes"),
        (r"optim|grad_scaler|amp/", "the optimizer"),
        (r"elastic|launch|rendezvous|/run\.py|cluster", "the launcher"),
        (r"distributed|c10d|comm", "communication"),
        (r"config|arguments|args|params|options|settings", "its settings"),
    )
)


def thrown_in(frames: Sequence[Frame]) -> str:
    """The program and its part of the innermost frame, as words of a sentence; "" where no file tells."""
    for frame in reversed(frames[-3:]):
        found = _PACKAGE.search(frame.file)
        part = next((name for words, name in _PARTS if words.search(frame.file)), "")
        if found and part:
            return f"{found['name'] or found['own']}: {part}"
    return ""
