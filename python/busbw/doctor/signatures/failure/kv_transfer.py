"""Servers that split prefill and decode cannot hand over their caches."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="kv-transfer",
    stage=Stage.FAILURE,
    title="the transfer of caches between prefill and decode servers (Mooncake, NIXL, LMCache) fails: {what}",
    patterns=(
        r"(?P<what>[Rr]emote prefill failed.{0,60}|waiting for (?:the )?prefill response.{0,60})",
        r"(?P<what>NIXL_ERR_\w+)",
        r"(?P<what>createBackend: backend '\w+' encountered.{0,80}|UCX endpoint create failed.{0,60})",
        r"(?P<what>Failed to get kvcache from prefill instance|KVTransferError.{0,100}|Prefill transfer failed.{0,60})",
        r"(?P<what>Mooncake (?:Transfer Engine|store|transfer engine)\b.{0,60}(?:fail|error)\w*)",
        r"(?:^|\bE\d{4} .{0,40})(?:rdma_\w+|worker_pool|transfer_\w+|master_client|store_py|\w{2,20}_transport"
        r"|client_\w+)\.cpp:\d+\] (?P<what>.{0,80}(?:fail|error|not active|mismatch|timeout|inactive).{0,60})",
        r"(?P<what>Too many errors found in local RNIC)",
        r"(?P<what>got invalid buffer data from \d{1,6})",
        r"(?P<what>Failed to complete transfers after \d+ seconds)",
        r"(?P<what>Remote NIXL agent engine ID mismatch|NIXL compatibility hash mismatch)",
        r"(?P<what>Releasing expired KV blocks for request)",
        r"(?P<what>Unexpected UCX error: .{3,60})",
    ),
    explains=("python-exception", "process-crashed"),
    confirm="ib_write_bw between the two hosts with the same devices; ulimit -l; MC_GID_INDEX, UCX_LOG_LEVEL=info",
    cure=(
        "name NICs that reach each other (--disaggregation-ib-device, UCX_NET_DEVICES, MC_GID_INDEX), unlimited "
        "memlock and nvidia_peermem on both sides, the same release of the engine; see whether the peer died first"
    ),
    source="Mooncake mooncake-transfer-engine; NIXL src/plugins/ucx; SGLang srt/disaggregation",
)
