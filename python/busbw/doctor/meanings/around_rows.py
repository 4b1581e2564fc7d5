"""Rows of clues (as `clue_rows` has them): who shares a node, a GPU or a pod with a job, and builds that do not fit."""

from __future__ import annotations

_PORT_GONE = r"(?:bind to|listen on|EADDRINUSE)[^\n]{0,120}:29400\b|\bport:? ?\(?29400\b[^\n]{0,120}EADDRINUSE"
_STORE_GONE = r"connection to the C10d store has failed|has failed to shutdown the rendezvous"
_LOST_ON_WAY = (
    r"RendezvousConnectionError && failed to send a keep-alive heartbeat to the rendezvous|, in num_nodes_waiting\b"
)
"""What an agent does while its ranks work: it had met the others at the store long before."""
_OWN_STORE = (
    "give each job a store of its own: torchrun --rdzv_backend=c10d --rdzv_endpoint=localhost:0 --rdzv_id=NAME. Or a "
    "torch whose --standalone takes a free port (2.1 and newer). --master-port does not change it. Do not end "
    "the other job: this one would end with it"
)
_MESH = (
    r"\b(?:istio-proxy|istio-init|linkerd-proxy|linkerd-init|envoy-sidecar|kuma-sidecar)\b"
    r"|\bsidecar\.istio\.io/status\b|\bistio-injection[=:] ?enabled\b"
    r"|\blinkerd\.io/(?:inject[=:] ?enabled|proxy-version)"
)
_CUT = (
    r"(?:Connection|connection) (?:was )?(?:reset by peer|refused|closed by)|Broken pipe|Socket Timeout"
    r"|upstream connect error"
)
_MESH_CURE = (
    'give the job\'s pods no proxy: annotation sidecar.istio.io/inject: "false" in the pod templates of all its '
    "roles (Linkerd: linkerd.io/inject: disabled). Or run it in a namespace without injection. The ports may "
    "be excluded instead, but ranks use many. DNS, image, GPUs and NCCL need no repair"
)
_FRACTION = (
    r"XLA_PYTHON_CLIENT_MEM_FRACTION['\"]?\]?\s{0,3}[=,:]\s{0,3}['\"]?"
    r"(?P<part>0?\.9[3-9]\d{0,4}|[1-9]\d{0,3}(?:\.\d{1,4})?)\b"
)
_OF_JAX = r"\bjaxlib\b|XlaRuntimeError|JaxRuntimeError|\bxla/(?:service|pjrt|stream)"
_FRACTION_CURE = (
    "set XLA_PYTHON_CLIENT_MEM_FRACTION below 0.9 (the default is 0.75), or XLA_PYTHON_CLIENT_PREALLOCATE=false: it is "
    "a fraction, and no percentage. NCCL needs up to 2 GiB per GPU beside JAX's pool. P2P, driver and the "
    "program's calls are not at fault"
)
_BY_CLOCK = (
    r"\b(?P<option>(?:ckpt|checkpoint|save|saving|snapshot)[\w-]{0,12}(?:interval|every|freq\w{0,6}|period)"
    r"[\w-]{0,12}?(?:minutes|mins|seconds|secs|hours))\b['\"]?\s?[=: ]\s?(?!0+(?:\.0+)?(?:\s|$))\d"
)
"""How long a program waits from one checkpoint to the next, where no zero switches that off."""
_WAKES = (
    r"(?:in |\.|rpc\(\")(?:wake_up|resume_memory_occupation)\b(?:[^\n]{0,300}\n){1,24}?[^\n]{0,200}[Oo]ut of memory"
)
"""A traceback that goes through the call and ends for want of memory."""
_TRAINS = (
    r"\b(?:FSDP|fsdp|FullyShardedDataParallel|megatron|Megatron|deepspeed|DeepSpeed|hybrid_engine)\b"
    r"|\bfsdp_\w{2,30}\.py"
)
_PART = r"gpu_memory_utilization['\"]?\)?\s?[:=(]\s?['\"]?(?P<part>0?\.\d{1,4})\b"
_KEPT = r"(?:param|optimizer)_offload['\"]?\s?[:=]\s?['\"]?(?:False|false)\b"
_WAKE_CURE = (
    "lower the server's part (rollout.gpu_memory_utilization, such as 0.4 to 0.6); let the trainer move its state to "
    "the host (actor.fsdp_config.param_offload=True optimizer_offload=True). Smaller micro batches and an emptied "
    "cache (torch.cuda.empty_cache() before wake_up) leave more, too. NCCL and the length of answers are not at fault"
)

