"""What a program was doing when it failed: told by the words of its sentence where only the program is known."""

from __future__ import annotations

import re
from dataclasses import replace

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.meanings import act_rows
from busbw.doctor.meanings.families import Family, read

_LOOK = 400
MAX_WORDS = 110
_NETWORK = tuple(read(act_rows.NETWORK))
_SLURM = tuple(read(act_rows.SLURM))
WHO = {
    "efa-error": "EFA (libfabric, aws-ofi-nccl)",
    "mpi-network": "the transport of MPI or NIXL (UCX, UCC, libfabric, TCP)",
    "nvshmem-init": "NVSHMEM",
    "slingshot": "the NIC of Slingshot (libfabric cxi)",
    "slurm-error": "Slurm",
    "mpi-other": "MPI",
    "ibv-call-failed": "RDMA (verbs)",
}
"""Findings that tell who failed, by a name of it that says nothing of why."""
_KEPT = frozenset({"mpi-other", "nvshmem-init"})
"""Their own cure fits all that they do: it stays behind the act's."""
_ROWS = {name: _SLURM if name == "slurm-error" else _NETWORK for name in WHO}
_HEAD = re.compile(
    r"^.*?(?:NCCL WARN (?:NET/OFI )?|<warn> ?|UC[XC] +(?:ERROR|FATAL|WARN) +|\bTL_\w{2,8} +ERROR +"
    r"|non-zero status: \d+:? ?|\b[A-Z]\w{2,40}(?:Error|Exception): "
    r"|\b(?:srun|sbatch|salloc|slurm\w*): (?:error|fatal): |\b(?:ERROR|FATAL|WARN)\W{1,3})"
)


def sentence(line: str) -> str:
    """What a line says, without who says it and where."""
    return clean(_HEAD.sub("", line[:_LOOK], count=1)).strip()


def act_in(text: str, *, of: str) -> Family | None:
    """What failed, by the first row whose words the sentence holds."""
    return next((each for each in _ROWS.get(of, ()) if each.words.search(text)), None)


def with_act(finding: Finding, coded: Finding) -> Finding:
    """The finding with what failed in its title; `coded`: it with what a code tells of how, or itself."""
    if finding.severity is Severity.NOTE or finding.name not in WHO or not finding.evidence:
        return coded
    who, how = WHO[finding.name], coded.title[len(finding.title) :]
    for seen in finding.evidence:
        said = sentence(seen.fact)
        act = act_in(said, of=finding.name)
        if act is None:
            continue
        title = f"{who}: {act.meaning}{how} ({shortened(said, MAX_WORDS)})"
        broad = act.broad or finding.name in _KEPT
        if how:
            # The cure of the code stands first: it is of how it failed, the act's of what.
            return replace(finding, title=title, fix=coded.fix.replace(f"Also: {finding.fix}", f"Also: {act.cure}"))
        return replace(finding, title=title, fix=f"{act.cure}. Also: {finding.fix}" if broad else act.cure)
    said = sentence(finding.evidence[0].fact)
    return coded if how or not said else replace(coded, title=f"{who} reports: {shortened(said, MAX_WORDS)}")
