"""Reads `nvidia-smi -q -x`: the state of every GPU, for machines without nvidia-ml-py and for saved files."""

from __future__ import annotations

import re
from collections.abc import Callable

from busbw.base.errors import UserError
from busbw.machine.nccl.safe_xml import Node, parse
from busbw.machine.topology.gpu_state import Driver, GpuProcess, GpuState, program_of
from busbw.machine.topology.model import PcieLink, normal_bus_id

_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,6})?")
_SLOWDOWNS = {
    "hw_slowdown": "hw_slowdown",
    "hw_thermal_slowdown": "hw_thermal",
    "hw_power_brake_slowdown": "hw_power_brake",
    "sw_thermal_slowdown": "sw_thermal",
    "sw_power_cap": "sw_power_cap",
    "applications_clocks_setting": "applications_clocks",
    "sync_boost": "sync_boost",
    "gpu_idle": "idle",
}


def read_query(data: bytes, source: str) -> tuple[tuple[GpuState, ...], Driver]:
    """Every GPU of the output; UserError where it is no output of `nvidia-smi -q -x`."""
    root = parse(data, source, doctype=True)
    if root.tag != "nvidia_smi_log":
        raise UserError(f"{source}:{root.line}: the root is <{root.tag[:40]}>, `nvidia-smi -q -x` writes another")
    gpus = tuple(_gpu(node, index) for index, node in enumerate(root.all("gpu")))
    return gpus, Driver(_text(root, "driver_version"), "nvidia-smi -q -x")


def _gpu(node: Node, index: int) -> GpuState:
    link = node.find("pci/pci_gpu_link_info") or Node("none", node.line)
    reasons = node.find("clocks_event_reasons") or node.find("clocks_throttle_reasons") or Node("none", node.line)
    power = node.find("gpu_power_readings") or node.find("power_readings") or Node("none", node.line)
    bus = node.attributes.get("id") or _text(node, "pci/pci_bus_id")
    pstate = re.fullmatch(r"P(\d{1,2})", _text(node, "performance_state") or "")
    return GpuState(
        index=index,  # NVML counts what this process may see; minor numbers count the whole host
        bus_id=normal_bus_id(bus) if bus else None,
        name=_text(node, "product_name"),
        pcie=PcieLink(
            _whole(link, "pcie_gen/current_link_gen"),
            _whole(link, "link_widths/current_link_width"),
            _whole(link, "pcie_gen/max_link_gen"),
            _whole(link, "link_widths/max_link_width"),
        ),
        utilisation_percent=_number(node, "utilization/gpu_util"),
        memory_used_MiB=_number(node, "fb_memory_usage/used"),
        memory_total_MiB=_number(node, "fb_memory_usage/total"),
        pstate=int(pstate[1]) if pstate else None,
        sm_clock_MHz=_number(node, "clocks/sm_clock"),
        max_sm_clock_MHz=_number(node, "max_clocks/sm_clock"),
        application_clock_MHz=_number(node, "applications_clocks/graphics_clock"),
        default_application_clock_MHz=_number(node, "default_applications_clocks/graphics_clock"),
        slowdowns=_slowdowns(reasons),
        temperature_C=_number(node, "temperature/gpu_temp"),
        power_limit_W=_first(power, _number, "current_power_limit", "enforced_power_limit", "power_limit"),
        default_power_limit_W=_number(power, "default_power_limit"),
        mig=_switch(node, "mig_mode/current_mig"),
        ecc_uncorrected=_ecc(node),
        rows_remapped_uncorrected=_whole(node, "remapped_rows/remapped_row_unc"),
        row_remap_pending=_switch(node, "remapped_rows/remapped_row_pending"),
        row_remap_failed=_switch(node, "remapped_rows/remapped_row_failure"),
        compute_mode=_text(node, "compute_mode"),
        ecc=_switch(node, "ecc_mode/current_ecc"),
        ecc_pending=_switch(node, "ecc_mode/pending_ecc"),
        persistence=_switch(node, "persistence_mode"),
        bar1_MiB=_number(node, "bar1_memory_usage/total"),
        vbios=_text(node, "vbios_version"),
        processes=_processes(node),
    )


def _slowdowns(reasons: Node) -> tuple[str, ...]:
    active = {child.tag.split("_reason_", 1)[-1] for child in reasons.children if child.text == "Active"}
    return tuple(short for long, short in _SLOWDOWNS.items() if long in active)


def _processes(node: Node) -> tuple[GpuProcess, ...]:
    found = node.find("processes") or Node("none", node.line)
    return tuple(
        GpuProcess(
            pid=_whole(each, "pid") or 0,
            name=program_of(_text(each, "process_name")),
            memory_MiB=_number(each, "used_memory"),
            compute="C" in (_text(each, "type") or "C"),
        )
        for each in found.all("process_info")[:1000]
    )


def _ecc(node: Node) -> int | None:
    volatile = node.find("ecc_errors/volatile")
    if volatile is None:
        return None
    counts = [
        int(each.text)
        for each in volatile.walk()
        if "uncorrectable" in each.tag and each.text.isdecimal() and len(each.text) < 16
    ]
    double = volatile.find("double_bit/total")
    if double is not None and double.text.isdecimal():
        counts.append(int(double.text))
    return sum(counts) if counts else None


def _text(node: Node, path: str) -> str | None:
    found = node.find(path)
    return found.text if found is not None and found.text and found.text not in {"N/A", "[N/A]"} else None


def _number(node: Node, path: str) -> float | None:
    match = _NUMBER.match(_text(node, path) or "")
    return float(match[0]) if match else None


def _whole(node: Node, path: str) -> int | None:
    value = _number(node, path)
    return int(value) if value is not None else None


def _switch(node: Node, path: str) -> bool | None:
    text = _text(node, path)
    return None if text is None else text.lower() in {"yes", "enabled", "active"}


def _first(node: Node, read: Callable[[Node, str], float | None], *paths: str) -> float | None:
    return next((value for path in paths if (value := read(node, path)) is not None), None)
