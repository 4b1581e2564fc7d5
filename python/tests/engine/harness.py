"""What the end-to-end tests of the engine share: where the build is, and how to run a program of it."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUILD = Path(os.environ.get("BUSBW_BUILD", Path(__file__).parents[3] / "build"))


@dataclass(frozen=True)
class Finished:
    """A program that has ended: its exit code and what it said."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The words of each row of the table."""
        lines = [line for line in self.out.splitlines() if line.strip() and not line.startswith("#")]
        return [line.split() for line in lines if line.split()[0].isdigit()]


@dataclass(frozen=True)
class Engine:
    """The programs of a build folder."""

    folder: Path

    def program(self, collective: str) -> str:
        return str(self.folder / "bin" / f"{collective}_perf")

    def library(self, name: str) -> str:
        return str(self.folder / "lib" / f"lib{name}.so")

    def run(self, collective: str, *arguments: str, env: dict[str, str] | None = None, limit: float = 60) -> Finished:
        done = subprocess.run(
            [self.program(collective), *arguments],
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)


def read_record(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
