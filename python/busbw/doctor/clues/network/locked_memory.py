"""A clue of locked memory: the limit that systemd gives a launcher's service, or that tasks of a job show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_SERVICES = r"(?:slurmd|sshd|docker|containerd|kubelet|crio|k3s|k3s-agent|rke2-agent|pbs_?mom|sge_execd|lsfd)"
_SHOWN = re.compile(
    rf"\bsystemctl show (?:-p \S{{1,40}} )?(?P<of>{_SERVICES})(?:\.service)?\b[^\n]{{0,80}}\n"
    r"(?:[^\n]{0,200}\n){0,8}?(?:Default)?LimitMEMLOCK(?:Soft)?=(?P<bytes>\d{4,10})\s*$"
    rf"|/proc/[^\n]{{0,40}}\b(?:pgrep|pidof) (?:-\w{{1,3}} )?(?P<of_>{_SERVICES})\b[^\n]{{0,80}}\n"
    r"(?:[^\n]{0,200}\n){0,10}?Max locked memory\s{1,20}(?P<bytes_>\d{4,10})\s",
    re.MULTILINE,
)
"""What systemd says of a service, or the kernel of its process: bytes."""
_UNIT = re.compile(
    rf"\bsystemctl cat (?P<of>{_SERVICES})(?:\.service)?\b[^\n]{{0,120}}\n"
    r"(?P<rows>(?:(?!\$ |```|\[?[\w.-]{1,32}@)[^\n]{0,200}\n?){1,40})"
)
"""The whole of a unit, or its part [Service]."""
_ASKED = re.compile(
    r"\b(?P<by>srun|sbatch|mpirun|mpiexec|qsub|kubectl exec|docker exec)\b[^\n]{0,240}\bulimit -(?:H?l|a)\b"
    r"[^\n]{0,120}\n(?P<rows>(?:[^\n]{0,120}\n?){1,24})"
)
_ROW = re.compile(r"^(?:\d{1,5}: |\[[\w.,-]{1,40}\] ?|[A-Za-z][\w.-]{0,60}:? {1,4})?(?P<kib>\d{1,7}|unlimited)\b")
_OTHERS_FIRST = re.compile(r"ulimit -[a-km-z][^\n]{0,60}ulimit -l")
_LARGE = 1 << 20
"""KiB with which RDMA's queues get along."""
_OF_LOGIN = re.compile(r"\bssh [^\n]{0,120}\bulimit -l\b[^\n]{0,80}\nunlimited\b|\bmemlock\s{1,12}unlimited\b")
_SLURM = (
    " In Slurm PropagateResourceLimitsExcept=MEMLOCK keeps the submitting shell's limit out. Look by srun -l bash -c "
    "'ulimit -l': each node must say unlimited"
)


def limit_of_service(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The service that starts ranks has a small limit of its own, whatever a login may lock."""
    for text in texts:
        for found in islice(_SHOWN.finditer(text.text), 16):
            much, of = int(found["bytes"] or found["bytes_"]), found["of"] or found["of_"]
            if much < 1024 * _LARGE:
                host = host_before(text, found.end())
                limit = f"LimitMEMLOCK={much}" if found["bytes"] else f"a limit of {much} bytes on locked memory"
                said = f"{of}{_on(host)} has {limit}, and hands {much // 1024} KiB on to its jobs"
                return _told((of, host, said), texts, (text, found.end() - 1))
        for found in islice(_UNIT.finditer(text.text), 16):
            if "[Service]" not in found["rows"] or "ExecStart" not in found["rows"] or "MEMLOCK" in found["rows"]:
                continue
            job = _in_job(texts)
            if job is None:
                continue
            said = f"the unit of {found['of']} has no LimitMEMLOCK, and its jobs may lock {job[0]} KiB alone"
            return _told((found["of"], "", said), texts, job[1], (text, found.start()))
    return None


def _in_job(texts: Sequence[Text]) -> tuple[int, tuple[Text, int]] | None:
    """The smallest limit that a job's own shells show, in KiB, and where."""
    for text in texts:
        for asked in islice(_ASKED.finditer(text.text), 16):
            if _OTHERS_FIRST.search(asked[0].partition("\n")[0]):
                continue
            for row in asked["rows"].split("\n"):
                found = _ROW.match(row)
                if found is not None and found["kib"] != "unlimited" and int(found["kib"]) < _LARGE:
                    return int(found["kib"]), (text, asked.start("rows") + asked["rows"].index(row))
    return None


def _told(of: tuple[str, str, str], texts: Sequence[Text], *seen: tuple[Text, int]) -> Sharper:
    """What service it is, on which host, and what is said of it."""
    service, host, said = of
    login = any(_OF_LOGIN.search(text.text) for text in texts)
    though = ", though logins have no limit" if login else ""
    where = f"on {named(host, 40)}" if host else "on all nodes"
    logins = " limits.conf counts for logins alone." if login else ""
    return Sharper(
        f"{said}: too little for RDMA's queues{though}",
        f"{where}: systemctl edit {service}, [Service] LimitMEMLOCK=infinity, then systemctl daemon-reload and "
        f"systemctl restart {service}.{logins}{_SLURM if service == 'slurmd' else ''}. Memory of the host and the NIC "
        "are not at fault",
        tuple(text.evidence(at) for text, at in seen),
    )


def _on(host: str) -> str:
    return f" on {named(host, 40)}" if host else ""
