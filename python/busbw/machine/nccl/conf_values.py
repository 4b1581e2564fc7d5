"""Values of conf files of which NCCL makes something else than meant, and names that it does not read.

NCCL (src/misc/param.cc) reads numbers by strtoll with base 0 and asks for nothing behind them: "4M" is 4, "abc" is 0
and "010" is 8. A list of algorithms or protocols (src/graph/tuning.cc) may name only what it knows, in any case.
"""

from __future__ import annotations

import re
from functools import cache

from busbw.base.secrets import shortened

PREFIX = "NCCL_"
SHORT, FAR = 13, 2
"""Shorter names count as mistyped by one letter only: those of NCCL differ by as little."""
LONGEST = 60
_ALGORITHMS = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")
_PROTOCOLS = ("LL", "LL128", "Simple")
_FUNCTIONS = frozenset({"broadcast", "reduce", "allgather", "reducescatter", "allreduce", "sendrecv"})
_LISTS = {"NCCL_ALGO": ("algorithm", _ALGORITHMS), "NCCL_PROTO": ("protocol", _PROTOCOLS)}
_START = re.compile(r"\s{0,99}([+-]?(?:0[xX][0-9a-fA-F]{1,16}|0[0-7]{0,22}|[1-9]\d{0,19}))?")
_OTHERS = re.compile(r"[A-Z]CCL_")
"""Other libraries' variables, such as RCCL_ and HCCL_."""
_NUMBER_NAMES = """
ALLGATHERV_ENABLE ALLOC_P2P_NET_LL_BUFFERS BUFFSIZE CGA_CLUSTER_SIZE CHECK_POINTERS CHUNK_SIZE COLLNET_ENABLE
COLLNET_NODE_THRESHOLD COMM_BLOCKING COMM_SHRINK_SHARE_RESOURCES COMM_SPLIT_SHARE_RESOURCES
CONNECT_ROUND_MAX_PEERS CROSS_NIC CUMEM_ENABLE CUMEM_HOST_ENABLE DEV_API_JIT DISABLE_MEM_MANAGER DMABUF_ENABLE
ELASTIC_BUFFER_REGISTER ENABLE_VERSION_CHECK GDAKI_USE_RELIABLE_DB GDRCOPY_ENABLE GDRCOPY_FIFO_ENABLE
GDRCOPY_FLUSH_ENABLE GDRCOPY_SYNC_ENABLE GDR_FLUSH_DISABLE GIN_ENABLE GIN_ERROR_QUERY_SEC
GIN_GDAKI_MAX_DEST_RD_ATOMIC GIN_GDAKI_MAX_QP_RD_ATOMIC GIN_GDAKI_NIC_HANDLER GIN_GDAKI_QP_DEPTH GIN_IB_TC
GIN_NCONNECTIONS GIN_PLUGIN_REF_COUNT GIN_PROXY_QUEUE_SIZE GIN_TYPE GRAPH_DUMP_FILE_RANK GRAPH_HELPER_DISABLE
GRAPH_MIXING_SUPPORT GRAPH_REGISTER GRAPH_STREAM_ORDERING GROUP_CUDA_STREAM IB_ADAPTIVE_ROUTING IB_AR_THRESHOLD
IB_CUDA_SUPPORT IB_DATA_DIRECT IB_DEVICE_PCI_ORDER IB_DISABLE IB_ECE_ENABLE IB_FIFO_TC IB_GID_INDEX IB_MERGE_NICS
IB_MERGE_VFS IB_MQP_RETRY_ALL IB_MQP_RETRY_CNT IB_MQP_RETRY_SLEEP_MSEC IB_OOO_RQ IB_PCI_RELAXED_ORDERING IB_PKEY
IB_PREPOST_RECEIVE_WORK_REQUESTS IB_QPS_PER_CONNECTION IB_QUERY_PORT_SPEED IB_RECEIVER_SIDE_MATCHING_SCHEME
IB_RESILIENCY_PORT_FAILOVER IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY
IB_RESILIENCY_PORT_RECOVERY IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT
IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE
IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT
IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX IB_RESILIENCY_PORT_RECOVERY_START_DELAY IB_RETRY_CNT
IB_RETURN_ASYNC_EVENTS IB_ROCE_VERSION_NUM IB_ROUTABLE_FLID_GID_INDEX IB_SL IB_SPLIT_DATA_ON_QPS
IB_SUBNET_AWARE_ROUTING IB_SUBNET_PREFIX_LEN IB_TC IB_TIMEOUT IB_USE_INLINE IB_WARN_RAIL_LOCAL
IGNORE_COLLNET_MISMATCH IGNORE_CPU_AFFINITY IGNORE_DISABLED_P2P IGNORE_NET_MISMATCH IPC_USE_ABSTRACT_SOCKET
L1_SHARED_MEMORY_CARVEOUT LAUNCH_ORDER_IMPLICIT LAUNCH_RACE_FATAL LEGACY_CUDA_REGISTER LL128_BUFFSIZE LL128_C2C
LL128_NTHREADS LL_BUFFSIZE LL_THRESHOLD LOCAL_REGISTER LSA_TEAM_SIZE MAX_CTAS MAX_NCHANNELS MAX_NRINGS
MAX_P2P_NCHANNELS MEM_SYNC_DOMAIN MIN_CTAS MIN_NCHANNELS MIN_NRINGS MIN_P2P_NCHANNELS MLOPART_RDMA_ENABLE
MNNVL_CLIQUE_ID MNNVL_CROSS_CLIQUE MNNVL_ENABLE MNNVL_RAIL_PER_HOST MNNVL_SCATTER_NETS_ENABLE MNNVL_UUID
MULTI_RANK_GPU_ENABLE MULTI_SEGMENT_REGISTER NCHANNELS_PER_NET_PEER NET_DISABLE_INTRA NET_FORCE_FLUSH NET_GDR_C2C
NET_GDR_MLOPART NET_GDR_READ NET_OPTIONAL_RECV_COMPLETION NET_OVERHEAD NET_PLUGIN_REF_COUNT NET_SHARED_BUFFERS
NET_SHARED_COMMS NSOCKS_PERTHREAD NTHREADS NUM_RMA_CTX NVB_DISABLE NVB_PRECONNECT NVLINK_UTIL_CENTRIC_SCHED_ENABLE
NVLSTREE_MAX_CHUNKSIZE NVLS_CHUNKSIZE NVLS_ENABLE NVLS_NCHANNELS NVTX_DISABLE OOB_NET_ENABLE P2P_DIRECT_DISABLE
P2P_DISABLE P2P_EPOCH_ENABLE P2P_LL_THRESHOLD P2P_MAX_PEERS P2P_NET_CHUNKSIZE P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE
P2P_PER_CHANNEL_NET_BW P2P_PXN_LEVEL P2P_READ_ENABLE P2P_SCHEDULE_GROUP_SIZE P2P_USE_CUDA_MEMCPY PAT_ENABLE
PROGRESS_APPENDOP_FREQ PROXY_APPEND_BATCH_SIZE PROXY_DUMP_SIGNAL PXN_C2C PXN_DISABLE RAS_ENABLE RAS_TIMEOUT_FACTOR
REPORT_CONNECT_PROGRESS RMA_DISABLE RMA_PLUGIN_REF_COUNT RMA_PROXY_DUMP_SIGNAL RMA_PROXY_QUEUE_SIZE
RUNTIME_CONNECT SET_CPU_STACK_SIZE SET_STACK_SIZE SHADOW_MEMPOOL_MAX_SIZE SHM_DISABLE SHM_LOCALITY
SHM_USE_CUDA_MEMCPY SINGLE_PROC_MEM_REG_ENABLE SINGLE_RING_THRESHOLD SOCKET_INLINE SOCKET_MIN_TASKSIZE
SOCKET_NTHREADS SOCKET_POLL_TIMEOUT_MSEC SOCKET_RCVBUF SOCKET_RETRY_CNT SOCKET_RETRY_SLEEP_MSEC SOCKET_SNDBUF
SYM_CE_THRESHOLD SYM_CTAS SYM_GIN_KERNELS_ENABLE SYM_NOWIN_ENABLE SYM_REUSE_SYSMEM_HANDLES SYM_RS_GIN_CHUNK_SIZE
SYM_TMA_ENABLE TOPO_DUMP_FILE_RANK TOPO_SPLIT_MLOPART TREE_THRESHOLD UID_STAGGER_RATE UID_STAGGER_THRESHOLD
UNPACK_DOUBLE_NCHANNELS WIN_ENABLE WIN_STRIDE WORK_ARGS_BYTES WORK_FIFO_BYTES
"""
_TEXT_NAMES = """
ALGO ASYNC_ERROR_HANDLING BLOCKING_WAIT CHECK_MODE COMM_ID CONF_FILE CTA_POLICY DEBUG DEBUG_FILE DEBUG_SUBSYS
DESYNC_DEBUG ENV_PLUGIN GIN_NCONTEXTS GIN_PLUGIN GRAPH_DUMP_FILE GRAPH_FILE HOSTID IBVERBS_LIB IB_ADDR_FAMILY
IB_ADDR_RANGE IB_GDR_LEVEL IB_HCA INSPECTOR_COLL_POOL_SIZE INSPECTOR_COMM_POOL_SIZE INSPECTOR_DUMP_COLL_RING_SIZE
INSPECTOR_DUMP_DIR INSPECTOR_DUMP_MIN_SIZE_BYTES INSPECTOR_DUMP_P2P_RING_SIZE INSPECTOR_DUMP_THREAD_ENABLE
INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS INSPECTOR_DUMP_VERBOSE INSPECTOR_ENABLE INSPECTOR_ENABLE_P2P
INSPECTOR_P2P_POOL_SIZE INSPECTOR_POOL_GROW INSPECTOR_PROM_DUMP INSPECTOR_REQUIRE_KERNEL_TIMING LAUNCH_MODE NET
NETDEVS_POLICY NET_FORCE_MERGE NET_GDR_LEVEL NET_MERGE_LEVEL NET_MERGE_POLICY NET_PLUGIN NO_CACHE OOB_NET_IFNAME
P2P_LEVEL PARAM_DUMP_ALL PLUGIN_P2P PROFILER_CE_POLLER_INTERVAL_MICROSECONDS PROFILER_CE_TIMING PROFILER_PLUGIN
PROFILE_CE_BATCH_POOL_SIZE PROFILE_CE_COLL_POOL_SIZE PROFILE_CE_SYNC_POOL_SIZE PROFILE_COLL_API_POOL_SIZE
PROFILE_COLL_POOL_SIZE PROFILE_DUMP_FILE PROFILE_EVENT_MASK PROFILE_GROUP_API_POOL_SIZE PROFILE_GROUP_POOL_SIZE
PROFILE_KERNEL_LAUNCH_POOL_SIZE PROFILE_P2P_API_POOL_SIZE PROFILE_P2P_POOL_SIZE PROFILE_PROXY_CTRL_POOL_SIZE
PROFILE_PROXY_DETACH_POOL_SIZE PROTO PROXY_CPUSET RAS_ADDR RMA_PLUGIN SOCKET_FAMILY SOCKET_IFNAME SOCKET_MAGIC
SYM_KERNEL THREAD_THRESHOLDS TOPO_DUMP_FILE TOPO_FILE TUNER_CONFIG_FILE TUNER_PLUGIN UCX_TLS
"""
_NUMBERS, _TEXTS = frozenset(_NUMBER_NAMES.split()), frozenset(_TEXT_NAMES.split())


