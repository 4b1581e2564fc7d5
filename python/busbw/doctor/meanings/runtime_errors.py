"""What runtimes of many frameworks mean by the errors they end with: looked for before the families of all programs."""

from __future__ import annotations

from busbw.doctor.meanings.families import Family, read

_ROWS = r"""
[Ii]nconsistent compute device|device_ids?\[0\].{0,60}found one of them|parameters and buffers on device|current(?:ly \
active)? (?:cuda )?device .{0,40}(?:does not match|differs? from|is not) .{0,40}device|[Gg]uessing device ID ; the \
process works on another GPU than its rank's ; torch.cuda.set_device(LOCAL_RANK) before anything touches the GPU, \
and the same number as device_id (FSDP, DDP's device_ids, init_process_group); one visible GPU per process does too
[Nn]o slot '?\d+|[Hh]ostfile .{0,60}(?:not formatted|empty|duplicate|already been defined|bad)|[Hh]ost\w* \S{1,60} \
(?:is |was )?not (?:found )?in \
(?:the )?(?:hostfile|resource pool)|has already been defined|inclusion.{0,20}exclusion|[Nn]o (?:hosts?|resources?) \
(?:left|remain|available to) ; the launcher's list of hosts (hostfile, --include, --exclude) names a GPU or host that \
is not in it ; correct the hostfile (one line a host: NAME slots=8, as nvidia-smi -L counts GPUs there) or the filter \
(--include a1:0,1@a2:0,1); names as in the hostfile, each once
is not a distributed checkpoint|(?:common\.pt|metadata\.json|\.metadata|latest_checkpointed_iteration|tracker file|\
model\.safetensors\.index)\b.{0,120}(?:not |No such|missing)|(?:No such file|not found|does not exist|missing).{0,160}\
(?:common\.pt|metadata\.json|\.metadata\b|latest_checkpointed_iteration|/ckpts?/|checkpoint|iter_\d{7}) ; the \
checkpoint is not there, or not whole, as this host sees it: written to a disk of one host, or a save that did not \
end ; ls that path on the host of the rank that says it: the path must be on a file system that all nodes share. Go \
back to the last complete checkpoint; where the format is another one, convert it (--ckpt-format, \
--ckpt-convert-format)
^(?!.{0,300}/job:localhost/.{0,80} joining ).{0,300}(?:joining a group with|but that group has (?:size|type))|\
has group_size.{0,60}but|cluster_?spec.{0,60}(?:differ|not match|\
invalid)|TF_CONFIG\b.{0,80}(?:invalid|missing|must|not) ; TensorFlow's workers were told different clusters or GPUs ; \
one TF_CONFIG on all workers that differs in task.index alone: the same list of workers in the same order, the same \
number of GPUs on each; then restart all of them
[Cc]ould not start gRPC server|[Uu]nable to configure socket|No address added out of ; TensorFlow's server cannot \
listen at the address that TF_CONFIG gives this worker: it is not this host's, or the port is taken ; give each \
host its \
own task.index, and an address in TF_CONFIG that the host has (ip -br addr; in a container its own); free the port \
(ss -ltnp)
[Ii]ncarnation\b.{0,80}(?:restart|differ|mismatch|newer|conflict)|(?:different|newer) incarnation|aborted connect \
attempt ; two processes registered as one task, or a task restarted alone ; give each process its own process_id \
(SLURM_PROCID and not SLURM_LOCALID) below one num_processes; after a crash restart all processes at once
PJRT_Client_Connect|Wait_for_all_tasks_to_register|cluster registration failed|[Bb]arrier timed out.{0,200}(?:[Ii]nit|\
register|[Cc]onnect) ; not all processes of a JAX job came to the coordinator in time ; start num_processes \
processes with ids 0 to num_processes - 1; all must reach coordinator_address (a name that resolves, an open port). \
Raise initialization_timeout where hosts start slowly; the log of a process that is missing says why
[Pp]in[ _]memory thread (?:exited|died|crashed) ; the thread that copies batches into pinned memory ended: no \
locked or \
shared memory was left, or CUDA failed in it ; look above for its own error; pin_memory=False shows whether it is \
that. Give \
more /dev/shm and memlock (ulimit -l), fewer num_workers, more open files (ulimit -n); copy tensors out of what \
workers share
from '(?P<m>(?:queue|random|logging|types|copy|email|signal|token|code|select|calendar|statistics|profile|inspect|\
socket|secrets|operator|numbers|string|time|json|io|ssl|http|platform|resource|parser|enum|typing))(?:\.\w{1,40})?' \
\(/(?![^)]{0,200}/lib/)[^)]{1,200}/(?P=m)\.py\) ; a file of the program has the name of a module of Python's own, \
and is taken in its place ; rename that file (the error names its path) and remove its __pycache__; start from \
another folder, or with python -P, so that the script's folder does not come first in sys.path
\bBdbQuit\b ; a breakpoint was left in the program, and its debugger found no terminal to read from ; remove \
breakpoint() and pdb.set_trace() (the traceback names the line), or start with PYTHONBREAKPOINT=0. To debug one \
rank: torch.distributed.breakpoint(), or one process on a terminal
Unknown flags? in XLA_FLAGS: .{0,20}--xla_tpu ; XLA_FLAGS holds flags for TPUs, which this build for GPUs refuses ; \
take the --xla_tpu_ flags out of XLA_FLAGS (for TPUs they belong into LIBTPU_INIT_ARGS), and look for what sets \
them: the image, a start script
spans non-addressable|not fully addressable ; the program fetches a whole array of which this process holds only \
some shards ; fetch addressable_shards alone, or gather first on all processes: \
multihost_utils.process_allgather(array); np.asarray and print of a global array fail with several processes
Could not find the transformer layer class|transformer layer class.{0,40}(?:not|n't) (?:be )?found ; the class of \
layers that FSDP is to wrap has another name in this model ; set fsdp_transformer_layer_cls_to_wrap (or \
transformer_layer_cls) to the class of the model's blocks: print(model) shows it. Or leave it out and wrap by size
GetKeyValue\(\) timed out ; a process waits for a key that another never wrote: that process did not come to the \
collective ; compare the logs of all processes: one ended before, or runs another program; all must run the same \
jitted \
functions in the same order
"""
RUNTIME: tuple[Family, ...] = tuple(read(_ROWS))
