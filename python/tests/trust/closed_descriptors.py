"""Runs every verb with descriptors 0, 1 or 2 closed, and prints what came of it: a program, so that it can fork.

usage: python closed_descriptors.py FOLDER EXAMPLE [all]

One process imports busbw once and forks for each command, with the streams that the interpreter makes of closed
descriptors (none), because a start of Python for each would take a minute.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path

from made_recordings import Made, Row
from made_recordings import write as write_recording

from busbw.cli.main import main
from busbw.cli.verbs import COLLECTIVES, VERBS

SMALL = ("-b", "8", "-e", "8", "-n", "1", "-w", "0", "--library", "cpu")
WORDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(COLLECTIVES, (*SMALL, "-t", "2", "--record", "out.jsonl")),
    "torch-bench": ("--help",),
    "run": ("--ranks", "2", "all_reduce", *SMALL, "--record", "out.jsonl"),
    "with": ("--", "/bin/sh", "-c", "fds=$(readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2); echo $fds >with.txt"),
    "azureml": ("example",),
    "experiment": ("--vary", "NCCL_ALGO=Ring,Tree", "--dry-run", "--", "all_reduce", "-b", "1M"),
    "overlap": ("--ranks", "2", "--budget", "0s", "--", "all_reduce", "-b", "64K"),
    "bisect": ("--setting", "NCCL_ALGO=unset,Ring", "--dry-run", "--", "all_reduce", "-b", "1M"),
    "tune": ("--dry-run",),
    "predict": ("all_reduce", "--machine", "ndv4", "--nodes", "1,2", "--sizes", "1K,1G"),
    "import": ("good.log", "--output", "out.jsonl"),
    "compare": ("good.jsonl", "good.jsonl", "--allow-different"),
    "report": ("good.jsonl", "--format", "json"),
    "runs": ("list",),
    "history": (),
    "topo": ("matrix.txt", "--svg", "out.svg"),
    "doctor": ("--log", "good.log"),
    "watch": ("--read", "recordings"),
    "replay": ("nowhere",),
    "fleet": ("simulate", "--nodes", "4", "--faults", "1", "--seed", "3"),
    "gate": ("good.jsonl",),
    "completion": ("bash",),
    "man": (),
    "baseline": ("make", "good.jsonl", "--output", "out.toml"),
}
CODES = {"overlap": 2, "tune": 1, "doctor": 3, "replay": 2, "gate": 2}
"""Of those that do not end with 0: what they are asked for cannot be done here, or is no sound state."""
MODES: dict[str, tuple[int, ...]] = {"all": (0, 1, 2), "out": (1,), "err": (2,), "in": (0,)}
WRITE = frozenset({"all_reduce", "run", "import", "topo", "baseline"})
"""Verbs whose file would take the number of the closed descriptor."""
_COLUMNS = f"{'time':>8} {'algbw':>7} {'busbw':>7} #wrong"
LOG = (
    "# nThread 1 nGpus 2 minBytes 8 maxBytes 8 step: 1048576(bytes) warmup iters: 5 iters: 20\n"
    f"#       size         count      type   redop    root {_COLUMNS} {_COLUMNS}\n"
    f"           8             2     float     sum      -1 {'   10.00    0.00    0.00      0 ' * 2}\n"
)
MATRIX = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\t0-23\nGPU1\tNV12\t X \t24-47\n\nLegend:\n  X = Self\n"


def prepare(folder: Path, example: Path) -> None:
    """What the commands read."""
    folder.mkdir(parents=True)
    (folder / "good.jsonl").write_text(example.read_text())
    (folder / "good.log").write_text(LOG)
    (folder / "matrix.txt").write_text(MATRIX)
    (folder / "recordings").mkdir()
    write_recording(folder / "recordings", 0, [Row(0, 1)], [Made(1000 * n, sequence=n) for n in range(4)], capacity=8)


def run(words: list[str], folder: Path, closed: tuple[int, ...]) -> int:
    """The exit code of `busbw WORDS` in that folder, with these descriptors closed."""
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        opened = [os.open(path, os.O_RDWR | os.O_CREAT, 0o600) for path in (os.devnull, "said.out", "said.err")]
        for number, descriptor in enumerate(opened):
            os.dup2(descriptor, number)
            os.close(descriptor)
        streams = [os.fdopen(number, "r" if number == 0 else "w", closefd=False) for number in range(3)]
        for number in closed:
            os.close(number)
        sys.stdin, sys.stdout, sys.stderr = (
            None if number in closed else stream for number, stream in enumerate(streams)
        )  # fmt: skip
        code = 99
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:  # noqa: BLE001 - whatever main let through is what is looked for
            (folder / "said.traceback").write_text(traceback.format_exc())
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def all_of(root: Path, example: Path, *, every_mode: bool) -> list[tuple[str, str, int]]:
    """Verb, mode and exit code of every command."""
    os.environ["BUSBW_RUNS"] = "runs"
    for verb in VERBS:
        import_module(verb.module)
    codes = []
    for verb in VERBS:
        for mode in MODES if every_mode or verb.name in WRITE else ("all",):
            folder = root / verb.name / mode
            prepare(folder, example)
            codes.append((verb.name, mode, run([verb.name, *WORDS[verb.name]], folder, MODES[mode])))
    return codes


if __name__ == "__main__":
    print(json.dumps(all_of(Path(sys.argv[1]), Path(sys.argv[2]), every_mode="all" in sys.argv[3:])))
