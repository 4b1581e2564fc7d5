"""A host's own name is a loopback address in its /etc/hosts, which it then gives to other hosts."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def _holds(groups: Sequence[Mapping[str, str]]) -> bool:
    """Whether a rank was sent to such an address, and a table of names shows whose it is."""
    said = {name for each in groups for name in each}
    return {"to", "host"} <= said


SIGNATURE = Signature(
    name="name-is-loopback",
    stage=Stage.SETTING,
    title=(
        "{host} resolves its own name to 127.0.1.1 (/etc/hosts) and gives that address to the other hosts, where it "
        "leads to themselves"
    ),
    patterns=(
        r"\bconnect(?:ion)?(?: to)? \[?(?P<to>127\.0\.1\.1)\]?[:<]\d{1,5}",
        r"(?P<to>127\.0\.1\.1)[:<]\d{1,5}>?.{0,60}(?:refused|timed out|failed)",
        # So the reader of answers tells a row of /etc/hosts, which has no word to look for.
        r"the name (?P<host>[\w.-]{1,80}) is resolved to 127\.0\.1\.1",
    ),
    holds=_holds,
    explains=(
        "loopback-interface",
        "gloo-mesh",
        "gloo-error",
        "rendezvous-timeout",
        "connection-refused",
        "connection-timeout",
        "master-unreachable",
        "socket-failed",
        "remote-error",
    ),
    between_nodes=True,
    confirm="getent hosts $(hostname) on every host: it must be the address that other hosts reach",
    cure=(
        "in /etc/hosts of that host take its name off the 127.0.1.1 line and give it the address of the interface "
        "between the hosts (Debian and Ubuntu write that line). Or name the interface: GLOO_SOCKET_IFNAME, "
        "NCCL_SOCKET_IFNAME"
    ),
    source="gloo/transport/tcp/device.cc (lookup of the host's name); Debian's /etc/hosts",
)
