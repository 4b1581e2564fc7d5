"""A search in a process of its own, over a made-up NCCL whose times depend on stage, round and way alone.

    killed_search.py FOLDER BUDGET [MOMENT]

It kills itself at that moment: before or behind a call that writes, or within it, when half of a line is there.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]

from tune_nccl_machine import FACTS, MadeUpNccl  # noqa: E402

from busbw.base import files  # noqa: E402
from busbw.experiment import loop  # noqa: E402
from busbw.experiment.clock import Clock  # noqa: E402
from busbw.experiment.plan import Plan  # noqa: E402
from busbw.experiment.trial import Trial, to_json  # noqa: E402
from busbw.experiment.tune_nccl import search, stage  # noqa: E402
from busbw.experiment.tune_nccl.rules import Place, table_text  # noqa: E402
from busbw.experiment.tune_nccl.ways import Asked  # noqa: E402

_moments = 0
_last = 0


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _passing() -> bool:
    global _moments  # noqa: PLW0603 - one count of all that is patched
    _moments += 1
    return _moments == _last


def _cut_in(function: Callable[..., Any]) -> Callable[..., Any]:
    def around(*words: Any, **named: Any) -> Any:
        if _passing():
            _die()
        result = function(*words, **named)
        if _passing():
            _die()
        return result

    return around


def _append(folder: Path, trial: Trial) -> None:
    if _passing():
        folder.mkdir(parents=True, exist_ok=True)
        line = to_json(trial)
        with (folder / loop.TRIALS_NAME).open("a", encoding="utf-8") as stream:
            stream.write(line[: random.Random(_moments).randrange(len(line))])
        _die()
    loop.append_trial(folder, trial)
    if _passing():
        _die()


def main() -> None:
    """Search two collectives, and write the table."""
    global _last  # noqa: PLW0603
    folder, budget = Path(sys.argv[1]), float(sys.argv[2])
    _last = int(sys.argv[3]) if len(sys.argv) > 3 else -1
    stage.append_trial = _append  # type: ignore[assignment]
    for module in (stage, search):
        module.replace_text = _cut_in(files.replace_text)  # type: ignore[attr-defined]
    stage.read_trials = _cut_in(loop.read_trials)  # type: ignore[assignment]
    nccl = MadeUpNccl(worse={"all_reduce": "ring/ll", "all_gather": "ring/ll"}, noise=0.05)

    def measure(plan: Plan, number: int, variant: int, where: Path, limit_s: float) -> Trial:
        nccl.random = random.Random(f"{where.name} {number} {plan.variants[variant].name}")
        with (folder / "measured").open("a", encoding="utf-8") as stream:
            stream.write(f"{where.relative_to(folder)} {number} {variant}\n")
        return nccl.measure(plan, number, variant, where, limit_s)

    asked = Asked(("all_reduce", "all_gather"), 4, 1024, 1 << 20)
    one = search.Search(asked, FACTS, folder, 3, Clock(budget, lambda: nccl.now), measure, proving_rounds=40)
    rules = []
    for number, name in enumerate(asked.collectives):
        rules += one.collective(name, number / 2, (number + 1) / 2)[0]
    files.replace_text(folder / "out.txt", table_text([Place(FACTS, tuple(rules))]))
    print(_moments)


if __name__ == "__main__":
    main()
