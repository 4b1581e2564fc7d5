"""A call on a socket failed."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="socket-failed",
    stage=Stage.NETWORK,
    title="a socket between ranks failed: {what}",
    patterns=(
        r"ocket\w*: (?P<what>(?:[Cc]onnect|Call|Accept|ioctlsocket|WSA\w*"
        r"|socket\(\))\b.{0,160}(?:failed|returned).{0,80})",
        r"ocket\w*: (?P<what>exceeded error retry.{0,80})",
        r"ocket\w*: (?P<what>Socket creation failed.{0,80})",
        r"(?P<what>WSAStartup failed.{0,40}|GetAdaptersAddresses failed.{0,40})",
        r"Failed to (?P<what>create socket pair.{0,60}|close socket: \d+|recv: \d+|send: \d+)",
        r"\[(?:Proxy|Service)[\w ]{0,20}\] (?P<what>(?:WSA)?Poll failed.{0,40}|Too many connections.{0,40})",
        r"(?P<what>NET/Socket : socket progress error)",
        r"(?P<what>Net : unsupported IP family|Net : string is null)",
    ),
    unless=(
        "refused",
        "timed out",
        "no route",
        "reset by",
        "broken pipe",
        "unreachable",
        "cannot assign",
        "too many open",
        "bad file",
        "remote peer",
        "caused connection abort",
        "aborted",
        "address family",
        "already in use",
        "pass null",
    ),
    confirm="which host has the address that the line names; ip -br addr and ss -s there",
    cure=(
        "see why that host's rank ended or cannot be reached; set NCCL_SOCKET_IFNAME to the interface that "
        "all hosts share"
    ),
    source="NCCL src/misc/socket.cc, src/os",
)
