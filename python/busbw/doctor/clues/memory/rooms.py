"""Clues of memory that is full: what llama.cpp, Ollama, CuPy, TensorFlow, JAX or a server put there, and who else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_GGML = re.compile(
    r"allocating (?P<mib>\d{1,8}(?:\.\d{1,3})?) MiB on device (?P<gpu>\d{1,3}): cudaMalloc failed: out of memory"
)
_GGML_RUNS = re.compile(
    r"CUDA error: out of memory[^\n]{0,40}\n[^\n]{0,40}current device: (?P<gpu>\d{1,3}), in function \w{1,60} at "
    r"[^\n]{0,200}ggml"
)
_SIZES = r"{name}{gpu} {what} buffer size =\s{{1,12}}(?P<mib>\d{{1,8}}(?:\.\d{{1,3}})?) MiB"
_TOTAL = r"Device {gpu}: [^\n]{{3,120}}(?:VRAM: (?P<total>\d{{3,8}}) MiB|\((?P<other>\d{{3,8}}) MiB)"
_KINDS = (
    (re.compile(r"kv.?cache", re.IGNORECASE), "the KV cache"),
    (re.compile(r"compute (?:pp )?buffers|graph_reserve|gallocr"), "the compute buffer"),
    (re.compile(r"load_tensors|alloc_tensor_range|loading model"), "weights"),
)
_LLAMA = {
    "the compute buffer": "lower -ub and -b (such as -ub 512 -b 512): they size this buffer. Then -c, flash attention "
    "(-fa on), another --tensor-split with less for that GPU, or fewer layers there (-ngl)",
    "the KV cache": "lower -c or --parallel, quantise the cache (-ctk q8_0 -ctv q8_0 with -fa on), or give that GPU "
    "less (--tensor-split, -ngl)",
    "weights": "fewer layers on that GPU (-ngl, --tensor-split; experts on the host: --n-cpu-moe), a smaller quant, or "
    "more GPUs",
}
_OLLAMA = (
    "a smaller context (num_ctx, OLLAMA_CONTEXT_LENGTH) and OLLAMA_NUM_PARALLEL=1; OLLAMA_FLASH_ATTENTION=1 with "
    "OLLAMA_KV_CACHE_TYPE=q8_0. Else fewer layers on the GPU (num_gpu), or OLLAMA_GPU_OVERHEAD in bytes where Ollama "
    "counts too tightly. Unload other models: `ollama stop NAME`"
)
_SEE = "Look by nvidia-smi whether other processes hold memory there"
_OF_OLLAMA = re.compile(r"ollama|source=(?:server|sched|runner)\.go")


def of_llama(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Which GPU llama.cpp or Ollama had no room on, for what, and what it holds there already."""
    for text in texts:
        ollama = _OF_OLLAMA.search(text.text) is not None
        if found := _GGML_RUNS.search(text.text):
            return Sharper(
                f"GPU {found['gpu']} became full while {'Ollama' if ollama else 'llama.cpp'} worked: what it had left "
                "free at its start was too little",
                _OLLAMA if ollama else f"{_LLAMA['the KV cache']}; -ub 256. {_SEE}",
                (text.evidence(found.start()),),
            )
        if (found := _GGML.search(text.text)) is None:
            continue
        gpu = found["gpu"]
        behind = text.text[found.end() : found.end() + 500]
        what = next((what for words, what in _KINDS if words.search(behind)), "a buffer")
        total = re.search(_TOTAL.format(gpu=gpu), text.text)
        room = f" of {total['total'] or total['other']} MiB" if total else ""
        held = [
            f"{row['mib']} MiB of {name}"
            for kind, name in (("model", "weights"), ("KV", "KV cache"))
            if (row := re.search(_SIZES.format(name="CUDA", gpu=gpu, what=kind), text.text[: found.start()]))
        ]
        beside = f", beside {' and '.join(held)}" if held else ""
        cure = _OLLAMA if ollama else _LLAMA.get(what, _LLAMA["the compute buffer"])
        return Sharper(
            f"GPU {gpu} has no room for {what} of {'Ollama' if ollama else 'llama.cpp'}: {found['mib']} MiB "
            f"asked for{room}{beside}",
            f"{cure}. {_SEE}",
            (text.evidence(found.start()),),
        )
    return None


