"""Binds a rank to processors under launchers that have no words for it: a few lines of sh that know the local rank."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.machine.topology.cpulist import write_list

# How each launcher tells a process its number on its host; the first that is set counts.
LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK", "SLURM_LOCALID")


def bound(argv: Sequence[str], cpu_sets: Sequence[frozenset[int]], *variables: str) -> tuple[str, ...]:
    """The same program, kept to the processors of its local rank. Its words are arguments of sh, never its text."""
    if not cpu_sets:
        return tuple(argv)
    return ("sh", "-c", script(cpu_sets, variables or LOCAL_RANKS), "busbw-bind", *argv)


def script(cpu_sets: Sequence[frozenset[int]], variables: Sequence[str]) -> str:
    """What sh does: nothing in it comes from people, only numbers."""
    local = "$" + "{" + ":-${".join(variables) + "}" * len(variables)
    cases = " ".join(f"{rank}) cpus={write_list(cpus)};;" for rank, cpus in enumerate(cpu_sets) if cpus)
    return f'case {local} in {cases} *) exec "$@";; esac; exec taskset -c "$cpus" "$@"'


def mask(cpus: frozenset[int]) -> str:
    """Numbers as one hexadecimal mask, which srun's mask_cpu takes."""
    return hex(sum(1 << cpu for cpu in cpus))
