"""The other side of a connection is gone."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="remote-error",
    soft=True,
    stage=Stage.EFFECT,
    title="a peer closed the connection: another rank ended or failed first",
    patterns=(
        r"Accept failed: Bad file descriptor",
        r"Collective ops is aborted by: ?(?:Socket|failed to connect|connection|stream|cancel"
        r"|.{0,40}(?:closed|reset|shut ?down))",
        r"HorovodInternalError(?!.{0,80}(?:nccl|cuda))|Horovod has been shut down",
        r"Socket closed",
        r"Couldn't read remote address|Failed to exchange data between (?:server|client)",
        r"RDMA_CM_EVENT_(?:DISCONNECTED|REJECTED)",
        r"leaving because .{0,60}(?:peer|rank)",
        r"connection lost to peer",
        r"Connection closed by peer",
        r"considered dead \(unreachable",
        r"Net : Connection closed",
        r"Connection closed by remote peer",
        r"ncclRemoteError",
        r"Connection reset by peer",
        r"Broken pipe",
        r"remote process exit",
        r"communication peer process has unexpectedly disconnected",  # Open MPI
        r"peer closed",
        r"Error: (?:eof|EOF: end of file|pipe closed|\w{4,10}: (?:broken pipe|connection reset by peer))[^\n]{0,40}"
        r"\(this error originated at tensorpipe",
        r"Coordination service agent is (?:shutting down|in error)",
    ),
    explains=("nccl-error",),
    later=("connection-returned",),
    confirm=("the logs of the other ranks, above all the one whose address is named: what was its first error"),
    cure="look at the rank that ended first (OOM, exception, node failure); its error is the cause",
    source="NCCL src/misc/socket.cc",
)
