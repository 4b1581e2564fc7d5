"""No network interface for bootstrap or sockets."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="no-interface",
    stage=Stage.SETTING,
    title=(
        "NCCL or Gloo finds no network interface to talk over: NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME names none "
        "that exists, or the container has none"
    ),
    patterns=(
        r"[Uu]nable to find .{0,40}common .{0,40}interfaces",
        r"Address family not supported by protocol",
        r"no socket interface found",
        r"NET/Socket *: *no interface found",
        r"NET/IB *: *No IP interface found",
        r"no device found (?:matching|after excluding)",
        r"No usable listening interface",
        r"No interface found in the same subnet",
        r"Unable to find (?:address|interface) for",
        r"gloo.{0,60}Unable to find interface",
    ),
    confirm="ip -br addr on every node and in the container; env | grep SOCKET_IFNAME",
    cure=(
        "unset NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME, or name the interface that reaches the other nodes (=eth0 "
        "exactly, ^docker,lo excludes); start the container with --network=host"
    ),
    source="NCCL src/misc/socket.cc, src/bootstrap.cc",
)
