"""What frameworks that train on many GPUs mean by the errors they end with: looked for before all other families."""

from __future__ import annotations

from busbw.doctor.meanings.families import Family, read

_ROWS = r"""
version `GLIBC(?:XX)?_[\d.]{1,8}' not found ; a library was built for a newer system than this one ; take an image of \
a newer distribution, or build that package here from source (pip install --no-binary=NAME --no-build-isolation; \
flash-attn: FLASH_ATTENTION_FORCE_BUILD=TRUE). For GLIBCXX conda's libstdcxx-ng before the system's
batches of different size with .{0,3}dispatch_batches ; the main process reads batches for all ranks, and they differ \
in shape or number, so that it cannot join them ; dispatch_batches=False (TrainingArguments: \
accelerator_config={"dispatch_batches": false}), so that each rank reads its own. Or pad all samples to one length, \
drop the last batch, or split_batches=True
\bnum_processes\b.{0,12} using this config yaml ; the config file of accelerate does not say how many processes to \
start ; accelerate launch --num_processes=N (all GPUs of all machines), or num_processes: N in that file; accelerate \
config writes a whole one
No module named '?(?:fused_layer_norm_cuda|fast_layer_norm|amp_C|apex_C|syncbn|fused_\w{3,40}_cuda\w{0,3}|\
scaled_\w{3,50}_cuda|xentropy_cuda|dropout_layer_norm|rotary_emb|flash_attn_2_cuda|flash_attn_3_cuda|\
transformer_engine_torch|grouped_gemm_backend|selective_scan_cuda|causal_conv1d_cuda|deep_ep_cpp)\b|custom CUDA \
extension \w{3,60} (?:module )?(?:is|was) not found ; a package is there \
without its compiled part for the GPU: no package of that name can be installed ; build the package itself from source \
on a machine with nvcc: pip install -v --no-build-isolation --no-cache-dir, with the PyTorch that is there. Apex wants \
APEX_CPP_EXT=1 APEX_CUDA_EXT=1, or --config-settings --build-option=--cpp_ext, and =--cuda_ext. An image of NGC has \
it; or take the implementation of PyTorch (Megatron: --no-gradient-accumulation-fusion)
bitsandbytes CUDA binary|libbitsandbytes_\w{3,20}\.so|CUDA Setup failed despite|Configured CUDA binary not found ; \
bitsandbytes has no library for the CUDA version of this PyTorch ; pip install -U bitsandbytes (newer releases have \
newer CUDA); python -m bitsandbytes shows what it finds. BNB_CUDA_VERSION=126 takes the library of another version \
that is there; else build it from source. The same in the image of all nodes
no extra nodes available via hostfile ; several nodes are asked for, and no hostfile was found that names them ; \
give --hostfile=FILE, in which each host has a line: NAME slots=8 (without the option /job/hostfile is read). For one \
node leave --num_nodes out
ops were compiled and installed with a different version ; the compiled parts of DeepSpeed are of another PyTorch or \
CUDA than the one that is loaded ; pip install --force-reinstall --no-cache-dir --no-build-isolation --no-deps \
deepspeed in the image of all nodes (without DS_BUILD_OPS they are built at the first use). Or go back to the PyTorch \
that they were built for
checkpoint tag name .{0,200}not consistent ; ranks name one checkpoint differently: its tag holds a time, a host or a \
rank ; make the tag of the step alone, or on rank 0 and broadcast it (torch.distributed.broadcast_object_list), then \
save_checkpoint(folder, tag) on all ranks. Ranks, ports and world size are right
(?:[Zz]e[Rr][Oo]|Zero)-?3 is not compatible with|`?device_map='?\w{0,20}'?`? in any distributed mode|contains \
.?DTensor.? parameters, which is incompatible with DDP ; the model was laid over the GPUs by device_map, and data \
parallel \
ranks each need it whole, or sharded by the trainer ; leave device_map (and low_cpu_mem_usage) out of from_pretrained: \
ZeRO-3 and FSDP place the weights themselves. Plain DDP: device_map={"": LOCAL_RANK}. To spread one copy over all GPUs \
start one process (python, --num_processes=1)
loaded in 8-bit or 4-bit precision on (?:a different device|multiple devices) ; the quantized weights of this rank lie \
on another GPU than the rank's own: device_map put them there ; from_pretrained(device_map={"": LOCAL_RANK}), or \
{"": PartialState().process_index} on one node, so that each rank holds a copy on its own GPU; no device_map="auto" \
with several processes
value from checkpoint .{1,60} is not equal to the input argument ; the checkpoint was saved with another setting than \
this run is given ; give the run the value of the checkpoint (--use-checkpoint-args takes them from it). For other \
tensor or pipeline sizes save and load it as a distributed checkpoint (--ckpt-format torch_dist), or convert it \
(tools/checkpoint/convert.py)
\.idx and \.bin files|bad (?:header|version), cannot read ; the indexed data is not at the path that was given, or not \
whole on this host ; the path of --data-path is a prefix: no .bin or .idx at its end, and mostly _text_document \
before that. See ls PREFIX.bin PREFIX.idx on the host of that rank: all nodes must see both. Else make them \
(preprocess_data.py)
[Nn]umber of micro-?batches .{0,20}is not divisible by pipeline ; the number of micro batches is no multiple of the \
pipeline's stages, as the interleaved schedule wants it ; global batch = micro batch * data parallel size * a multiple \
of the pipeline size. Or no virtual stages (--num-layers-per-virtual-pipeline-stage left out)
class input value .{1,60} and checkpoint ?value ; the schedule of the learning rate differs from the one in the \
checkpoint ; --override-opt_param-scheduler takes the values of this run, --use-checkpoint-opt_param-scheduler those \
of the checkpoint. Or give the same --lr, --min-lr, warmup and decay as the run that saved it
[Ii]nvalid (?:sharding|access) pattern ; parts of a tensor are missing, or saved by two ranks, when the checkpoint is \
put together ; compare what ranks build: layers, experts and parallel sizes must be alike. A module of your own needs \
a sharded_state_dict with offsets and a replica_id of its rank; then one release of Megatron-LM and Transformer Engine \
on all nodes. The checkpoint before is whole
checkpoint path exists and is a directory ; a checkpoint of many files (a folder) has the name under which this \
strategy writes or reads one file ; another dirpath or name for the new checkpoints, or move the old folder away. \
Read a sharded one with the strategy that wrote it, or join it first: python -m \
lightning.pytorch.utilities.consolidate_checkpoint FOLDER
vLLM server can'?t be reached|server can'?t be reached at ; the server that generates for the trainer does not answer \
at that address ; start it first, on GPUs of its own (trl vllm-serve --model M), and curl http://HOST:PORT/health/ \
from the trainer's host. Correct vllm_server_host and port (vllm_server_base_url), open the port, no_proxy for that \
host; a larger vllm_server_timeout while it loads the model
Extension horovod\.\w{2,20} has not been built|(?:Gloo|MPI|NCCL)(?: nor \w{3,5})? support has (?:not )?been built ; \
Horovod was installed without that part ; horovodrun --check-build shows what it has. With the framework, CMake and a \
compiler in place: HOROVOD_WITH_PYTORCH=1 (_TENSORFLOW, _GLOO, _MPI) HOROVOD_GPU_OPERATIONS=NCCL pip install \
--no-cache-dir --force-reinstall --no-binary=horovod horovod, on all nodes
FP8 execution requires .{0,120}divisible|dimension.{0,40} divisible by 8 and .{0,60}divisible by 16 ; FP8 wants sizes \
that are multiples of 8 and 16: a batch with an odd number of tokens came in ; pad sequences to a multiple of 16 \
(pad_to_multiple_of=16; with sequence parallelism 16 times the tensor parallel size), drop the last batch, pad the \
vocabulary. Parallel sizes and the number of ranks are right
`?MASTER_ADDR`? (?:env )?(?:was|is) not set ; MASTER_ADDR is not set, though the job spans several machines ; on all \
machines alike export MASTER_ADDR=the first one's name (Slurm: scontrol show hostnames | head -n 1) and MASTER_PORT. \
Or accelerate launch with --main_process_ip and --main_process_port, --num_machines and each one's --machine_rank
total_size \(\d{1,7}\) does not match .{0,3}num_processes ; the product of the parallel sizes is not the number of \
processes ; dp_replicate_size * dp_shard_size * tp_size * cp_size * sp_size must be num_processes: correct one of \
them, or start that many (accelerate launch --num_processes)
DeepSpeed config values that mismatch ; values of DeepSpeed's config differ from those that the trainer is given ; set \
the lines that are named to "auto" in the DeepSpeed config, and give the values to the trainer alone (--learning_rate, \
--per_device_train_batch_size)
[Cc]an't find a valid checkpoint at|No valid checkpoint found in|DeepSpeed was unable to load the checkpoint ; the \
folder to resume from holds no checkpoint of this kind ; ls it on that rank's host: DeepSpeed wants the file `latest` \
and a folder global_stepN with a part of each rank, on storage that all nodes share. Name the folder checkpoint-N \
above them. A run without DeepSpeed, or weights alone, cannot be resumed so: load them as a model
find CUDA_HOME|CUDA_HOME (?:does not exist|(?:environment variable )?is not set)|MissingCUDAException ; no CUDA \
toolkit (nvcc) is found to compile extensions with ; export CUDA_HOME=/usr/local/cuda where one is there (ls \
$CUDA_HOME/bin/nvcc). Else install the toolkit of torch.version.cuda, or take a -devel image in place of -runtime, on \
all nodes; or build them before (DS_BUILD_OPS=1), where nodes have no compiler
num_stages .{0,12}must divide distributed world ; the number of pipeline stages does not divide the number of ranks ; \
take a num_stages that divides the world size (ranks = stages * data parallel size), or start another number of ranks
tracing error at step|parameters in the parameter fetch queue ; under ZeRO-3 a step ran modules in another order than \
the steps before it ; call the same modules in each step and on each rank: no branches by data (images, experts, an \
evaluation in between). Where there must be: set_z3_leaf_modules(model, [class of that block]), or ZeRO-2 to tell. \
Update DeepSpeed: older releases traced generate() and evaluation wrongly
'weight' must be 2-D ; the weight is empty there: under ZeRO-3 and FSDP a module's weights are whole only within its \
own forward ; call the whole model in place of a part of it. Else gather first, on all ranks: with \
deepspeed.zero.GatheredParameters(module.weight), or FSDP.summon_full_params(module)
require users to upgrade torch to at least ; transformers refuses to read weights that are no safetensors with a \
PyTorch before 2.6 ; install torch 2.6 or newer, or take (convert to) weights as safetensors (use_safetensors=True). \
For an optimizer's state on resuming only the newer torch helps, or the transformers release before
GPTDataset_indices|-GPTDataset-\w{1,20}-\w{1,40}_index|_(?:doc|sample|shuffle)_idx\.npy ; the index of the data was \
built on another host, and this host does not see that folder ; give --data-cache-path a folder on a file system that \
all nodes share, and start again; or build it once beforehand. The data itself must be seen by all nodes as well
[Pp]arameter hashes not matching ; copies of the weights on data parallel ranks have drifted apart ; go back to a \
checkpoint before it, and check more often (--check-weight-hash-across-dp-replicas-interval) to find the step. \
Where it comes at random, dcgmi diag -r 4 on all GPUs. Where it comes always at once, look for what only some \
ranks do: a gradient \
that is not reduced, a seed, an update behind a condition
CUDA_DEVICE_MAX_CONNECTIONS to 1 ; the variable CUDA_DEVICE_MAX_CONNECTIONS=1 is missing in that process ; export \
CUDA_DEVICE_MAX_CONNECTIONS=1 where all ranks get it: in the script that each node runs, srun --export=ALL, mpirun -x, \
the pod's env. Not with FSDP, which needs it unset
mismatch after resume .{0,80}not supported for DistributedOptimizer ; the checkpoint's optimizer state is cut for \
other tensor and pipeline sizes, and in a form that cannot be cut anew ; resume with the sizes it was saved with and \
save once in a form that can (--ckpt-fully-parallel-save with --ckpt-format torch_dist, or \
--dist-ckpt-optim-fully-reshardable); then change them. Or take the weights alone: --no-load-optim
is not a distributed checkpoint ; that folder is no distributed checkpoint: one of another format, or not the folder \
that holds it ; name the folder with metadata.json (iter_NNNNNNN, in NeMo 2 its weights/ folder). Where the format is \
another one, convert it (--ckpt-format torch and --ckpt-convert-format torch_dist). ls it on each node: it must be \
shared
No supported gpu backend found ; Lightning finds no GPU: PyTorch without CUDA, or none is given to this process ; \
python -c "import torch; print(torch.version.cuda, torch.cuda.is_available())" there: None means the build for CPUs. \
Else give the job or container its GPUs (--gres=gpu:N, --gpus all), and look at CUDA_VISIBLE_DEVICES
No dot product attention (?:backend|support) ; no attention kernel of Transformer Engine takes these inputs ; \
NVTE_DEBUG=1 NVTE_DEBUG_LEVEL=2 tells for each why not. Unset NVTE_FLASH_ATTN=0, NVTE_FUSED_ATTN=0 and \
NVTE_UNFUSED_ATTN=0; install the flash-attn that this release wants and a newer cuDNN; bf16, a mask and a head size \
that they take
divisible by the number of generations ; the batch of all GPUs holds no whole groups of answers (num_generations) ; \
per_device_train_batch_size * GPUs * gradient_accumulation_steps must be a multiple of num_generations: change one of \
them to a value that the sentence lists
after changing the effective data-parallel degree|state is empty for dp \
rank|DataLoader.{0,80}dp_(?:world_size|degree) ; the state of the data loader was saved by another number of data \
parallel ranks ; resume with as many of them as the run that saved it (GPUs over tensor, pipeline and context \
parallel size). Or leave the loader out of what is loaded (torchtitan: checkpoint.exclude_from_loading dataloader), \
and some data is seen twice
different number of tensors was saved|Recomputed values .{0,80}different metadata|saved during recomputation ; \
activation checkpointing computed something else the second time than in the forward pass ; let both passes be alike: \
use_cache=False, the same autocast, no branch on values, counters or training state in that block. Wrap a layer by \
checkpointing first and by FSDP after it. torch.utils.checkpoint.set_checkpoint_debug_enabled(True) shows the first \
operation that differs; use_reentrant=True does not compare
parameters that were not used in producing .{0,5}loss ; some parameters had no part in the loss on that rank, so that \
DDP waits for their gradients ; DDP(find_unused_parameters=True); in Lightning \
strategy="ddp_find_unused_parameters_true". Or freeze them (requires_grad=False); let every output of forward take \
part in the loss
Requested more processes \(\d ; fewer slots are given than processes are asked for ; give each host its slots \
(-H host1:8,host2:8, or slots=8 in the hostfile), or a smaller -np
bfloat16 and fp16 modes ; the config switches bf16 and fp16 on at once ; keep one of them: "bf16": {"enabled": true} \
and no fp16 part. With a trainer set both to "auto", and bf16=True or fp16=True there
Either train_batch_size or train_micro_batch_size ; the config of DeepSpeed gives no batch size ; set \
train_micro_batch_size_per_gpu (and gradient_accumulation_steps), or "auto" under a trainer. Under accelerate pass a \
data loader with a batch_size to prepare()
current list of valid GPU counts ; the number of GPUs is none that the elastic config allows ; start as many as the \
list names, or change micro_batch_sizes, max_train_batch_size, min_gpus and max_gpus; "elasticity": {"enabled": \
false} does without
DistributedDataParallel is not needed when ; no parameter of the model is to be trained: all are frozen ; set \
requires_grad on those to train before DDP is made (LoRA: get_peft_model first, is_trainable=True on loading). A model \
that only serves as reference or judge needs no DDP
modules offloaded to cpu or disk|with CPU or disk offload ; device_map laid parts of the model on the host or a disk, \
as the GPUs had no room for all of it ; leave .to(device) out to run it so. To train it, place it whole: \
device_map={"": LOCAL_RANK}, in 4 bits or with more GPUs where it does not fit, or ZeRO-3 or FSDP with offload in \
place of device_map
No samples remain|[Dd]ata(?:set|loader) is empty\b ; no sample is left after the data was filtered, cut or split over \
ranks ; print the number of samples after each step. A sequence length that is too short drops all long ones, a wrong \
column or template makes empty ones, drop_last with a large batch leaves none. Each rank needs a full batch
oversamples the contributing datasets ; a part of the blend has fewer samples than the run wants of it ; raise \
mid_level_dataset_surplus (--mid-level-dataset-surplus 0.01 and more), or correct weights and --train-samples; then \
build the index anew (remove the old cache)
FlashAttention is only supported on CUDA ; flash-attn cannot be built with the nvcc that is found: it is too old ; \
point CUDA_HOME and PATH at the newer toolkit that fits torch.version.cuda (nvcc -V). Or take \
from its releases the wheel that is built for this torch, CUDA, Python and C++ ABI
CPU parameters or buffers when .{0,3}sync_module_states ; FSDP is to send weights from rank 0, and they lie in host \
memory ; FSDP(device_id=torch.cuda.current_device(), sync_module_states=True) moves them to the rank's GPU first
Less than two GPU ids ; several GPUs are asked for (--multi_gpu), and one is named ; --gpu_ids=0,1 or all, or leave \
--multi_gpu out for one GPU; the config file (accelerate config) may hold it
ROCR_VISIBLE_DEVICES when|HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES, inconsist ; variables that choose GPUs \
contradict each other ; unset ROCR_VISIBLE_DEVICES (Slurm and images set it) before `ray start` on all nodes, and keep \
HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES alone, alike where both are set
ZeRO-Offload with a client provided optimizer ; the optimizer's state is to lie on the host, and this optimizer works \
on the GPU ; take DeepSpeedCPUAdam, or name the optimizer in the DeepSpeed config. "zero_force_ds_cpu_optimizer": \
false keeps yours, at a slow pace
"""
TRAINING: tuple[Family, ...] = tuple(read(_ROWS))
