"""The part `programs` of gpus.py: programs of others, alone and under `busbw watch`.

Each is run as it is, then watched, while NCCL writes down every call that it got (NCCL_DEBUG=INFO, subsystem COLL).
Right is: the same exit code and the same words, each process's recording can be read, and it has as many calls of each
kind as NCCL's own log of that process.

The folder of --others may hold `examples` (pytorch/examples, its folder `distributed`), `cupy/comm_runner.py` (CuPy's
tests of its process group) and `site` (Python packages, such as PyTorch's expecttest). What is not there is told.
"""

from __future__ import annotations

import importlib.util
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gpus_bench import ROOT, Bench, FailedError, ran

sys.path.insert(0, str(ROOT / "python"))

from busbw.base.errors import UserError
from busbw.watch.recording import Recording, find

LOGGED = re.compile(r"NCCL INFO (\w+): opCount ")
OWN = re.compile(
    r"\d{1,4}[/:-]\d\d[/:-]\d\d(?:[ T.,]?\d+)*(?: ?[AP]M)?|\b(?:in|pid) ?[\d.]+s?\b|0x[0-9a-f]+|/[^ ]*/|\b\d{10,}[\d.]*"
)
"""Times, process numbers, addresses and folders: other ones each time."""
NOISE = ("USDT:", "Started process", "warn", "Warning", "[rank", "W1", "I1", "profiler", "busbw watch:")
TESTS = ("test_all_reduce_sum_cuda", "test_broadcast_cuda", "test_all_gather_cuda", "test_reduce_sum_cuda",
         "test_reduce_scatter_tensor_cuda", "test_all_to_all_single_equal_split_cuda", "test_send_recv_nccl",
         "test_batch_isend_irecv_nccl", "test_DistributedDataParallel_SyncBatchNorm", "test_ddp_logging_data_gpu",
         "test_barrier_cuda", "test_all_reduce_coalesced_sum", "test_ddp_zero_output_features")  # fmt: skip
BESIDE = 3
ON_HOST = ("test_all_reduce_sum", "test_broadcast", "test_barrier")


@dataclass(frozen=True)
class Program:
    """One of them; `needs` is the files and modules without which it is left out."""

    name: str
    words: tuple[str, ...]
    needs: tuple[str, ...]
    environ: tuple[tuple[str, str], ...] = ()
    limit_s: float = 45.0
    tells_itself: bool = False
    """Its exit code says whether it was right, so it is not run alone too."""


def listed(bench: Bench) -> list[Program]:
    python, many = sys.executable, str(bench.ranks)
    torchrun = (python, "-m", "torch.distributed.run", "--nproc-per-node", many, "--standalone")
    examples = bench.others / "examples"
    ours = str(ROOT / "bench/watch/other_programs.py")
    runner = str(bench.others / "cupy" / "comm_runner.py")

    def example(name: str, file: str, *words: str) -> Program:
        return Program(name, (*torchrun, str(examples / file), *words), (str(examples / file),))

    begun = " ".join(
        f"{python} {ours} jax-ranks {number} {many} {free_port()} & p{number}=$!;" for number in range(bench.ranks)
    )
    awaited = " && ".join(f"wait $p{number}" for number in range(bench.ranks))
    tests = TESTS if bench.on_gpus else ON_HOST
    environ = (("BACKEND", "nccl" if bench.on_gpus else "gloo"), ("WORLD_SIZE", many))
    return [
        Program("JAX, one process", (python, ours, "jax"), ("jax",)),
        example("DDP of pytorch/examples", "ddp-tutorial-series/multigpu_torchrun.py", "3", "10"),
        example("FSDP2 of pytorch/examples", "FSDP2/example.py", "--mixed-precision", "--explicit-prefetching"),
        Program("CuPy, one process", (python, ours, "cupy"), ("cupy",)),
        Program("PyTorch's tests", (python, ours, "torch-tests", *tests), ("expecttest",), environ, 90.0, True),
        Program("JAX, a process a GPU", ("sh", "-c", f"{begun} {awaited}"), ("jax",)),
        Program("CuPy's process group", (python, ours, "cupy-ranks", runner), ("cupy", runner)),
        example("tensor parallel of pytorch/examples", "tensor_parallelism/tensor_parallel_example.py"),
        example("sequence parallel of pytorch/examples", "tensor_parallelism/sequence_parallel_example.py"),
    ]


def free_port() -> int:
    """The same for all that ask: the first answer is kept."""
    if not hasattr(free_port, "port"):
        with socket.socket() as door:
            door.bind(("127.0.0.1", 0))
            free_port.port = door.getsockname()[1]  # type: ignore[attr-defined]
    return int(free_port.port)  # type: ignore[attr-defined]


def is_there(bench: Bench, needs: str) -> bool:
    if "/" in needs:
        return Path(needs).is_file()
    sys.path.append(str(bench.others / "site"))
    try:
        return importlib.util.find_spec(needs) is not None
    finally:
        sys.path.pop()


