"""Rows of particulars, and of clues, for servers of models: caches that are handed over, parts that are missing."""

from __future__ import annotations

SERVING_ROWS = {
    "service-missing": r"""
/metadata|StoragePlugin ; {title} ;
 start it where all servers reach it: mooncake_master --enable_http_metadata_server=true, or etcd or Redis, and give all
 the same metadata_server. Look at proxies too (no_proxy). SGLang and vLLM can do without one: P2PHANDSHAKE. NICs and
 GIDs have no part in it yet
Failed to connect to master ; {title} ;
 start mooncake_master, and give all clients its address (MOONCAKE_MASTER, master_server_address, port 50051); no
 127.0.0.1 on other hosts. One release of Mooncake on both sides
\blease\b ; {title} ;
 look at etcd first (etcdctl endpoint health --cluster, its disk, its members). Then at the worker: a process that is
 blocked for seconds (compiling, no free core) cannot renew it. Kubernetes starts the worker again
\betcd\b ; {title} ;
 start etcd and give every part its address: ETCD_ENDPOINTS=http://HOST:2379 (the default is localhost). etcdctl
 endpoint health from that host tells
\bnats\b ; {title} ;
 start nats-server (with JetStream: -js) and give every part its address: NATS_SERVER=nats://HOST:4222. nc -zv HOST 4222
 from that host tells
no instances|no workers|available .{0,10}workers|healthy .{0,10}workers ; {title} ;
 look at the workers: their first error, whether they are still loading, and whether they answer /health. Then
 namespace, model name and addresses, which must be those of the front end (etcd, NATS, or --prefill and
 --decode of the router)
prefill ; {title} ;
 read the log of that prefill server: it has the first error (out of memory, crash, restart). Where it runs: its
 bootstrap port must be open, and its --host an address that decode servers reach. NICs come after that
lmcache ; {title} ;
 start lmcache_server (or Redis) at the address of remote_url, with a port that is open and no localhost on other hosts;
 the engine goes on without it, and computes anew
Remote RPC ; {title} ;
 read the log of rpc-server on that host: mostly its GPU has no memory left, or a kernel is not supported there. Build
 both sides of one commit; give it less with --tensor-split
""",
    "kv-transfer": r"""
engine ID mismatch ; the decode server reached another engine than the one that has the cache: the address of its side
 channel is wrong or old ;
 set VLLM_NIXL_SIDE_CHANNEL_HOST on each server to its own address (the default is localhost), and a
 VLLM_NIXL_SIDE_CHANNEL_PORT of its own for each engine of a host. After a restart send requests anew through the proxy.
 NICs are not at fault
Releasing expired KV blocks ; decode servers did not fetch caches in time, and the prefill server gave them up ;
 look at the decode servers: requests that wait or were taken back, or reads that fail (their first error). Run more
 decode servers for each prefill server, or fewer requests at once. VLLM_NIXL_ABORT_REQUEST_TIMEOUT sets the time
Handshake rejected|packet mismatch|QP number in peer ; the transfer engines of two servers do not fit together: other
 NICs, another number of queue pairs or release, or one of them was started anew ;
 the same release of Mooncake, MC_NUM_QP_PER_EP and list of NICs on both sides, then restart both. With a metadata
 server clear what the old one left there
Aborted by Abort ; requests were taken back by their clients or the router, and the caches that were on their way with
 them ;
 no fault of the network: look at the client's and the router's time limits, and at how long requests wait (queue,
 number of servers). Where nobody gave up, look for an earlier error of the other server
""",
}
"""By signature: words of the evidence, the cause, and its cure (as `particulars` reads them)."""

