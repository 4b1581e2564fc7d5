"""What checks of PyTorch mean, of groups, DDP, FSDP, loaders and compiled models: looked for first of all."""

from __future__ import annotations

from busbw.doctor.meanings.families import Family, read

_ROWS = r"""
more than 1 value per channel when training ; a layer of batch normalization got a single sample, as the last batch \
of a rank may have ; drop_last=True in the loader or sampler of training, or more samples per GPU. SyncBatchNorm \
counts over all ranks; for an evaluation call model.eval() first
[Dd]ifferent number of tensors was saved during the original forward|Recomputed values for the following tensors have \
different metadata ; activation checkpointing computed something else the second time: the same call did not do the \
same twice ; look for what changes between forward and backward: a cache (use_cache=False), a branch on counters or \
random numbers, another autocast. With FSDP wrap in checkpoints first and shard after. determinism_check="none" or \
use_reentrant=True only hides it
BrokenProcessPool|process in the process pool was terminated abruptly ; a process of a pool (workers that compile or \
prepare data) ended without a word: mostly it was killed for memory, or crashed ; dmesg on that host (oom-kill, \
segfault), more memory, fewer of them: TORCHINDUCTOR_COMPILE_THREADS=1 for torch.compile, max_workers or num_proc for \
pools of the program's own
CUDNN_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|ALLOC_FAILED|MAPPING_ERROR) ; a kernel of cuDNN failed: mostly the \
GPU's memory was full, or an earlier kernel of that process had failed ; leave memory free (smaller batch, nvidia-smi \
shows who else is there), then CUDA_LAUNCH_BLOCKING=1 to find the first error, and dmesg for an Xid. Where both are \
right: one cuDNN alone, or torch.backends.cudnn.enabled=False to tell
DistributedDataParallel is not needed when a module doesn't have any ; DDP is put around a model of which no \
parameter is trained: all are frozen ; leave DDP away from it (a teacher, an encoder, a model for evaluation). What \
is to be trained needs requires_grad=True before DDP is put around it
module must have its parameters and buffers on device ; DataParallel finds parts of the model on another GPU than its \
first one (device_ids[0]) ; model.to("cuda:0") before DataParallel, no device_map="auto" beside it, and no .cuda(n) \
in the model. DDP with one process per GPU is the better way
tensors with different dtypes ?Found ; tensors of one collective are of different types of numbers ; cast the input \
and all outputs to one dtype, on all ranks alike (outputs made by torch.empty_like of the input)
Float8 dtypes are not curr\w{2,8} supported|Unsupported Float8 type for NCCL ; NCCL cannot add numbers of 8 bits here \
(float8): that needs NCCL 2.24 and GPUs of Hopper or newer ; reduce in bfloat16 or float32, and convert after it. \
What is only moved (all-gather, broadcast) may be viewed as uint8 (tensor.view(torch.uint8))
Forward order differs across ranks|all-gathering \d{1,4} parameters while rank|Detected that the all-gather order ; \
ranks run the parts of an FSDP model in different order, or some leave parts out ; let all ranks run the same modules \
in the same order in each step: no branch by rank or by the batch. A dummy input for samples without images, the same \
number of batches and of generated tokens (synced_gpus=True)
setStorage: .{0,200}out of bounds for storage of size 0|has a non-zero number of elements, but its data is not \
allocated ; a weight is used while FSDP has freed it: outside of the forward pass of the module that FSDP wraps ; \
call the wrapped model itself, and not a module or weight within it. To read or save weights gather them: \
FSDP.summon_full_params(model), get_model_state_dict with full_state_dict=True (fully_shard: module.unshard())
Cannot writeback when the (?:parameter|gradient) shape changes ; a parameter was exchanged or resized after FSDP had \
wrapped the model ; do it before wrapping: resize_token_embeddings, tie_weights, LoRA and loading full weights. After \
it change values only within FSDP.summon_full_params(writeback=True)
[Aa]t least one rank that exhausted inputs ; one rank ran out of batches before the others, and Join was asked to end \
all of them then (throw_on_early_termination) ; give all ranks the same number of batches: DistributedSampler with \
drop_last=True, or end at the smallest length (all_reduce with MIN). Or leave throw_on_early_termination out
is incompatible with libgomp|MKL_THREADING_LAYER=INTEL is incompatible ; NumPy's MKL wants Intel's OpenMP, and GNU's \
(libgomp) is loaded already: processes that the program starts end by it ; MKL_THREADING_LAYER=GNU in the environment \
of all ranks, or import numpy before torch
No module named 'etcd' ; the Python package for etcd is missing, which torchrun needs for a rendezvous by etcd ; pip \
install python-etcd on all nodes. Or do without: --rdzv-backend=c10d and --rdzv-endpoint=HOST:29400 need no server
does not have a sharding strategy registered ; DTensor does not know how to split this operator over ranks ; compute \
it on plain tensors: to_local() or full_tensor() before it, and DTensor.from_local() after. Or leave that module out \
of the plan (parallelize_module), or take a newer PyTorch, which knows more operators
TritonMissing|[Cc]annot find a working triton ; torch.compile needs Triton, which is missing, too old, or does not \
know this GPU ; pip install the triton that this PyTorch asks for (pip show torch: Requires), on GPUs of compute \
capability 7.0 or newer. Until then TORCH_COMPILE_DISABLE=1 or backend="aot_eager"
Parent directory \S{1,400} does not exist ; the folder that a file is to be saved into is not there on that rank's \
host ; os.makedirs(folder, exist_ok=True) on the rank that saves (on each node where the disk is its own), with a \
barrier after; a path that all nodes share
initialize the default process group twice ; init_process_group is called a second time in one process: a framework \
(Accelerate, DeepSpeed, Lightning, Megatron) or another part made the group already ; call it once: leave the own \
call out, or guard it by dist.is_initialized(). For another group take dist.new_group()
perform pipeline shape inference ; the first pass through the pipeline failed: its inputs or a stage lie on another \
device than the rank's own, or the stage fails with them ; move inputs and stage to the rank's GPU \
(torch.cuda.set_device(LOCAL_RANK), .to(device)). The exception above it names the operator; run the stage alone
resize storage that is not resizable|each element in list of batch should be of equal size ; samples of one batch are \
of different size or type, so that the loader cannot join them ; give all samples one size (crop, resize, pad), or a \
collate_fn of your own that pads. Samples that are views into memory that others own: .clone() or torch.tensor(array)
torch_shm_manager ; the helper by which PyTorch's processes share memory (torch_shm_manager) cannot start: no folder \
for its socket, or it may not be executed ; export TMPDIR to a short path on a local disk that exists and may be \
written in on that node (/tmp), with free space. Else chmod +x that file, no noexec; \
torch.multiprocessing.set_sharing_strategy("file_descriptor")
Split sizes doe?sn'?t match total dim 0 size ; all_to_all_single gets split sizes whose sum is not the number of rows \
of its tensor ; sum(input_split_sizes) is the rows of the input, and sum(output_split_sizes) those of the output. \
Send the counts to all ranks first (all_to_all_single of the counts), and make the output of what comes
multicast support is required|has_multicast_support ; this operation needs NVLink multicast (NVLS), which these GPUs \
or this machine do not offer ; take one that does without (one_shot_all_reduce, two_shot_all_reduce_, NCCL). It needs \
Hopper or newer behind NVSwitch, a fabric manager that runs, and no TORCH_SYMM_MEM_DISABLE_MULTICAST=1
Attempting to unscale FP16 gradients ; a GradScaler meets weights that are themselves fp16: it wants weights in \
float32 and fp16 only under autocast ; load the model in float32 and use torch.autocast with the scaler (for LoRA the \
trained parts alone). Or train in bfloat16 without a scaler
does not divide equally across group size ; all_to_all_single without split sizes wants a number of rows that the \
ranks of its group divide ; pad the rows to a multiple of the group's size, or pass input_split_sizes and \
output_split_sizes
accessing tensor output of CUDAGraphs that has been overwritten ; a result of a compiled model was kept, and the next \
run wrote over it: CUDA graphs use the same memory again (mode="reduce-overhead") ; .clone() what is kept outside of \
the compiled part, or call torch.compiler.cudagraph_mark_step_begin() before each call of the model. Else a mode \
without graphs (max-autotune-no-cudagraphs)
DistributedDataParallel device_ids and output_device arguments only work with ; DDP was given device_ids, and the \
model does not lie on that one GPU: it is still on the CPU, or on several ; model.to(LOCAL_RANK) before DDP(model, \
device_ids=[LOCAL_RANK]). A model that is spread over GPUs (device_map) goes without device_ids
'(?P<wrap>DistributedDataParallel|DataParallel|FullyShardedDataParallel|OptimizedModule)' object has no attribute ; \
the model is wrapped, and the wrapper has not what the model has ; take it from the model within: model.module.NAME \
(OptimizedModule: model._orig_mod.NAME); print(type(model)) shows the wrapper. What computes gradients must go \
through the wrapper's forward
'weight' must be 2-D|Non-root FSDP instance's|FSDP requires running forward through the root module first|weight \
should have at least (?:two|three) dimensions ; a part of a sharded model (FSDP, ZeRO-3) is called by itself, outside \
of the forward pass of the wrapped model: its weights are only shards there ; call the wrapped (root) model, and not \
.module, a submodule or generate() of the model within. For generation and the like gather first: \
FSDP.summon_full_params(model), or register_fsdp_forward_method (fully_shard). ZeRO-3: \
deepspeed.zero.GatheredParameters
clip_grad_norm_\(\)` should only be called on the root ; norms of gradients of an FSDP model are clipped by a part of \
it ; call it once, on the wrapped root model: model.clip_grad_norm_(max_norm), outside of forward and backward \
(fully_shard: torch.nn.utils.clip_grad_norm_)
uniform original parameter dtype ; one fully_shard() group holds parameters of different types of numbers ; cast the \
model to one dtype before fully_shard (LoRA's and norms' weights too), or put fully_shard() around modules of the \
other type apart; MixedPrecisionPolicy makes it compute in bf16
ProcessGroup(?: |::)?(?P<backend>gloo|GLOO|mpi) does not support|Backend (?P<other>gloo|mpi) does not support ; this \
process group runs over a backend that lacks the operation (Gloo or MPI), as FSDP and tensor parallel need it ; \
init_process_group("cpu:gloo,cuda:nccl") with tensors on the GPU, so that NCCL does it. On CPUs alone take all_reduce \
and cut out the own part
object of type '\w{0,40}(?:Data[Ss]et|Set|Stream\w{0,20}|DataPipe|Iterable\w{0,20})' has no len\(\) ; something wants \
to know the length of a dataset that only streams (IterableDataset) ; no DistributedSampler for such a set: split it \
within by rank and worker (dist.get_rank(), get_worker_info(), or split_dataset_by_node), set the number of steps by \
hand
No inf checks were recorded for this optimizer ; the GradScaler saw no gradients of this optimizer: no parameter of \
it got one ; scaler.scale(loss).backward() before scaler.step(), an optimizer of the parameters that are trained \
(made after wrapping by FSDP), and one step per optimizer. For FSDP1 in fp16: ShardedGradScaler; for bf16 no scaler
Cuda is not available\.$ ; torchrun was asked for as many processes as there are GPUs (--nproc-per-node=gpu), and \
finds none ; nvidia-smi in the same container and step, a build of PyTorch with CUDA (torch.version.cuda), \
CUDA_VISIBLE_DEVICES. Or --nproc-per-node=N for a run without GPUs
OMP: Error #15|multiple copies of the OpenMP runtime ; two OpenMP runtimes are loaded in one process (libiomp5, \
libomp, libgomp), as of conda and pip ; keep one: all of NumPy, PyTorch and others from one source (pip or conda; \
conda install nomkl). KMP_DUPLICATE_LIB_OK=TRUE goes on at a risk
Worker name \S{1,60} is not unique|share the same name ; two processes of PyTorch's RPC use one name ; give each its \
own: init_rpc(f"worker{rank}"), with the rank of that process
No device associated with the default pg ; groups can be split from the default group only if that is bound to a GPU \
; init_process_group("nccl", device_id=torch.device("cuda", LOCAL_RANK)). Or dist.new_group() in its place
(?:training )?graph has changed in this iteration ; DDP was promised a graph that never changes (static_graph=True), \
and other parameters take part in this step than in the first ; static_graph=False, with find_unused_parameters=True \
where parameters go unused. Or let the same parameters take part in each step (no random dropping of layers)
operator torchvision::|Couldn't load custom C\+\+ ops|torchvision.{0,40}(?:not compatible|compiled with different \
CUDA) ; torchvision is of another PyTorch than the one that is installed: its operators cannot be loaded ; pip \
install the torchvision that belongs to this torch (0.N+15 to 2.N, from the same index URL and CUDA), in the image of \
all nodes
``?gather_list``? must NOT be|``?(?:gather|scatter)_(?:list|object_list)``? must be|``?scatter_list``? must NOT ; \
only the rank that gathers (or scatters) passes a list, and the others None ; gather(x, outs if rank == dst else \
None, dst=dst), and scatter(x, parts if rank == src else None, src=src). dst and src are global ranks
Expected a '(?P<kind>cuda|xpu)' device type for generator but found ; the default device is the GPU \
(set_default_device), and the loader's sampler shuffles with a generator of the CPU ; \
DataLoader(generator=torch.Generator(device="cuda")), or no set_default_device around data: move batches by \
.to(device)
RPC ran for more than set timeout ; a call of PyTorch's RPC got no answer in its time: the other process works \
longer, hangs, or ended ; look at the log of the process that was called. Where it only works longer: rpc_timeout in \
TensorPipeRpcBackendOptions, or timeout= of the call. Else see that all reach each other (its own interface: \
TP_SOCKET_IFNAME)
Invalid checkpoint metadata for|Cannot (?:find|lookup) .{0,80}ShardedTensor|is not a ShardedTensor, can't find by \
offset ; an entry of the checkpoint is of another kind than the state that it is loaded into: it was saved with \
another optimizer, sharding or release ; load with the same code that saved it (get_state_dict and set_state_dict on \
both sides), or leave that entry out and set it anew (learning rate, step)
Failed to validate global plan ; the parts that ranks want to save do not make whole tensors: they overlap, or leave \
holes ; look above for the keys that are named (overlapping, out of bounds). Save DTensors of get_state_dict, not \
local parts under one name, with the process group and mesh that sharded them
_DDPSinkBackward is a view ; what DDP's forward returned is changed in place, which its gradients do not bear ; out = \
out + x in place of out += x, or out.clone() first, and no ReLU(inplace=True) on the model's outputs. Without \
static_graph and find_unused_parameters that limit is gone
Modules with uninitialized parameters can't be used ; the model has lazy layers, whose shapes are not known yet when \
DDP wraps it ; run one batch through it before DDP(model), on all ranks and the same shapes
Gather got an input of invalid size|got \[[\d, ]{1,60}\], but expected \[[\d, ]{1,60}\] ; DataParallel cannot join \
the outputs of its replicas: they are of different sizes ; pad outputs to one size within forward, or return a loss \
alone. drop_last=True for the last batch; DDP has no such limit
model state_dict is required to save or load, but model state_dict is empty|state_dict is required to save, or load \
but optim state_dict is empty ; the state that is to be saved or loaded has no entries on this rank: all parameters \
were filtered out, or the model is not the one that was sharded ; look at the options (ignore_frozen_params, \
submodules) and at the rank in the message: where full_state_dict and cpu_offload are set rank 0 alone holds the \
state. Pass the root model, after one step of its optimizer
current rank to be a part of the device mesh|not (?:be )?(?:a )?part of the device ?mesh ; a rank that is not in the \
device mesh uses it ; let ranks outside of the mesh skip that part of the program (mesh.get_coordinate() is None \
there), or make the mesh of all ranks
Data-dependent branching|torch\._dynamo\.exc\.(?:Unsupported|UserError)|FailOnRecompileLimitHit|fullgraph=True ; \
torch.compile was to take the whole function as one graph (fullgraph=True), and meets what it cannot, or new shapes \
again and again ; fullgraph=False, torch.compiler.disable on that function, or torch.where and torch.cond in place of \
an if on a tensor. For shapes: dynamic=True, pad to few lengths; TORCH_LOGS=graph_breaks,recompiles shows them
Cannot access data pointer of Tensor ; torch.compile follows a call into a kernel of an extension, which wants real \
memory ; wrap that kernel as an operator with a fake version (torch.library.custom_op, register_fake), or leave it \
out (torch.compiler.disable). A newer release of that extension may do so
gradients of gradients ; FSDP cannot compute gradients of gradients (create_graph=True) ; leave that part (gradient \
penalty, some optimizers) on a model that is not sharded: DDP, or a module of its own
HYBRID_SHARD\w*.{0,20}requires explicit specification of process group ; hybrid sharding (HSDP) needs to know the \
groups: which ranks shard, and which hold copies ; device_mesh=init_device_mesh("cuda", (NODES, GPUS_PER_NODE), \
mesh_dim_names=("replicate", "shard")), or process_group=(shard group, replicate group); with an auto_wrap_policy the \
default works
(?:materialized on CPU when enabling CPU offloading|parameter CPU offloading enabled has parameters on) ; FSDP is to \
keep weights in the host's memory (CPU offload), and finds them on the GPU ; load and keep them on the CPU: no \
.cuda() or .to(device) on the model with CPUOffloadPolicy (cpu_offload=True), to_empty(device="cpu") for a meta \
model, a state dict with map_location="cpu"
does not support uneven sharding on dim ; fully_shard is to cut a weight along a dimension that the number of ranks \
does not divide ; shard along dimension 0, which may be uneven (return Shard(0) in shard_placement_fn for it), pad \
that size, or take another number of ranks
Global rank \d{1,7} is not part of (?:the parent )?group|Group rank \d{1,7} is not part of group|does not belong to \
the given group ; a collective over a group names a rank that is no member of it ; src, dst and root are global \
ranks: dist.get_global_rank(group, 0), or group_src= and group_dst= in newer releases. Let only members call it \
(dist.get_rank(group) >= 0)
Group \S{0,200} ?is not registered|Invalid process group specified|[Pp]rocess group .{0,80}is not initialized in the \
world group map ; a process group is used that this process does not have: it was destroyed, is of another process, \
or this rank is no member ; destroy_process_group() last of all; after it, and after destroying one group, make new \
ones. Groups cannot be pickled or sent to other processes; a rank that is no member gets none
destination rank should not be the same|source rank should not be the same|rank should not be the same as the rank of \
the current process ; a rank sends to itself, or receives from itself ; where the peer is the own rank, copy the \
tensor and leave the call out. See how the peer is computed (rank + 1, modulo the size of the group), and that the \
group has more than one rank
Unsupported nproc_per_node value ; torchrun does not know that value of --nproc-per-node ; a number, gpu, cpu or auto
Offset increment outside graph capture ; random numbers were drawn in a CUDA graph whose generator was not \
registered, or a graph runs beside another capture ; graph.register_generator_state(generator) before the capture, \
torch.cuda.graph() with the default generator alone; no dropout in what is captured to tell
FSDPParamInfo has the param keys ; the optimizer has no state for a parameter that FSDP saves: it was made before \
wrapping, or holds other parameters ; make the optimizer after FSDP(model), of model.parameters(), and take one step \
before the state is saved. With frozen parameters use_orig_params=True; or use get_state_dict
Local shard size = \d{1,20} and the tensor in the state_dict is ; a local state dict of FSDP was saved by another \
number of ranks ; load it with as many ranks as saved it, then save it sharded or full (torch.distributed.checkpoint, \
SHARDED_STATE_DICT), which fits any number
number of microbatches to be|[Nn]umber of micro-?batches .{0,60}(?:multiple|at least|divisible|equal|greater) ; the \
number of micro batches does not fit the schedule of the pipeline ; choose it as a multiple of what the sentence \
names, at least as many as stages (n_microbatches; batch = micro batches * micro batch size)
cannot be larger than number of stages|Stage index \d{1,4} is out of range ; stages and ranks of the pipeline do not \
fit ; make at least one stage per rank of the pipeline's group, num_stages a multiple of the group's size, stage \
numbers from 0; or a smaller pipeline size
RPC has not been initialized|Unknown destination worker ; PyTorch's RPC was not started in this process, or the name \
that is called is of no worker of this job ; init_rpc(name, rank=, world_size=) in each process, before the first \
call. Names must be as those processes gave them; world_size counts all of them, servers too
prefetch_factor option could only be specified|persistent_workers option needs|multiprocessing_context can only be \
used with ; options of the loader need worker processes, and num_workers is 0 ; num_workers=1 or more, or leave these \
options out (prefetch_factor=None, persistent_workers=False)
grad can be implicitly created only for scalar ; backward() is called on a loss of several numbers, as DataParallel \
returns one for each GPU, or reduction="none" ; loss.mean().backward()
SyncBatchNorm .{0,40}(?:expected input tensor to be on|only work with GPU) ; SyncBatchNorm works on GPUs alone, and \
got tensors of the CPU ; model and inputs to the rank's GPU (.to(LOCAL_RANK)), or plain BatchNorm for runs without \
GPUs
unscale_\(\) (?:has already been called|is being called after step) ; a GradScaler's unscale_ is called twice for one \
step, as with gradient accumulation or clipping twice ; once per optimizer and step: scaler.unscale_(opt), clip, \
scaler.step(opt), then scaler.update(). With accumulation only in the last part; a trainer may do it itself
Inference tensors cannot be saved for backward|Inference tensors do not track version ; tensors that were made under \
inference_mode are used in training ; torch.no_grad() in place of inference_mode where their values go on (buffers, \
rotary caches, an evaluation before training), or .clone() them
Cannot slice a DeviceMesh without|No `mesh_dim_names` found|Invalid mesh_dim_names? ; a part of the device mesh is \
asked for by a name that the mesh does not have ; init_device_mesh(..., mesh_dim_names=("dp", "tp")), and mesh["dp"] \
by those names, in their order
"""
TORCH: tuple[Family, ...] = tuple(read(_ROWS))
