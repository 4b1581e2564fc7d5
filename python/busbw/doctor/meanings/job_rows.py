"""What `particulars` knows of jobs as their programs tell it: {title} stands for the title as it was."""

from __future__ import annotations

JOB_ROWS = {
    "gpu-not-visible": r"""
current_node_resource|[Cc]urrent node has no GPU ; the node on which the server starts has no GPU left in Ray: another
 server or job holds them, or Ray was started there without GPUs ;
 ray status (GPUs used and reserved) and nvidia-smi show who holds them: end the other server or a placement group that
 was left behind. Or lower the tensor and pipeline parallel sizes, or join nodes (ray start --num-gpus=N)
invalid device ordinal ; a rank chooses a GPU that it does not see: fewer GPUs are visible than ranks run on
 its node, or CUDA_VISIBLE_DEVICES does not fit its local rank ;
 start no more ranks per node than GPUs are visible (--nproc_per_node, nvidia-smi -L there). Choose the GPU by the
 local rank, not the global one; where the launcher shows each rank one GPU (CUDA_VISIBLE_DEVICES), take number 0
""",
    "version-mismatch": r"""
unknown result code ; NCCL does not know the result that it got (unknown result code). Most likely two versions of NCCL
 meet in one process, as that of PyTorch and that of a plugin ;
 compare torch.cuda.nccl.version() with the NCCL that the other part was built for ("NCCL version" under
 NCCL_DEBUG=INFO, ldd of the plugin). Then install parts that match, such as the release's own image. `grep libnccl
 /proc/PID/maps` names each copy that is loaded. NCCL's warnings beside it may be bogus
""",
    "library-not-found": r"""
Failed to load NCCL library from (?P<library>[\w./+-]{3,100}?) ?\. ?It is expected ; the NCCL library cannot be loaded:
 {library} (vLLM, SGLang) ;
 pip install nvidia-nccl-cu12 in this environment, as this PyTorch needs it (cu13 for CUDA 13). Or VLLM_NCCL_SO_PATH
 with the full path of a libnccl.so.2 that is whole and of this platform (file, ldd). All nodes need it
""",
    "vm-topology": r"""
Attribute busid of node (?P<node>nic|gpu|pci) not found ; NCCL's topology has an entry of a {node} without its PCI
 address (busid): the file that is set leaves it out, or a virtual machine hides it ;
 look where NCCL_TOPO_FILE points (also /etc/nccl.conf and the image), and take the provider's file of this machine type
 or unset it. NCCL_TOPO_DUMP_FILE=topo.xml shows the entry; a virtual NIC without a PCI address gives one, too
 (NCCL_SOCKET_IFNAME, NCCL_IB_DISABLE=1 leave it out)
XML Import Channel ?: ?dev (?P<dev>\d+) not found ; the graph file that is set (NCCL_GRAPH_FILE) is of more GPUs than
 this job sees: it names GPU {dev} ;
 unset NCCL_GRAPH_FILE, also in /etc/nccl.conf and ~/.nccl.conf, where images of clouds set it, or give the job all GPUs
 of the node; NCCL_TOPO_FILE may stay
""",
    "ignored-setting": r"""
Unrecognized (?:element|prefix) token \W?(?P<what>[^\s"']{1,40}) ; NCCL_ALGO or NCCL_PROTO holds a name that NCCL
 refuses: {what} ;
 unset the variable (also in /etc/nccl.conf), or take a name that this NCCL knows: Ring, Tree, CollnetDirect,
 CollnetChain, NVLS, NVLSTree for NCCL_ALGO; LL, LL128, Simple for NCCL_PROTO
""",
    "rank-count": r"""
= (?P<part>\d{1,7}) is not divisible by (?:weight quantization )?(?P<by>\w{5,12}_[nk]) = (?P<block>\d{1,5}) ;
 blocks of the weights' quantization do not divide the parts that tensor parallelism makes of them: parts of {part}, and
 {by} = {block} ;
 take a smaller tensor parallel size, so that each part is a multiple of that block (several replicas use the other
 GPUs). Experts may stay whole: --enable-expert-parallel (vLLM), --ep-size (SGLang). Or load weights that are not
 quantized in blocks, such as those in BF16. No GPU or link is at fault
(?:^|[:\])] )(?P<what>[\w][^:\n]{2,70}?) (?:must|should|has to|needs to) be (?:evenly )?divisible by
 (?P<by>[^.\n]{2,60}) ;
 {what} is not divisible by {by} ;
 choose sizes that divide: tensor parallel size into heads and nodes, pipeline size into layers, experts into their
 group. The batch must be a multiple of ranks times the micro batch; or start another number of GPUs
rank (?P<rank>\d{1,7}) of (?P<size>\d{1,7}) ranks has already checked in ; two processes were started as rank {rank} of
 {size}: one of them has the wrong rank ;
 give each process its own rank: another --node-rank (machine_rank, NODE_RANK) on each node, RANK from the launcher and
 not from a file. No process of an earlier start may be left. One ncclUniqueId per communicator and start
mismatch in rank count from procs (?P<one>\d{1,7}) : (?P<other>\d{1,7}) ; one process counts {one} ranks, and another
 {other}: they were started with different world sizes ;
 torchrun --nnodes and --nproc-per-node (or mpirun -n, WORLD_SIZE) the same on all nodes. No process of an earlier start
 may be left, and each start needs a port and an id of its own
World size \((?P<size>\d{1,7})\) is larger than the number of available GPUs \((?P<gpus>\d{1,5})\) ; {size} ranks were
 asked for, and this node has {gpus} GPUs ;
 lower tensor times pipeline parallel size to that number, or join nodes: vLLM with Ray (--distributed-executor-backend
 ray) or --nnodes. nvidia-smi -L and CUDA_VISIBLE_DEVICES say which GPUs are seen
world[_ ]?size:? \(?(?P<size>\d{1,7})\)? is not divisible by (?P<by>\w[\w. *x=-]{0,50}\w(?:
 \([\w. *x=+-]{1,80}\))?) ; {size} ranks are not
 divisible by {by} ;
 choose sizes that divide: start a multiple of tensor times pipeline (times context, expert) parallel size as ranks, or
 lower these sizes
train_batch_size\b.{0,140} (?P<all>\d{1,9}) != (?P<micro>\d{1,9}) \* (?P<acc>\d{1,9}) \* (?P<size>\d{1,9}) ; sizes of
 batches do not fit the number of ranks: train_batch_size is {all}, and {micro} per GPU times {acc} steps times {size}
 ranks is not ;
 global batch = micro batch * gradient accumulation * data parallel ranks; correct one of the three in the config, or
 leave one out ("auto")
rank should be in range \[0, ?(?P<size>\d{1,7})[\])].{0,20}?got:? (?P<rank>-?\d{1,7}) ; rank {rank} was asked for among
 {size} ranks, which are counted from 0 ;
 pass ranks from 0 to the number of ranks less one (RANK, rank=), and the same number of ranks in every process
\b(?:invalid )?rank:? (?P<rank>\d{1,7}) (?:is out of range|exceeds|>=|(?:in|of|for) (?:a )?world)\W{0,3}(?:of |size
 |world ?size |world ){0,3}\(?(?P<size>\d{1,7})\b ; rank {rank} was asked for among {size} ranks, which are
 counted from 0 ;
 pass ranks from 0 to the number of ranks less one (RANK, rank=), and the same number of ranks in every process
You set `(?P<mine>\w{2,20}=\d{1,5})` in Lightning, but the number of [\w ]{4,20} configured in SLURM
 `(?P<theirs>--[\w-]{3,20}=\d{1,5})` ; Lightning was told {mine}, and Slurm {theirs} ;
 let both be the same: #SBATCH --ntasks-per-node is Trainer(devices=), --nodes is num_nodes. In an interactive shell of
 Slurm: unset SLURM_NTASKS, or start by srun
localId (?P<rank>\d{1,7}) is out of range ; local rank {rank} is more than its node has places for ;
 start no more ranks per node than it has GPUs, and the same number on each node
Mesh should not be bigger than default world size (?P<size>\d{1,7})\b.{0,20}found (?P<ranks>\d{1,9}) ranks ; the device
 mesh names {ranks} ranks, and the world size is {size} ;
 the product of the mesh's dimensions (data, tensor, pipeline, context parallel) is the number of ranks: correct a
 dimension, or start as many ranks
duplicate rank (?P<rank>\d{1,7})\b ; two processes were started as rank {rank} ;
 give each process its own rank: another --node-rank (machine_rank, NODE_RANK) on each node
Invalid rank requested ?: ?(?P<rank>-?\d+)/(?P<size>\d+) ; rank {rank} was asked for among {size} ranks, which are
 counted from 0 ;
 pass ranks from 0 to the number of ranks less one to ncclCommInitRank (RANK, rank=), and the same number of ranks in
 every process
""",
    "engine-mismatch": r"""
MPI (?:world )?size:? \(?1\)? ?(?:!=|does not match|doesn't match) ; each process takes itself for the only one (MPI
 size 1): its launcher gave it no PMI, or it was started without one ;
 srun --mpi=pmix (srun --mpi=list shows what there is), or mpirun -n tp_size*pp_size inside the container, with the MPI
 that the program was built with, one GPU each
""",
    "ssh-launch": r"""
plm_rsh ; mpirun finds neither ssh nor rsh, by which it starts processes, and ends before the program starts ;
 install openssh-client (in the image too). On one host alone: mpirun --mca plm isolated, or name any program as
 plm_rsh_agent
""",
    "fabric-manager": r"""
find the GPU handle|GPU handle \d+ in the multicast ; the fabric manager does not know the GPUs: it was restarted or
 updated while they ran, or a GPU was reset while it ran ;
 end all programs on the GPUs, reset GPUs and NVSwitches together (nvidia-smi -r), or reboot the node; until then
 NCCL_NVLS_ENABLE=0. Update the fabric manager only with a reboot
fail\w* to (?:set up|create|allocate) multicast|multicast (?:team|group)\b.{0,60}\bfail ; the fabric manager runs, but
 cannot set up multicast groups for NVLS: it or an NVSwitch is in a bad state ;
 end all programs on the GPUs, restart nvidia-fabricmanager and reset GPUs and NVSwitches (nvidia-smi -r), or reboot.
 Look in its log for errors of an NVSwitch before that (SXid): where they come again, replace the board. Until then
 NCCL_NVLS_ENABLE=0
""",
    "illegal-access": r"""
Invalid __\w{4,9}__ \w+ of size|^=+ +at \S ; {title} ;
 check the index against the size of its array in the kernel that is named (if (i < n)), and the grid against the
 number of elements. Then run it once more under compute-sanitizer
n_classes|ClassNLL|nll_loss|NLLCriterion ; a label is outside of the classes: the loss got one below 0, or not below
 their number (device-side assert) ;
 compare labels.min() and labels.max() with the number of outputs: labels are 0 to classes - 1, or ignore_index. Run on
 the CPU or with CUDA_LAUNCH_BLOCKING=1 to see the line, since the traceback shows a later one
srcSelectDimSize|indexSelect|vectorized_gather|embedding ; an index is outside of its table (embedding): a token or
 position id is not below the table's size ;
 compare input_ids.max() with vocab_size (model.resize_token_embeddings(len(tokenizer)) for added tokens), and lengths
 with max_position_embeddings. Run on the CPU or with CUDA_LAUNCH_BLOCKING=1 to see the line
probability|input_val >= zero|cumdist|\bprob ; a probability is no number, or not between 0 and 1 (a loss, or sampling)
 ;
 look for NaN and infinity in the logits: precision (bf16), learning rate, temperature, weights that were not loaded;
 binary losses want outputs of sigmoid and targets of 0 and 1
index out of bounds|sizes\[i\]|IndexKernel|ScatterGather|index_size ; an index is outside of its array (device-side
 assert in indexing or gather) ;
 compare the index's minimum and maximum with the array's size at the last frame of your own code. Run on the CPU or
 with CUDA_LAUNCH_BLOCKING=1 to see the line
""",
    "collective-mismatch": r"""
SequenceNumber=(?P<one>\d{1,12}),? ?OpType=\w{1,40}.{0,200}but Rank \d.{0,80}?SequenceNumber=(?!(?P=one)\b)\d{1,12} ;
 {title} ;
 one of them made more calls before it, in this process group: look for a barrier, broadcast or reduce that not all
 ranks reach, or reach twice. Where the job passes without TORCH_DISTRIBUTED_DEBUG=DETAIL, the check itself may
 count calls apart: a newer PyTorch, or leave DETAIL out
/job:localhost/\S{1,80} is joining (?:a )?group with size (?P<new>\d{1,6}), but that group has size (?P<old>\d{1,6}) ;
 one process made strategies of different size one after the other ({old} GPUs, then {new}): TensorFlow gives both the
 same group key (MirroredStrategy) ;
 run each number of GPUs in a process of its own (a loop in the shell, or multiprocessing with spawn). A program that
 makes one strategy and keeps it is not met by it. GPUs, NCCL and the lines of local rendezvous are right
is joining (?:a )?group with size (?P<new>\d{1,6}), but that group has size (?P<old>\d{1,6}) ; tasks of TensorFlow count
 different numbers of GPUs in one group: {new} here, {old} before ;
 let all workers see the same number of GPUs (CUDA_VISIBLE_DEVICES, nvidia-smi -L), with the same TF_CONFIG. Make one
 strategy per process: a second one of another size takes the same group key
Mismatched \w{3,20} tensor shapes.{0,120}?shape (?P<one>\[[\d, ]{1,80}\]).{0,60}?(?P<other>\[[\d, ]{1,80}\]) ; ranks
 hand Horovod tensors of different shape under one name: {one} and {other} ;
 the last batch is mostly smaller on one rank: drop_last=True, pad to one shape, or hvd.allgather, which takes different
 first dimensions. Else let all ranks name their tensors alike and in one order
Mismatched \w{3,20} (?:operations|data types).{0,20}One rank (?:did an?|had type) (?P<one>\w{2,20}), but another rank
 (?:did an?|had type) (?P<other>\w{2,20}) ; ranks hand Horovod one tensor for different calls: {one} and {other} ;
 let all ranks call the same operation with the same type under that name: no branch by rank around it
Rank (?P<rank>\d{1,7}) has (?P<mine>\d{1,6}) params, while rank (?P<ref>\d{1,7}) has inconsistent (?P<zero>0|\d{7,20})
 params ; what rank {ref} gave as its number of parameters ({zero}) is no count: it was not in this check of DDP, or its
 answer was lost (rank {rank} has {mine}) ;
 look what that rank does while the others build DDP: a branch by rank, an evaluation, a save, or loading the best
 model at the end. Build DDP (accelerator.prepare, evaluate, predict) on all ranks at the same place, and put a barrier
 before it. Where all ranks are there, try all_reduce_perf between their GPUs, and NCCL_P2P_DISABLE=1
Rank (?P<rank>\d{1,7}) has (?P<mine>\d{1,9}) params, while rank (?P<ref>\d{1,7}) has inconsistent (?P<zero>\d{1,9})\b ;
 the model of rank {rank} has {mine} parameters, and that of rank {ref} has {zero} ;
 build the same model on all ranks: the same config, code and checkpoint, no layer by a condition that differs per rank,
 the same parameters frozen. Print len(list(model.parameters())) per rank before DDP
\[(?P<rank>\d{1,7})\]: params\[(?P<which>\d{1,7})\] in this process with sizes (?P<sizes>\[[\d, ]{0,80}\]) appears
 not to match ; parameter {which} of rank {rank} has sizes {sizes}, and on rank 0 other sizes ;
 build the same model on all ranks: the same config, vocabulary, code and checkpoint. Print the shapes per rank
(?P<tensor>[\w./]{3,120}) \[missing ranks: (?P<ranks>\d[\d, ]{0,120})\] ; rank {ranks} never hands {tensor} to Horovod,
 and the others wait ;
 look at the logs and stacks of these ranks first (crash, data that ran out, another branch). Every rank must reduce the
 same tensors in every step; hvd.join() where data is uneven
op\.preamble\.length <= op\.nbytes\W{0,3}(?P<got>\d+) vs (?P<want>\d+) ; ranks pass tensors of different size to one
 collective: {got} bytes came where {want} were expected (Gloo) ;
 the last batch is mostly smaller on one rank: drop_last=True, pad to one shape, or gather the sizes first. Else let all
 ranks call the same collectives in the same order; print the shape per rank before the call
""",
    "collective-order": r"""
OpType=_(?:ALLGATHER|REDUCE_SCATTER)_BASE ; {title} ;
 ranks gather the parameters of different modules (ZeRO-3, FSDP): some left one out. Mixtures of experts: mark the block
 as a leaf (DeepSpeed set_z3_leaf_modules), as an expert without tokens is gathered nowhere else. Else the same modules
 on all ranks in each step: a dummy input for samples without images, synced_gpus=True in generate(), equal batches
""",
    "communicator-misused": r"""
has already been destroyed|corrupted comm object|Process group has been destroyed ; a communicator is used after it was
 destroyed ; destroy it once, at the end of the program and after the last collective of all ranks
 (torch.cuda.synchronize, then destroy_process_group). Take a new one for what comes later. Let no atexit or __del__
 call collectives
in abort state ; a communicator is used after it was aborted: an earlier error or a timeout ended it ;
 mend the first error of any rank, which stands before this; after ncclCommAbort make a new communicator (torch:
 destroy_process_group, then init_process_group)
was revoked ; a communicator is used after it was revoked (ncclCommRevoke) ; after a revoke only destroy, abort or
 shrink are allowed: ncclCommShrink makes a communicator of the ranks that live
before the previous operation returned ; a communicator that does not block is used before its last call was done
 (ncclInProgress) ; call ncclCommGetAsyncError until it is ncclSuccess before the next call, or make it with
 config.blocking = 1
not in a group call ; ncclGroupEnd is called without its ncclGroupStart ; pair them in each thread: an early return or
 an exception between the two is the usual cause
Blocking and nonblocking ; one group holds blocking and nonblocking communicators ; make all communicators of a group
 with the same config.blocking
""",
    "graph-capture": r"""
(?:all uncaptured or all|none or all).{0,60}captured ; one ncclGroup mixes streams that a CUDA graph captures with
 streams that none does ; let all streams of a group wait for the captured one (event record, wait) before the group. Or
 send
 the calls that are not captured in a group of their own
watchdog thread terminated.{0,120}captur ; PyTorch's NCCL watchdog thread asked the GPU for an event while a CUDA graph
 was captured, and that ended the capture: a race in PyTorch ;
 a newer PyTorch, whose watchdog leaves captures alone. In a program of your own wait for earlier collectives before the
 capture (torch.cuda.synchronize), and use torch.cuda.graph(g, capture_error_mode="thread_local"). Or switch its graphs
 off. For servers a newer release; until then --enforce-eager (vLLM), --disable-cuda-graph (SGLang). It may also succeed
 when started again
(?:ProcessGroupNCCL|[Ww]atchdog).{0,240}captur ; a CUDA graph was captured while PyTorch's watchdog thread asked CUDA
 for the state of a collective, which a capture forbids to all threads ;
 torch.cuda.graph(g, capture_error_mode="thread_local"), and a newer PyTorch, whose watchdog leaves captures alone. Wait
 for earlier collectives before it (torch.cuda.synchronize), and capture no async_op work. The same holds for other
 threads, such as a loader's that pins memory
""",
    "ib-devices-missing": r"""
Error: network IB not found ; NCCL may use RDMA alone (NCCL_NET=IB), and this host or container has no RDMA device that
 works ;
 unset NCCL_NET (in the environment, /etc/nccl.conf and what the launcher passes on), or set NCCL_NET=Socket. Where the
 host has RDMA NICs, give the container /dev/infiniband and rdma-core: ibv_devinfo must list them there
""",
    "gpu-memory-full": r"""
Tried to allocate ; {title} ;
 smaller micro batches, shorter samples (the longest one of a batch decides: cap or bucket lengths), gradient
 checkpointing, more sharding (FSDP, ZeRO) or offload. PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where much is
 reserved and unallocated; end other processes on that GPU (nvidia-smi); leave NCCL 0.5 to 2 GiB
""",
    "wrong-interface": r"""
Every node should have a unique IP.{0,300}addresses \{'?(?P<ip>[\w.:]{3,40}) ; nodes of vLLM's Ray cluster give one
 address, {ip}: VLLM_HOST_IP is set alike on all of them ;
 set VLLM_HOST_IP on each node to that node's own address (ip addr, hostname -I), not in a file that all nodes read.
 Then restart Ray and vLLM on all nodes
Every node should have a unique IP ; nodes of vLLM's Ray cluster give one address: VLLM_HOST_IP is set alike on all
 of them ;
 set VLLM_HOST_IP on each node to that node's own address (ip addr, hostname -I), not in a file that all nodes read.
 Then restart Ray and vLLM on all nodes
""",
    "mixed-networks": r"""
with family \d+ is neither AF_INET ; the address that NCCL is to connect to is none: the rank that gave it found no
 interface (NCCL_SOCKET_IFNAME), or the ranks' NCCL versions differ ;
 ip -br link on every host, and NCCL_SOCKET_IFNAME names one of them, or is unset; NCCL_DEBUG=VERSION the same on all.
 The first rank's log must say Bootstrap: Using
""",
    "port-in-use": r"""
(?:\[::\]|0\.0\.0\.0|\*|localhost|127\.0\.0\.1|::):(?P<port>22|80|111|443)\b ; port {port} is one of the system's own
 (22: sshd), and the job was told to take it ;
 choose a port above 1024: MASTER_PORT=29500 or --master-port. See where the number comes from: start scripts take it
 from PORT or MASTER_PORT, which the login shell or the platform may have set (echo $PORT); unset that. End nothing
""",
    "rendezvous-timeout": r"""
RendezvousConnectionError|connection to the C10d store has failed ; no connection to the rendezvous endpoint: no store
 is served there, or this node cannot reach it. Where the first node itself gets none, it does not take the endpoint
 for its own ;
 on the node of --rdzv-endpoint see who listens: ss -ltn. Where nobody does, write the endpoint as that node knows
 itself (hostname -f, hostname -I, /etc/hosts), or --rdzv-conf is_host=1 there and is_host=0 on the others. Where it
 listens, open the port: nc -zv HOST PORT from the others. The same endpoint on all nodes
[Ss]hutdown barrier|Barrier_id: ?Shutdown ; some processes of a JAX job came to their end, and others did not come to
 the shutdown barrier: they still compute or wait, or had crashed ;
 read the logs of the tasks that the barrier names: what they did last. All processes must run the same computations,
 and end together (jax.distributed.shutdown after the last work of all of them)
clients joined ; {title} ;
 start as many processes as the world size says: srun --ntasks-per-node equal to the GPUs of a node (Lightning: devices
 times num_nodes). Or one torchrun or accelerate launch per node, each with its own --node-rank (machine_rank), all
 with the first node's address (main_process_ip). Where all run, open that port between the nodes; else correct
 WORLD_SIZE
PjRT_Client_Connect|RegisterTask|distributed JAX controller ; not all processes of a JAX job connected to process 0
 (jax.distributed.initialize) ;
 start num_processes processes with process_id 0 to num_processes - 1, all with the address and open port of process
 0. On one host leave jax.distributed.initialize out: one process uses all its GPUs. Where starts are slow set
 initialization_timeout=SECONDS
""",
}