def misread(name: str, value: str) -> str | None:
    """What NCCL makes of a value that it takes otherwise than meant, or of a name that it does not read; else None."""
    if (near := meant(name)) is not None:
        return f"{name} is no variable that NCCL is known to read; {near} is"
    if name in _LISTS:
        return _unknown_in_list(name, value)
    return _no_number(name, value) if name.removeprefix(PREFIX) in _NUMBERS and name.startswith(PREFIX) else None


def unknown_name(name: str, value: str) -> str | None:
    """The first name in a list of algorithms or protocols that NCCL does not know."""
    known = {each.lower() for each in _LISTS[name][1]}
    for at, part in enumerate(value.split(";")):
        function, colon, names = part.partition(":")
        if colon and function.lower() not in _FUNCTIONS:
            return function
        if not colon and at:
            return part or None
        for each in (names if colon else part).removeprefix("^").split(","):
            if each and each.lower() not in known:
                return each
    return None


def meant(name: str) -> str | None:
    """The variable of NCCL that a mistyped name is near to; None where the name may be right."""
    return _near(name) if len(name) <= LONGEST else None


@cache
def _near(name: str) -> str | None:
    rest = name.removeprefix(PREFIX)
    if (name.startswith(PREFIX) and rest in _NUMBERS | _TEXTS) or (_OTHERS.match(name) and rest == name):
        return None
    if name[:1] not in {"N", "n"} or "_" not in name:
        return None
    if name != name.upper():
        return name.upper() if name.upper().removeprefix(PREFIX) in _NUMBERS | _TEXTS else None
    for far in range(1, (1 if len(name) < SHORT else FAR) + 1):
        found = [each for rest in _NUMBERS | _TEXTS if _within(name, each := PREFIX + rest, far)]
        if found:
            return min(found)
    return None


def _within(one: str, other: str, far: int) -> bool:
    """Whether at most so many letters are wrong, missing, too many or in the wrong order."""
    if abs(len(one) - len(other)) > far:
        return False
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1] <= far


def _unknown_in_list(name: str, value: str) -> str | None:
    odd = unknown_name(name, value.strip().strip("\"'"))
    if odd is None:
        return None
    kind, known = _LISTS[name]
    shown = shortened(odd, 40)
    return (
        f"{name} has '{shown}', which names no {kind}: NCCL fails with 'invalid usage', or (older ones) uses none of "
        f"that name; known are {', '.join(known)}"
    )


def _no_number(name: str, value: str) -> str | None:
    if not value.strip():
        return None
    found = _START.match(value)
    digits = found[1] if found else None
    read = 0 if digits is None else int(digits, 8 if re.match(r"[+-]?0[0-7]", digits) else 0)
    shown = shortened(value.strip(), 40)
    if found is None or value[found.end() :].strip():
        return f"{name}={shown} is no whole number: NCCL reads {read}"
    if digits is not None and re.match(r"[+-]?0[0-7]", digits) and read > 7:
        return f"{name}={shown} begins with 0, so that NCCL reads it as octal: {read}"
    return None
