"""What is known of failures of frameworks that train on many GPUs: rows for `particulars`, and clues beside errors."""

from __future__ import annotations

_ONE_RANK = (
    r"\bif [^\n]{0,60}?(?P<if>(?:[\w.]{1,40}\.)?is_(?:main_process|world_process_zero|global_zero|rank_0)"
    r"|\b\w{0,20}rank(?:\(\))? ?== ?0):[^\n]{0,40}\n(?:[^\n]{0,200}\n){0,2}?[^\n]{0,160}"
    r"\b(?P<call>state_dict|save_checkpoint|save_model|save_state|save_pretrained)\("
)
"""A condition that lets one rank through, and a save of sharded weights behind it."""
_NAMES = "RANK|WORLD_SIZE|LOCAL_RANK|MASTER_ADDR|MASTER_PORT"

TRAINING_ROWS = {
    "build-failed": r"""
unsupported GNU version.{0,40}later than (?P<gcc>\d{1,2}) ; the host's compiler is too new for this nvcc, which takes
 gcc up to {gcc} ;
 install that older gcc and g++ (apt install gcc-12 g++-12) and name them: CC=gcc-12 CXX=g++-12, for nvcc also
 NVCC_PREPEND_FLAGS='-ccbin /usr/bin/g++-12'. Or a newer CUDA toolkit, which must still fit the PyTorch
unsupported (?P<what>[^!.\n]{3,40}) version ; nvcc does not take the host's compiler: {what} ;
 install a gcc that this CUDA toolkit supports and name it (CC, CXX, NVCC_PREPEND_FLAGS='-ccbin ...')
""",
    "ssh-launch": r"""
launcher '?(?P<what>\w{2,20})'? not installed ; {what}, by which the launcher starts other nodes, is not installed on
 the host that launches ;
 apt install pdsh there (in the image), or another way: --launcher openmpi, mpich, slurm, or torchrun on each node.
 Keys of ssh between the nodes are needed as well
""",
    "wrong-results": r"""
Rank (?P<rank>\d{1,7}), node (?P<node>[\w.-]{1,60}), device (?P<gpu>\d{1,3}), .{0,120}(?:not reproducible|Possible
 \w{4,10} error) ; GPU {gpu} of {node} (rank {rank}) computed another result when the step was run again: its hardware
 may corrupt data ;
 drain that node, run dcgmi diag -r 4 on that GPU, and go on from the last checkpoint on another node. Have the GPU
 replaced where it comes again; data, NCCL and network are not at fault
""",
    "straggler": r"""
Affected ranks: \W{0,2}(?P<ranks>\d[\d, ]{0,60}) ; rank {ranks} is slower than the others, by the report on stragglers,
 and all wait for it ;
 look on the host of that rank: nvidia-smi -q -d CLOCK,PERFORMANCE,POWER (heat, power cap), other programs, a slow PCIe
 link, memory errors. Run without that node (--exclude): where the job is fast then, have it repaired
""",
    "duplicate-gpu": r"""
for multiple distinct roles ; the trainer and the server that generates for it use the same GPU ;
 give them GPUs of their own: CUDA_VISIBLE_DEVICES=0 trl vllm-serve, CUDA_VISIBLE_DEVICES=1,2,3 for the trainer. With
 few GPUs vllm_mode="colocate", where the trainer generates itself
""",
    "no-interface": r"""
common task-to-task communication interfaces ; the hosts of the Horovod job have no network interface of the same name
 by which they reach each other ;
 ip -br addr on each host, then horovodrun --network-interfaces NAME (a name that all have, such as eth0; not lo or
 docker0), and NCCL_SOCKET_IFNAME the same. The hosts must reach each other on all ports there
""",
    "nvls-multicast": r"""
UB_SKIPMC ; Transformer Engine's overlap of matrix products and communication (Userbuffers) wants NVLink multicast,
 which GPU, driver or CUDA here do not offer ;
 UB_SKIPMC=1 goes on by CUDA IPC; or leave the overlap off (no --tp-comm-overlap, ub_tp_comm_overlap: false). On H100
 and newer with NVSwitch: a driver of 535 or newer, fabric manager of its version up, CUDA 12.1 or newer
""",
    "cuda-fork": r"""
notebook_launcher ; CUDA was touched in the notebook before its launcher forks the ranks ;
 restart the kernel. Make model, Accelerator and all calls of CUDA inside of the function that is launched, and
 look for an import that touches the GPU (torch.cuda.is_available() in it, a quantization library)
""",
}
"""Rows of `meanings.particulars`: words of the evidence, the cause, and its cure."""

