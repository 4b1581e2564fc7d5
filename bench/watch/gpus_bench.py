"""What the parts of gpus.py share: environments, programs with a limit, and where their words go."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from on_gpus import MULTICAST_OFF, ended, write_summary

ROOT = Path(__file__).resolve().parents[2]
LEVELS = {
    "always": {"BUSBW_RECORD_TIMES": "none"}, "full": {"BUSBW_RECORD_TIMES": "all"},
    "full, read aside": {"BUSBW_RECORD_TIMES": "all", "BUSBW_RECORD_TIMES_ASIDE": "1"},
}  # fmt: skip
"""Of the recorder, and what they have in the environment."""


class FailedError(Exception):
    """What a part says when it cannot go on."""


@dataclass(frozen=True)
class Bench:
    """What all parts share; `part` is the one that speaks."""

    output: Path
    folder: Path
    build: Path
    nccl: Path
    others: Path
    ranks: int
    starts: int
    on_gpus: bool
    part: str = ""
    said: dict[str, list[str]] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)

    @property
    def busbw(self) -> list[str]:
        return [sys.executable, "-m", "busbw"]

    def for_part(self, name: str) -> Bench:
        return replace(self, part=name)

    def watch(self, recordings: Path) -> list[str]:
        return [*self.busbw, "watch", "--late", "1000s", "--output", str(recordings)]

    def library(self) -> list[str]:
        """For benches that take the CPU library of the build where none is named."""
        return ["--library", str(self.nccl)] if self.on_gpus else []

    def environment(self) -> dict[str, str]:
        """Of every child."""
        return {
            **os.environ, **MULTICAST_OFF, "BUSBW_ENGINE": str(self.build / "bin" / "busbw-engine"),
            "PYTHONPATH": os.pathsep.join((str(ROOT / "python"), str(self.others / "site"))),
            "BUSBW_WITH_QUIET": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "OMP_NUM_THREADS": "4",
        }  # fmt: skip

    def recorded(self, way: str) -> dict[str, str]:
        """For a program that is started directly: the recorder at a level, or none."""
        if way == "plain":
            return {}
        return {
            "LD_PRELOAD": str(self.build / "lib" / "libbusbw_record.so"), "BUSBW_REAL_NCCL": str(self.nccl),
            "BUSBW_RECORD_DIR": "{folder}", "BUSBW_RECORD_CALLS": str(1 << 18), **LEVELS[way],
        }  # fmt: skip

    def say(self, *lines: str) -> None:
        self.said.setdefault(self.part, []).extend(lines)
        for line in lines:
            print(f"{self.part}: {line}", flush=True)

    def keep(self, name: str, figures: object) -> None:
        self.kept[name] = figures

    def write(self, took_s: float) -> None:
        """The part's file."""
        self.say(f"{self.part} took {took_s:.0f} s")
        (self.output / f"{self.part}.txt").write_text("\n".join(self.said[self.part]) + "\n")
        write_summary(self.output, self.kept)


def staged(build: Path, folder: Path) -> Path:
    """A folder like that of the build, whose engine need not be there: no part starts it."""
    made = folder / "build"
    (made / "bin").mkdir(parents=True)
    (made / "lib").symlink_to(build / "lib")
    engine = made / "bin" / "busbw-engine"
    engine.write_text("#!/bin/sh\nexit 1\n")
    engine.chmod(0o755)
    return made


def found_nccl() -> Path:
    """PyTorch's, else the loader's."""
    spec = importlib.util.find_spec("nvidia.nccl") if importlib.util.find_spec("nvidia") else None
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (file := Path(place) / "lib" / "libnccl.so.2").is_file():
            return file
    done = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, timeout=20, check=False)
    for line in done.stdout.splitlines():
        if "libnccl.so.2" in line and "=>" in line:
            return Path(line.rpartition("=>")[2].strip())
    raise SystemExit("no libnccl.so.2 was found; give --nccl")


def ran(
    bench: Bench, words: Sequence[str], environ: Mapping[str, str], end: float, where: Path | None = None
) -> tuple[int, str]:
    """Exit code and what it printed, stderr after a form feed; 124 where the time was up. All that it started ends."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(words, env={**bench.environment(), **environ}, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=err, cwd=where or bench.folder, start_new_session=True)  # fmt: skip
        try:
            code = process.wait(max(0.5, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = 124
        finally:
            ended(process)
        texts = []
        for each in (out, err):
            each.seek(0)
            texts.append(each.read()[-1_000_000:].decode(errors="replace"))
    return code, "\n\f\n".join(texts)


def ranks_of(bench: Bench, commands: Sequence[Sequence[str]], environ: Mapping[str, str], end: float) -> str:
    """Rank 0's words of a job of one process a command, which all must end well; {folder} is one of their own."""
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder:

        def filled(word: str) -> str:
            return word.replace("{folder}", folder)

        made = {**bench.environment(), **{name: filled(value) for name, value in environ.items()}}
        outs = [(Path(folder) / f"out{number}").open("w+b") for number in range(len(commands))]
        ranks = [
            subprocess.Popen([filled(word) for word in words],
                             env={**made, "RANK": str(number), "RANKS": str(len(commands))}, stdin=subprocess.DEVNULL,
                             stdout=outs[number], stderr=subprocess.STDOUT, cwd=folder, start_new_session=True)
            for number, words in enumerate(commands)
        ]  # fmt: skip
        while any(each.poll() is None for each in ranks) and time.monotonic() < end + 5.0:
            if any(each.returncode for each in ranks):
                break
            time.sleep(0.02)
        codes = [each.poll() for each in ranks]
        texts = []
        for each, out in zip(ranks, outs, strict=True):
            ended(each)
            out.seek(0)
            texts.append(out.read()[-200_000:].decode(errors="replace"))
            out.close()
    if any(codes) or None in codes:
        worst = next(number for number, code in enumerate(codes) if code != 0)
        why = "the time was up" if codes[worst] is None else f"exit code {codes[worst]}"
        raise FailedError(f"rank {worst}: {why}: {texts[worst][-500:]}")
    return texts[0]


def json_of(text: str) -> dict[str, Any]:
    """The last line that is an object."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            found = json.loads(line)
            assert isinstance(found, dict)
            return found
    raise FailedError(f"no figures in: {text[-300:]}")