SERVING_CLUES = {
    "kv-transfer": r"""
Failed to (?:discover|build)[^\n]{0,60}(?:EFA|hwloc|[Ll]ibfabric|CXI) ; NIXL's libfabric backend finds no NICs that fit
 the GPUs of this host: EFA (or CXI) is not visible here ;
 fi_info -p efa and ls /sys/class/infiniband in the container must list them. Give it /dev/infiniband (Kubernetes:
 vpc.amazonaws.com/efa) and the libfabric of the EFA installer. On other networks take the UCX backend
""",
    "connection-refused": r"""
\bRPC\[(?P<at>[\w.-]{3,60}:\d{2,5})\] && ^(?:ggml\w{0,8}: )?Failed to connect to && !\bendpoint {1,10}: 127\. ; llama.cpp
 reaches no rpc-server at {at}: it is not started, listens for its own host alone, or a firewall stands between ;
 start it there with rpc-server -H 0.0.0.0 -p PORT (its default is 127.0.0.1), open the port, and try nc -zv HOST PORT
 from here. Variables of NCCL do nothing for llama.cpp
""",
    "python-exception": r"""
<= num_max_dispatch_tokens_per_rank ; a rank has more tokens in one step than the buffer of DeepEP's low-latency mode
 holds for it ;
 raise that limit on all ranks alike (SGLang: SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK). Or lower what one rank
 runs: --max-running-requests and --cuda-graph-max-bs in SGLang, --max-num-seqs in vLLM
\b(?P<list>\w{0,20}peer_(?:init|alloc)_port)\w{0,4}\[ && IndexError: list index out of range ; {list} names fewer ports
 than there are ranks of tensor parallel: each rank has a port of its own ;
 list as many ports as tensor parallel ranks in LMCache's file, such as [7300, 7301] for two, and the same in the proxy
""",
    "ray-error": r"""
\bRayChannelTimeoutError\b ; a worker of Ray's compiled graph gave no result in its time: it computes long, or hangs in
 a collective ;
 py-spy dump --pid PID of each worker, and nvidia-smi on all nodes, show which one lags; then NCCL_DEBUG=INFO. Raise
 the time only for long steps: RAY_CGRAPH_get_timeout=N (seconds), or fewer tokens at once
""",
    "p2p-broken": r"""
\bdeep_ep\b|\bDeepEP/ && peer access is not supported ; DeepEP needs NVLink between the GPUs of a host, and these have
 no direct access to each other ;
 take another exchange of experts: vLLM VLLM_ALL2ALL_BACKEND=allgather_reducescatter, SGLang --moe-a2a-backend none. Or
 GPUs with NVLink; nvidia-smi topo -m must show NV between all. NCCL_P2P_DISABLE changes nothing in DeepEP
""",
    "cuda-not-supported": r"""
\bcuMulticast\w{2,20}\( && CUDA_ERROR_NOT_SUPPORTED ; memory for NVLink multicast cannot be had: the GPUs have no
 NVSwitch, or its fabric manager, IMEX or the container does not allow it ;
 nvidia-smi -q -d FABRIC must say Completed and Success: restart nvidia-fabricmanager, or nvidia-imex on racks. Without
 NVSwitch leave the fused all-reduce out: vLLM fuse_allreduce_rms false, SGLang without
 --enable-flashinfer-allreduce-fusion
""",
    "server-waits": r"""
Deployment '(?P<what>[^'\n]{1,80})'[^\n]{0,80}have taken more than \d{1,6}s to be scheduled ; Ray Serve cannot place the
 replicas of {what}: no node has what each of them asks for ;
 compare `Resources required for each replica` with what ray status has free on one node: fewer GPUs per replica, or
 nodes that have as many (ray start --num-gpus). With an autoscaler see why no node comes
ray workers to be active\. (?P<came>\d{1,4})/(?P<all>\d{1,4}) is active ; only {came} of {all} nodes of Ray have come:
 the worker pods do not run, or do not reach the head ;
 kubectl get pods, and the log of the worker that is missing: its image, GPUs, and the head's name and port 6379. Then
 ray status on the head. ray_cluster_size must be the number of pods of a group
""",
    "rendezvous-timeout": r"""
ray workers to be active\. (?P<came>\d{1,4})/(?P<all>\d{1,4}) is active ; only {came} of {all} nodes of Ray have come:
 the worker pods do not run, or do not reach the head ;
 kubectl get pods, and the log of the worker that is missing: its image, GPUs, and the head's name and port 6379. Then
 ray status on the head. ray_cluster_size must be the number of pods of a group
""",
}
"""By finding: words beside it, the cause, and its cure (as `clue_rows` has them)."""
