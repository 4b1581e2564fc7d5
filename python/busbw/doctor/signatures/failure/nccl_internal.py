"""NCCL met a state that its own checks forbid."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="nccl-internal",
    stage=Stage.FAILURE,
    title=(
        "NCCL met a state that its own checks forbid ({what}): the sequel of an earlier error, mixed "
        "versions, or a fault of this release"
    ),
    patterns=(
        r"(?P<what>Proxy append (?:mismatch|on running operation|out of bounds))",
        r"(?P<what>Could(?:n't| not) find (?:pool of op|opId).{0,30})",
        r"(?P<what>List loop at element)",
        r"(?P<what>Inactive op has next set)",
        r"(?P<what>Unable to post incomplete proxy op chain)",
        r"(?P<what>Mismatched response size for opId|doesn't match any expected response)",
        r"(?P<what>Attempting to dequeue \w+)",
        r"(?P<what>P2p operation is neither send or recv|P2p schedule creation has bugs)",
        r"(?P<what>ncclProxyConnect: \w+ \d+ out of bounds)",
        r"(?P<what>Unknown (?:collnet )?pattern)",
        r"(?P<what>Invalid regBufType)",
        r"(?P<what>Sendrecv plan not aligned)",
        r"(?P<what>[Ii]ntrusive address map)",
        r"(?P<what>Invalid key size \d+)",
        r"(?P<what>(?:Output )?[Oo]bject pointer is NULL)",
        r"(?P<what>ncclSocket\w+: (?:wrong|unexpected) socket state)",
        r"(?P<what>ncclSocket\w+: (?:pass NULL|invalid|socket (?:is invalid|state)|file descriptor).{0,30})",
        r"(?P<what>ncclIpcSocketGetFd: pass NULL|ncclOsSocketSetFlags: invalid socket)",
        r"(?P<what>(?:lib|library) wrapper not initialized)",
        r"(?P<what>\w+ plugin refcount is 0)",
        r"(?P<what>not at head of strong stream's)",
        r"(?P<what>Unknown device code index)",
        r"(?P<what>uninitialized (?:gin|net|rma)Plugin)",
        r"(?P<what>failed to set the number of devices for netPlugin)",
        r"(?P<what>Listencomm in unknown state|trying to connect already connected)",
        r"(?P<what>sendReq\(\w+\)->events)",
        r"(?P<what>could not retreive a request|No format specified for opcode|Unknown completion"
        r"|Invalid request index|Unrecognized request)",
        r"(?P<what>expected a '(?:recv|send)' request)",
        r"(?P<what>wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)",
        r"(?P<what>ncclIbI(?:send|recv)\(\) called when)",
        r"(?P<what>(?:recv|send)ProxyConnect: \w+ is \d+ != \d+|CollNet sizes: want)",
        r"(?P<what>PXN should not use host buffers)",
        r"(?P<what>NET/Socket : (?:ncclNetSocketListen dev|test called with NULL).{0,30})",
        r"(?P<what>failed to join thread|pthread_join\b.{0,30}|[Tt]hread join failed)",
        r"(?P<what>hostStreamPlanCallback\(\) failed)",
        r"(?P<what>Unexpected connections are not empty)",
        r"(?P<what>(?:bootstrapInit|bcastGrowHandle): .{5,60})",
        r"(?P<what>Failed to determine (?:local|intra proc) ranks)",
        r"(?P<what>ran out of channel space)",
        r"(?P<what>(?:Listen|listen)Sock fd fails|peers\[\d+\]\.sock (?:fd )?fails|Initialize peers\S+ fails)",
        r"(?P<what>Unknown command \d+ from localRank)",
        r"(?P<what>proxyDestroy failed)",
        r"(?P<what>Net registration invalid algorithm)",
        r"(?P<what>unknown event type \((?!18\))\d+\))",
        r"(?P<what>Cannot store sizes of \d+ requests)",
        r"(?P<what>getRandomData: .{5,40})",
        r"(?P<what>Inconsistent.{0,40}in (?:proxy|channel))",
        r"(?P<what>IPC: (?:Invalid socket|Operation aborted|Pipe name|ReadFile|WriteFile|Failed to"
        r"|DuplicateHandle|SetNamedPipe).{0,40})",
        r"(?P<what>Invalid PCI bus ID format|Failed to parse PCI bus ID|SetupDiGetClassDevs failed)",
    ),
    confirm="the first NCCL WARN of any rank by time; ldd of the program on all hosts: is it the same libnccl",
    cure=(
        "see the first error of any rank; load one release of NCCL on all hosts (look for a second libnccl in "
        "LD_LIBRARY_PATH and the container). If it is alone, try the newest patch release and report it with "
        "NCCL_DEBUG=INFO"
    ),
    source="NCCL src/proxy.cc, src/misc, src/transport",
)
