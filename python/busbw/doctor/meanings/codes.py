"""What error codes of the system, CUDA, libfabric and MPI mean and what mends them: for sentences nobody knows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from busbw.doctor.finding import Finding, Severity

_LOOK = 600


@dataclass(frozen=True, slots=True)
class Code:
    """How programs write a code (a regular expression), what it means, and what mends it."""

    words: re.Pattern[str]
    meaning: str
    cure: str


def _table(rows: str, form: str) -> Iterator[Code]:
    """Rows of `words ; meaning ; cure`; `form` makes the expression of the words."""
    for row in rows.strip().splitlines():
        words, meaning, cure = re.split(r"\s*;\s+", row.strip(), maxsplit=2)
        yield Code(re.compile(form.replace("WORDS", words), re.IGNORECASE), meaning, cure)


_SAME = "use one release of the library and its driver on all hosts and in the container"
_CUDA = f"""
(?:cudaError|CUDA_ERROR_)InvalidValue|CUDA_ERROR_INVALID_VALUE|(?:failure|error)\\W{{0,3}}1\\b|invalid argument; \
CUDA refused an argument (error 1): mostly memory that cannot be shared so, or libraries that do not fit; load one \
NCCL alone, of the driver's CUDA; in containers NCCL_CUMEM_ENABLE=0 and NCCL_CUMEM_HOST_ENABLE=0; on NVSwitch \
NCCL_NVLS_ENABLE=0 to be sure
cudaErrorInitializationError|CUDA_ERROR_NOT_INITIALIZED|(?<!worker )initialization error(?!: \\w+ size); CUDA could \
not start in this process \
(error 3): after a fork, or the driver or fabric is not ready; start processes by spawn, check nvidia-smi and \
nvidia-fabricmanager on that host
cudaErrorCudartUnloading|CUDA_ERROR_DEINITIALIZED|driver shutting down; the process was ending already (error 4); \
look for what ended it before this line
cudaErrorInvalidConfiguration|invalid configuration argument; a kernel was launched with sizes that the GPU does not \
have (error 9); correct the sizes (empty batches count), or build for this GPU
(?:CUDA_ERROR_)?INVALID_CONTEXT|invalid device context; the context was destroyed or is of another thread (error \
201); set the device in each thread (cudaSetDevice) before calls of NCCL
(?:CUDA_ERROR_)?MAP_FAILED|mapping of buffer object failed; memory could not be mapped (error 205); free memory, \
check ulimit -v and -l, the IOMMU, and that the peer's GPU is visible
cudaErrorInvalidPtx|a PTX JIT compilation failed; the program has no code for this GPU and its intermediate code was \
refused (error 218); build or install it for this GPU's architecture
cudaErrorInvalidKernelImage|CUDA_ERROR_INVALID_IMAGE|device kernel image is invalid; the program's code is not for \
this GPU or is damaged (error 200); build or install it for this GPU's architecture
cudaErrorJitCompilerNotFound|PTX JIT compiler library not found; libnvidia-ptxjitcompiler is missing (error 221); \
mount the driver's libraries into the container (NVIDIA_DRIVER_CAPABILITIES=compute,utility)
cudaErrorUnsupportedPtxVersion|unsupported toolchain|unsupported PTX version; the program's CUDA is newer than the \
driver (error 222); update the driver, or use a build for an older CUDA
shared object initialization failed|SHARED_OBJECT_INIT_FAILED; a library of CUDA could not be loaded (error 303); \
{_SAME}
cudaErrorOperatingSystem|CUDA_ERROR_OPERATING_SYSTEM|OS call failed or operation not supported on this OS; a call of \
the kernel failed (error 304): sharing of memory between processes or containers; ulimit -n and -l, one IPC and pid \
namespace for ranks of a host, NCCL_CUMEM_ENABLE=0
cudaErrorInvalidResourceHandle|CUDA_ERROR_INVALID_HANDLE|invalid resource handle; a stream, event or memory handle \
is of another device or process, or was destroyed (error 400); set the device before each use; across hosts check \
IMEX, across containers let ranks share their namespaces
cudaErrorIllegalState|CUDA_ERROR_ILLEGAL_STATE|operation cannot be performed in the present state; an earlier fault \
left the device unusable (error 401); look for the first error of that GPU (dmesg, Xid) and restart the program
cudaErrorSymbolNotFound|CUDA_ERROR_NOT_FOUND|named symbol not found; a function that the program needs is not in the \
driver or library (error 500); {_SAME}
cudaErrorNotReady|CUDA_ERROR_NOT_READY|device not ready; a kernel had not ended where the program wanted it to \
(error 600); wait for the stream, and look whether another rank hangs
cudaErrorLaunchOutOfResources|too many resources requested for launch; a kernel wants more registers or shared \
memory than the GPU has (error 701); build for this GPU, or fewer threads
cudaErrorPeerAccess(?:AlreadyEnabled|NotEnabled)|peer access (?:is already|has not been) enabled; direct access \
between two GPUs was switched twice, or not at all (errors 704, 705); let one library alone switch it; \
NCCL_P2P_DISABLE=1 to be sure
cudaErrorContextIsDestroyed|context is destroyed; the context was destroyed while in use (error 709); look for what \
ended the process or reset the GPU before
cudaErrorHostMemoryAlreadyRegistered|part or all of the requested memory range is already mapped; host memory was \
registered twice (error 712); register each buffer once
cudaErrorHostMemoryNotRegistered|does not correspond to a registered memory region; host memory is not registered or \
belongs to another device (error 713); register it before, or NCCL_CUMEM_HOST_ENABLE=0
cudaErrorNotPermitted|CUDA_ERROR_NOT_PERMITTED|operation not permitted(?=.{{0,30}}(?:cuda|'))|'operation not \
permitted; CUDA may not do this (error 800): within a callback or a capture, or rights of the container; move the \
call, or give the container the devices (IMEX channels, nvidia-caps)
cudaErrorSystemDriverMismatch|system has unsupported display driver; the driver's kernel module and libraries differ \
(error 803); reboot or reload the module; mount this host's libraries into the container
cudaErrorMps\\w+|CUDA_ERROR_MPS_\\w+; CUDA's multi-process service failed (errors 805 to 810); restart \
nvidia-cuda-mps-control as the job's user, or do without it
cudaErrorTimeout|wait operation timed out; a wait of CUDA timed out (error 909); look for the GPU or rank that hangs
cudaErrorGraphExecUpdateFailure|graph update was not performed; a CUDA graph changed its form (error 910); \
instantiate it anew
cudaErrorUnknown|CUDA_ERROR_UNKNOWN|(?:failure|error)\\W{{0,3}}999\\b|'unknown error'|CUDA unknown error|cuda \
(?:driver )?error: unknown error; the driver failed without a reason (error 999): a module that is not loaded, a GPU \
lost after suspend or a fault; nvidia-smi and dmesg for Xid on that host, load nvidia_uvm (nvidia-modprobe -u), then \
reset the GPU or reboot
cudaErrorProfiler\\w+|profiler (?:not initialized|already st\\w+|disabled)|[Pp]rofiler.{{0,20}}disabled; only \
profiling \
failed (errors 5 to 8): two profilers at once; run one profiler alone, or none (nsys, ncu, DCGM's profiling fields)
cudaErrorInvalid(?:Symbol|HostPointer|ChannelDescriptor|MemcpyDirection|Texture\\w*|Surface|FilterSetting|NormSetting|\
DevicePointer|PitchValue|TextureBinding)|cudaError(?:Duplicate|Texture|MixedDevice|Synchronization|AddressOfConstant)\
\\w+|invalid (?:device symbol|host pointer|channel descriptor|copy direction|pitch|texture|surface|device pointer)|\
(?:texture|surface|global variable) looked up|fetch from texture|texture that is not bound|use of \
__syncthreads|address of \
constant|linear filtering|normalized float|emulation mode|feature not yet implemented|pointer value too large|\
incompatible texturing|semantically lossy|function call is not configured|texture is not bound; a \
program or extension uses the CUDA runtime wrongly, or was built against another CUDA; build the extension anew for \
the \
CUDA and GPU that are there; compute-sanitizer names the call
IncompatibleDriverContext|incompatible driver context; a library made a CUDA context that the runtime cannot share \
(error 49); let it use the primary context (cuDevicePrimaryCtxRetain), and load the libraries in another order
LaunchMaxDepth|SyncDepthExceeded|PendingCountExceeded|cudaLimitDev\\w+|caller's grid depth|exceed maximum \
depth|file[- ]scoped|LaunchFileScoped; kernels \
start too many kernels of their own (errors 65 to 69); raise the limit by cudaDeviceSetLimit, or start fewer from \
within a kernel
DeviceNotLicensed|valid Grid License; the vGPU has no licence (error 102); start nvidia-gridd with the licence server \
that its host asks for
StartupFailure|startup failure in cuda runtime; the CUDA runtime could not start (error 127); one CUDA runtime in \
LD_LIBRARY_PATH, and memory and descriptors left (ulimit -a)
Already(?:Mapped|Acquired)|ArrayIsMapped|NotMapped\\w*|resource (?:already (?:mapped|acquired)|not mapped)|array is \
mapped|UnmapBufferObject|unmapping of buffer; a resource shared with graphics or another API was mapped twice or not \
at \
all (errors 206 to 213); map it once before use, unmap it after
InvalidGraphicsContext|OpenGL or DirectX; the process has no graphics context that CUDA can use (error 219); leave \
interoperation with graphics out on servers
JitCompilationDisabled|JIT compilation was disabled; compiling kernels at run time is switched off (error 223); unset \
CUDA_DISABLE_PTX_JIT, CUDA_DISABLE_JIT and CUDA_FORCE_PTX_JIT, or use a build for this GPU
ExecAffinity|execution affinity; MPS or the GPU cannot give the share of its processors that is asked for (error 224); \
unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, or restart MPS
UnsupportedDevSideSync|unsupported call to cudaDeviceSynchronize; a kernel waits for kernels that it started, which \
this \
CUDA no longer has (error 225); take a newer build of that extension
SharedObject\\w+|shared object \\w+ not found; a library of CUDA lacks a function (error 302); {_SAME}
SetOnActiveProcess|cannot set while device is active; a setting of the device comes too late (error 708); set it \
before \
the first call of CUDA in that process
resources required to (?:create|support) MPS|MaxConnections|MPS.{{0,20}}connections; MPS has no room for a further \
client (errors 808, 809); fewer processes on that \
GPU, \
or end old ones (echo get_server_list | nvidia-cuda-mps-control)
Cdp\\w+|Dynamic Parallelism; parts of the program are built for different versions of dynamic parallelism (errors 811, \
812); build all of them with one CUDA
ExternalDevice|external entity outside of CUDA; a device that works with the GPU failed (error 911): a NIC that writes \
to its memory, mostly; look for errors of that NIC and GPU in dmesg (Xid, mlx5)
InvalidClusterSize|cluster misconfiguration; a kernel asks for a cluster of blocks that the GPU cannot give (error \
912); lower or unset NCCL_CGA_CLUSTER_SIZE; no MIG slice for that kernel; a build for this GPU
FunctionNotLoaded|function handle is not loaded; a kernel is used before it was loaded (error 913); \
CUDA_MODULE_LOADING=EAGER, and warm the kernel up before
InvalidResource(?:Type|Configuration)|one or more resources passed; a resource of the GPU was split in a way that it \
does not have; leave green \
contexts and shares of processors out
UnsupportedLimit|limit is not supported on this; a limit is set that this GPU does not have (error 215); leave \
cudaDeviceSetLimit out there
CooperativeLaunchTooLarge|blocks in cooperative launch; a kernel that needs all its blocks at once does not fit on the \
GPU (error 720); fewer blocks; no other process, MPS share or MIG slice on that GPU
StreamCapture\\w+|uncaptured work; a call does not fit into the CUDA graph that is captured (errors 900 to 907); \
capture \
all streams that depend on each other, or none; try without graphs first
SoftwareValidity|integrity checks failed; the driver refuses what the program loads (error 103); install driver and \
toolkit from their maker
TensorMemoryLeak|tensor memory not.{{0,20}}freed; a kernel for Blackwell ended without giving its tensor memory back; \
update the library of that kernel
CUBLAS_STATUS_LICENSE_ERROR; the library has no licence here; install the public cuBLAS of this CUDA
CUDNN_STATUS\\w*(?:LOADING_FAILED|NOT_FOUND|MISSING); a part of cuDNN is not found or cannot be loaded; install one \
cuDNN with all its parts (libcudnn_*.so side by side), remove others from LD_LIBRARY_PATH
CUBLAS_STATUS_NOT_INITIALIZED|CUDNN_STATUS_NOT_INITIALIZED; the library found no memory or a broken context; leave \
GPU memory free (less for the cache), and look for an earlier error of that GPU
CU(?:BLAS|DNN)_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|MAPPING_ERROR); a kernel of the library failed: an earlier \
fault of the GPU, or memory; CUDA_LAUNCH_BLOCKING=1 to find the first error, dmesg for Xid
CU(?:BLAS|DNN)_STATUS_(?:NOT_SUPPORTED|ARCH_MISMATCH|INVALID_VALUE|BAD_PARAM); the library refuses these types, \
sizes or this GPU; load one cuBLAS and cuDNN, \
the framework's (clear LD_LIBRARY_PATH); bf16 and FP8 only on GPUs that have them; else contiguous tensors, or a \
release for this GPU
CUDNN_STATUS\\w*VERSION_MISMATCH; parts of cuDNN are of different versions; install one cuDNN alone, and clear \
LD_LIBRARY_PATH
"""
_SYSTEM = """
1 Operation not permitted ; the process has no right to do this (EPERM) ; give it the right: root or capabilities \
(IPC_LOCK, SYS_PTRACE, SYS_NICE, NET_RAW), a wider seccomp profile, or a change of policy
2 No such file or directory ; a file, library or device that it needs is not there (ENOENT) ; look for the path that \
is named on that host and inside of its container: mount, create or install it
3 No such process ; the process is gone (ESRCH) ; look for its first error
4 Interrupted system call ; a signal interrupted the call (EINTR) ; look who sends signals (profilers, checkpoints); \
NCCL 2.27.3 and newer try again
5 Input/output error ; the device or file system failed (EIO) ; look into dmesg of that host; test the NIC \
(ib_write_bw) or the disk that is named
6 No such device or address ; the device is not there (ENXIO) ; list the devices on the host and in the container, \
and load the driver
7 Argument list too long ; arguments and variables are too many (E2BIG) ; pass fewer variables
8 Exec format error ; the program is for another processor or is no program (ENOEXEC) ; use a build for this \
architecture
9 Bad file descriptor ; a connection or file had been closed (EBADF) ; look for what closed it: an earlier error, or \
the end of a rank
11 Resource temporarily unavailable ; a limit is reached (EAGAIN) ; raise ulimit -u, -l and the container's limit of \
pids
12 Cannot allocate memory ; no memory, or the limit on locked memory, or the NIC has no room for more queues \
(ENOMEM) ; set ulimit -l unlimited for the job (containers and Slurm set their own), then look at free memory and at \
the number of connections
13 Permission denied ; rights to a file or device are missing (EACCES) ; look at owner, mode and groups of what is \
named; pass devices into the container (--device), mind SELinux
14 Bad address ; memory was passed that cannot be used so, often GPU memory (EFAULT) ; load nvidia_peermem or use \
DMA-BUF; NCCL_NET_GDR_LEVEL=LOC to be sure
16 Device or resource busy ; somebody else holds it (EBUSY) ; fuser -v on it, and end what is left of earlier jobs
17 File exists ; something of an earlier run is left (EEXIST) ; remove it, or use another name
18 Invalid cross-device link ; two file systems are mixed (EXDEV) ; use one file system for both
19 No such device ; the device is not there for this process (ENODEV) ; ls /dev/infiniband /dev/nvidia*, \
ibv_devices, in the container too; load its driver
20 Not a directory ; a path goes through a file (ENOTDIR) ; correct the path
21 Is a directory ; a folder stands where a file is wanted (EISDIR) ; correct the path
22 Invalid argument ; driver or device refuses the values (EINVAL): index of the GID, MTU, sizes, or versions that \
do not fit ; use one release of driver, firmware and library on both sides; NCCL_IB_GID_INDEX for RoCE v2; correct \
the setting that is named
23 Too many open files in system ; the host has no file descriptors left (ENFILE) ; raise fs.file-max
24 Too many open files ; the process has no file descriptors left (EMFILE) ; ulimit -n 1048576
25 Inappropriate ioctl for device ; driver and library do not fit (ENOTTY) ; use one release of both
26 Text file busy ; a program file is written while it runs (ETXTBSY) ; wait for the copy, and copy to another name
27 File too large ; a limit on file sizes (EFBIG) ; ulimit -f unlimited
28 No space left on device ; a disk, /dev/shm, or a table of the NIC is full (ENOSPC) ; df -h and df -i for what is \
named; give /dev/shm more; fewer connections
30 Read-only file system ; the file system was mounted or has become read-only (EROFS) ; dmesg of that host; mount \
it writable
32 Broken pipe ; the other side is gone (EPIPE) ; look for the first error of the rank at the other end
36 File name too long ; a path is too long (ENAMETOOLONG) ; TMPDIR=/tmp
38 Function not implemented ; the kernel or a filter (seccomp) does not have this call (ENOSYS) ; use a newer \
kernel, or the runtime's default without that filter
39 Directory not empty ; something of an earlier run is left (ENOTEMPTY) ; remove it
40 Too many levels of symbolic links ; links go in a circle (ELOOP) ; correct the links
61 No data available ; nothing is there to read (ENODATA) ; look at what should have written it
62 Timer expired ; no answer in time (ETIME) ; look at the other side and the way between
71 Protocol error ; both sides do not speak the same protocol (EPROTO) ; use one release on all hosts
75 Value too large for defined data type ; a number is too large (EOVERFLOW) ; smaller messages, newer libraries
90 Message too long ; a packet is larger than the way allows (EMSGSIZE) ; use one MTU on all hosts and switches
92 Protocol not available ; the kernel lacks this option of sockets (ENOPROTOOPT) ; leave the setting out, or a \
newer kernel
93 Protocol not supported ; the kernel lacks this protocol (EPROTONOSUPPORT) ; load its module, or use sockets of TCP
95 Operation not supported ; driver, device or kernel cannot do this (EOPNOTSUPP) ; update driver and firmware, or \
switch off the option that is named
97 Address family not supported by protocol ; the host has no IPv6, or no IPv4 (EAFNOSUPPORT) ; \
NCCL_SOCKET_FAMILY=AF_INET, GLOO_SOCKET_IFNAME and MASTER_ADDR of the family that hosts share
98 Address already in use ; the port is taken (EADDRINUSE) ; end what is left of earlier jobs, or take another port
99 Cannot assign requested address ; the address is not this host's, or no port is free (EADDRNOTAVAIL) ; correct \
MASTER_ADDR and interface; widen net.ipv4.ip_local_port_range
100 Network is down ; the interface is down (ENETDOWN) ; ip link set IF up; look at cable and switch
101 Network is unreachable ; there is no route (ENETUNREACH) ; name the interface that hosts share \
(NCCL_SOCKET_IFNAME); ip route get ADDRESS
103 Software caused connection abort ; no try to connect got through (ECONNABORTED): address or interface that \
others cannot reach, or a firewall ; name the interface that hosts share (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME); \
open all ports between them
104 Connection reset by peer ; the other side ended or refused (ECONNRESET) ; look for the first error of the rank \
at the other end
105 No buffer space available ; the kernel has no buffers left (ENOBUFS) ; raise net.core.rmem_max and wmem_max, \
txqueuelen
107 Transport endpoint is not connected ; the connection or mount is gone (ENOTCONN) ; look for the other end; mount \
again
108 Cannot send after (?:transport endpoint )?shutdown ; the connection had been shut (ESHUTDOWN) ; look for what \
shut it
110 (?:Connection|Operation) timed out ; no answer came (ETIMEDOUT): firewall, wrong address or GID, dead peer ; \
ping and ib_write_bw between the two hosts; NCCL_SOCKET_IFNAME, NCCL_IB_GID_INDEX; open all ports
111 Connection refused ; nobody listens there (ECONNREFUSED) ; see that the other process runs, and that address and \
port are its own
112 Host is down ; the host does not answer (EHOSTDOWN) ; look at that host, or leave it out
113 No route to host ; a firewall rejects, or there is no route (EHOSTUNREACH) ; open the firewall; name the \
interface that hosts share
115 Operation now in progress ; a connection never came about (EINPROGRESS) ; ping the address; open all ports \
between the hosts
116 Stale file handle ; the file is gone on its server (ESTALE) ; mount the file system again on that host
121 Remote I/O error ; the remote device failed (EREMOTEIO) ; look at dmesg of the host at the other end
122 Disk quota exceeded ; the quota is used up (EDQUOT) ; free space, or ask for more
125 Operation canceled ; somebody cancelled it (ECANCELED) ; look for the error before it
131 State not recoverable ; a lock's owner died (ENOTRECOVERABLE) ; look for the process that died holding it
"""
_FABRIC = """
FI_EAVAIL|Error available ; libfabric holds an error of a transfer (259) ; FI_LOG_LEVEL=warn shows it; look at the \
peer first
FI_ETRUNC|Truncation error ; a message is larger than what was posted for it (265) ; compare sizes of the ranks' calls
FI_ENOKEY|Required key not available ; a key of remote memory is missing (266) ; one release of libfabric and plugin \
on all hosts
FI_EOVERRUN|Queue has been overrun ; a completion queue is full (268) ; FI_CXI_DEFAULT_CQ_SIZE=131072, fewer \
transfers at a time
FI_ENORX|no receive buffers available ; the receiver posted no buffers (269) ; look at the peer: it hangs or is slow
FI_ENOAV|No available address vector ; no table of addresses (267) ; one release of libfabric and plugin
Endpoint timeout ; UCX got no answer from the peer ; look at the peer's process first, then ib_write_bw between the \
two hosts
Destination is unreachable|no remote ep address ; UCX has no transport that reaches the peer ; UCX_NET_DEVICES and \
UCX_TLS alike on all hosts; ucx_info -d
Unable to allocate (?:LNI|TGQ|CP|service)|cxil_\\w+ ; the NIC of Slingshot has no resources left, or the job no \
right to it ; ask Slurm for the network (--network), FI_CXI_DEFAULT_VNI, fewer processes on a node
MPI_ERR_TRUNCATE ; a message is longer than its receiver's buffer ; compare counts, types and tags of the ranks' calls
MPI_ERR_PROC_FAILED|MPI_ERR_REVOKED ; a process of the job died ; look for the first error of that rank
MPI_ERR_(?:INTERN|OTHER|UNKNOWN) ; MPI met a fault of the network or of its own ; run it with --mca pml ob1 --mca \
btl tcp,self to tell
MPI_ERR_(?:COMM|RANK|TAG|COUNT|TYPE|BUFFER|ARG|GROUP|ROOT|OP) ; the program passed a wrong argument to MPI ; compare \
arguments of all ranks
MPI_ERR_SPAWN ; MPI could not start processes ; more slots; the program's path on all hosts
"""
_NUMBER = re.compile(
    r"\berrno\W{0,4}(?:code\W{0,2})?-?(\d{1,3})\b"
    # -1 of a call tells that it failed, and not EPERM.
    r"|\b(?:RC|ret|rc|err|status|retcode|returned)\W{0,3}-(?<!rc=-(?=1\b))(\d{1,3})\b"
)
_NUMBERED = re.compile(r"(?:failure|error)\W{0,3}\d{1,4}\b", re.IGNORECASE)
_ERRNO = {int(row.split()[0]): row.split(" ", 1)[1] for row in _SYSTEM.strip().splitlines()}
_CUDA_CODES = tuple(_table(_CUDA, "(?:WORDS)"))
_OTHERS = (
    *_table(_FABRIC, r"(?<![A-Za-z_])(?:WORDS)"),
    *_table("\n".join(_ERRNO.values()), r"(?<![A-Za-z])(?:WORDS)(?![A-Za-z])"),
)
_BY_NUMBER = dict(zip(_ERRNO, _OTHERS[-len(_ERRNO) :], strict=True))

CODED = frozenset(
    [
        "mpi-other",
        "mpi-network",
        "mpi-error",
        "mpi-launch",
        "slurm-error",
        "slurm-setup",
        "nccl-error",
        "nccl-last-error",
        "nccl-warnings",
        "nccl-internal",
        "torch-distributed-error",
        "efa-error",
        "slingshot",
        "nvshmem-init",
        "kubernetes-event",
        "xla-error",
        "ray-error",
        "gloo-error",
        "ibv-call-failed",
        "cuda-call-failed",
        "socket-failed",
        "unknown-error",
        "container-start",
        "gin-error",
        "kv-transfer",
        "oneccl-error",
        "registration-failed",
        "gdrcopy",
        "python-exception",
        "proxy-failure",
        "store-lost",
        "pmi",
        "fabric-manager",
        "imex",
    ]
)
"""Findings that tell who failed; the code in their evidence tells how."""


def code_in(text: str, *, cuda: bool = False) -> Code | None:
    """The first code that the text holds, those of CUDA before or behind the system's; None where it holds none."""
    text = text[:_LOOK]
    tables = (_CUDA_CODES, _OTHERS) if cuda else (_OTHERS, _CUDA_CODES)
    for table in tables:
        # Numbers behind the word "error" are CUDA's where CUDA is named: "1 validation error" is none.
        where = text if cuda or table is _OTHERS else _NUMBERED.sub(" ", text)
        if found := next((each for each in table if each.words.search(where)), None):
            return found
    if number := _NUMBER.search(text):
        return _BY_NUMBER.get(int(number[1] or number[2]))
    return None


def with_code(finding: Finding) -> Finding:
    """The finding with what its code means and what mends that, before what is said of the part that failed."""
    if finding.severity is Severity.NOTE or finding.name not in CODED:
        return finding
    for each in finding.evidence:
        cuda = "cuda" in each.fact.lower() or "CU_" in each.fact or finding.name == "cuda-call-failed"
        if found := code_in(each.fact, cuda=cuda):
            return replace(finding, title=f"{finding.title}: {found.meaning}", fix=f"{found.cure}. Also: {finding.fix}")
    return finding
