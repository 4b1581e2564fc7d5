"""Processes are started in one place, launch/supervise; base/programs asks short questions; others have a reason."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

STARTS = re.compile(
    r"subprocess\.(Popen|run|call|check_call|check_output|getoutput|getstatusoutput)\(|"
    r"\bos\.(fork|forkpty|posix_spawnp?|spawn\w+|system|popen)\(|(import|from) multiprocessing|ProcessPoolExecutor|"
    r"from subprocess import|asyncio\.create_subprocess"
)

ALLOWED = {
    "python/busbw/launch/supervise.py": "the supervisor",
    "python/busbw/base/programs.py": "short questions to other programs, bounded in time",
    "python/busbw/launch/foreground.py": "one engine in our place keeps the terminal's group: Ctrl-C is its own",
    "python/busbw/cli/watch.py": "the user's program keeps the terminal's group, and the watcher looks at it meanwhile",
    "python/busbw/base/pool.py": "a pool of our own functions, which ends with the reading",
    "python/busbw/base/scratch.py": "a shell that outlives us by a moment, to remove what we cannot",
    "python/busbw/importers/handover.py": "a reader of our own that is ended for its memory or time",
    "python/busbw/importers/apart.py": "a reader of our own for the later part of a file, which ends with the reading",
    "python/busbw/importers/zstd.py": "unpacks a file while it is read, and is ended with its reader",
    "bench/fleet/namespaces.py": "commands of ip and tc, and what runs within a namespace",
    "bench/fleet/nccl_hosts.py": "watchers whose words are kept, and a rank among them that is stopped",
    "bench/settings/plugin.py": "the user's own program, with the plugin in its environment",
    "bench/watch/train.py": "ranks of a program that imports nothing of ours",
    "bench/fleet/real.py": "whole commands of a user, within namespaces",
    "bench/fleet/slurm.py": "Slurm's daemons, within namespaces",
    "bench/doctor/nccl_sentences.py": "git, on a clone that was named",
    "bench/settings/history.py": "whole commands of a user",
    "bench/settings/releases.py": "whole commands of a user",
    "bench/settings/recorded_step.py": "a job's own processes, and whole commands of a user",
    "bench/settings/step.py": "whole commands of a user, and workers of torch",
    "bench/fleet/lost_ranks.py": "whole commands of a user, ranks of which are killed",
    "bench/fleet/mishaps.py": "whole commands of a user, one of which is killed",
    "bench/fleet/kills.py": "whole commands of a user, one of which is killed",
    "bench/settings/kinds.py": "workers of torch",
    "bench/settings/torch_sizes.py": "workers of torch",
    "bench/settings/gpus.py": "whole commands of a user, each within its limit",
    "bench/watch/replay_scatter.py": "ranks of a program that imports nothing of ours, and whole commands of a user",
    "bench/watch/user_job.py": "forked ranks, and what they start, which are what is tried",
    "bench/doctor/faults.py": "a neighbour that is to be in the way, watched by a measurement beside it",
    "bench/doctor/__main__.py": "a bound process whose output is read while it runs",
    "bench/gpu/stages.py": "a neighbour on the GPU that lasts as long as the measurement beside it",
    "bench/gpu_library/program.py": "sessions that are killed and stopped in the middle, which is what they test",
    "bench/gpu_library/programs/beside_turns.py": "ranks forked behind one import of PyTorch, which outlasts a start",
    "bench/gpu_library/programs/symm_mem.py": "ranks of a program that imports nothing of ours",
    "bench/watch/faults.py": "watchers whose words are timed as they come, and a proxy that is stopped",
    "bench/foreign/__main__.py": "whole commands of a user, and what each of them used",
    "bench/soak/__main__.py": "whole commands of a user, and what they leave behind",
    "bench/watch/recorder_cost.py": "a program with and without the recorder, timed",
    "bench/watch/one_gpu.py": "whole commands of a user, and the daemon that lets them share a GPU",
    "bench/watch/gpus.py": "a compiler",
    "bench/watch/gpus_bench.py": "whole commands of a user, and ranks of programs with and without the recorder",
    "bench/watch/strange_job.py": "forked ranks, and a fork among them, which are what is tried",
    "bench/watch/stranger_job.py": "forked ranks, and a fork among them, which are what is tried",
    "bench/watch/plain_job.py": "a compiler, and ranks in C, which are what is tried",
    "bench/watch/strange.py": "a watcher that is killed",
    "bench/watch/parallel_odd.py": "a shell that stops and freezes ranks, which is what is tried",
    "bench/watch/torch_job.py": "ranks of a program that imports nothing of ours",
    "bench/watch/timeline_page.py": "a browser, and commands of a user",
    "tools/kill_launchers.py": "starts and ends a Slurm of its own",
    "tools/kill_shapes.py": "programs of a user that start launchers by themselves, in words",
    "bench/doctor/programs.py": "programs and launchers of a user, in one log",
    "bench/cpu/stores.py": "a compiler, and programs that are timed, where busbw is not installed",
    "bench/import/measure.py": "its figures are those of the child: the less stands in between, the better",
}
"""Why each of these starts processes by itself."""


def sources() -> list[Path]:
    return sorted(path for room in ("python/busbw", "bench", "tools") for path in (ROOT / room).rglob("*.py"))


@cache
def starting() -> set[str]:
    found = set()
    for path in sources():
        code = "\n".join(line.split("#")[0] for line in path.read_text().splitlines())
        if STARTS.search(code):
            found.add(str(path.relative_to(ROOT)))
    return found


def test_nobody_else_starts_processes() -> None:
    others = starting() - ALLOWED.keys()
    assert not others, f"{sorted(others)}: use busbw.launch.supervise, or busbw.base.programs for a short question"


@pytest.mark.parametrize("path", sorted(ALLOWED))
def test_every_exception_is_still_one(path: str) -> None:
    assert path in starting(), f"{path} starts nothing any more: take it off the list"
