"""Lines that sound of a fault and are said in runs that work: no signature looks at them."""

from __future__ import annotations

import re

from busbw.doctor.lines.triggers import triggers_of

# First words of NCCL's messages that are said in every healthy run, and of which no signature speaks, unless they
# say that something is disabled or used.
_PLAIN_WORDS = """
    Search Channel Trees Tree Ring Connected Setting comm threadThresholds P2P Chunksize NVLS Pattern
    Initialized Assigned Paths CPU GPU + ncclCommInitRank ncclCommInitRankConfig ncclCommInitAll
    ncclCommSplit [Proxy Comm CC New AllReduce: Broadcast: AllGather: ReduceScatter: Reduce: ===
    NCCL_DEBUG [Rank cudaDriverVersion"""
PLAIN = frozenset(_PLAIN_WORDS.split())

_RETRIES = (
    # What is tried again is not yet a fault; the last try says so itself.
    r"(?:will (?:be )?retr(?:y|ied)|retrying in|retrying \d|(?<!still disabled)[,;.] retrying"
    r"(?! without pipeline par| with smaller batch)"
    r"|retry \d{1,4} (?:of|/)|entering retry loop|\bbacking off (?:for )?\d"
    r"|\b(?:attempt|try) (?P<now>\d{1,3}) ?(?:/|of) ?(?!(?P=now)\b)\d{1,3} failed"
    r"|failed \((?:attempt|try) (?P<this>\d{1,3}) ?(?:/|of) ?(?!(?P=this)\b)\d{1,3}\)|trying to resume\b"
    r"|\bFAILED - RETRYING\b)"
)
_WORDS = (
    _RETRIES,
    # Containers of NVIDIA on a read-only root file system, and shells that tidy up.
    r"\b(?:rm|rmdir|chmod|chown|mv|ln|touch): (?:cannot|can't|failed to)",
    # PyTorch tries IPv6 first and says so.
    r"client socket cannot be initialized to connect",
    r"hostname of the client socket cannot be retrieved",
    r"server socket (?:cannot be initialized|on \S{1,60} has failed to listen on any IPv6)",
    # An address of IPv6 without its scope, and a family that a host has not: the next address is tried.
    r"client socket has failed to connect.{0,120}\(errno: (?:22|97)\b",
    # localhost has an address of IPv6 in /etc/hosts, and the container has no IPv6: 127.0.0.1 is tried next.
    r"client socket has failed to connect to \[?(?:localhost|::1)\b.{0,60}\(errno: 99\b",
    r"(?:going to|using) /tmp instead",
    r"To (?:silence|mute) this warning|current process just got forked, after parallelism",
    # What Open MPI tried and did without, and a host that does not know its own name.
    r"(?:cannot open|unable to open|component_find|not found).{0,200}\(ignored\)",
    r"\bnative_fallocate call failed: Operation not supported",
    r"sudo: unable to resolve host|^fatal: not a git repository",
    r"caller indicates that this is not a failure",
    r"libibverbs: Warning: couldn't load driver '(?!libmlx|libefa|libcxi)",
    # libfabric looks for GPUs of every maker.
    r"initialize hmem iface FI_HMEM_",
    # perftest on a processor that saves power, before its table.
    r"Conflicting CPU frequency values detected",
    # What a program was configured with, and takes in its place.
    r"\b(?:kernel )?command line: |is unrecognized\. Using the default",
    # PyTorch's compiler tries kernels that a GPU has no room for, and takes another one.
    r"_inductor/select_algorithm\.py:\d+\]",
    # `ip neigh`: addresses that somebody asked for once, and that nobody has.
    r"^\W{0,4}(?:\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|[0-9a-f:]{3,39}) dev \S{1,30} {1,4}(?:router )?FAILED\s*$",
    # What a number means, told and not met.
    r"\bS?Xid (?:error )?\d{1,3} (?:means|indicates|stands for|is (?:the|an?))\b",
    # What a build looks for on this machine.
    r"^\W{0,3}-- (?:Performing Test|Looking for|Check\w*|Could NOT find|Detecting)\b|^checking (?:for|whether|if) ",
    # What a program would like to have, and does without.
    r"\bpackage not found, consider installing\b",
    # How a pod's probes are set up.
    r"^\s{0,12}(?:Liveness|Readiness|Startup): .{0,200} delay=\d{1,5}s timeout=\d{1,5}s",
    # Checks that passed.
    r"Validates: avg error less than",
    r"\bno (?:\w{1,12} ){0,2}errors? (?:were )?(?:found|detected|reported|seen)",
    # XLA's tasks lose the one that serves them when all of them end, and say again what they said.
    r"WatchTasksAsync failed for task|GRPC error information from remote target"
    r"|^:?(?:UNAVAILABLE|CANCELLED|NOT_FOUND):(?! )",
    # XLA waits for a leader; if it stays so, a line about a termination follows.
    r"may be stuck\. All \d+ threads joined",
    # What NCCL and its plugins do another way, told as INFO: a way of registering, a symbol, an address of a family.
    r"NCCL INFO.{0,300}(?:Trying a different method|retrying with no flags|; skipping NVLS)",
    r"Ip address '::' is invalid for family AF_INET\b",
    r"NCCL INFO NET/OFI Failed to initialized? \w+ protocol",
    r"Ignoring due to NCCL_IGNORE_\w+",
    # What NCCL and UCX say to their own developers.
    r" NCCL TRACE ",
    r"\bUCX +(?:DEBUG|TRACE|DATA|REQ|FUNC) ",
    # A row of UCX's table of protocols: for no bytes there is nothing to do.
    r"\| {1,60}\d{1,12}(?:\.\.\w{1,12})? {1,60}\| no data fetch\b",
    # What is not there, and not needed.
    r"\bGDR_?Copy\b.{0,40}\bnot (?:found|available|installed)\b.{0,40}\b(?:disabling|skipping|without)",
    # Open MPI in verbose mode asks each of its parts whether it wants to serve, and takes another one.
    r"\] select: init (?:of component \S{1,40} )?returned failure",
    # Triton measures configurations and leaves out those for which a GPU has no room.
    r"^\W{0,3}Autotuning failed with out of resource",
    r"not found, (?:creating|using|skipping|continuing)\b|^\W{0,4}Skipping .{0,80}\(.{0,60}not found\)",
    r"pcilib: sysfs_read_vpd: read failed|component \w+:\w+ not available: disqualified itself",
    # Optional parts that frameworks look for.
    r"Could not load dynamic library '(?:libnvinfer|libcudnn|libcublas|libnvrtc|libcudart)",
    r"Unable to initialize backend '(?:rocm|tpu|interpreter|proxy)",
    r"Unable to register cu(?:FFT|DNN|BLAS) factory",
    # The same cut off.
    r"cuda_(?:fft|dnn|blas)\.cc:\d{1,5}\] Unable to \w{0,8}(?: cu\w{0,4})?$",
    r"computation_placer already registered",
    r"\[WARNING\] +\S{1,40} requires ",
    r"\|CCL_(?:WARN|INFO)\|",
    r"Cannot dlopen some GPU libraries",
    r"pip's dependency resolver does not currently",
    r"requires \S{1,60}, but you have \S{1,60} \S{1,40} which is incompatible",
    # Python's way to say that an object could not be tidied up at the end.
    r"^\W{0,20}Exception ignored in",
    r"resource_tracker: There appear to be \d+ leaked",
    r"(?:Future|Deprecation|Resource|Syntax)Warning:",
    r"wandb(?::|\.errors)|^(?!.{0,200}(?:Error|Exception): ).{0,300}(?:tensorboard|huggingface_hub(?!\.errors))"
    r"|HTTP Request: |Retrying \(Retry\(",
    # Open MPI that takes UCX instead of openib.
    r"error initializing an OpenFabrics device|help-mpi-btl-openib|help message help-",
    # Intel MPI takes its general file of tuning then.
    r"MPI startup\(\): File .{1,300} not found",
    # A bug report's list of files that a host has not.
    r"^\*{3} \w{2,12}: cannot (?:access|open|stat) ",
    r"\*\*\* (?:End of error message|Process received signal) \*\*\*(?!.{0,4}\w)",
    r"\[[\w.-]{1,60}:\d{3,8}\] (?:Signal code: (?!Invalid permissions)|Failing at address: )",
    r"cannot find a corresponding process|metrics exporter agent",
    # NCCL's RAS only watches; its port may be taken by another job of the host.
    r"ras/\w+\.\w{1,2}:\d+ NCCL WARN(?! NCCL version mismatch)",
    r"NCCL INFO RAS \w",
    r"NCCL INFO.{0,10}NET/MLX5: Call to \w+ failed",
    # What succeeded in the end, and what a server or Slurm does without harm.
    r"\b(?:saved|succeeded|uploaded|written|connected)\b.{0,80}\bafter \d{1,3} (?:attempts|tries|retries)\b",
    r"is preempted by PreemptionMode|common_file_write_uint32s: write pid",
    # What a service of ssh says of strangers, what kubelet tries again at each start of a pod, the end of a data set.
    r"\bsshd(?:-session)?\[\d{1,9}\]: (?:error: |fatal: )?(?:kex_exchange_identification|Connection (?:closed|reset)"
    r"|Invalid user|Received disconnect|Disconnected from|Unable to negotiate|Timeout before authentication|PAM: "
    r"|maximum authentication attempts"
    r"|Failed (?:password|publickey|none) for|Received signal|Did not receive identification)",
    r"failed to sync (?:configmap|secret) cache: timed out",
    r"aborting with status: OUT_OF_RANGE: End of sequence",
    r"\b100% tests passed\b",
    # Names and buffers of a disk that its maker left out, or that a host does not give: it works without.
    r"\bnvme\d{0,3}: (?:missing or invalid SUBNQN field|failed to allocate host memory buffer|Ignoring bogus Names)",
    # What a kernel and its journal say at each start.
    r"\bthe BIOS has corrupted hw-PMU resources|\bERST: Error Record Serialization Table",
    r"\bcorrupted or uncleanly shut down, renaming and replacing",
    r"\bmlx5e_tc_\w{2,40}:\d{1,5}:.{0,24}firmware level support is missing",
    # What systemd adds to the line that tells how a service ended.
    r"\.service: Failed with result 'exit-code'",
    # How a kernel was started, details of an error of which another line tells the fate, and a disk's list of refusals.
    r"\bpanic on (?:oops|warn)\b.{0,4}(?:disabled|= ?0)|\b(?:Kernel c|C)ommand line: \S{1,40}=",
    r"\[Hardware Error\]: {2,}(?:error_type: \d{1,2}, single-bit|section_type|Error \d{1,3}, type: corrected)",
    r"number of Error Log entries increased",
    # What stands beside an error of PCIe of which the head tells how grave it is.
    r"mlx5_cmd_out_err:\d{1,5}:\(pid \d{1,8}\): ACCESS_REG\(0x805\).{0,60}bad parameter",
    r"\berror status/mask=[\da-f]{8}/",
    r"\[ {0,2}\d{1,2}\] (?:RxErr|BadTLP|BadDLLP|Rollover|Timeout|NonFatalErr|CorrIntErr|HeaderOF)\b",
    # Said by drivers at each boot of a healthy machine.
    r"\b(?:usb \d{1,3}-[\d.]{1,12}|xhci_hcd \S{4,20}|hub \d{1,3}-[\d.:-]{1,12}): ",
    r"\[drm\] (?:Cannot find any crtc|No compatible format found)",
    r"\bDPC: error\b|\bAER: enabled with IRQ",
    r"insufficient power on the PCIe slot",
    r"may trigger hung task\b",
    r"\bBAR (?:6|7|13): (?:failed to assign|can't assign|no space for) \[(?:mem|io)",
    r"module verification failed: signature and/or required key missing",
    r"loading (?:NVIDIA UNIX|out-of-tree module)",
    r"ACPI (?:BIOS )?(?:Error|Warning)|\bACPI: .{0,80}\bfailed, trying",
    r"is_dpll_supported:|Missing SyncE capability|\bquery_mcia_reg failed: status: 0x3\b",
    # Calls of verbs for what NCCL does without.
    r"NCCL INFO.{0,40}Call to (?:ibv_(?:query|set)_ece|mlx5dv_get_data_direct_\w+) (?:failed|skipped)",
    # What CMake looks for, and how TensorRT tries ways to run a layer.
    r"^-- (?!Configuring incomplete)\S.{0,120}\b(?:not found|NOT found|failed|disabled|missing|unavailable)\b",
    r"\b[Ss]kipping tactic\b|insufficient to use tactic",
    # Programs that look after a virtual machine or a desktop, and no job.
    # Programs of a desktop and of those who watch hosts crash beside a job and not in it.
    r"\b(?:gdbus|collectd|telegraf|node_exporter|gnome-[\w-]{1,20}|Xorg|Xwayland|nautilus|tracker-\w{1,20}|firefox|chrome"
    r"|packagekitd|snapd|fwupd|cupsd|tuned|abrt[\w-]{0,12}|rsyslogd|zabbix_\w{1,10}|puppet|salt-minion)\[\d{1,8}\]:? "
    r"(?:segfault at |general protection|trap )",
    r"\b(?:amazon-ssm-agent|google_osconfig_agent|google_guest_agent|snapd|fwupd(?:mgr)?|packagekitd|unattended-upgr\w*"
    r"|ModemManager|avahi-daemon|gnome-shell|ubuntu-advantage|esm-cache|motd-news|bluetoothd|cupsd)\[\d{1,8}\]: ",
    r"\b(?:logrotate|CRON|anacron|crond|postfix/\w{2,12}|rsyslogd|polkitd|dbus-daemon|udisksd|upowerd)\[\d{1,8}\]: ",
    # llama.cpp keeps tables on the host by design, and goes on with less; the last try says so itself.
    r"compute buffer allocation failed, retrying without|failed to find a memory slot for batch of size"
    r"|failed to find free space in the KV cache, retrying",
    r"cannot be used with preferred buffer type .{1,40}, using .{1,40} instead",
    r"level=(?:INFO|DEBUG) source=\w{1,40}\.go:\d{1,5} msg=\"Unable to load",
    r"shmem: mmap: an error occurred while determining whether or not",
    r"factory\.go:\d{1,5}\] Incompatible (?:strategy|platform) detected",
)
_ECHO = re.compile(
    r"\s{0,6}(?:\+{1,4} |\$ |usage: |export \w)|# (?:sudo )?[a-z][a-z0-9_./-]{1,40} "
    r"[^|\n]{0,200}(?:\| ?(?:grep|head|tail|awk|sed|less"
    r"|sort|wc|jq)\b|<<)|# (?:sudo )?(?:nvidia-smi|dcgmi|ibstat\w{0,4}|ibv_\w{2,20}|lspci|ethtool|dmesg|journalctl"
    r"|systemctl|kubectl|mlxlink|perfquery|rdma|numactl|ipmitool)(?: |$)|[A-Z][A-Z0-9]{1,30}_[A-Z0-9_]{1,60}=\S"
    # A prompt that names user and host, with a command and what it looks for; an answer behind it has a colon.
    r"|(?:\([\w.-]{1,40}\) )?(?:\[[\w.-]{1,40}@[\w.-]{1,64}[ :][^\]\n]{1,80}\]"
    r"|[\w.-]{1,40}@[\w.-]{1,64}:[^\s$#>]{1,120})"
    r" ?[$#>%] (?:sudo )?(?:[A-Z][A-Z0-9_]{1,40}=\S{0,80} ){0,4}[a-z~./][\w./+-]{0,100}(?:[ ;|&]|$)"
)
"""How a run was configured is no event: command lines, help, echoes of variables."""
PATTERNS = tuple(re.compile(each, re.IGNORECASE) for each in _WORDS)
TRIGGERS = tuple(triggers_of(each) for each in _WORDS)
_IGNORED = re.compile(r"Exception ignored in", re.IGNORECASE)
_LAST_OF_TRACEBACK = re.compile(r"^(?:\W*\[?\w{0,12}\]?:)?[A-Za-z_][\w.]{2,80}(?::|$)(?! *File )")


