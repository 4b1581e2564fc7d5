"""What programs mean by the exceptions they end with, and what mends each: by families, not by program."""

from __future__ import annotations

from busbw.doctor.meanings.families import Family, read
from busbw.doctor.meanings.torch_errors import TORCH
from busbw.doctor.meanings.training_errors import TRAINING

_ROWS = r"""
[Cc]ollective instance \d+|Inconsistent (?:values|shapes?) .{0,60}collective ; ranks pass tensors of different shape \
or type \
to one collective ; give all workers the same batch and shapes (drop_remainder=True), the same model and program, and \
the same order of collectives; then restart all of them
(?:mpi|MPI|(?<!\* )world)[ _]?size.{0,60}(?:does not match|doesn't match|!=|is expected to be|mismatch)|engine world \
size ; the \
number of processes is not what the model was built for ; mpirun -n as many as tensor times pipeline parallel size \
(tp_size * pp_size), one GPU each; or build it for that number
[Ee]ngine\b.{0,40}(?:built|generated|compiled|serialized|different) (?:for|with|on|version|GPU|device)|Deserialization \
failed|[Vv]ersion tag does not match ; the TensorRT engine was built for another GPU or version ; build it anew \
(trtllm-build) with the TensorRT that \
loads it, on the kind of GPU that runs it
NCCL is not supported on CPU ; a worker without a GPU takes part in collectives over NCCL ; give every worker a GPU \
that nvidia-smi shows in its container, the same number each, or take CommunicationImplementation.RING
OpType=ALLREDUCE, TensorShape=\[(?P<shape>\d{6,})\].{0,600}OpType=ALLREDUCE, TensorShape=\[(?!(?P=shape)\])\d{6,}\] \
; ranks reduce \
gradients of different size: on some of them parameters had no part in the loss ; let every parameter take part on all \
ranks in each step: a dummy input for samples without images, batches of one kind. Or freeze that part of the model \
(requires_grad=False); find_unused_parameters=True with DDP
^(?!.*\bOp type: \w{2,40} ?vs).*(?:Tensor [Tt]ensor shapes:|[Tt]ensor shapes: [\d, ]{1,60} vs) ; \
ranks call one collective with tensors of different shape ; \
pad or cut to one shape on all ranks before the call (the last batch: drop_last=True), or take a call for different \
sizes (all_gather_object, all_to_all with splits)
threads? to join the rendezvous|rendezvous\.cc ; in a job of XLA (JAX) all wait for a device that never joined ; look \
for the first error of the device or process that is missing (out of memory, Xid, exception), py-spy dump on it. Where \
compiling or loading takes long: XLA_FLAGS=--xla_gpu_nccl_termination_timeout_seconds=N \
--xla_gpu_executable_terminate_timeout_seconds=N
(?:exit\w*|terminated|killed|died) (?:with|by|due to|from)?:? ?(?:signal|exit ?code|code|status)?:? ?(?:-9\b|9\b|137\b|\
SIGKILL(?! by OOM)) ; a process was killed from outside: mostly the host, the pod or the job had no memory left ; \
dmesg (oom-kill), \
kubectl describe pod or sacct -o MaxRSS say whether; more memory, fewer workers and processes that load weights at once
heartbeat RPC failed|DEADLINE_EXCEEDED ; a call to another process got no answer in its time ; see that the \
coordinator (process 0) and its host still run and that its port is open to all hosts; its own log says why it ended
synchronize device activity|synchronize on CUDA context|synchronize GPU before ; work on that GPU had failed before ; \
look for the first error of that rank and for Xids of its GPU in dmesg; restart all processes
acquire GIL|GIL induced|[Hh]eartbeat monitor timed out|due to ProcessGroupNCCL watchdog hang ; PyTorch's watchdog \
thread \
itself stood still: something holds Python's lock (GIL) or a call of CUDA or NCCL never returned ; py-spy dump \
--native --pid PID on that rank shows who holds the GIL (finalizers, extensions, data loaders) or which call hangs. \
Look at dmesg for Xid there; TORCH_NCCL_ENABLE_MONITORING=0 or a longer TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC to see it
mixed torch\.Tensor and DTensor ; plain tensors meet sharded ones (DTensor) in one operation ; shard or convert all \
of them: fully_shard() or parallelize_module() on the module that owns the parameter, distribute_tensor() or \
full_tensor() for the rest; call the module and not its weights
uniform dtype|uniform `?requires_grad ; FSDP flattens parameters that differ in type or in requires_grad ; cast the \
model to one dtype before wrapping, or wrap such modules apart (use_orig_params=True for frozen ones)
variable ready only once ; DDP saw a parameter's gradient twice in one step: it is used twice, or in a checkpointed \
part ; gradient checkpointing with use_reentrant=False, DDP's static_graph=True, and no find_unused_parameters \
beside checkpointing
finished reduction in the prior iteration|not used in producing loss|did not receive grad for rank ; some parameters \
had no part in the loss on that rank, so that DDP waits for their gradients ; DDP(find_unused_parameters=True), or \
freeze them (requires_grad=False); let every output of forward take part in the loss
expects same model across all ranks(?!.{0,60}inconsistent (?:0|\d{7,20}) params)|appears not to \
match sizes of the same param ; the model differs between ranks ; \
build it from one config, vocabulary and checkpoint on all ranks, with no branch by rank
No backend type associated with device type ; a tensor lies on a device for which the process group has no backend ; \
move it to the GPU (.to(device)) before the call, or init_process_group("cpu:gloo,cuda:nccl")
[Dd]efault process group has not been initialized|group is not initialized ; a collective is called before the \
process group was made ; call init_process_group() first, once in each process, and start it by torchrun
(?:in-?place operation|needed for gradient computation has been modified) ; a tensor that the backward pass needs \
was changed in place ; avoid the in-place operation; with DDP and several forward passes broadcast_buffers=False
does not require grad ; nothing on the way to the loss is trained ; model.enable_input_require_grads() or \
use_reentrant=False with gradient checkpointing; see that parameters are not all frozen
backward through the graph a second time ; one graph is used for two backward passes ; compute the loss anew for \
each, or detach() what is kept
Expected all tensors to be on the same device|weight type \(torch|tensors? on .{0,20}(?:cuda:\d|cpu).{0,30} and \
.{0,20}(?:cuda:\d|cpu)|found at least two devices ; tensors of one operation lie on different devices ; move inputs \
to the rank's own device: torch.cuda.set_device(LOCAL_RANK), .to(device); no device_map="auto" with DDP
Tensors of the same index ; the optimizer got tensors of different devices or types, as after loading its state ; \
load its state with map_location and move it to the parameters' device, one dtype for all shards; torch optimizers \
with foreach=False
~same dtype|expected scalar type|dtype mismatch|must have the same dtype ; types of numbers differ ; cast both to \
one dtype, or run under autocast
~must match the size of tensor|equal size, but got|mat1 and mat2 shapes|expanded size|size mismatch, got|shape \
'?\[.{0,60}is invalid for input|shapes cannot be multiplied ; shapes of tensors do not fit ; compare the shapes at \
the last frame of your own code; pad or truncate a batch's samples to one length; config and weights of one model
[Ss]hapes? across devices must be valid|due to shape mismatches|Mismatched \w+ tensor shapes ; ranks pass tensors of \
different shape to one operation ; pad to the same shape on all ranks first (accelerator.pad_across_processes), or \
give all ranks the same number of samples (drop_last)
[Ss]ize mismatch (?:for|between saved)|loading state_dict|(?:Missing|Unexpected) \
keys?.{0,20}in.{0,20}state_dict|doesn't match the size of optimizer|not (?:found )?in (?:the )?checkpoint ; the \
checkpoint is of another model, vocabulary, optimizer or sharding ; load it into the same config it was saved with \
(vocabulary size, tied weights, parallel sizes); strict=False or DefaultLoadPlanner(allow_partial_load=True) for \
parts that are new
Weights only load failed|was not an allowed global ; torch.load refuses classes in that file since PyTorch 2.6 ; if \
you trust the file: torch.load(weights_only=False), or torch.serialization.add_safe_globals([...])
invalid load key|PytorchStreamReader failed|deserializing header|HeaderTooLarge|MetadataIncompleteBuffer|InvalidHeade\
r|unexpected EOF|pickle data was truncated|Ran out of input|not a ZIP archive|central directory ; a file of weights \
is cut off, empty or only a pointer of Git LFS ; download or copy it again (git lfs pull), compare size and checksum \
on every node; use the checkpoint before
[Cc]urrent loss scale already at minimum|loss scale.{0,30}minimum ; fp16's loss scale fell to its minimum: gradients \
overflow at every step ; train in bf16, lower the learning rate or clip gradients; look at the data of that step
(?:found|unexpected result|loss (?:is|became|was)|got|detected|result) \
.{0,20}\b(?:nan|inf)\b|\bnan\b.{0,30}(?:loss|grad) ; a loss or gradient is no number ; look at that rank's data and \
GPU (dcgmi diag -r 3); go back to the last checkpoint with a lower learning rate and clipped gradients
[Pp]ossible (?:transient|persistent) error|not reproducible within ; a GPU computed another result the second time: \
its hardware may corrupt data ; drain that node, run dcgmi diag -r 4 on the GPU that is named, and go on from the \
last checkpoint on another node
still have inflight params|inflight params|partitioned_param|ds_status ; ZeRO-3 gathered parameters that were not \
used as on other ranks or steps ; let all ranks run the same modules in the same order (set_z3_leaf_modules for \
experts); synced_gpus=True in generate(); stage 2 to tell
not been issued for this bucket|params have grad available ; some parameters got no gradient in that step, so that \
their bucket was never reduced ; let all ranks use the same modules, freeze unused ones, or switch overlap of \
gradient reduction off (--no-overlap-grad-reduce)
async_io|libaio ; the part of DeepSpeed that reads disks (async_io) could not be built: libaio is missing ; install \
libaio-dev (libaio-devel) in the image of all nodes, then DS_BUILD_AIO=1 or let it build anew; or offload to cpu
[Aa]rray has been deleted|deleted or donated|donated buffer ; an array is used whose memory was given away \
(donated) or \
freed ; use what the jitted call returned in its place, copy it first, or leave it out of donate_argnums
ZeroDivisionError|division by zero ; something is divided by a count that is zero on that rank: no samples, tokens or \
steps ; print the divisor at the last frame of your own code; give each rank at least one sample (drop_last, fewer \
ranks or workers), guard sums over empty batches
CUDAMismatchException|does not match the version torch was compiled with|CUDA_HOME .{0,30}not set|[Nn]inja is \
required|nvcc.{0,20}(?:not found|No such)|[Uu]nable to JIT load|Error (?:building|compiling) ext|Unable to \
(?:compile|find nvcc)|'?DeepSpeedCPUAdam'? object has no|error building extension ; an extension for the GPU could \
not be compiled for this PyTorch ; install the CUDA toolkit of torch.version.cuda, set CUDA_HOME to it, pip install \
ninja; or prebuild (DS_BUILD_OPS=1); DS_SKIP_CUDA_CHECK=1 where only the minor version differs
~~cannot import name|has no attribute|unexpected keyword argument|required positional argument|got multiple values \
for ; versions of packages do not fit each other ; pip list on that rank; install the versions that the program was \
written for, the same on all nodes; remove a second copy that shadows it (PYTHONPATH, ~/.local)
~No module named ; a Python package is missing in that rank's environment ; pip install it in the environment or \
image that all nodes start; compare `which python` between nodes
undefined symbol: \w{0,6}(?:3c10|2at|5torch|c10|torch) ; an extension was built for another PyTorch ; reinstall or \
rebuild it for the PyTorch that is there (pip install --force-reinstall --no-build-isolation), the same on all nodes
Numpy is not available|compiled using NumPy 1|multiarray failed to import|_ARRAY_API not found|removed in the \
NumPy 2 ; NumPy 2 meets packages that were built for NumPy 1 ; pip install "numpy<2" in the image of all nodes, or \
update the packages that were built for 1.x
FlashAttention|flash_attn|[Ff]lash[- ]attention|No available kernel ; this attention kernel does not run here: GPU, \
type of numbers or package ; bf16 or fp16 on Ampere or newer, flash-attn built for this PyTorch; else \
attn_implementation="sdpa" or another backend
No valid execution plans|CuDNN library|cudnn.{0,40}version|CUDNN_STATUS|DNN library initialization ; cuDNN does not \
fit: an older copy is loaded, or it has no plan for these shapes ; pip install the cuDNN that the framework asks \
for, remove others from LD_LIBRARY_PATH; another attention backend (NVTE_FUSED_ATTN=0)
train_batch_size|micro_batch|global.batch|gradient_accumulation|real_train_batch ; sizes of batches do not fit the \
number of ranks ; global batch = micro batch * gradient accumulation * data parallel ranks; correct one of the three \
in the config
weight quantization block|min_thread_[nk]\b|aligned with the quantized ; blocks of the weights' quantization do not \
divide the parts that tensor parallelism makes of them ; take a smaller tensor parallel size, or expert \
parallelism for experts (--enable-expert-parallel, --ep-size); or weights of another group size, or in BF16
Mesh should not be bigger|divisible|(?:world.?size|parallel dims).{0,60}!=|WORLD_SIZE\(|!= ?(?:self\.)?world|product \
of ; sizes of the parallel parts do not fit the model or the number of ranks ; choose tensor, pipeline, context and \
data parallel sizes whose product is the world size, and which divide heads, layers, experts and batch
KV cache|max_model_len|max_num_seqs ; GPU memory is too small for the KV cache that is asked for ; raise \
gpu_memory_utilization, lower max_model_len (--max-model-len) or max_num_seqs, or use more GPUs
[Ff]ailed to connect to GCS ; the head node of Ray was not reached ; ray status on the head: `ray start --head` must \
run there. Give workers its address on the network that nodes share, open port 6379 and Ray's other ports, the same \
Ray on all nodes
(?<!library )[Vv]ersion mismatch|cluster was started with ; nodes run different versions of a program or of Python ; \
install the same versions on all nodes: one image or environment for head and workers
(?:decreas|reduc|lower)\w{0,4}\b.{0,40}mem[-_]fraction[-_]static ; the share of GPU memory for weights and KV cache \
leaves too little for graphs and activations ; lower --mem-fraction-static, or use more GPUs (--tp)
(?:increas|rais|larger|too small|[Nn]ot enough)\w{0,4}\b.{0,80}mem[-_]fraction[-_]static ; the share of GPU memory \
for weights and KV cache is too small ; raise --mem-fraction-static, or use more GPUs (--tp)
Free memory on device|gpu_memory_utilization|memory capacity is unbalanced ; other processes hold memory of that \
GPU, or too much is asked for ; end other processes (nvidia-smi), or lower gpu_memory_utilization \
(--mem-fraction-static)
does not recognize this architecture|trust_remote_code|[Uu]nsupported (?:model|architecture)|architectures? \
.{0,60}not supported|[Uu]nrecognized (?:configuration|model) ; the installed version does not know this model ; \
update transformers and the server, or allow the model's own code (trust_remote_code=True)
gated repo|401 Client|403 Client|[Rr]epository [Nn]ot [Ff]ound|valid model identifier|couldn't connect to \
'https|LocalEntryNotFound|offline mode|Can't load (?:the )?(?:tokenizer|config|model)|RepositoryNotFoundError|Connect\
Timeout.{0,60}huggingface ; the model or data could not be fetched on that rank ; log in (HF_TOKEN), or load it \
beforehand to a folder that all nodes see and set HF_HUB_OFFLINE=1
~Key '\S{1,60}' (?:is )?not in|Could not override|ConfigAttributeError|ConfigKeyError|MissingMandatoryValue|yaml\.|JS\
ONDecodeError|validation errors? for|TOMLDecodeError|InterpolationKeyError ; a config file does not hold what the \
program reads ; correct the key or value that is named; compare with the version's own example
\.triton/cache|TRITON_CACHE|torchinductor[_/]\w+ ; ranks or hosts share a cache of compiled kernels and disturb each \
other ; a cache of its own for each host on a local disk: TRITON_CACHE_DIR and TORCHINDUCTOR_CACHE_DIR under /tmp
is stale\b.{0,80}incarnation|[Ii]ncarnation id \d+ is (?:stale|not connected)|incarnation doesn't match|\
with a different incarnation|is already connected|ALREADY_EXISTS ; a process came back, \
or two have the same number, \
while the others still run ; restart all processes together, give each its own process_id (and one coordinator per \
job)
[Pp]reempt(?!ion_\w+\.(?:cc|h|py)) ; the host or worker was taken away ; look at the events of the scheduler or \
cloud for that worker; start \
again from the last checkpoint, on capacity that is not spot or with restarts allowed
~FileNotFoundError|No such file or directory|(?:[Ff]ile|[Ff]older|[Dd]irector\w{1,6}|[Pp]ath|checkpoint|\
/\S{1,200}).{0,80}\
does not exist|NotADirectoryError ; a file is not there on that rank's \
host ; ls it on that host and in the container: mount or copy it to all nodes, wait for rank 0 to write it (barrier)
~PermissionError|Permission denied|Operation not permitted ; rights to a file or device are missing ; look at owner \
and mode of what is named (id, ls -l), in the container too; another folder for caches (HF_HOME, TRITON_CACHE_DIR)
bootstrapping phase|freeze_support ; a process was started before its module was read ; put the program's start \
under `if __name__ == "__main__":`
daemonic processes are not allowed ; a worker process may not start further ones ; num_workers=0 there, or start it \
as a process that is no daemon
[Cc]an'?(?:t|not) pickle ; an object cannot be sent to another process ; define it at the top of a module, no lambda \
or open handle in datasets and callbacks
context has already been set ; the way to start processes was set twice ; set_start_method("spawn", force=True) \
once, under `if __name__ == "__main__":`
DataLoader timed out ; a worker of the data loader hangs, or reads for longer than the loader waits: it was not \
killed ; py-spy dump of the worker tells what it reads: storage that hangs (state D in ps), a file that is no regular \
one, a damaged sample. Or take num_workers=0, which shows it in the program
DataLoader worker .{0,40}exited unexpectedly ; a worker of the data loader ended or hangs ; \
num_workers=0 shows its own error; see dmesg for the OOM killer; more /dev/shm (--shm-size)
out of resource: shared memory|num_stages ; a Triton kernel wants more shared memory than this GPU has ; smaller \
block sizes or num_stages for that GPU; a newer version of Triton or of the kernel
\b(?:XLA|INTERNAL|XlaRuntimeError|JaxRuntimeError)\b.{0,400}\bptxas\b|/xla/.{0,200}\bptxas\b ; XLA cannot run the \
assembler ptxas of the CUDA toolkit, or it does not know this GPU ; pip install -U "jax[cuda12]" brings one \
(nvidia-cuda-nvcc-cu12); else put a toolkit as new as the GPU first: PATH, or \
XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/local/cuda. See that /tmp has room and allows programs (noexec)
PTXAS|ptxas|gpu-name|PassManager::run failed|Triton Missing|[Cc]annot find (?:-lcuda|libcuda)|Triton Error\b\
(?!.{0,60}(?:illegal|launch fail|misaligned|assert|out of memory|launch timed out|ECC|not ready)) ; Triton \
could not compile a kernel for this GPU ; a toolkit that knows the GPU (TRITON_PTXAS_PATH), libcuda on the linker's \
path, Triton of this PyTorch; empty ~/.triton/cache
~torch\._dynamo|torch\._inductor|InductorError|BackendCompilerFailed|InternalTorchDynamoError|torch\.compile ; \
torch.compile failed ; TORCH_COMPILE_DISABLE=1 (or --enforce-eager) to go on; clear the cache \
(TORCHINDUCTOR_CACHE_DIR), update PyTorch
index out of range in self|srcIndex < srcSelect|t >= 0 && t < n_classes|index out of bounds ; an index lies beyond \
its table: a token or label outside of the vocabulary or classes ; compare the largest token id with the vocabulary \
size (resize_token_embeddings), labels with the number of classes
~~list index out of range|IndexError|KeyError ; data or config does not hold what is read ; print the keys and \
lengths at the last frame of your own code on that rank; a sample or column may be missing there
~~negative dimension|overflow|too large to be represented ; a number became too large or negative ; smaller sequences \
and batches; look at the sizes that are passed on that rank
peer access is not supported ; these GPUs cannot access each other's memory ; switch the custom all-reduce off \
(--disable-custom-all-reduce, use_custom_all_reduce disable), NCCL_P2P_DISABLE=1; look at ACS and IOMMU
Reused local directory|/\d{6}_(?:locals|barrier|cache_usage|shard_\w+|next_epoch) ; an earlier run left shared \
memory of that dataset behind ; \
streaming.base.util.clean_stale_shared_memory() once at the start, or another local directory
unique IP address|VLLM_HOST_IP ; nodes tell the same address ; set VLLM_HOST_IP on each node to its own address, \
host network for containers
response from front-end|handshake.{0,30}(?:fail|timed|timeout) ; the engine on another node or process was not \
reached in time ; start all parts; open the data parallel RPC port and set its address to one that all nodes reach \
(--data-parallel-address)
ntasks-per-node|configured in SLURM ; the number of Slurm's tasks does not fit the number of devices ; srun with \
--ntasks-per-node equal to devices (one task a GPU), and nodes equal to num_nodes
You requested gpu|machine only has|requested .{0,20}(?:GPU|device)s? .{0,40}(?:only|but) ; more GPUs are asked for \
than this process sees ; set devices (or nproc_per_node) to what `nvidia-smi -L` shows there; mind \
CUDA_VISIBLE_DEVICES
doesn't support bf16|bf16.{0,20}not supported|[Bb]float16.{0,40}only supported ; this GPU has no bfloat16 ; fp16, or \
an Ampere GPU or newer
~Disk quota|No space left ; a disk or quota is full ; df -h and quota on that host; free space or write elsewhere
Horovod job failed|minimum? .{0,20}slots|Current available slots ; too few hosts or slots came up ; see that every \
host of the discovery script or hostfile answers ssh and has its slots; raise --elastic-timeout
~~requires .{0,40}(?:version|>=|==|install)|is required but|please install|pip install ; a package is missing or too \
old ; install the version that is named, in the environment of all nodes
\b401[ \
:]{1,2}[CU]\w|(?:[Ss]tatus|HTTP\S{0,8}|[Cc]ode|[Ee]rror|[Rr]esponse)\W{1,3}401\b|[Uu]nauthori[sz]ed|authentication \
required|pull access denied|requested access .{0,20}denied ; the registry \
refuses this user ; log in to the registry on that node: ~/.config/enroot/.credentials, docker login, imagePullSecrets
manifest (?:unknown|for)|name unknown|(?:[Ss]tatus|HTTP\S{0,8}|[Cc]ode|[Ee]rror|[Rr]esponse)\W{1,3}404\b|\b404 \
[A-Z]\w|[Nn]ot [Ff]ound.{0,20}manifest|InvalidImageName ; there is no image of \
that name and tag ; correct it (enroot: REGISTRY#IMAGE:TAG, a file as ./IMAGE.sqsh), or push it for this processor
(?:[Ss]tatus|HTTP\S{0,8}|[Cc]ode|[Ee]rror|[Rr]esponse)\W{1,3}429\b|\b429 [A-Z]\w|toomanyrequests|[Rr]ate limit ; \
the registry allows no more downloads for now ; log in, keep a mirror, or \
import the image once to a file (enroot import) that all nodes read
failed to execute: |exec: "|exec format error|entrypoint(?!s) ; the image lacks the program or entrypoint that is \
started, or is for another processor ; docker run --rm IMAGE ls -l of it; --no-container-entrypoint; an image of \
this processor
/run/(?:enroot|pyxis)|ENROOT_\w+_PATH|couldn't mkdir|mkdir: cannot create ; the runtime's own folder cannot be made \
; set ENROOT_RUNTIME_PATH, ENROOT_CACHE_PATH and ENROOT_DATA_PATH in /etc/enroot/enroot.conf to folders that the \
user may write to (made in Slurm's prolog), with free space
98-nvidia|nvidia-container-cli|libnvidia-container|nvidia-container-runtime-hook ; the hook that gives GPUs to the \
container failed ; nvidia-smi and nvidia-container-cli info on that host; install nvidia-container-toolkit of the \
driver's release
seccomp|user namespaces?|uid_map|newuidmap ; the kernel forbids what containers of users need ; sysctl \
kernel.unprivileged_userns_clone=1 and user.max_user_namespaces, rows in /etc/subuid, a runtime of this kernel
ModelWrapper|tokenizer\.json|untagged enum|tokenizers? .{0,40}(?:load|parse|instantiate) ; the tokenizer's file is \
of a newer version, or damaged ; update tokenizers and transformers on all nodes, or download the file again
RuntimeEnvSetupError|set up runtime environment|satisfies the requirement|No matching distribution ; packages of the \
run could not be installed ; pip install the same by hand on that node: name and version, index and proxy; bake them \
into the image and drop them from runtime_env
Unable to load CUDA|CUDA-enabled jaxlib|initialize backend 'cuda'|cuInit|no CUDA-capable|Torch not compiled with \
CUDA|CPU-only ; the framework was installed without GPUs, or does not find the driver ; pip install "jax[cuda12]" \
(or PyTorch's build of CUDA), nvidia-smi in the same container; no other build of it in PYTHONPATH
non-finite|is not finite|NaN or Inf|nan or inf ; a loss or gradient is no number ; look at that rank's data and GPU \
(dcgmi diag -r 3); go back to the last checkpoint with a lower learning rate and clipped gradients
object store|ObjectStoreFull|object_store ; Ray's store of objects is full ; a larger --object-store-memory and \
/dev/shm, spilling to a disk with space, fewer references held
PipeliningShapeError|stage .{0,40}shape mismatch ; stages of the pipeline pass tensors of another shape than was \
planned ; one micro batch and sequence length for all steps (drop_last, padding), or build the schedule anew for \
another shape
GLIBC(?:XX)?_\d ; a library was built for a newer system ; use a container of a newer distribution, or build the \
package on this host; for GLIBCXX conda's libstdcxx-ng before the system's in LD_LIBRARY_PATH
nvJitLink|libcusparse|libcublas|libcudnn|libnvrtc ; CUDA libraries of different releases are mixed ; unset \
LD_LIBRARY_PATH or put nvidia/*/lib of this Python before others; pip install the nvidia-* packages that PyTorch \
asks for
data type is not supported|Unconvertible NCCL type|NCCL data type ; collectives know no such type of numbers ; \
convert the tensor first, on all ranks alike: float, bfloat16, half, int32, int64 or uint8
Capture cuda graph failed|cuda_graph_runner|graph capture failed ; the server could not capture its CUDA graphs ; \
leave it more memory (--mem-fraction-static, --gpu-memory-utilization lower), a smaller --cuda-graph-max-bs; \
--disable-cuda-graph or --enforce-eager to go on
meta device|meta tensor|to_empty|param_init_fn ; parameters were made without memory (meta device) and nothing fills \
them ; pass param_init_fn (module.to_empty) and sync_module_states=True, or load the model for real on rank 0
Error no file named|no file named ; a folder of a model lacks its weights ; download it completely \
(model.safetensors.index.json and all parts), give the right folder, the same on all nodes
gpu-architecture|nvrtc: ; the CUDA compiler at run time (NVRTC) is too old for this GPU ; a newer CUDA build of the \
framework, TORCH_CUDA_ARCH_LIST of this GPU, no older nvrtc in LD_LIBRARY_PATH
Number of processes must|(?<!-)num_processes\b.{0,30}(?:must|defined|None)|coordinator_address|process_id must ; \
JAX was not told how many processes \
there are ; jax.distributed.initialize(coordinator_address, num_processes, process_id), or start it by a launcher \
whose variables JAX knows (Slurm, Open MPI, Kubernetes)
exceeded \d+% memory budget|nanny|CommClosedError ; a worker of Dask ran out of memory or was lost ; a higher memory \
limit and fewer threads a worker, smaller partitions, spilling (rmm pool, device_memory_limit); look at that \
worker's log first
SIGBUS|[Bb]us error ; the process touched shared memory that has no room behind it ; a larger /dev/shm (--shm-size, \
shm_size, emptyDir with medium Memory) or --ipc=host; df -h /dev/shm
MV2|mpi_rank_\d+\]\[error ; MVAPICH got memory of a GPU without support for it, or the program crashed in it ; \
MV2_USE_CUDA=1 and a build with CUDA; else keep MPI to host memory
peer mapping resources ; a GPU has no more room for memory of its peers ; at most eight peers a process on PCIe \
machines: fewer GPUs in one process, NCCL_P2P_DISABLE=1 to tell
/proc/\d+/fd/|ptrace|process_vm_readv ; processes of one host may not look into each other's memory ; --ipc=host and \
--pid=host, --cap-add=SYS_PTRACE, or UCX_TLS without posix, sysv, cma and xpmem
engines? to send initial|front-end|initial message ; an engine of the server never came up, or cannot reach the \
front end ; look at that engine's own log first; open its port, wait longer for large models \
(VLLM_ENGINE_READY_TIMEOUT_S)
--local[-_]rank ; the launcher passes --local-rank, which the program's command line does not know ; start it by \
torchrun and read os.environ["LOCAL_RANK"], or let argparse accept --local-rank (parse_known_args)
[Ss]hape mismatch for (?:loaded|key)|CheckpointingException|CheckpointException|access pattern for Sharded|DP world \
size of ; the checkpoint does not fit this model or these parallel sizes ; load it with the config and parallel \
sizes it was saved with, or convert it (universal or distributed checkpoint, --ckpt-convert-format); compare the key \
that is named
pyarrow|DatasetGenerationError|webdataset|UnidentifiedImage|cannot identify image|UnicodeDecodeError|Could not \
decode ; a file or sample of the data cannot be read ; look at the row or file that is named on that rank: mend or \
skip it, load it again, compare checksums; empty the cache of data sets
C compiler|gcc.{0,20}(?:not found|No such)|CC environment ; the compiler that kernels are built with is missing ; \
install gcc (build-essential) in the image of all nodes, set CC; TORCH_COMPILE_DISABLE=1 or --enforce-eager until then
[Mm]inimum capability|[Cc]urrent capability|compute capability|for the current GPU ; this GPU is too old, or too \
new, for what is asked for ; another quantization, type of numbers or attention backend; else a GPU of that \
capability, or a newer release
must be called before|should be called before|before any \w+ (?:computation|call)s? ; calls come in the wrong order \
; make that call first in each process, before anything touches the GPU, once
access to \S{1,40}\.safetensors|[Ff]ailed to deserialize|plan file is not compatible|engine plan|serialized with ; \
the file was built by another version, or for another GPU ; build it again with the version and on the GPU that run it
~~unrecognized arguments|invalid choice|following arguments are required|No such option ; a command line has an \
option that this version does not know ; correct the option; --help shows those of the installed version
~~(?:[Ww]orker|[Ee]xecutor|[Cc]hild|[Ss]ub-?process|[Ee]ngine|MPI ?[Pp]ool)\w*\b.{0,50}(?:returned (?:an )?error|died|\
crashed|exited|terminated|was shut down) ; a process of the program ended, and this one only reports it ; read that \
process's own first error, which stands before this line or in its own log; without any: dmesg (killed for memory)
~~Timed? ?out|TimeoutError ; something did not answer in time ; look at what it waits for: that process's own log, \
then py-spy dump --pid PID there
~~NotImplementedError|not implemented ; this combination is not implemented in the installed version ; another \
setting, or a newer version of the program that is named in the last frame
~~AssertionError|assert ; a check of the program refuses its settings or data ; read the condition at the last frame \
of the traceback: it names the setting or size that is refused
~~not supported|[Uu]nsupported|(?:does|do)(?: not|n't) support|only supports? ; what is asked for is not supported \
here ; another setting, backend or type of numbers, a newer version, or another GPU: the sentence names which
~~[Ff]ailed to (?:load|open|read|parse|decode)|corrupt|truncated|malformed ; a file cannot be read ; look at what is \
named on that host: size, checksum, rights; copy it again
~~checkpoint ; a checkpoint was not written or read ; look at the path that is named on that rank: free space, \
rights, the same folder on all nodes; use the checkpoint before
~~argument|option|flag ; a setting is refused ; correct the option that is named; --help of the installed version \
shows which there are
~~must be|should be|[Ee]xpected|but got|out of range|cannot be|[Ii]nvalid|not allowed|[Uu]nknown|not equal|mismatch ; \
a setting, size or value is refused ; correct what the sentence names, on all ranks alike: compare the config with \
that of a run that worked
~~TypeError|AttributeError ; a call does not fit the installed version, or got None ; compare the package's version \
on all nodes; print what is passed at the last frame of your own code
"""
FAMILIES: tuple[Family, ...] = (*TORCH, *TRAINING, *read(_ROWS))
BROAD = frozenset(each for each in FAMILIES if each.broad)
WEAK = tuple(each for each in FAMILIES if each.weak)