_CUPY = re.compile(
    r"cupy\S{0,40}OutOfMemoryError: Out of memory allocating (?P<asked>[\d,]{1,24}) bytes"
    r"(?: \(allocated so far: (?P<own>[\d,]{1,24}) bytes)?"
)
_RMM = re.compile(
    r"bad_alloc: out_of_memory\b|rmm::(?:out_of_memory|bad_alloc)|maximum pool size exceeded", re.IGNORECASE
)
_TF = re.compile(
    r"OOM when allocating tensor with shape(?P<shape>\[[\d,]{1,80}\])[^\n]{0,120}device:GPU:(?P<gpu>\d{1,3})"
    r"|Allocator \(GPU_(?P<bfc>\d{1,3})_bfc\) ran out of memory trying to allocate (?P<size>[\d.]{1,12}[KMGT]iB)"
)
_JAX = re.compile(r"Out of memory (?:while )?trying to allocate (?P<asked>\d{6,18}|[\d.]{1,12} ?[KMGT]iB)")
_TRT = re.compile(r"Requested amount of GPU memory \((?P<asked>\d{6,18}) bytes\)|\[TRT\][^\n]{0,120}\(out of memory\)")
_OF_JAX = re.compile(r"jaxlib|XlaRuntimeError|JaxRuntimeError|\bjax\b")

_CUPY_CURE = (
    "work in smaller pieces, del arrays that are done and cupy.get_default_memory_pool().free_all_blocks(): the pool "
    "keeps what it has. Several processes on one GPU share it: set_limit in each, or a GPU per process"
)
_RMM_CURE = (
    "smaller partitions or batches; let RMM's pool leave room (rmm_pool_size of LocalCUDACluster, "
    "--rmm-pool-size, spark.rapids.memory.gpu.allocFraction), and spill (device_memory_limit, --device-memory-limit). "
    "One worker per GPU; end other processes (nvidia-smi)"
)
_TF_CURE = (
    "a smaller batch or shorter samples, mixed precision, more replicas. Where several processes use that GPU: "
    "TF_FORCE_GPU_ALLOW_GROWTH=true (set_memory_growth) in each, as TensorFlow takes all of it at its start; "
    "TF_GPU_ALLOCATOR=cuda_malloc_async against pieces"
)
_TRT_CURE = (
    "build with a smaller workspace, smaller maximum batch and sequence (trtexec --memPoolSize=workspace:N, "
    "trtllm-build --max_batch_size --max_num_tokens), or more GPUs (tp_size). End other processes there (nvidia-smi)"
)


_UNDECIDED = "a GPU's memory is full"
"""How titles begin that tell neither who holds the memory nor that one array is too large for any GPU."""