AROUND_ROWS = {
    "pmi": r"""
\bPMI2?_KVS_Get returned -?\d|\bMPIR_pmi_(?:kvs_get|allgather\w{0,8}|barrier)\(\d && !\bsrun\b ; MPI's processes cannot
 tell each other their addresses (PMI), so that MPI_Init fails before NCCL begins. One of them does not reach mpirun, or
 the program belongs to another MPI than mpirun ;
 let a plain program of MPI (hello world) run over the same hosts first. One MPI on all of them, and the mpirun of that
 with which the program was built (which mpirun; ldd PROGRAM | grep mpi). Host names must resolve on each host, ssh to
 each must pass, and a firewall must let Hydra's ports through. GPUs, NCCL and drivers have no part in it
""",
    "port-in-use": rf"""
--standalone\b && {_PORT_GONE} && {_STORE_GONE} ; two torchrun --standalone jobs share one store: another one on this
 node held port 29400 already, this job joined its store, and ended when that job did ; {_OWN_STORE}
--standalone\b && {_PORT_GONE} ; two torchrun --standalone jobs on one node: both take port 29400, and this one came
 second. It joins the other's store, and ends when that job does ; {_OWN_STORE}
(?:bind to|listen on)[^\n]{{0,120}}:(?P<port>\d{{4,5}})\b && {_STORE_GONE} ; another launcher on this node held port
 {{port}} already: this job's agent joined the store of that one, and lost it when the other job ended ; {_OWN_STORE}
""",
    "rendezvous-timeout": rf"""
--standalone\b && {_LOST_ON_WAY} ; torchrun lost the rendezvous store in the midst of the job. Jobs with --standalone
 on one node share the store of the first one (localhost:29400), and it ends with that job ; {_OWN_STORE}
{_LOST_ON_WAY} ; torchrun lost the rendezvous store in the midst of the job: the torchrun that serves it ended. That is
 the one of the first node, or of another job of this node with the same endpoint ;
 see how that launcher ended: its own log, dmesg there, the end of its job. Jobs of one node need a port each:
 --rdzv_endpoint=localhost:0 or another --rdzv_endpoint, and --rdzv_id. Where the first node ended by a fault, that is
 the cause. Endpoint and firewall were right, as the job had begun
""",
    "collective-mismatch": r"""
Rank 0 has (?P<mine>\d{1,6}) params, while rank [1-9]\d{0,5} has inconsistent 0 params &&
 Rank [1-9]\d{0,5} has \d{1,6} params, while rank 0 has inconsistent 0 params ; what ranks tell each other arrives as 0:
 rank 0 itself has {mine} parameters in this check of DDP, and the others read 0. All are there, and the exchange
 between their GPUs is broken, not the model ;
 test the exchange: all_reduce_perf -g N on these GPUs, and the job once with NCCL_P2P_DISABLE=1. Where that passes, the
 IOMMU or ACS break transfers from GPU to GPU (iommu=pt, ACS off), or a driver that claims P2P where cards have none.
 The model needs no change
""",
    "kubernetes-event remote-error connection-refused connection-timeout master-unreachable rendezvous-timeout": rf"""
{_MESH} && {_CUT} && !OOMKilled|ErrImagePull|ImagePullBackOff|FailedMount &&
 !sidecar\.istio\.io/inject['\"]?: ?['\"]?false|linkerd\.io/inject['\"]?: ?disabled ; a service
 mesh stands between the pods: a proxy (sidecar) was injected into them, takes all their connections, and cuts those
 between ranks ; {_MESH_CURE}
""",
    "cuda-call-failed nccl-error gpu-memory-full xla-error nccl-internal": rf"""
{_FRACTION} && {_OF_JAX} ; JAX takes nearly all of each GPU's memory at its start
 (XLA_PYTHON_CLIENT_MEM_FRACTION={{part}}), and leaves none for NCCL, which cannot make its communicator ;
 {_FRACTION_CURE}
""",
    "gpu-memory-full": rf"""
{_WAKES} && {_TRAINS} && {_PART} && {_KEPT} ; a GPU's memory is full as the inference server wakes up: it wants
 {{part}} of the GPU (gpu_memory_utilization), and the trainer keeps its parameters and optimizer there (offload is
 off) ; {_WAKE_CURE}
{_WAKES} && {_TRAINS} && {_PART} ; a GPU's memory is full as the inference server wakes up: it wants {{part}} of the
 GPU (gpu_memory_utilization), beside what the trainer keeps there ; {_WAKE_CURE}
{_WAKES} && {_TRAINS} ; a GPU's memory is full as the inference server wakes up: the trainer keeps its state, and what
 its allocator reserved, on the same GPUs ; {_WAKE_CURE}
""",
    "graph-capture": r"""
NCCL cannot be captured in a graph && NCCL version (?P<nccl>2\.\d{1,3}\.\d{1,3}\+cuda(?:10\.\d|11\.[0-2]))\b ; this
 build of NCCL ({nccl}) cannot be captured in a CUDA graph: it was built with a CUDA older than 11.3 ;
 take an NCCL built for CUDA 11.3 or newer (pip install nvidia-nccl-cu11 or -cu12 as torch has it, a newer cupy), and
 see which libnccl is loaded: grep libnccl /proc/PID/maps. To go on at once: without CUDA graphs (vLLM:
 --enforce-eager). A driver newer than R465 (nvidia-smi) needs no update
NCCL cannot be captured in a graph ; NCCL cannot be captured in a CUDA graph: it was built with a CUDA older than 11.3,
 or the driver is older than R465 ;
 the line `NCCL version` tells its CUDA (+cuda11.0 is too old), nvidia-smi the driver. Take a build of NCCL for CUDA
 11.3 or newer, or update the driver. To go on at once: without CUDA graphs (vLLM: --enforce-eager)
""",
    "driver-too-old": r"""
CUDA driver version is insufficient &&
 (?:Kernel Module(?: for x86_64)?\s{1,3}|Driver Version: )(?P<driver>\d{3}\.[\d.]{2,8}) &&
 libcudart\.so\.(?P<cuda>\d{1,2}(?:\.\d{1,2})?)\b ; the NVIDIA driver {driver} is too old for CUDA {cuda}, which this
 program loads ;
 {fix}. The toolkit that nvcc names has no part in it: the program's libcudart counts
""",
    "library-not-found": r"""
(?P<library>libnccl\.so[\w.]*): cannot open shared object &&
 ^[^\n#]{0,40}\bmpirun (?![^\n]{0,900}-x LD_LIBRARY_PATH\b)[^\n]{0,900} -x NCCL &&
 (?:=> | )(?P<there>/[\w./-]{1,120}/libnccl\.so[\w.]*) (?:\(0x|->) ; mpirun does not pass LD_LIBRARY_PATH on to the
 other hosts, so that {library} is not found there, though the file exists ({there}) ;
 mpirun -x LD_LIBRARY_PATH, or build with an rpath (-Wl,-rpath,FOLDER), or set it for shells of ssh on each host. Check:
 ssh HOST 'echo $LD_LIBRARY_PATH'. Nothing has to be installed
Unable to load NCCL library|Failed to load NCCL library && \bxla\b|\bjaxlib\b|\bjax\b ; XLA (JAX) cannot load NCCL
 (libnccl.so.2), which it opens only at the first collective between GPUs ;
 pip install nvidia-nccl-cu12 beside this jaxlib (pip install "jax[cuda12]" brings it; cu13 for CUDA 13). Or install
 the system's package libnccl2, and let LD_LIBRARY_PATH name its folder. All nodes need it. Lines of libtpu.so and
 rocm are harmless
[Dd]oesn't have NCCL built in|Backend nccl is not available &&
 ^PS [A-Z]:\\|\bFile "[A-Z]:\\|[A-Z]:\\\S{1,200}python\.exe ; PyTorch for Windows has no NCCL: nothing is missing that
 could be installed there ;
 take init_process_group("gloo") (PL_TORCH_DISTRIBUTED_BACKEND=gloo, ddp backend gloo), or Linux by WSL2 or a container,
 where the same program may use nccl. Programs that name nccl in their source need that changed. On one GPU no process
 group is needed
[Dd]oesn't have NCCL built in|Backend nccl is not available && ^[^\n]{0,80}\bFile "/(?:Users|opt/homebrew)/|\bdarwin\b ;
 PyTorch for macOS has no NCCL, and there is no CUDA: nothing is missing that could be installed there ;
 take init_process_group("gloo") with device mps or cpu, or a machine with NVIDIA GPUs
[Dd]oesn't have NCCL built in|Backend nccl is not available &&
 \btorch(?:==|[ \t-]{1,30})\d\S{0,12}\+cpu\b|\bcpuonly\b ; this build of PyTorch is the one for processors alone, which
 has no NCCL ;
 install the build for CUDA: pip install torch --index-url https://download.pytorch.org/whl/cu126 (conda: without
 cpuonly)
""",
    "rank-variables": r"""
unrecognized arguments: (?P<arg>--local[-_]rank)\b ; the launcher passes {arg}, and the program's parser knows no such
 option (torch.distributed.launch wrote --local_rank before PyTorch 2.0, and --local-rank since) ;
 take torchrun and read os.environ["LOCAL_RANK"], or let argparse know both: add_argument("--local-rank",
 "--local_rank", type=int). The variables of the launcher are there
""",
    "collective-mismatch collective-order": rf"""
{_BY_CLOCK} ; {{title}}; each rank's own clock says when it saves ({{option}}), so that ranks save at different steps ;
 let steps decide in place of a clock, or let rank 0 decide and broadcast it to all. Until then switch saving by time
 off ({{option}}=0): if it passes so, this is the cause. A release of the framework in which rank 0 decides mends it,
 too. The network has no part in it
""",
    "illegal-access": r"""
custom_all_reduce\.cuh:(?P<line>\d{1,6})\b[^\n]{0,20}illegal memory access && [Ff]lash[Ii]nfer
 [Aa]ll-?[Rr]educe[^\n]{0,60}backend=(?P<backend>\w{2,12}) ;
 {title}; it showed in the server's own all-reduce (custom_all_reduce.cuh:{line}), after FlashInfer's fused all-reduce
 had begun (backend={backend}) ;
 switch one after the other off to see which it is, as such errors are told late. First the fused one:
 --compilation-config.pass_config.fuse_allreduce_rms=false, or VLLM_FLASHINFER_ALLREDUCE_BACKEND=trtllm. Then
 --disable-custom-all-reduce, then --enforce-eager. CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer names the kernel.
 A newer server with its flashinfer may mend it. NCCL and the network have no part in it
custom_all_reduce\.cuh:(?P<line>\d{1,6})\b[^\n]{0,20}illegal memory access ;
 {title}; it showed in the server's own all-reduce (custom_all_reduce.cuh:{line}), or in a kernel before it ;
 try --disable-custom-all-reduce: where it stays, a kernel before it is at fault. Then --enforce-eager, another
 attention and a newer server. CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer names the kernel. NCCL and the network have
 no part in it
File "[^"\n]{0,200}/(?P<file>(?:vllm_flash_attn|flash_attn|flashinfer|xformers|attention/backends)/[\w/]{1,80}\.py)",
 line (?P<line>\d{1,6}) && (?:Error in model execution|execute_model)[^\n]{0,80}input dumped to (?P<dump>/[^\s)]{2,120})
 ; {title}; it was seen in the server's attention ({file}, line {line}) ;
 take a newer release of the server, or another attention (VLLM_ATTENTION_BACKEND=XFORMERS or FLASHINFER,
 --attention-backend), and try --enforce-eager. CUDA_LAUNCH_BLOCKING=1 tells whether the kernel is that one, as such
 errors are told late. The input that failed was kept ({dump}): it belongs in a report. NCCL only reports it
File "[^"\n]{0,200}/(?P<file>(?:vllm_flash_attn|flash_attn|flashinfer|xformers|attention/backends)/[\w/]{1,80}\.py)",
 line (?P<line>\d{1,6}) && /(?:vllm|sglang)/[\w/]{2,80}\.py" && !\bXid\b[^\n]{0,40}: (?:48|63|64|79|94|95),
 ; {title}; it was seen in the server's attention ({file}, line {line}) ;
 take a newer release of the server, or another attention (VLLM_ATTENTION_BACKEND=XFORMERS or FLASHINFER,
 --attention-backend), and try --enforce-eager or --disable-cuda-graph. CUDA_LAUNCH_BLOCKING=1 tells whether the kernel
 is that one, as such errors are told late. NCCL only reports it
""",
}