_CALM = re.compile(
    r"^(?:\[\w{1,12}\]:? ?){0,2}(?:\[?[IV]\d{4} \d\d:\d\d:\d\d\.\d{3,9} (?!.{0,40}\.go:\d)"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9}: [IV] \S{1,200}\.(?:cc|h|cpp):\d{1,5}\] |\[[IV]\] "
    r"|\[[IVD] \d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d{1,9}\] )"
)
"""The stamp of a message that its writer, in C++ or Python, calls information. Programs of Go tell faults so."""


def is_calm(line: str) -> bool:
    """Whether the line's own writer calls it no more than information."""
    return _CALM.match(line) is not None


def is_echo(line: str) -> bool:
    """Whether the line repeats a command."""
    return _ECHO.match(line) is not None


def is_retry(line: str) -> bool:
    """Whether the line says that something failed and is tried again."""
    return PATTERNS[0].search(line) is not None


def opens_ignored(line: str) -> bool:
    """Whether Python starts to tell of an exception that it ignored."""
    return _IGNORED.search(line) is not None


def closes_traceback(line: str) -> bool:
    """Whether the line is the last of a traceback: the exception's name at the start of a line."""
    return not line.startswith((" ", "\t", "Traceback")) and _LAST_OF_TRACEBACK.match(line) is not None