def programs(bench: Bench, end: float) -> None:
    """Some beside each other; one that fails ends nothing else."""

    def outcome(program: Program) -> str:
        if time.monotonic() > end - 8.0:
            why = "FAILED: no time was left"
        elif missing := [each for each in program.needs if not is_there(bench, each)]:
            why = f"FAILED: {missing[0]} is not there"
        else:
            try:
                why = tried(bench, program, end)
            except (FailedError, UserError, OSError) as error:
                why = f"FAILED: {error}"
        bench.say(f"{program.name}: {why}")
        return why

    all_of_them = listed(bench)
    with ThreadPoolExecutor(BESIDE if bench.on_gpus else 1) as workers:
        outcomes = dict(zip((each.name for each in all_of_them), workers.map(outcome, all_of_them), strict=True))
    bench.keep("programs", outcomes)
    failed = [name for name, why in outcomes.items() if why.startswith("FAILED")]
    bench.say(f"programs: {len(outcomes) - len(failed)} of {len(outcomes)} right")
    if failed:
        raise FailedError(f"not right or not tried: {', '.join(failed)}")


def tried(bench: Bench, program: Program, end: float) -> str:
    """Alone, then watched; how it was in words that begin with FAILED where it was not right."""
    place = bench.folder / re.sub(r"\W+", "-", program.name)
    words = list(program.words)
    alone: tuple[int, str] | None = None
    if not program.tells_itself:
        alone = once(bench, program, words, place / "alone", end)
        if alone[0]:
            return f"FAILED alone, without the recorder: exit code {alone[0]}: {tail(alone[1])}"
    recordings, logs = place / "recordings", place / "logs"
    logs.mkdir(parents=True)
    code, text = once(bench, program, [*bench.watch(recordings), "--", *words], place / "watched", end, logs)
    (bench.output / f"program-{place.name}.txt").write_text(text[-60_000:])
    if code and program.tells_itself:
        alone = once(bench, program, words, place / "alone", end)
    if wrong := otherwise(alone, (code, text)):
        return f"FAILED: {wrong}"
    processes, calls, differ = compared(recordings, logs)
    if differ or (not processes and bench.on_gpus):
        return f"FAILED: {'; '.join(differ)[:600] or 'nothing was recorded'}"
    failed = f"; alone too these failed: {', '.join(ended_badly(text))}" if code else ""
    return f"right: {calls:,} calls of {processes} processes, as NCCL's own log counts them{failed}"


def otherwise(alone: tuple[int, str] | None, watched: tuple[int, str]) -> str:
    """What was other under the watcher, or ""; `alone` None for a program that ended well and tells that itself."""
    code, text = watched
    if any(line.startswith(("busbw watch: no progress", "busbw watch: the job ended")) for line in text.splitlines()):
        return f"somebody was accused: {tail(text)}"
    if alone is None:
        return f"exit code {code}" if code else ""
    if code:
        alike = alone[0] == code and ended_badly(text) and ended_badly(text) == ended_badly(alone[1])
        return "" if alike else f"exit code {code} under busbw watch, {alone[0]} alone: {tail(text)}"
    lost = said(alone[1]) ^ said(text)
    return f"other words under busbw watch: {sorted(lost)[:4]}" if lost else ""


def once(  # noqa: PLR0913, PLR0917 - all that one start is
    bench: Bench, program: Program, words: Sequence[str], where: Path, end: float, logs: Path | None = None
) -> tuple[int, str]:
    """In a folder of its own, so that what it saves is not found by the next."""
    (where / "temporary").mkdir(parents=True)
    more = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "COLL,INIT", "NCCL_DEBUG_FILE": f"{logs}/%p"} if logs else {}
    environ = {**dict(program.environ), **more, "TEMP_DIR": str(where / "temporary"), "PYTHONUNBUFFERED": "1"}
    return ran(bench, words, environ, min(end, time.monotonic() + program.limit_s), where)


def said(text: str) -> set[str]:
    """Its lines on stdout, without what differs from start to start."""
    own = text.partition("\f")[0]
    lines = (OWN.sub("", line).strip() for line in own.splitlines() if not any(word in line for word in NOISE))
    return {line for line in lines if line}


def ended_badly(text: str) -> list[str]:
    """Tests that failed."""
    return sorted(line for line in text.splitlines() if line.startswith(("ERROR:", "FAIL:")))


def tail(text: str) -> str:
    return " | ".join(line.strip()[:160] for line in text.splitlines() if line.strip())[-500:]


def compared(recordings: Path, logs: Path) -> tuple[int, int, list[str]]:
    """Processes and calls that were recorded, and what NCCL's logs count otherwise."""
    recorded: dict[int, Counter[str]] = {}
    wrong: list[str] = []
    for path in find(recordings):
        try:
            with Recording(path) as recording:
                pid, kinds = recording.header().pid, Counter[str]()
                for call in recording.calls():
                    if not call.launched and not call.failed:
                        kinds[call.shape.kind.replace("_", "")] += 1
                if recording.overwritten():
                    wrong.append(f"{recording.overwritten()} calls of {pid} were overwritten")
        except UserError as error:
            wrong.append(str(error))
            continue
        recorded.setdefault(pid, Counter()).update(kinds)
    for file in logs.iterdir():
        counted = Counter(name.lower() for name in LOGGED.findall(file.read_text(errors="replace")))
        pid = int(file.name) if file.name.isdecimal() else -1
        if counted != recorded.get(pid, Counter()):
            ours = recorded.get(pid, Counter())
            differ = {kind: (counted[kind], ours[kind]) for kind in counted | ours if counted[kind] != ours[kind]}
            wrong.append(f"process {pid}: by NCCL's log and by the recorder {differ}")
    if unlogged := [pid for pid, kinds in recorded.items() if kinds and not (logs / str(pid)).exists()]:
        wrong.append(f"no log of NCCL for processes {unlogged[:4]}")
    return len(recorded), sum(sum(each.values()) for each in recorded.values()), wrong
