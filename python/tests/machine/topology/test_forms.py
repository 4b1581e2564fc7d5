"""Topologies as people save and paste them: read as they are, or refused in a sentence that says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.machine.nccl.topology_writer import write_topology
from busbw.machine.topology.audit import hidden
from busbw.machine.topology.correct import correct
from busbw.machine.topology.load import from_bytes
from busbw.machine.topology.model import Machine

from .forms import READ, REFUSED, Seen

XML = b"""<system version="1">
  <cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:01:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="80" rank="0" gdr="1"/>
    </pci>
  </cpu>
</system>
"""


def read(data: str | bytes) -> Machine:
    return from_bytes(data if isinstance(data, bytes) else data.encode(), "f").machine


@pytest.mark.parametrize("name", READ)
def test_a_form_is_read(name: str) -> None:
    data, seen = READ[name]
    machine = read(data)
    assert (len(machine.gpus), len(machine.nics)) == (seen.gpus, seen.nics)
    _check_cell(machine, seen)
    assert seen.numa is None or tuple(gpu.numa for gpu in machine.gpus) == seen.numa
    # Neither the audit nor the export invents what the form does not say.
    assert any("bus ids" in each.text for each in hidden(machine))
    with pytest.raises(UserError, match="at which bus"):
        write_topology(machine)
    with pytest.raises(UserError):
        write_topology(correct(machine, (), None).machine)


def _check_cell(machine: Machine, seen: Seen) -> None:
    if seen.cell:
        pair = machine.between(*seen.cell[:2])
        assert pair is not None and pair.text == seen.cell[2]


@pytest.mark.parametrize("name", REFUSED)
def test_a_form_is_refused_with_the_reason(name: str) -> None:
    data, said = REFUSED[name]
    with pytest.raises(UserError) as refused:
        read(data)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "data",
    [
        XML, b"\xef\xbb\xbf" + XML, b"$ cat topo.xml\n" + XML, b"```xml\n" + XML + b"```\n",
        XML.decode().encode("utf-16"),
        XML.replace(b"<", b"&lt;").replace(b">", b"&gt;"), b"<?xml version=\"1.0\"?>\n<!-- by hand -->\n" + XML,
    ],
)  # fmt: skip
def test_xml_is_found_in_what_stands_around_it(data: bytes) -> None:
    assert [gpu.bus_id for gpu in read(data).gpus] == ["0000:01:00.0"]


def test_xml_that_ends_early_is_told_so_with_the_line_of_the_file() -> None:
    with pytest.raises(UserError, match=r"f:6: .*is the file cut off\?"):
        read(b"$ cat topo.xml\n" + XML[: XML.index(b"</pci>")])


def net(name: str, dev: int, guid: str) -> bytes:
    """As NCCL writes a network device into its dump."""
    return f'<nic><net name="{name}" dev="{dev}" speed="10000" port="0" guid="{guid}" gdr="0"/></nic>\n'.encode()


@pytest.mark.parametrize("name", ["cali1c7388b97f5", "tunl0", "br-702d9f064725", "veth268d912", "wlp3s0", "zz9"])
def test_sockets_of_a_dump_are_no_rdma_devices_and_cost_no_gpu_its_direct_way(name: str) -> None:
    data = XML.replace(b'gdr="1"', b'gdr="0"').replace(b"  </cpu>", net(name, 3, "0x3") + b"  </cpu>")
    loaded = from_bytes(data, "f")
    assert not loaded.machine.nics[0].rdma and not loaded.problems
    assert not any("gdr" in each.text for each in hidden(loaded.machine))
    rdma = from_bytes(data.replace(name.encode(), b"mlx5_0").replace(b'guid="0x3"', b'guid="0xa088c20300abcdef"'), "f")
    assert rdma.machine.nics[0].rdma and len(rdma.problems) == 2


RCCL = XML.replace(b'version="1"', b'version="2"')
AMD = RCCL.replace(b'class="0x030200"', b'class="0x120000" vendor="0x1002"').replace(
    b'sm="80"', b'sm="94" gcn="gfx942"'
)


def test_a_dump_of_rccl_is_sound_for_gpus_of_amd_and_none_for_others(tmp_path: Path) -> None:
    loaded = from_bytes(AMD, "f")
    assert loaded.machine.gpus[0].name == "AMD GPU" and not loaded.problems
    (problem,) = from_bytes(RCCL, "f").problems
    assert "RCCL's" in problem.text
    file = tmp_path / "topo.xml"
    file.write_bytes(AMD)
    assert main(["topo", str(file)]) == 0
    assert main(["topo", "--audit", str(file)]) == 2
    assert main(["predict", "all_reduce", "--topology", str(file)]) == 2
