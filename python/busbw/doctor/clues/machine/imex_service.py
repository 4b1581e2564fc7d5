"""Clues of an NVLink domain's service: the host on which nvidia-imex does not run, as commands over hosts show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_SERVICE = "nvidia-imex"
_STATE = r"(?:active|inactive|failed|activating|unknown)"
_ASKED = re.compile(r"\bis-active (?P<names>[\w@.-]{2,60}(?: [a-z][\w@.-]{2,60}){0,6})")
_COMMAND = re.compile(rf"^[^\n]{{0,300}}\bis-active [^\n]{{0,200}}\b{_SERVICE}\b[^\n]{{0,300}}$", re.MULTILINE)
_ANSWER = re.compile(
    rf"^[ \t]{{0,4}}\[?(?P<host>[A-Za-z][\w.-]{{1,60}})\]?"
    # pdsh, clush and loops; ansible -o.
    r"(?:: {1,4}| {1,4}| \| \w{1,12} \| \S{1,20} ?\| ?\(\w{1,8}\) ?)"
    rf"(?P<state>{_STATE})\s{{0,4}}$",
    re.MULTILINE,
)
_STATUS = re.compile(
    rf"\b{_SERVICE}\.service\b[^\n]{{0,120}}(?:\n[^\n]{{0,200}}){{0,4}}?\n(?P<line>[^\n]{{0,40}}\bActive: "
    r"(?P<state>active|inactive|failed|activating)\b[^\n]{0,80})"
)
_NO_CHANNEL = r"^[ \t]{{0,4}}\[?{host}\]?: [^\n]{{0,60}}nvidia-caps-imex-channels[^\n]{{0,40}}No such file"
_MOST, _AHEAD = 200, 20_000


def service_down(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """nvidia-imex is not active on some hosts, and is on others, or the log shows that one alone."""
    states: dict[str, tuple[str, Evidence]] = {}
    for text in texts:
        for host, state, at in (*_answers(text), *_statuses(text)):
            states[host] = (state, text.evidence(at))
    down = {host: said for host, said in states.items() if said[0] in ("inactive", "failed")}
    up = [host for host, said in states.items() if said[0] == "active"]
    if not down or (len(down) > 2 and not up):
        return None
    hosts = sorted(down)
    where = ", ".join(named(each, 30) for each in hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")
    state, seen = down[hosts[0]]
    bare = [each for each in hosts if (none := re.compile(_NO_CHANNEL.format(host=re.escape(each)), re.MULTILINE))
            and any(none.search(text.text) for text in texts)]  # fmt: skip
    also = ", and it has no channel of IMEX" if bare and len(hosts) == 1 else ""
    runs = f", while it runs on {named(up[0], 30)}" if len(up) == 1 else ", while it runs on the others" if up else ""
    return Sharper(
        f"nvidia-imex does not run on {where} ({state}{runs}){also}: GPUs there cannot share memory with those of "
        "other hosts",
        f"on {where}: systemctl enable --now nvidia-imex, with the same nodes_config.cfg as on the others, and look at "
        "its log (/var/log/nvidia-imex.log, journalctl -u nvidia-imex) if it ends. Where the channel is missing, make "
        "it (options nvidia NVreg_CreateImexChannel0=1, or nvidia-modprobe -c 0 -s -i 0). nvidia-imex-ctl -N must show "
        "C everywhere. Until then leave that host out, or NCCL_MNNVL_ENABLE=0",
        (seen,),
    )


def _answers(text: Text) -> Iterator[tuple[str, str, int]]:
    """What hosts answered to `systemctl is-active`, told for each by pdsh, clush, ansible or a loop."""
    for command in islice(_COMMAND.finditer(text.text), 8):
        asked = [name for each in _ASKED.finditer(command[0]) for name in each["names"].split()]
        place = next((at for at, name in enumerate(asked) if name.removesuffix(".service") == _SERVICE), None)
        if place is None:
            continue
        told: dict[str, int] = {}
        # The answers of a command end where the next one begins.
        end = text.text.find("is-active", command.end())
        end = min(end if end > 0 else len(text.text), command.end() + _AHEAD)
        for found in islice(_ANSWER.finditer(text.text, command.end(), end), _MOST):
            at = told.get(found["host"], 0)
            told[found["host"]] = at + 1
            if at == place:
                yield found["host"], found["state"], found.start()


def _statuses(text: Text) -> Iterator[tuple[str, str, int]]:
    """What `systemctl status` tells below the prompt or name of a host."""
    for found in islice(_STATUS.finditer(text.text), 16):
        if host := host_before(text, found.start()):
            yield host, found["state"], found.start("line")
