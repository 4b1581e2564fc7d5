"""What NCCL's log says of the machine itself: its type, its ports' rates, whether its switches reduce."""

from __future__ import annotations

import re
from dataclasses import replace

from busbw.machine.nccl.log_lines import Line
from busbw.machine.nccl.log_model import Clique, Hardware, Said

MAX_PORTS = 256
PATTERN = (
    r"NET/OFI Running on (?P<platform>[\w.-]{2,40}) platform"
    r"|NET/OFI Selected [Pp]rovider is (?P<provider>[\w;-]{2,30}).*"
    r"|NVLS multicast support is (?P<no>not) available"
    r"|MNNVL (?P<mnnvl>\d) cliqueId [0-9a-f]{1,16} cliqueSize (?P<clique>\d{1,6})\b.*"
    r"|\+ NET\[(?P<rate>\d{1,5}(?:\.\d{1,8})?)\] - (?P<port>NET/[\w-]{1,20})"
)
"""AWS's plugin, NCCL src/transport/nvls.cc, src/init.cc, and src/graph/topo.cc, which prints GB/s."""


class HardwareSeen:
    """Gathers it while lines go by."""

    def __init__(self) -> None:
        self.known = Hardware()
        self._sayer: tuple[str, int, int] | None = None

    def take(self, line: Line, found: re.Match[str]) -> None:
        """One line that PATTERN found."""
        known, said = self.known, Said(line.text, line.number)
        if found["platform"]:
            self.known = replace(known, platform=known.platform or Said(found["platform"], line.number))
        elif found["provider"]:
            self.known = replace(known, provider=known.provider or Said(found["provider"], line.number))
        elif found["no"]:
            self.known = replace(known, no_multicast=known.no_multicast or said)
        elif found["clique"]:
            # Splits of a communicator have smaller ones.
            if known.clique is None or int(found["clique"]) > known.clique.gpus:
                clique = Clique(int(found["clique"]), found["mnnvl"] != "0", line.number)
                self.known = replace(known, clique=clique)
        else:
            # Every rank prints the tree of its own host.
            sayer = (line.host, line.pid, line.tid)
            self._sayer = self._sayer or sayer
            if sayer == self._sayer and found["port"] not in known.ports and len(known.ports) < MAX_PORTS:
                ports = {**known.ports, found["port"]: float(found["rate"])}
                self.known = replace(known, ports=ports, ports_line=known.ports_line or line.number)
