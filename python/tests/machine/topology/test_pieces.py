"""Several outputs in one text: each is read by its own reader, and what is left over keeps its place."""

from __future__ import annotations

import pytest

from busbw.machine.topology.lspci import machine_of, read_lspci
from busbw.machine.topology.model import SWITCH, PathType
from busbw.machine.topology.pieces import read_pieces, shows_machine
from busbw.machine.topology.port_rows import read_ports
from busbw.machine.topology.smi_rows import read_queried, read_table
from busbw.machine.topology.smi_text import read_text

MATRIX = (
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV12\tPIX\t0-31\t0\nGPU1\tNV12\t X \tSYS\t32-63\t1\n"
)
MATRIX += "NIC0\tPIX\tSYS\t X \n\nNIC Legend:\n\n  NIC0: mlx5_3\n"
LSPCI = "07:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 40GB] [10de:20b0] (rev a1)\n"
LSPCI += "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n\t\tLnkSta:\tSpeed 16GT/s, Width x16\n"
TABLE = """\
|   0  NVIDIA A100-SXM4-40GB          On  | 00000000:07:00.0 Off |                    2 |
| N/A   31C    P8              52W / 400W |   1024MiB / 40960MiB |     37%      Default |
|                                         |                      |             Disabled |
+-----------------------------------------+----------------------+----------------------+
|   1  NVIDIA A100-SXM4-40GB          On  | 00000000:0F:00.0 Off |                  N/A |
| N/A   40C    P0              52W / 400W |      3MiB / 40960MiB |      0%      Default |
|                                         |                      |              Enabled |
"""
QUERIED = (
    "index, name, pstate, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, utilization.gpu [%]\n"
)
QUERIED += "0, NVIDIA A100-SXM4-40GB, P0, 3, 4, 16, 98 %\n1, NVIDIA A100-SXM4-40GB, P8, 1, 4, 8, [N/A]\n"
LISTING = """\
GPU 00000000:07:00.0
    Product Name                          : NVIDIA A100-SXM4-40GB
    Performance State                     : P8
    MIG Mode
        Current                           : Enabled
        Pending                           : Enabled
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 4
                Current                   : 1
            Link Width
                Max                       : 16x
                Current                   : 8x
    FB Memory Usage
        Total                             : 40960 MiB
        Used                              : 12 MiB
    BAR1 Memory Usage
        Total                             : 65536 MiB
    Clocks Event Reasons
        Idle                              : Active
"""


def test_the_table_of_nvidia_smi_is_read() -> None:
    first, second = read_table(TABLE.split("\n"))
    assert (first.bus_id, first.pstate, first.utilisation_percent, first.ecc_uncorrected) == ("0000:07:00.0", 8, 37, 2)
    assert (first.memory_used_MiB, first.memory_total_MiB, first.mig) == (1024, 40960, False)
    assert (second.index, second.ecc_uncorrected, second.mig) == (1, None, True)


def test_rows_of_a_query_are_read_by_the_names_of_their_columns() -> None:
    first, second = read_queried(QUERIED.split("\n"))
    assert (first.pcie.generation, first.pcie.max_generation, first.pcie.width) == (3, 4, 16)
    assert (first.pstate, first.utilisation_percent, second.utilisation_percent) == (0, 98, None)
    assert read_queried(["index, a thing", "0, 1"]) == ()


def test_the_listing_of_nvidia_smi_is_read() -> None:
    (state,) = read_text(LISTING.split("\n"))
    assert (state.bus_id, state.pstate, state.mig, state.bar1_MiB) == ("0000:07:00.0", 8, True, 65536)
    assert (state.pcie.generation, state.pcie.width, state.pcie.max_width) == (1, 8, 16)
    assert state.slowdowns == ("idle",) and state.memory_total_MiB == 40960


@pytest.mark.parametrize(
    ("text", "rate", "up"),
    [
        ("CA 'mlx5_3'\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n", 400, True),
        ("CA 'mlx5_3'\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Polling\n\t\tRate: 10\n", 10, False),
        (
            "Infiniband device 'mlx5_3' port 1 status:\n\tstate:\t\t 4: ACTIVE\n\trate:\t\t 200 Gb/sec (4X HDR)\n",
            200,
            True,
        ),
        ("hca_id:\tmlx5_3\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_DOWN (1)\n", None, False),
        ("mlx5_3 port 1 ==> ib3 (Up)\n", None, True),
    ],
)
def test_ports_are_read_from_each_listing(text: str, rate: float | None, up: bool) -> None:
    port = read_ports(text.split("\n"))["mlx5_3"]
    assert (port.rate_Gbps, port.up) == (rate, up)


