"""WSL2 behind its NAT: other machines cannot reach the address that its ranks give."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def _holds(groups: Sequence[Mapping[str, str]]) -> bool:
    """Whether it is WSL, an address of its network got no answer, and its network is not that of Windows."""
    said = {name for each in groups for name in each}
    return {"wsl", "to"} <= said and "mirrored" not in said


_INSIDE = r"172\.(?:1[6-9]|2\d|3[01])\.\d{1,3}\.\d{1,3}"
"""From these WSL takes its network."""
_NO_ANSWER = r"(?:timed out|No route to host|Network is unreachable|timeout)"

SIGNATURE = Signature(
    name="wsl-nat",
    stage=Stage.SETTING,
    title=(
        "WSL2's network is behind Windows' NAT: its address {to} is known inside that PC only, so that ranks of other "
        "machines never reach it"
    ),
    patterns=(
        rf"\bconnect(?:ion)? to \[?(?P<to>{_INSIDE})\b.{{0,60}}{_NO_ANSWER}",
        rf"\bconnect \[?(?P<to>{_INSIDE})\]?:\d{{1,5}}.{{0,60}}{_NO_ANSWER}",
        rf"client socket has (?:failed|timed out).{{0,80}}(?P<to>{_INSIDE})\b",
        r"(?P<wsl>microsoft-standard-WSL2?)\b",
        r"(?P<wsl>/mnt/c/Users/|\.wslconfig\b|\[wsl2\]|ipconfig\.exe|netsh(?:\.exe)? interface portproxy)",
        r"\bWSL (?P<wsl>is) detected",
        r"networkingMode ?= ?(?P<mirrored>mirrored|bridged)",
    ),
    holds=_holds,
    explains=(
        "connection-timeout",
        "no-route",
        "master-unreachable",
        "rendezvous-timeout",
        "socket-failed",
        "remote-error",
        "gloo-mesh",
        "wrong-interface",
    ),
    between_nodes=True,
    confirm="ip -br -4 a in WSL against ipconfig in Windows; ping that address from the other machine",
    cure=(
        "networkingMode=mirrored under [wsl2] of .wslconfig in the user's folder on all machines (Windows 11), then "
        "wsl --shutdown, and open Hyper-V's firewall for all TCP ports. A port proxy carries one port, and NCCL takes "
        "many. Or run Linux itself"
    ),
    source="Microsoft: networking of WSL; NCCL src/misc/socket.cc",
)
