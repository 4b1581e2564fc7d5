"""A GPU whose clock is held down: by heat, power, a slowdown of the hardware, or a low clock set by hand."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.machine.topology.gpu_state import GpuState

NAME = "gpu-throttled"
_PROOF = Proof(instruction="measure again once `nvidia-smi -q -d PERFORMANCE` shows no reason")
_REASONS = {
    "hw_slowdown": (Severity.ERROR, "the hardware slows it down (heat or power)"),
    "hw_thermal": (Severity.ERROR, "it is too hot for the hardware"),
    "hw_power_brake": (Severity.ERROR, "the power supply brakes it"),
    "sw_thermal": (Severity.WARNING, "the driver slows it down for its heat"),
    "sync_boost": (Severity.NOTE, "it keeps to the clock of its group"),
    "sw_power_cap": (Severity.NOTE, "it is at its power limit, as GPUs under load are"),
}
LOW = 0.8  # of the highest clock


def examine(facts: Facts) -> Iterator[Finding]:
    for gpu in facts.snapshot.gpus:
        where = facts.who_says(gpu)
        for reason in gpu.slowdowns:
            if reason in _REASONS:
                severity, what = _REASONS[reason]
                heat = f", {gpu.temperature_C:.0f} degrees" if gpu.temperature_C is not None else ""
                yield Finding(
                    NAME, severity, f"the clock of GPU{gpu.index} is held down: {what}",
                    (Evidence(f"clocks event reason {reason}{heat}", where),),
                    Cost("reductions and copies by kernels slow with the clock, and all ranks wait for the slowest"),
                    "check cooling, power and the rack's limits", _PROOF,
                )  # fmt: skip
        yield from _low_clock(gpu, where)
        yield from _low_power(gpu, where)


def _low_clock(gpu: GpuState, where: str) -> Iterator[Finding]:
    application, usual = gpu.application_clock_MHz, gpu.default_application_clock_MHz
    set_low = bool(application and usual and application < LOW * usual)
    now, most = gpu.sm_clock_MHz, gpu.max_sm_clock_MHz
    # The driver names a clock set by hand only while a GPU that works would run faster without it.
    busy = (gpu.utilisation_percent or 0) > 50 or "applications_clocks" in gpu.slowdowns
    at_work = gpu.pstate == 0 and "idle" not in gpu.slowdowns and busy
    runs_low = bool(at_work and now and most and now < 0.6 * most)
    if not set_low and not runs_low:
        return
    fact = (
        f"application clock {application:.0f} MHz of {usual:.0f} MHz" if set_low and application and usual
        else f"SM clock {now:.0f} MHz of {most:.0f} MHz under load"
    )  # fmt: skip
    yield Finding(
        NAME, Severity.WARNING, f"GPU{gpu.index} runs at a low clock", (Evidence(fact, where),),
        Cost("reductions slow with the clock; links keep their rate"),
        f"nvidia-smi -rac -i {gpu.index}; nvidia-smi -rgc -i {gpu.index}", _PROOF,
    )  # fmt: skip


def _low_power(gpu: GpuState, where: str) -> Iterator[Finding]:
    limit, usual = gpu.power_limit_W, gpu.default_power_limit_W
    if limit and usual and limit < 0.95 * usual:
        yield Finding(
            NAME, Severity.NOTE, f"the power limit of GPU{gpu.index} is lowered",
            (Evidence(f"{limit:.0f} W of {usual:.0f} W", where),), Cost("little for collectives alone"),
            f"nvidia-smi -pl {usual:.0f} -i {gpu.index}", _PROOF,
        )  # fmt: skip
