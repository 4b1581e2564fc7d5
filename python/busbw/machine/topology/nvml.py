"""Asks NVML through nvidia-ml-py; the only file that imports it. What one driver does not answer stays None."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from busbw.machine.topology.cpulist import MAX_CPUS
from busbw.machine.topology.gpu_state import Driver, GpuProcess, GpuState, program_of
from busbw.machine.topology.model import SWITCH, NvLinks, PcieLink, normal_bus_id

MAX_LINKS = 36
# Bits of nvmlClocksEventReasons (nvml.h).
_SLOWDOWNS = {
    0x1: "idle", 0x2: "applications_clocks", 0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost",
    0x20: "sw_thermal", 0x40: "hw_thermal", 0x80: "hw_power_brake",
}  # fmt: skip
_SWITCH_DEVICE = 2  # NVML_NVLINK_DEVICE_TYPE_SWITCH


def read_nvml() -> tuple[tuple[GpuState, ...], Driver] | None:
    """Every GPU; None where nvidia-ml-py or the driver is not there."""
    try:
        nvml: Any = import_module("pynvml")
    except ImportError:
        return None
    asker = _Asker(nvml)
    if asker.ask("nvmlInit", default=False) is False:
        return None
    try:
        count = asker.ask("nvmlDeviceGetCount") or 0
        handles = [(index, asker.ask("nvmlDeviceGetHandleByIndex", index)) for index in range(min(count, 256))]
        states = [_Gpu(asker, index, handle).state() for index, handle in handles if handle is not None]
        version = asker.ask("nvmlSystemGetDriverVersion")
    finally:
        asker.ask("nvmlShutdown")
    return tuple(states), Driver(_text(version), "NVML")


class _Asker:
    """Calls functions of NVML by name; one that is absent, unsupported or not permitted answers with the default."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._error: type[Exception] = nvml.NVMLError

    def ask(self, name: str, *arguments: Any, default: Any = None) -> Any:
        function: Callable[..., Any] | None = getattr(self._nvml, name, None)
        if function is None:
            return default
        try:
            return function(*arguments)
        except (self._error, TypeError, ValueError, AttributeError, UnicodeDecodeError):
            return default

    def constant(self, name: str, default: int) -> int:
        return int(getattr(self._nvml, name, default))