_NO_HOST = (
    r"(?P<word>[\w~.-]{0,60}/[^,()\s\]]{0,120}|[*#=>$~-]{1,80}|(?:bash|stty|tput|mesg|conda|ssh|Warning|WARNING):"
    r"|Welcome|Last|Hello|Loading|Setting|Using|Activating|Agent|Now|Warning|WARNING)"
)
"""First words of what start files of a shell print, and paths: none is a host."""
_SPOILED = (
    "{word} is the first word that the shell's start files print on the first node. DeepSpeed takes the first word of "
    "`ssh NODE hostname -I` for the master's address, so that no rank finds it"
)
_SILENT = (
    "Or let .bashrc, .profile and what they source print nothing where the shell is not interactive. ssh NODE hostname "
    "-I must answer with addresses alone. DNS, /etc/hosts and IPv6 have no part in it"
)

TRAINING_CLUES = {
    "cuda-call-failed nccl-error": r"""
NCCL operation (?P<call>nccl\w{3,30})\(.{0,200}failed: unhandled cuda error(?!.{0,300}Last NCCL warning) &&
 jax|xla|XLA|tensorflow && !Cuda failure|NCCL WARN ; a call of CUDA failed within {call}, as XLA (JAX, TensorFlow)
 started NCCL, and the log does not say which. Too little GPU memory for NCCL is the first suspect: XLA takes most of
 it before ; leave NCCL room: XLA_PYTHON_CLIENT_MEM_FRACTION=0.7, or XLA_PYTHON_CLIENT_PREALLOCATE=false (TensorFlow:
 TF_FORCE_GPU_ALLOW_GROWTH=true), or a smaller batch. NCCL_DEBUG=INFO prints CUDA's own words. Where they say nothing
 of memory, see that driver, CUDA and NCCL fit each other (a newer jaxlib brings its own), and /dev/shm in a container
""",
    "node-lost": r"""
Failed to connect to GCS at address (?P<at>[\d.]{7,15}):(?P<port>\d{2,5})\b && Connected to Ray cluster\. ; a node of
 Ray does not reach the head at {at}:{port}, where the head itself runs: the GPUs of that node are not in the cluster
 ; on that node: nc -zv {at} {port}. Open that port and Ray's other ports (ray start --min-worker-port,
 --node-manager-port and so on) between the nodes, in firewall and container (host network, or published ports). Give an
 address of the network that nodes share, and the same Ray on all. Then `ray status` shows all GPUs, and the model can
 be placed. Fewer GPUs for the model only go around it
Failed to connect to GCS at address (?P<at>[\d.]{7,15}):(?P<port>\d{2,5})\b ; a node of Ray does not reach the head at
 {at}:{port}, so that its GPUs are not in the cluster ; on that node: nc -zv {at} {port}. Refused: `ray start --head`
 does not run there, or listens on another address. No answer: open that port and Ray's other ports in firewall and
 container (host network, or published ports). Give an address of the network that nodes share, and the same Ray on all.
 Then ray status on the head shows all GPUs
""",
    "dns master-unreachable rendezvous-timeout": rf"""
(?:addresses of \(|connect to \[?){_NO_HOST}(?:, |\]?:)\d{{2,5}}\b && Running on the following workers:
 (?P<first>[\w.-]{{1,80}}) ; {_SPOILED} ; give the address: --master_addr={{first}} (accelerate:
 --main_process_ip {{first}}).
 {_SILENT}
(?:addresses of \(|connect to \[?){_NO_HOST}(?:, |\]?:)\d{{2,5}}\b &&
 [Dd]eep[Ss]peed|multinode_runner|launch\.py:\d{{1,4}}:main ; {_SPOILED} ; give the address:
 --master_addr=ADDRESS (accelerate: --main_process_ip).
 {_SILENT}
""",
    "gpu-memory-full": r"""
\bin pin_memory\b|\.pin_memory\(\)|cudaHostAlloc|CachingHostAllocator|PinnedMemory && CUDA error: out of
 memory|cudaErrorMemoryAllocation ; memory of the host that is pinned for copies (offload, loader) ran out, though CUDA
 says "out of memory": {title} ; free -g and ulimit -l on that host, and the limit of the container or job: more memory
 for it, or less to pin. Set pin_memory false for offload_optimizer and offload_param, offload less, or start fewer
 ranks per host. The GPU's own memory has room: smaller batches do not help
""",
    "build-failed": r"""
^[ \t]{0,8}Killed\s*$|fatal error: Killed signal terminated program|nvcc[^\n]{0,80}(?:signal 9|Killed) && !unsupported
 GNU version ; a compiler was killed, as its host had no memory left: too many files are compiled at once ({title}) ;
 MAX_JOBS=4 (NVCC_THREADS=1) before the same pip install, fewer where it is killed again, or a machine with more memory.
 Or take the wheel that is built already for this torch, CUDA, Python and C++ ABI (releases of the package)
""",
    "sizes-uneven": r"""
\b_create_(?:expert\w{0,20}|process_groups)\b|deepspeed/moe/ ; {title}: the expert parallel size (ep_size) does not
 divide the ranks of data parallelism ; choose an ep_size that divides the world size (over tensor and pipeline
 parallel size) and the number of experts, or start more ranks. Batch, data and versions are right
""",
    "watchdog-timeout collective-order": r"""
\bzero[_ ]?stage\W{1,4}3\b|\bZeRO-?3\b|partitioned_param_coordinator\.py|_fsdp_param_group\.py|\bfully_shard\b &&
 \.generate\((?![^\n]{0,200}synced_gpus ?= ?True) && \bgenerat(?:ed|ing)\b[^\n]{0,60}(?:done|finished|tokens|samples) ;
 ranks generate texts of different length under ZeRO-3 or FSDP: one that has ended gathers no more weights, and the
 others wait for it ({title}) ; model.generate(..., synced_gpus=True), so that all ranks go on until the longest text is
 done, with the same number of batches each. Or gather the weights first (GatheredParameters, summon_full_params) or
 generate by a server. Network and NCCL's time are not at fault
""",
    "collective-order watchdog-timeout": rf"""
{_ONE_RANK} &&
 \b_?(?:full_pre_state_dict|unshard|FSDP|fsdp|deepspeed|ZeRO|zero)\w{{0,40}} ; one rank alone calls {{call}}, behind
 {{if}}, which gathers weights from all ranks: {{title}} ; call {{call}} on all ranks, outside of that condition, and
 write what it returns on rank 0 alone. Under FSDP and ZeRO-3 it is a collective. More time does not help
""",
    "python-exception": r"""
/job:(?P<job>\w{1,20})/(?:replica:\d{1,3}/)?task:(?P<task>\d{1,5})/device:(?P<mine>\w{2,8}):\d{1,3} is joining a group
 with incompatible device type ?(?P<other>CPU|GPU|TPU) ; task {task} takes part with a {mine}, and another of
 TensorFlow's workers with a {other}: one of them sees no GPU ; on the worker with the CPU: python -c "import tensorflow
 as tf; print(tf.config.list_physical_devices('GPU'))". Is the list empty, its start says why (Could not load dynamic
 library, a build for CPUs, CUDA_VISIBLE_DEVICES, the driver). Install tensorflow with the same CUDA and cuDNN on all.
 NCCL wants a GPU in each worker. The network between them works
Cannot writeback when the (?:parameter|gradient) shape changes && switching to use .?NO_SHARD ; FSDP runs on one process
 here (world size 1, NO_SHARD), and does not take back its flat weights in that combination ({title}) ; on one GPU start
 without FSDP: accelerate launch without that config file, or distributed_type: 'NO'. Or give it two GPUs and more. Else
 use_orig_params false, FSDP 2 (fsdp_version: 2), or load the model in float32, so that nothing is upcast after
 wrapping. The model is right
copying a param with shape torch\.Size\(\[0\]\) from checkpoint && Error\(s\) in loading state_dict ; the checkpoint
 holds empty weights (size 0): it was saved under ZeRO-3 or FSDP without gathering them ({title}) ; take the weights
 out of the parts beside it: python zero_to_fp32.py FOLDER OUT (it lies in the checkpoint's folder). From then on save
 with stage3_gather_16bit_weights_on_model_save true, or by the trainer's save_model on all ranks. The model's config
 is right
Missing key\(s\) in state_dict[^\n]{0,300}_extra_state && Error\(s\) in loading state_dict ; the checkpoint has no
 scales of FP8 (_extra_state): it was saved without Transformer Engine's FP8 or by another release of it ({title}) ;
 load with strict=False, in Megatron --dist-ckpt-strictness log_all, where those keys alone are missing: they are made
 anew. Or the release that saved it
No module named '?mpi4py && attempting to detect MPI|\bmpi_discovery\b ; the program was started without a launcher, so
 that DeepSpeed looks for MPI: {title} ; start it by deepspeed, torchrun or accelerate launch, which need no MPI (on one
 GPU: deepspeed --num_gpus 1). Only where mpirun starts the ranks: pip install mpi4py in the image of all nodes
KeyError && Unable to load (?P<what>optimizer|rng state) from checkpoint ; the checkpoint has no state of the {what}
 that fits this run, as one that was converted or saved without it: {title} ; --no-load-optim --no-load-rng take the
 weights and step alone, --finetune the weights alone and begins at step 0. To go on exactly, give the optimizer
 options of the run that saved it (--use-distributed-optimizer, precision)
""",
    "rank-variables": rf"""
\bmpi(?:run|exec)\b[^\n]{{0,300}}\bpython && environment variable (?P<what>{_NAMES})
 expected && !\btorchrun\b ; mpirun starts the ranks, and gives them other variables than PyTorch reads: {{what}} is not
 set ; start by torchrun on each node in its place. Or set them before init_process_group:
 RANK=$OMPI_COMM_WORLD_RANK, WORLD_SIZE=$OMPI_COMM_WORLD_SIZE, LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK (PMI_RANK of
 MPICH), and pass MASTER_ADDR and MASTER_PORT with mpirun -x
""",
}
"""Rows of `clues.sharpen`: words that must all stand in the log."""
