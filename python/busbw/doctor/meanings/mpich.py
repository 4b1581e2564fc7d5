"""What MPICH's error stack means: its innermost sentence tells the cause, the calls above it do not."""

from __future__ import annotations

import re
from dataclasses import replace

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.finding import Finding
from busbw.doctor.meanings.families import Family, read
from busbw.doctor.meanings.sentences import meant

NAME = "mpi-error"
MAX_SAID = 160
DEEPEST = 16
"""Lines of an error stack."""
_FRAME = re.compile(
    r"^\W{0,6}(?:\[[^\]\n]{1,40}\] ?)?[A-Za-z_]\w{2,80}\(\d{1,6}\)\.*: ?(?P<said>.{0,400})$", re.MULTILINE
)
_CALL = re.compile(
    r"^(?:P?MPI\w*|internal_\w+|PMPI\w*)\(.*\) failed\W*$|^failure occurred while\b|^\(unknown\)|^fail failed$"
)
_ROWS = r"""
truncated|sizes? (?:do|does) not match|mismatch|did(?:n't| not) match|collective.{0,40}(?:differ|order) ; ranks do not \
agree on a message: its size, its type or the call differs ; the same call, count and type on all ranks of the \
communicator, in the same order; a receive at least as large as what is sent
more than once|MPI_Finalize|after (?:MPI_)?finaliz|before MPI_|not (?:been )?initialized|already (?:been \
)?(?:initialized|freed|finalized) ; MPI was started or ended more than once, or used outside of that ; one MPI_Init \
and one MPI_Finalize in each process (mpi4py does both by itself: mpi4py.rc), none in libraries; no call of MPI after it
business card|host/port description|port name|lpid|nodemap|\bPMI\w*|\bKVS|kvs|barrier_in|spawn ; the processes could \
not tell each other where they are (PMI) ; start with the mpiexec of this MPI, or srun --mpi=pmi2 or pmix as this MPI \
was built; one MPI on all hosts; host names that resolve on all of them
\b(?:OFI|ofi|libfabric|fi_\w+|provider|av_insert|address vector|endpoint)\b ; MPI's network (libfabric) could not be \
used on that host ; fi_info on each host must list the provider; name it and the network: FI_PROVIDER=verbs;ofi_rxm, \
psm3 or tcp, FI_TCP_IFACE, UCX_NET_DEVICES. FI_LOG_LEVEL=warn tells why it refused
\b(?:UCX|ucx|ucp|uct|worker)\b ; MPI's network (UCX) could not be used on that host ; ucx_info -d on each host; \
UCX_TLS and UCX_NET_DEVICES of devices that all hosts have; UCX_LOG_LEVEL=info tells which it refused
connect|socket|\b(?:recv|send|read|write)\b.{0,40}\bfail|[Cc]ommunication error|poll|\bbind|listen|inet_|gethostby|\
hostname|host name|process.{0,20}(?:failed|died|terminated)|revoked|connection|channel ; a process is not reached, or \
the connection to it ended: it failed first, or the network between the hosts blocks it ; look for the rank that ended \
first; host names that resolve everywhere, one network for all (MPIR_CVAR_CH3_INTERFACE_HOSTNAME, FI_TCP_IFACE), ports \
open (MPIR_CVAR_CH3_PORT_RANGE)
\b[Oo]ut of memory|memory alloc|\bmalloc|mmap|shared.?mem|\bshm|ftruncate|attach|allocate|segment ; memory of the host \
or /dev/shm could not be had ; free -g and df -h /dev/shm on that host; a larger --shm-size or --ipc=host, fewer \
processes a host
\bfile|amode|\bread(?:ing)?\b|I/O|directory|quota|[Pp]ermission|space|view|file pointers ; a call of MPI-IO was \
refused ; look at path, mode and rights of the file, space and quota, and that all ranks open it alike
not (?:supported|implemented|permitted|enabled|available)|disabled|unsupported ; this build of MPI cannot do that ; \
another call, type or transport; a build of MPI that has it (mpichversion shows how it was built)
[Ii]nvalid|[Nn]ull|[Nn]egative|must (?:be|not)|out of range|not in range|[Mm]issing|too (?:large|small|many|long|big)|\
\bbad\b|no (?:such|error|key|matching)|[Cc]annot|had no|duplicate|unable to parse|associated|same node|exceed ; the \
program passed MPI an argument that it refuses ; look at the call that the stack names first, on that rank: rank, tag, \
count, root, type, communicator or window; do not free or reuse it before
[Ii]nternal|assert|should not ; MPI met a state that its own checks forbid: mixed builds, memory written over, or a \
fault of it ; one build of MPI and of its transport on all hosts; run under valgrind or with a debug build; the newest \
patch release
"""
_FAMILIES: tuple[Family, ...] = tuple(read(_ROWS))


def innermost(after: str) -> str:
    """The last sentence of the error stack in these lines that is no call of MPI; "" where there is none."""
    said = [found["said"].strip(" .\\") for found in _FRAME.finditer(after)]
    return next((each for each in reversed(said) if len(each) > 4 and not _CALL.match(each)), "")


def with_stack(finding: Finding, after: str) -> Finding:
    """The finding with what its error stack says innermost, and the cure of that kind."""
    said = innermost(after)
    if finding.name != NAME or not said:
        return finding
    words = shortened(clean(said), MAX_SAID)
    family = next((each for each in _FAMILIES if each.words.search(said)), None)
    if family is not None:
        return replace(finding, title=f"{finding.title}: {family.meaning}: {words}", fix=family.cure)
    form = meant(said)
    if form is not None:
        return replace(finding, title=f"{finding.title}: {form[0]}: {words}", fix=f"{form[1]}. Also: {finding.fix}")
    return replace(finding, title=f"{finding.title}: {words}")
