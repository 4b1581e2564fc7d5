"""Saved output of nvidia-smi and lspci: the machine in it, and a sentence where it is none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.base.errors import UserError
from busbw.machine.topology.load import from_bytes
from busbw.machine.topology.lspci import read_lspci
from busbw.machine.topology.model import SWITCH, PathType, PcieLink
from busbw.machine.topology.smi_matrix import legend, read_matrix, write_matrix
from busbw.machine.topology.smi_nvlink import read_nvlink_status
from busbw.machine.topology.smi_query import read_query

MATRIX = """\
\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tSYS\tPIX\t0-3,8\t0\t\tN/A
GPU1\tNV12\t X \tSYS\tNODE\t0-3,8\t0\t\tN/A
GPU2\tSYS\tSYS\t X \tSYS\t4-7\t1\t\tN/A
NIC0\tPIX\tNODE\tSYS\t X \t\t\t\t

Legend:

  X    = Self

NIC Legend:

  NIC0: mlx5_ib0
"""


def test_the_matrix_is_read_with_processors_nodes_and_names_of_nics() -> None:
    machine = read_matrix(MATRIX, "m")
    assert [(gpu.numa, gpu.cpus, gpu.nvlink_count) for gpu in machine.gpus] == [
        (0, (0, 1, 2, 3, 8), 12), (0, (0, 1, 2, 3, 8), 12), (1, (4, 5, 6, 7), 0),
    ]  # fmt: skip
    pair = machine.between("GPU1", "mlx5_ib0")
    assert pair is not None and pair.path is PathType.NODE
    assert machine.nics[0].rdma and not machine.all_nvlink
    # Azure's accelerated networking carries sockets.
    assert not read_matrix(MATRIX.replace("mlx5_ib0", "mlx5_an0"), "m").nics[0].rdma


def test_equal_links_to_every_peer_of_a_larger_machine_are_a_switch() -> None:
    rows = [f"GPU{i}  " + "  ".join("X" if i == j else "NV18" for j in range(4)) for i in range(4)]
    machine = read_matrix("      GPU0 GPU1 GPU2 GPU3\n" + "\n".join(rows), "m")
    assert [(link.target, link.count) for link in machine.gpus[3].nvlinks] == [(SWITCH, 18)]
    assert machine.all_nvlink


def test_one_gpu_with_fewer_links_does_not_hide_behind_the_least_of_a_row() -> None:
    cells = [["X" if i == j else "NV16" if 2 in (i, j) else "NV18" for j in range(4)] for i in range(4)]
    rows = [f"GPU{i}  " + "  ".join(row) for i, row in enumerate(cells)]
    machine = read_matrix("      GPU0 GPU1 GPU2 GPU3\n" + "\n".join(rows), "m")
    assert [gpu.nvlink_count for gpu in machine.gpus] == [18, 18, 16, 18]


def test_gpus_of_amd_are_named() -> None:
    with pytest.raises(UserError, match="GPUs of AMD"):
        from_bytes(b"======= ROCm System Management Interface =======\n GPU0 GPU1\n", "r")
    line = b"0000:0c:00.0 Processing accelerators: Advanced Micro Devices [AMD/ATI] Aqua [Instinct MI300X]\n"
    (gpu,) = from_bytes(line, "l").machine.gpus
    assert gpu.name == "AMD GPU"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nothing", "shows no matrix"),
        ("\tGPU0\tGPU1\nGPU0\tX\tNV4\n", "no row for GPU1"),
        ("\tGPU0\tGPU1\nGPU0\tX\tFAST\nGPU1\tNV4\tX\n", "m:2: the row of GPU0"),
        ("\tGPU0\tGPU0\nGPU0\tX\tX\n", "two of one name"),
        ("\tGPU0\t" + "\t".join(f"GPU{i}" for i in range(1, 999)), "columns"),
    ],
)
def test_a_matrix_that_is_none_is_a_sentence(text: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        read_matrix(text, "m")
    assert says in str(caught.value)


def test_a_written_matrix_is_read_back_and_keeps_to_80_columns() -> None:
    rows = [f"GPU{i}  " + "  ".join("X" if i == j else "NV18" for j in range(16)) + "  0-7  0" for i in range(16)]
    machine = read_matrix("  " + "  ".join(f"GPU{j}" for j in range(16)) + "\n" + "\n".join(rows), "m")
    lines = write_matrix(machine)
    assert max(map(len, lines)) <= 80 and any(not line for line in lines)
    small = read_matrix(MATRIX, "m")
    again = read_matrix("\n".join(write_matrix(small)).replace("mlx5_ib0", "NIC0"), "again")
    assert [pair.text for pair in again.connections] == [pair.text for pair in small.connections]
    assert "SYS   the interconnect between NUMA nodes (UPI, Infinity Fabric)" in legend(small)


def test_link_states_name_active_and_inactive_links() -> None:
    text = (
        "GPU 0: NVIDIA H200 (UUID: GPU-1-2)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n"
        "GPU 1: NVIDIA H200 (UUID: GPU-3)\n\t Link 0: 26.562 GB/s\n"
    )
    first, second = read_nvlink_status(text, "n")
    assert (first.active_GBps, first.inactive, second.inactive, second.line) == ((26.562,), 1, 0, 4)
    machine = from_bytes(text.encode(), "n").machine
    assert [(gpu.sm, gpu.nvlink_count, gpu.nvlinks_down) for gpu in machine.gpus] == [(90, 1, 1), (90, 1, 0)]
    with pytest.raises(UserError, match="shows no links"):
        read_nvlink_status("GPU 0: x\n", "n")


LSPCI = """\
0000:17:00.0 PCI bridge: Broadcom / LSI PEX880xx (rev b0)
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 16GT/s, Width x16
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
0001:00:00.0 3D controller: NVIDIA Corporation GV100GL [Tesla V100 PCIe 16GB] (rev a1)
\tNUMA node: 1
\t\tLnkCap:\tPort #0, Speed 8GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)
81:00.0 Infiniband controller: Mellanox Technologies MT28908 Family [ConnectX-6]
"""


def test_lspci_gives_links_now_and_at_most_numa_nodes_and_access_control() -> None:
    bridge, gpu, nic = read_lspci(LSPCI, "l")
    assert bridge.redirects and not gpu.redirects
    assert (gpu.pcie, gpu.numa, gpu.line) == (PcieLink(1, 8, 3, 16), 1, 5)
    assert nic.bus_id == "0000:81:00.0"
    machine = from_bytes(LSPCI.encode(), "l").machine
    assert (machine.gpus[0].name, machine.nics[0].rdma) == ("Tesla V100 PCIe 16GB", True)


QUERY = b"""<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
<driver_version>580.1</driver_version>
<gpu id="00000001:00:00.0">
 <product_name>NVIDIA A100 80GB PCIe</product_name><minor_number>0</minor_number>
 <mig_mode><current_mig>Enabled</current_mig></mig_mode>
 <pci><pci_gpu_link_info><pcie_gen><max_link_gen>4</max_link_gen><current_link_gen>3</current_link_gen></pcie_gen>
  <link_widths><max_link_width>16x</max_link_width><current_link_width>8x</current_link_width></link_widths>
 </pci_gpu_link_info></pci>
 <performance_state>P0</performance_state>
 <clocks_event_reasons><clocks_event_reason_hw_thermal_slowdown>Active</clocks_event_reason_hw_thermal_slowdown>
  <clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle></clocks_event_reasons>
 <fb_memory_usage><total>81920 MiB</total><used>5000 MiB</used></fb_memory_usage>
 <utilization><gpu_util>97 %</gpu_util></utilization>
 <ecc_errors><volatile><sram_uncorrectable_parity>0</sram_uncorrectable_parity>
  <dram_uncorrectable>3</dram_uncorrectable></volatile></ecc_errors>
 <remapped_rows><remapped_row_unc>2</remapped_row_unc><remapped_row_pending>Yes</remapped_row_pending>
  <remapped_row_failure>No</remapped_row_failure></remapped_rows>
 <temperature><gpu_temp>91 C</gpu_temp></temperature>
 <clocks><sm_clock>600 MHz</sm_clock></clocks><max_clocks><sm_clock>1410 MHz</sm_clock></max_clocks>
 <processes><process_info><pid>77</pid><type>C</type><process_name>/usr/bin/python3</process_name>
  <used_memory>4096 MiB</used_memory></process_info></processes>