class _Gpu:
    """One GPU."""

    def __init__(self, asker: _Asker, index: int, handle: Any) -> None:
        self._asker = asker
        self._index = index
        self._handle = handle

    def _ask(self, name: str, *arguments: Any, default: Any = None) -> Any:
        return self._asker.ask(f"nvmlDevice{name}", self._handle, *arguments, default=default)

    def state(self) -> GpuState:
        pci = self._ask("GetPciInfo")
        capability = self._ask("GetCudaComputeCapability")
        memory = self._ask("GetMemoryInfo")
        rates = self._ask("GetUtilizationRates")
        mig = self._ask("GetMigMode")
        remapped = self._ask("GetRemappedRows")
        ecc = self._ask("GetEccMode")
        persistence = self._ask("GetPersistenceMode")
        links, inactive, errors = self._links()
        clock_sm = self._asker.constant("NVML_CLOCK_SM", 1)
        return GpuState(
            index=self._index,
            bus_id=normal_bus_id(_text(pci.busId) or "") if pci is not None else None,
            name=_text(self._ask("GetName")),
            sm=capability[0] * 10 + capability[1] if capability else None,
            pcie=self._pcie(),
            nvlinks=links,
            nvlinks_inactive=inactive,
            nvlink_errors=errors,
            cpus=self._cpus(),
            utilisation_percent=float(rates.gpu) if rates is not None else None,
            memory_used_MiB=memory.used / (1 << 20) if memory is not None else None,
            memory_total_MiB=memory.total / (1 << 20) if memory is not None else None,
            pstate=_small(self._ask("GetPerformanceState"), 15),
            sm_clock_MHz=self._ask("GetClockInfo", clock_sm),
            max_sm_clock_MHz=self._ask("GetMaxClockInfo", clock_sm),
            application_clock_MHz=self._ask("GetApplicationsClock", clock_sm),
            default_application_clock_MHz=self._ask("GetDefaultApplicationsClock", clock_sm),
            slowdowns=self._slowdowns(),
            temperature_C=self._ask("GetTemperature", self._asker.constant("NVML_TEMPERATURE_GPU", 0)),
            power_limit_W=_watts(self._ask("GetEnforcedPowerLimit")),
            default_power_limit_W=_watts(self._ask("GetPowerManagementDefaultLimit")),
            mig=bool(mig[0]) if mig else None,
            ecc_uncorrected=self._ask("GetTotalEccErrors", 1, 0),  # uncorrected, since the driver was loaded
            rows_remapped_uncorrected=remapped[1] if remapped else None,
            row_remap_pending=bool(remapped[2]) if remapped else None,
            row_remap_failed=bool(remapped[3]) if remapped else None,
            ecc=bool(ecc[0]) if ecc else None,
            ecc_pending=bool(ecc[1]) if ecc else None,
            persistence=bool(persistence) if isinstance(persistence, int) else None,
            vbios=_text(self._ask("GetVbiosVersion")),
            processes=self._processes(),
        )

    def _pcie(self) -> PcieLink:
        return PcieLink(
            self._ask("GetCurrPcieLinkGeneration") or None,
            _small(self._ask("GetCurrPcieLinkWidth"), 32),
            self._ask("GetMaxPcieLinkGeneration") or None,
            _small(self._ask("GetMaxPcieLinkWidth"), 32),
        )

    def _links(self) -> tuple[tuple[NvLinks, ...], int, int | None]:
        counts: dict[tuple[str, int | None], int] = {}
        inactive = 0
        errors: int | None = None
        for link in range(MAX_LINKS):
            active = self._ask("GetNvLinkState", link)
            if active is None:
                continue
            if not active:
                inactive += 1
                continue
            key = (self._target(link), self._ask("GetNvLinkVersion", link))
            counts[key] = counts.get(key, 0) + 1
            # Replay, recovery and CRC of flits and data (nvmlNvLinkErrorCounter_t): each is a transfer made twice.
            seen = [self._ask("GetNvLinkErrorCounter", link, counter) for counter in range(4)]
            known = [value for value in seen if isinstance(value, int)]
            errors = (errors or 0) + sum(known) if known else errors
        return tuple(NvLinks(target, count) for (target, _), count in counts.items()), inactive, errors

    def _target(self, link: int) -> str:
        if self._ask("GetNvLinkRemoteDeviceType", link) == _SWITCH_DEVICE:
            return SWITCH
        remote = self._ask("GetNvLinkRemotePciInfo", link)
        bus = _text(remote.busId) if remote is not None else None
        # A guest is not told where its links end; only a switch is hidden so.
        return SWITCH if not bus or set(bus.lower()) <= set("f:.0") else normal_bus_id(bus)

    def _cpus(self) -> tuple[int, ...]:
        words = self._ask("GetCpuAffinity", MAX_CPUS // 64 // 8) or ()
        mask = sum(int(word) << (64 * i) for i, word in enumerate(words))
        return tuple(cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1)

    def _slowdowns(self) -> tuple[str, ...]:
        bits = self._ask("GetCurrentClocksEventReasons")
        if bits is None:
            bits = self._ask("GetCurrentClocksThrottleReasons") or 0
        return tuple(name for bit, name in _SLOWDOWNS.items() if bits & bit)

    def _processes(self) -> tuple[GpuProcess, ...]:
        found: dict[int, GpuProcess] = {}
        for kind, compute in (("Graphics", False), ("Compute", True)):
            for each in (self._ask(f"Get{kind}RunningProcesses") or [])[:1000]:
                name = _text(self._asker.ask("nvmlSystemGetProcessName", each.pid))
                used = each.usedGpuMemory
                found[each.pid] = GpuProcess(
                    each.pid,
                    program_of(name),
                    used / (1 << 20) if isinstance(used, int) and used < 1 << 50 else None,
                    compute,
                )
        return tuple(found.values())


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return str(value).strip("\x00 ") if value is not None else None


def _small(value: Any, most: int) -> int | None:
    return value if isinstance(value, int) and 0 <= value <= most else None


def _watts(milliwatts: Any) -> float | None:
    return milliwatts / 1000 if isinstance(milliwatts, int) else None
