"""What is said of one fault."""

from __future__ import annotations

from dataclasses import dataclass

EVERYBODY = "all nodes"


@dataclass(frozen=True)
class Verdict:
    """One fault. `kind` is nvlink, pcie, nic, cable, link (NIC or cable), latency (of a link), leaf, uplink, spine,
    broken (a node), either (one of several that were never measured apart) or level (all are slower than expected, or
    than earlier)."""

    kind: str
    place: str  # node or pod; "" or "second" for spines; "link a or link b" for either
    channel: str  # nvlink, pcie3, nic3, rail3; "" for a whole node
    loss: float  # 0.03: 3 % slower than its peers; 1: does not work
    error: float  # one standard error
    reason: str = ""  # why nothing was measured
    runner_up: str = ""  # what explains the results nearly as well

    @property
    def name(self) -> str:
        """Unique among verdicts: `rail3 cable of node0007`."""
        if self.kind == "spine":
            return f"{self.channel} {self.place} spine".replace("  ", " ")
        kind = "" if self.kind in {"nvlink", "pcie", "nic"} else "link" if self.kind == "latency" else self.kind
        words = [self.channel, kind, f"of {self.place}" if self.place else ""]
        return " ".join(word for word in words if word)
