"""What frameworks that train on many GPUs mean by the errors they end with: looked for before all other families."""

from __future__ import annotations

from busbw.doctor.meanings.families import Family, read

_ROWS = r"""
batches of different size with .{0,3}dispatch_batches ; the main process reads batches for all ranks, and they differ \
in shape or number, so that it cannot join them ; dispatch_batches=False (TrainingArguments: \
accelerator_config={"dispatch_batches": false}), so that each rank reads its own. Or pad all samples to one length, \
drop the last batch, or split_batches=True
\bnum_processes\b.{0,12} using this config yaml ; the config file of accelerate does not say how many processes to \
start ; accelerate launch --num_processes=N (all GPUs of all machines), or num_processes: N in that file; accelerate \
config writes a whole one
No module named '?(?:fused_layer_norm_cuda|fast_layer_norm|amp_C|apex_C|syncbn|fused_\w{3,40}_cuda\w{0,3}|\
scaled_\w{3,50}_cuda|xentropy_cuda|dropout_layer_norm|rotary_emb|flash_attn_2_cuda|flash_attn_3_cuda|\
transformer_engine_torch|grouped_gemm_backend|selective_scan_cuda|causal_conv1d_cuda|deep_ep_cpp)\b ; a package is \
there \
without its compiled part for the GPU: no package of that name can be installed ; build the package itself from source \
on a machine with nvcc, for the PyTorch that is there: pip install -v --no-build-isolation --no-cache-dir (apex: with \
APEX_CPP_EXT=1 APEX_CUDA_EXT=1, or --config-settings --build-option=--cpp_ext, and =--cuda_ext). An image of NGC has \
it; or take the implementation of PyTorch
bitsandbytes CUDA binary|libbitsandbytes_\w{3,20}\.so|CUDA Setup failed despite|Configured CUDA binary not found ; \
bitsandbytes has no library for the CUDA version of this PyTorch ; pip install -U bitsandbytes (newer releases have \
newer CUDA); python -m bitsandbytes shows what it finds. BNB_CUDA_VERSION=126 takes the library of another version that \
is there; else build it from source. The same in the image of all nodes
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
whole on this host ; the path of --data-path is a prefix: no .bin or .idx at its end, and mostly _text_document before \
that. ls PREFIX.bin PREFIX.idx on the host of that rank: all nodes must see both. Else make them (preprocess_data.py)
[Nn]umber of micro-?batches .{0,20}is not divisible by pipeline ; the number of micro batches is no multiple of the \
pipeline's stages, as the interleaved schedule wants it ; global batch = micro batch * data parallel size * a multiple \
of the pipeline size. Or no virtual stages (--num-layers-per-virtual-pipeline-stage left out)
class input value .{1,60} and checkpoint ?value ; the schedule of the learning rate differs from the one in the \
checkpoint ; --override-opt_param-scheduler takes the values of this run, --use-checkpoint-opt_param-scheduler those of \
the checkpoint. Or give the same --lr, --min-lr, warmup and decay as the run that saved it
[Ii]nvalid (?:sharding|access) pattern ; parts of a tensor are missing, or saved by two ranks, when the checkpoint is \
put together ; compare what ranks build: layers, experts and parallel sizes must be alike. A module of your own needs \
a sharded_state_dict with offsets and a replica_id of its rank; then one release of Megatron-LM and Transformer Engine \
on all nodes. The checkpoint before is whole
checkpoint path exists and is a directory ; a checkpoint of many files (a folder) has the name under which this \
strategy writes or reads one file ; another dirpath or name for the new checkpoints, or move the old folder away. \
Read a sharded one with the strategy that wrote it, or join it first: python -m \
lightning.pytorch.utilities.consolidate_checkpoint FOLDER
vLLM server can'?t be reached|server can'?t be reached at ; the server that generates for the trainer does not answer \
at that address ; start it first, on GPUs of its own (trl vllm-serve --model M), and curl http://HOST:PORT/health/ from \
the trainer's host. Correct vllm_server_host and port (vllm_server_base_url), open the port, no_proxy for that host; \
a larger vllm_server_timeout while it loads the model
Extension horovod\.\w{2,20} has not been built|(?:Gloo|MPI|NCCL)(?: nor \w{3,5})? support has (?:not )?been built ; \
Horovod was installed without that part ; horovodrun --check-build shows what it has. With the framework, CMake and a \
compiler in place: HOROVOD_WITH_PYTORCH=1 (_TENSORFLOW, _GLOO, _MPI) HOROVOD_GPU_OPERATIONS=NCCL pip install \
--no-cache-dir --force-reinstall --no-binary=horovod horovod, on all nodes
FP8 execution requires .{0,120}divisible|dimension.{0,40} divisible by 8 and .{0,60}divisible by 16 ; FP8 wants sizes \
that are multiples of 8 and 16: a batch with an odd number of tokens came in ; pad sequences to a multiple of 16 \
(pad_to_multiple_of=16; with sequence parallelism 16 times the tensor parallel size), drop the last batch, pad the \
vocabulary. Parallel sizes and the number of ranks are right
"""
TRAINING: tuple[Family, ...] = tuple(read(_ROWS))
