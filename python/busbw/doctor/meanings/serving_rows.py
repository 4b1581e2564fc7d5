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
compatibility hash mismatch ; the prefill and the decode server are not alike (release, model, type of the cache, its
 layout or attention backend), and NIXL refuses to hand caches over ;
 start both from one image with the same model, --dtype, --kv-cache-dtype, --block-size, attention backend and
 VLLM_KV_CACHE_LAYOUT. NICs are not at fault
NO_AVAILABLE_HANDLE ; the cache store (Mooncake) has no room left for what a server wants to put there ;
 give the clients larger segments (global_segment_size, MOONCAKE_GLOBAL_SEGMENT_SIZE) or run more of them: a client that
 gives 0 adds nothing. The master's log shows what is used, and what it may evict. NICs are not at fault
when bootstrapping|KVPoll\.Bootstrapping ; the prefill server waited in vain for the decode server to say where the
 cache goes: decode servers are full or too few, or do not reach its bootstrap port ;
 look at the queues of the decode servers first (#queue-req, token usage): more of them, or fewer requests at once.
 Where it is so from the first request, open --disaggregation-bootstrap-port and see --host. Longer:
 SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT
KVPoll\.WaitingForInput|transfer done signal ; the decode server waited in vain for caches that were to come ;
 look at the prefill server of that time: its queue, its first error, and its transfers (Mooncake's lines name the
 NICs). Longer: SGLANG_DISAGGREGATION_WAITING_TIMEOUT
REMOTE_DISCONNECT ; the server at the other end of the transfer is gone: it ended, was started anew, or the connection
 broke ;
 read that server's log first (crash, out of memory, restart). Where it runs on, start both anew: NIXL does not connect
 again by itself; then look at its NIC and link at that time
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
Failed to open device (?P<dev>\w{2,30}) on port \d{1,3} with GID (?P<gid>\d{1,3}) ; {dev} cannot be used: its port is
 down, or it has no GID with index {gid} ;
 ibstat {dev} (State: Active?) and show_gids {dev}. Name other NICs (--disaggregation-ib-device, MC_MS_FILTERS), or the
 index that it has (MC_GID_INDEX); the container needs /dev/infiniband
Failed to (?:discover|build)[^\n]{0,60}(?:EFA|hwloc|[Ll]ibfabric|CXI) ; NIXL's libfabric backend finds no NICs that fit
 the GPUs of this host: EFA (or CXI) is not visible here ;
 fi_info -p efa and ls /sys/class/infiniband in the container must list them. Give it /dev/infiniband (Kubernetes:
 vpc.amazonaws.com/efa) and the libfabric of the EFA installer. On other networks take the UCX backend
""",
    "connection-refused": r"""
\bRPC\[(?P<at>[\w.-]{3,60}:\d{2,5})\] && ^(?:ggml\w{0,8}: )?Failed to connect to && !\bendpoint {1,10}: 127\. ;
 llama.cpp reaches no rpc-server at {at}: it is not started, listens for its own host alone, or a firewall stands
 between ; start it there with rpc-server -H 0.0.0.0 -p PORT (its default is 127.0.0.1), open the port, and try nc -zv
 HOST PORT from here. Variables of NCCL do nothing for llama.cpp
""",
    "python-exception": r"""
\bNIXL is not available\b ; NIXL is not installed in this image, or its library cannot be loaded ;
 pip install nixl (of the CUDA that PyTorch has: nixl-cu12, nixl-cu13), the same on prefill and decode. python -c
 'import nixl' tells why it fails
No plugins available for NIXL|Plugin directory does not exist ; NIXL finds none of its plugins (UCX, libfabric): the
 folder in NIXL_PLUGIN_DIR is not there, or of another build ;
 unset NIXL_PLUGIN_DIR for the wheel, which brings its own, or set it to the folder that has libplugin_UCX.so. Then
 LD_LIBRARY_PATH to its libraries
nixl\w{0,20}\.py[^\n]{0,200}(?:\n[^\n]{0,300}){0,12}?zmq\.error\.Again ; the decode server gets no answer from the side
 channel of the prefill server, over which NIXL meets ;
 set VLLM_NIXL_SIDE_CHANNEL_HOST on the prefill server to its own address (the default is localhost), open
 VLLM_NIXL_SIDE_CHANNEL_PORT (5600 and one for each further rank), and see that it still runs. NICs come after that
Session name [\w-]{10,80} does not match persisted value ; Ray finds the session of an older cluster: its Redis or an
 old head still runs ;
 ray stop --force on all nodes, then start the head first and the others after it. With an outside Redis (GCS fault
 tolerance) clear it, or give the new cluster a namespace of its own
DeepEP kernels not found|No module named 'deep_ep' ; DeepEP is not installed in this image ;
 install it with its NVSHMEM (vLLM: tools/ep_kernels) on all nodes, or take an image that has it. Without it choose
 another exchange of experts: VLLM_ALL2ALL_BACKEND=allgather_reducescatter, --moe-a2a-backend none
<= num_max_dispatch_tokens_per_rank ; a rank has more tokens in one step than the buffer of DeepEP's low-latency mode
 holds for it ;
 raise that limit on all ranks alike (SGLang: SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK). Or lower what one rank
 runs: --max-running-requests and --cuda-graph-max-bs in SGLang, --max-num-seqs in vLLM
\b(?P<list>\w{0,20}peer_(?:init|alloc)_port)\w{0,4}\[ && IndexError: list index out of range ; {list} names fewer ports
 than there are ranks of tensor parallel: each rank has a port of its own ;
 list as many ports as tensor parallel ranks in LMCache's file, such as [7300, 7301] for two, and the same in the proxy
""",
    "nccl-error": r"""
NCCL_VERSION_CODE == nccl_runtime_version ; DeepEP was compiled for another release of NCCL than the one that is
 loaded ; compile DeepEP again in this environment, or install the nvidia-nccl-cu12 (cu13) for which it was built.
 LD_PRELOAD and LD_LIBRARY_PATH must bring no other one
""",
    "gpu-memory-full": r"""
mem_heap\.cpp:|nvshmem malloc failed|NVSHMEM_SYMMETRIC_SIZE ; the GPU has no room left for NVSHMEM's symmetric heap
 (DeepEP and other exchanges between experts): weights and the KV cache took it ;
 lower the server's part (--gpu-memory-utilization, --mem-fraction-static), or what the exchange reserves: tokens per
 rank, NVSHMEM_SYMMETRIC_SIZE, number of queue pairs
""",
    "ray-error": r"""
raylet exited immediately because one Ray agent failed, agent_name = (?P<agent>\w{3,40}) ; Ray's {agent} could not
 start, and the node's raylet ended with it ;
 /tmp/ray/session_latest/logs/{agent}.log on that node tells why: a port that is taken (a second Ray, ray stop), another
 grpcio, or no memory or processes left (ulimit -u, pids limit)
have not registered within the timeout ; Ray's worker processes start too slowly, or stand still at their start ;
 see that node: load of its processors, a slow or shared file system for Python, ulimit -u and -n, /tmp full. Logs:
 /tmp/ray/session_latest/logs/worker-*. Fewer at once (--num-cpus), longer:
 RAY_worker_register_timeout_seconds=300
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
seconds elapsed: [^\n]{0,10}[Ww]aiting for GCS ; the head of the Ray cluster does not answer: its pod does not run, or
 this pod does not reach it ;
 kubectl get pods and the head's log first (image, GPUs, memory, its first error). Then its service: name, port 6379 and
 network policies, from a pod of this kind. Workers wait until then
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