</gpu></nvidia_smi_log>"""


def test_the_query_gives_the_state_of_every_gpu() -> None:
    [gpu], driver = read_query(QUERY, "q")
    assert driver.version == "580.1"
    assert (gpu.bus_id, gpu.pcie, gpu.mig, gpu.pstate, gpu.slowdowns) == (
        "0001:00:00.0", PcieLink(3, 8, 4, 16), True, 0, ("hw_thermal",),
    )  # fmt: skip
    assert (gpu.ecc_uncorrected, gpu.rows_remapped_uncorrected, gpu.row_remap_pending, gpu.row_remap_failed) == (
        3, 2, True, False,
    )  # fmt: skip
    assert (gpu.processes[0].pid, gpu.processes[0].name, gpu.processes[0].memory_MiB) == (77, "python3", 4096.0)
    assert (gpu.utilisation_percent, gpu.sm_clock_MHz, gpu.temperature_C) == (97.0, 600.0, 91.0)
    assert from_bytes(QUERY, "q").machine.gpus[0].sm == 80


def test_a_graph_file_given_as_a_topology_is_told_apart() -> None:
    with pytest.raises(UserError, match="give it as --graph"):
        from_bytes(b"<graphs version='1'/>", "g")


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.text(alphabet=" GPU01XNVSY\t\n<>/", max_size=200).map(str.encode)))
def test_garbage_is_a_sentence_or_a_machine(data: bytes) -> None:
    try:
        assert from_bytes(data, "x").machine.source == "x"
    except UserError as problem:
        assert "\n" not in str(problem)