def of_allocator(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """How much CuPy, RMM, TensorFlow, JAX or TensorRT asked for, and what mends it there."""
    if not finding.title.startswith(_UNDECIDED):
        return None
    jax = any(_OF_JAX.search(seen.fact) for seen in finding.evidence) or any(map(_by_jax, texts))
    told = (_by_allocator(seen.fact, finding, jax=jax) for seen in finding.evidence)
    return next((each for each in told if each is not None), None)


def _by_allocator(said: str, finding: Finding, *, jax: bool) -> Sharper | None:
    """What one line of an allocator tells."""
    told = None
    if found := _CUPY.search(said):
        own = f", and it has {_gib(found['own'])} already" if found["own"] else ""
        told = Sharper(f"a GPU's memory is full: CuPy asked for {_gib(found['asked'])}{own}", _CUPY_CURE)
    elif _RMM.search(said):
        told = Sharper("a GPU's memory is full (RMM, the allocator of RAPIDS)", _RMM_CURE)
    elif found := _TF.search(said):
        what = f"a tensor of shape {found['shape']}" if found["shape"] else found["size"]
        who = f"GPU {found['gpu'] or found['bfc']} is full: {what} does not fit ({'XLA' if jax else 'TensorFlow'})"
        told = Sharper(who, finding.fix if jax else _TF_CURE)
    elif found := _TRT.search(said):
        asked = f": {_gib(found['asked'])} asked for" if found["asked"] else ""
        told = Sharper(f"a GPU's memory is full where TensorRT builds or loads an engine{asked}", _TRT_CURE)
    elif (found := _JAX.search(said)) and finding.title.endswith("(XLA)"):
        told = Sharper(f"{finding.title}: {_gib(found['asked'])} asked for at once", finding.fix)
    return told


def _by_jax(text: Text) -> bool:
    return _OF_JAX.search(text.text) is not None


def _gib(said: str) -> str:
    digits = said.replace(",", "")
    return f"{int(digits) / 2.0**30:.2f} GiB" if digits.isdigit() else said


_TOO_LITTLE = re.compile(
    r"Free memory on device (?:cuda:\d{1,3} )?\((?P<free>[\d.]{1,9})/(?P<total>[\d.]{1,9}) GiB\) on startup is less "
    r"than desired GPU memory utilization \((?P<part>[\d.]{1,6}), (?P<want>[\d.]{1,9}) GiB\)"
)
_HOLDER = re.compile(
    r"\|\s{1,6}(?P<gpu>\d{1,3})\s{1,8}(?:N/A|\d{1,3})\s{1,8}(?:N/A|\d{1,3})\s{1,14}(?P<pid>\d{1,9})\s{1,8}"
    r"(?:C|C\+G|M\+C)\s{1,8}(?P<name>\S[^|\n]{0,80}?)\s{1,60}(?P<much>\d{3,7})MiB \|"
)
_LEAST_MIB = 1024


def held_before_start(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A server finds less free than its part of the GPU: how much, and who holds the rest."""
    found = next((each for seen in finding.evidence if (each := _TOO_LITTLE.search(seen.fact))), None)
    if found is None:
        return None
    own = "\n".join(text.text for text in texts)
    rows = [(text, row) for text in texts for row in _HOLDER.finditer(text.text)]
    others = [
        (text, row)
        for text, row in rows
        if int(row["much"]) >= _LEAST_MIB and not re.search(rf"\bpid[= ]{row['pid']}\b", own)
    ]
    text, row = max(others, key=lambda each: int(each[1]["much"]), default=(None, None))
    fits = max(0.05, int(100 * float(found["free"]) / float(found["total"]) - 2) / 100)
    lower = f"lower --gpu-memory-utilization to {fits:.2f} or less"
    who, cure = "other processes hold the rest", "nvidia-smi shows who: end it, or take another GPU"
    seen: tuple[Evidence, ...] = ()
    if row is not None and text is not None:
        who = f"{named(row['name'])} (pid {row['pid']}) holds {row['much']} MiB of GPU {row['gpu']}"
        cure = f"end that process (kill {row['pid']}), or leave that GPU out (CUDA_VISIBLE_DEVICES, docker --gpus)"
        seen = (text.evidence(row.start("pid")),)
    return Sharper(
        f"only {found['free']} of {found['total']} GiB of a GPU are free at the start, and the server wants "
        f"{found['want']} (--gpu-memory-utilization {found['part']}): {who}",
        f"{cure}; or {lower}, which leaves less for the KV cache. Raising it makes it worse",
        seen,
    )


_RAY_NODE = re.compile(
    r"Memory on the node \(IP: (?P<ip>[\w.:-]{3,60}), [^\n]{0,900}? was (?P<used>[\d.]{1,9})GB / (?P<all>[\d.]{1,9})GB "
    r"\([\d.]{1,9}\), which exceeds the memory usage threshold of (?P<share>\d{1,3}(?:\.\d{1,4})?)"
)
_KILLED = re.compile(
    r"Workers \(tasks / actors\) killed due to memory pressure|killed due to the node running low on memory"
)
_OFFLOAD = re.compile(
    r"\b(?P<what>(?:param(?:eter)?|optimizer|ref|grad|weight)s?_?offload|offload_(?:optimizer|param)|cpu_offload)['\"]?"
    r"(?:[=:] ?|\W{1,4}device\W{1,4})['\"]?(?:True|true|cpu)\b"
)
_GROWS = re.compile(r"\bcpu_memory_used_gb[:=] ?(?P<gb>\d{1,6}(?:\.\d{1,4})?)")
_TOP = re.compile(r"^\d{2,9}\s{1,8}(?P<gb>\d{1,6}\.\d{1,3})\s{1,8}(?P<who>ray::\S{1,80}|\S{2,80})", re.MULTILINE)


def of_ray_node(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Ray killed workers by its own threshold: how full the node was, who grew, and what is kept there for GPUs."""
    for text in texts:
        found, killed = _RAY_NODE.search(text.text), _KILLED.search(text.text)
        if found is None and killed is None:
            continue
        kept = list(dict.fromkeys(each["what"] for each in _OFFLOAD.finditer(text.text)))
        grown = [float(each["gb"]) for each in _GROWS.finditer(text.text)]
        at = found or killed
        assert at is not None
        full = f": {found['used']} of {found['all']} GB on {named(found['ip'])}, over {found['share']}" if found else ""
        grows = ""
        if len(grown) > 2 and all(a < b for a, b in pairwise(grown)):
            grows = f"; it grew by {(grown[-1] - grown[0]) / (len(grown) - 1):.0f} GB with each step"
        why = f"; {' and '.join(kept[:3])} {'is' if len(kept) == 1 else 'are'} on" if kept else ""
        top = _TOP.search(text.text)
        seen: list[Evidence] = [text.evidence(at.start())]
        if offload := _OFFLOAD.search(text.text):
            seen.append(text.evidence(offload.start()))
        if top is not None:
            seen.append(text.evidence(top.start()))
        less = f"switch {' and '.join(kept[:3])} off, or shard over more nodes" if kept else "keep less on the host"
        leak = (
            ". What grows with each step will fill any memory: look for lists, caches and copies that are kept"
            if grows
            else ""
        )
        return Sharper(
            f"the host's memory is full, and Ray killed workers for it{full}{grows}{why}",
            f"{less}; fewer loader workers and rollouts per node, smaller object store, more memory for the pod{leak}. "
            "RAY_memory_usage_threshold=0.98 (default 0.95) or RAY_memory_monitor_refresh_ms=0 before ray start only "
            "move the limit: the kernel kills then. What ranks say of lost connections follows from it",
            tuple(seen),
        )
    return None