def test_a_loop_over_devices_tells_whose_detail_it_is_and_the_rate_at_work_counts() -> None:
    text = LSPCI.replace("LnkSta:\tSpeed 16GT/s", "LnkSta:\tSpeed 2.5GT/s (downgraded)")
    text += "3c:04.0\n\t\tACSCtl:\tSrcValid+ ReqRedir+ CmpltRedir+ UpstreamFwd+\n"
    text += "a@n:~$ lspci -vv -s 07:00.0 | grep LnkSta\n\t\tLnkSta:\tSpeed 16GT/s, Width x16\n"
    found = {each.bus_id: each for each in read_lspci(text, "x")}
    assert [bus for bus, each in found.items() if each.redirects] == ["0000:3c:04.0"]
    assert found["0000:07:00.0"].pcie.generation == 4 and found["0000:07:00.0"].varied
    assert machine_of(tuple(found.values()), "x").gpus[0].pcie.generation == 4


def test_outputs_are_put_together_and_what_is_left_keeps_its_line() -> None:
    text = f"it is slow:\n{MATRIX}$ nvidia-smi\n{TABLE}mlx5_3 port 1 ==> ib3 (Down)\nNVRM: Xid 79\n"
    found = read_pieces(text, "paste")
    assert found is not None and shows_machine(text)
    assert [gpu.name for gpu in found.machine.gpus] == ["NVIDIA A100-SXM4-40GB"] * 2
    (nic,) = found.machine.nics
    assert (nic.name, nic.up) == ("mlx5_3", False)
    left = [(at, line) for at, line in enumerate(found.rest.split("\n"), 1) if line]
    assert left == [(1, "it is slow:"), (text.count("\n"), "NVRM: Xid 79")]


def test_a_list_of_links_counts_better_than_the_cells_of_a_matrix_and_keeps_its_paths() -> None:
    one = "GPU {0}: A100 (UUID: GPU-{0})\n"
    links = "".join(one.format(i) + "\t Link 0: 25 GB/s\n" * (12 - i) + "\t Link 9: <inactive>\n" * i
                    for i in (0, 1))  # fmt: skip
    found = read_pieces(MATRIX.replace("NV12", "NV11") + links, "paste")
    assert found is not None
    assert [(gpu.nvlink_count, gpu.nvlinks_down) for gpu in found.machine.gpus] == [(12, 0), (11, 1)]
    pair = found.machine.between("GPU1", "mlx5_3")
    assert pair is not None and pair.path is PathType.SYS
    assert read_pieces(links, "paste") is None, "alone it may be a part of one"


def test_matrices_of_several_machines_are_each_read() -> None:
    found = read_pieces(f"n1\n{MATRIX}n2\n{MATRIX.replace('NV12', 'NV8')}", "paste")
    assert found is not None and len(found.others) == 1
    assert [each.gpus[0].nvlink_count for each in (found.machine, *found.others)] == [12, 8]
    assert [line for line in found.rest.split("\n") if line] == ["n1", "n2"]


def test_more_gpus_of_lspci_than_of_a_matrix_are_counted() -> None:
    more = LSPCI + LSPCI.replace("07:00", "0f:00") + LSPCI.replace("07:00", "47:00")
    found = read_pieces(more + MATRIX, "paste")
    assert found is not None and (found.listed, len(found.machine.gpus)) == (3, 2)
    found = read_pieces(LSPCI + LSPCI.replace("07:00", "0f:00") + MATRIX, "paste")
    assert found is not None and found.listed is None
    assert [gpu.bus_id for gpu in found.machine.gpus] == ["0000:07:00.0", "0000:0f:00.0"]


def test_a_gpu_that_shows_no_links_hides_no_switch() -> None:
    rows = ["GPU0\t X \tNV18\tNV18\tSYS\t0", "GPU1\tNV18\t X \tNV18\tSYS\t0", "GPU2\tNV18\tNV18\t X \tSYS\t0"]
    text = "\n".join(["\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity", *rows, "GPU3\tSYS\tSYS\tSYS\t X \t0"])
    found = read_pieces(text, "paste")
    assert found is not None
    assert [(link.target, link.count) for link in found.machine.gpus[0].nvlinks] == [(SWITCH, 18)]
