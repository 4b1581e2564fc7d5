"""NCCL's helper thread gave up."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="proxy-failure",
    stage=Stage.EFFECT,
    title="NCCL's proxy thread gave up after an earlier error",
    patterns=(
        r"\[(?:Proxy|Service)[\w ]{0,20}\] (?:Failed to execute|Error encountered|Could not receive)",
        r"\[(?:Proxy|Service)[\w ]{0,20}\] (?:Accept failed|Connection error)",
        r"Socket recv failed while polling",
        r"Proxy Call to rank \d+ failed",
        r"\[Rem Allocator\]",
        r"\[Proxy Progress\].{0,40}(?:fail|error)",
        r"communicator encountered a fatal error",
        r"Storing response for already completed",
        r"ncclProxyCallBlocking\w* call to",
        r"commDestroySync: comm \S+ .{0,60}error",
        r"commReclaim: .{0,80}(?:error|failed)",
        r"ncclProxyStop: comm .{0,60}error",
        r"ncclCommSetAsyncError: error comm",
        r"ncclAsyncJobComplete: job .{0,30}failed",
        r"Legacy IPC cleanup callback failed",
    ),
    explains=("nccl-error",),
    confirm="the lines before it, of all ranks",
    cure=(
        "mend the first error of any rank by time: it stands before this line or in another rank's log. The proxy only "
        "reports that a peer or the network is gone. Where there is none, run once with NCCL_DEBUG=INFO on all "
        "ranks, then with NCCL_NET=Socket: if that runs, RDMA is at fault"
    ),
    source="NCCL src/proxy.cc",
)
