"""Bundles side by side: what differs comes most suspicious first, and among several the odd one is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.doctor.facts import gather
from busbw.doctor.reading.bundle import write_bundle
from busbw.doctor.reading.snapshot import Snapshot, TextFile
from busbw.doctor.side_by_side import compare, lines
from busbw.machine.topology.gpu_state import Driver
from busbw.machine.topology.model import PcieLink

from .cases import healthy, host, machine, state


def test_equal_machines_have_no_difference() -> None:
    found = compare({"a": gather(healthy()), "b": gather(healthy())})
    assert found.differences == () and found.outlier is None and found.shared > 50


def test_a_bundle_without_facts_of_its_host_is_one_sentence() -> None:
    full = {name: gather(healthy()) for name in ("a", "b")}
    found = compare({**full, "few": gather(Snapshot("files"))})
    assert found.differences == () and set(found.bare) == {"few"} and found.bare["few"] > 50
    assert any("few holds no facts of its host" in each for each in lines(found))
    odd = compare({**full, "c": gather(healthy(driver=Driver("535.1", "nvml"))), "few": gather(Snapshot("files"))})
    assert [each.name for each in odd.differences] == ["driver"]
    assert "nothing can be compared" in " ".join(lines(compare({"a": full["a"], "few": gather(Snapshot("files"))})))


NARROW = PcieLink(5, 8, 5, 16)
BAD: dict[str, tuple[Snapshot, str]] = {
    "power limit": (healthy(gpus=tuple(state(i, power_limit_W=400.0 if i == 2 else 700.0) for i in range(4))),
                    "GPU2 power limit"),
    "heat": (healthy(gpus=tuple(state(i, slowdowns=("hw_thermal",) if i == 1 else ("idle",)) for i in range(4))),
             "GPU1 clock held down by"),
    "link": (healthy(gpus=(state(0, pcie=NARROW), *(state(i) for i in range(1, 4)))), "GPU0 PCIe link"),
    "driver": (healthy(driver=Driver("535.1", "nvml")), "driver"),
    "conf": (healthy(confs=(TextFile("/etc/nccl.conf", "NCCL_PROTO=LL\n"),)), "NCCL_PROTO"),
    "environment": (healthy(environment={"NCCL_MAX_NCHANNELS": "2"}), "NCCL_MAX_NCHANNELS"),
    "iommu": (healthy(host=host(iommu="translated")), "IOMMU"),
    "acs": (healthy(host=host(acs_redirects=("0000:10:01.0",))), "bridges with access control (ACS)"),
    "memlock": (healthy(host=host(memlock_KiB=64.0)), "locked memory limit"),
    "shm": (healthy(host=host(shm_total_MiB=64.0, shm_free_MiB=60.0)), "/dev/shm"),
    "rdma": (healthy(machine=machine(rdma=False)), "RDMA devices"),
    "nvlinks": (healthy(machine=machine(links=17)), "connections of pairs"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_planted_difference_is_named_and_its_machine_of_five_too(name: str) -> None:
    bad, wanted = BAD[name]
    bad = bad if name == "driver" else replace(bad, driver=Driver("550.1", "nvml"))
    others = {f"node{i}": gather(healthy(driver=Driver("550.1", "nvml"))) for i in range(4)}
    found = compare({**others, "node7": gather(bad)})
    named = [each.name for each in found.differences if not each.name.startswith("finding ")]
    assert named[0] == wanted or wanted in named[:3], named
    assert found.outlier == "node7"
    assert all(each.alone == ("node7",) for each in found.differences)


def test_broken_hardware_stands_before_settings_and_small_print() -> None:
    bad = healthy(
        gpus=tuple(state(i, row_remap_failed=i == 3, temperature_C=90.0) for i in range(4)),
        environment={"NCCL_IB_TC": "106"},
    )
    names = [each.name for each in compare({"a": gather(healthy()), "b": gather(bad)}).differences]
    assert names[0] == "finding gpu-faults"
    assert names.index("GPU3 row remapping failed") < names.index("NCCL_IB_TC") < names.index("GPU0 temperature")


def test_two_bundles_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, same = (str(tmp_path / f"{name}.tar.gz") for name in ("good", "bad", "same"))
    write_bundle(healthy(), Path(good))
    write_bundle(healthy(), Path(same))
    write_bundle(BAD["power limit"][0], Path(bad))
    assert main(["doctor", good, bad]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "most suspicious first" in said and "400 W" in said and "700 W" in said
    assert main(["doctor", good, same]) == 0
    assert "nothing differs" in capsys.readouterr().out
    assert main(["doctor", good, same, bad, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["outlier"] == bad
    assert main(["doctor", good, good]) == 2
    assert main(["doctor", good, bad, "--live"]) == 2


def test_a_small_value_is_told_as_it_is_and_not_as_zero() -> None:
    small = healthy(host=host(shm_total_MiB=64.0, memlock_KiB=64.0))
    found = compare({"a": gather(healthy()), "b": gather(small)})
    said = {each.name: each.values["b"] for each in found.differences}
    assert said["/dev/shm"] == "64 MiB" and said["locked memory limit"] == "64 KiB"
