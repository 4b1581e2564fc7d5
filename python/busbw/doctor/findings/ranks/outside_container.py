"""Tasks of one srun that print different systems: pyxis is loaded on some nodes alone, and the others stay outside."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Finding, Proof, Severity
from busbw.doctor.shown_texts import Text, named, texts_of
from busbw.doctor.signature import Stage

NAME = "outside-container"
# At a prompt, or as `set -x` shows it: a script that is printed says nothing of where its output begins.
_COMMAND = re.compile(
    r"^(?:\+{1,4}|[^\n]{0,80}[$#>]) ?srun\s(?P<options>(?:[^\n\\]|\\\n|\\[^\n]){0,800}?--container-(?:image|name)[= ]"
    r"(?:[^\n\\]|\\\n|\\[^\n]){0,800})$",
    re.MULTILINE,
)
_NEXT = re.compile(r"^(?:\+{1,4} ?\w|[^\n]{0,80}[$#>] ?\w)|\bsrun (?:-|--)\w", re.MULTILINE)
_SYSTEM = re.compile(r"^(?:\s{0,6}\d{1,6}: ?)?PRETTY_NAME=\"?(?P<system>[^\"\n]{3,120})", re.MULTILINE)
_OTHER_WHYS = re.compile(r"\bpyxis: |\benroot\b[^\n]{0,40}\[ERROR\]")
_IMAGE = re.compile(r"--container-image[= ]")
_MOST = 20_000


def examine(facts: Facts) -> Iterator[Finding]:
    for text in texts_of(facts):
        if "PRETTY_NAME=" in text.text and (found := _apart(text)) is not None:
            yield found
            return


def _apart(text: Text) -> Finding | None:
    for command in _COMMAND.finditer(text.text):
        # Steps of several parts may each have an image of their own.
        if len(_IMAGE.findall(command["options"])) > 1 or " : " in command["options"]:
            continue
        end = min(len(text.text), command.end() + _MOST)
        behind = _NEXT.search(text.text, command.end(), end)
        end = behind.start() if behind else end
        seen = list(_SYSTEM.finditer(text.text, command.end(), end))
        counted = Counter(each["system"] for each in seen)
        if len(counted) < 2 or _OTHER_WHYS.search(text.text, command.end(), end):
            continue
        rows = ", ".join(f"{named(system)}: {n}" for system, n in counted.most_common(3))
        firsts = [next(each for each in seen if each["system"] == system) for system in counted]
        return Finding(
            NAME,
            Severity.ERROR,
            f"tasks of one srun with a container see different systems ({rows}): pyxis is loaded on some nodes alone, "
            "and on the others the command runs on the host",
            tuple(text.evidence(at) for at in (command.start(), *(each.start() for each in firsts[:3]))),
            Cost("the tasks outside of the container lack its programs: the job fails, or runs with other libraries"),
            "install pyxis (spank_pyxis.so), its entry in plugstack.conf (plugstack.conf.d) and enroot on all compute "
            "nodes alike, then restart slurmd there. Write `required` before the plugin in that file: then a node "
            "without it refuses the job. No option of srun is missing; leave these nodes out until then (--exclude)",
            Proof(
                instruction="confirm: srun -N4 --label bash -c 'hostname; cat /etc/slurm/plugstack.conf.d/*; "
                "srun --help | grep -c container-image'"
            ),
            stage=Stage.LAUNCH,
            known="pyxis and Slurm's SPANK plugins",
        )
    return None
