"""Topologies as people save and paste them: read as they are, or refused in a sentence that says why."""

from __future__ import annotations

import pytest

from busbw.base.errors import UserError
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
