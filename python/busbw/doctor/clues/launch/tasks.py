"""Clues of how many tasks Slurm started: options that override each other."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text

_NAME = r"(?:--(?P<long>ntasks|ntasks-per-node|nodes)[ =]|-(?P<short>[nN]) ?)"
_OPTION = rf"(?P<said>{_NAME}(?P<n>\d{{1,6}})(?:-\d{{1,6}})?(?=[\s\\]|$))"
_BATCH = re.compile(rf"^#SBATCH[^\n]{{0,200}}?\s{_OPTION}", re.MULTILINE)
_SRUN = re.compile(r"^[^\n#]{0,120}?(?<![\w./-])srun\s(?P<options>[^\n]{0,400})", re.MULTILINE)
_WORDS = re.compile(rf"(?<!\S){_OPTION}")
_PRINTED = re.compile(r"\bSLURM_NTASKS\W{1,4}(?P<n>\d{1,6})\b")
_WAITS = re.compile(
    r"(?P<joined>\d{1,6})/(?P<size>\d{1,6}) clients joined|MEMBER: \d{1,6}/(?P<members>\d{1,6})\b"
    r"|\bworld_size\W{1,3}(?P<world>\d{1,6})\b"
)
_NAMES = {"n": "ntasks", "N": "nodes"}


def tasks_overridden(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The script asks for so many tasks per node, and another option of it for fewer in all: these are started."""
    said = (Text("", "\n".join(seen.fact for seen in finding.evidence)), *texts)
    sizes = [
        int(found["size"] or found["members"] or found["world"]) for t in said for found in _WAITS.finditer(t.text)
    ]
    size = max(sizes, default=0)
    for text in texts:
        asked: dict[str, tuple[int, re.Match[str]]] = {}
        for found in _BATCH.finditer(text.text):
            asked[found["long"] or _NAMES[found["short"]]] = (int(found["n"]), found)
        if "ntasks-per-node" not in asked:
            continue
        each, per_node = asked["ntasks-per-node"]
        wanted = each * (asked["nodes"][0] if "nodes" in asked else 1)
        in_all = asked.get("ntasks")
        seen: list[Evidence] = [text.evidence(per_node.start("said"))]
        by, n = "", 0
        if in_all is not None and in_all[0] < wanted:
            by, n = f"--ntasks={in_all[0]}", in_all[0]
            seen.insert(0, text.evidence(in_all[1].start("said")))
        for run in _SRUN.finditer(text.text):
            own = [
                word for word in _WORDS.finditer(run["options"]) if "ntasks" in (word["long"] or _NAMES[word["short"]])
            ]
            if own and own[0]["long"] != "ntasks-per-node" and int(own[0]["n"]) < wanted:
                by, n = f"srun {own[0]['said'].strip()}", int(own[0]["n"])
                seen.insert(0, text.evidence(run.start("options")))
        if not by or (size and n >= size):
            continue
        seen.extend(_printed(texts, n))
        waits = f", and the job waits for {size}" if size > n else f", and {wanted} were meant"
        return Sharper(
            f"{by} overrides --ntasks-per-node={each} of the script: Slurm starts {n} task{'s' * (n > 1)}{waits}",
            f"leave {by.removeprefix('srun ')} out, or set it to {wanted} (tasks per node times nodes): beside it "
            "--ntasks-per-node is no more than a limit. Lightning's devices and num_nodes come to the same number. "
            "Network, ports and NCCL have no part in it",
            tuple(seen[:3]),
        )
    return None


def _printed(texts: Sequence[Text], n: int) -> list[Evidence]:
    """What the job itself prints of how many tasks it has."""
    return [
        text.evidence(found.start()) for text in texts for found in _PRINTED.finditer(text.text) if int(found["n"]) == n
    ][:1]
