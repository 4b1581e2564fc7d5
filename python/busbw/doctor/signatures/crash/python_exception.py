"""A rank's own program failed, and the others wait."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

MAX_SAID = 120
_BROUGHT = "Caught "
"""How PyTorch begins the words of an exception that another process or thread of the rank raised."""

_HEAD = (
    r"(?:\W*(?:\[?\w*\d*\]?:?\s*)?|\s*(?:[\[(][^\])\n]{1,80}[\])]:? ?){1,4}|[\w.-]{1,60}: "
    r"|[^\n]{0,100}?(?:\| |\bERROR\b[^\n]{0,60}?[:\]-] |\[rank\d+\]: ?|<std\w+>:"
    r"|\w\[\d+\]: |/\w[\w-]*\] |\bpid=\d{1,8}[^)\n]{0,40}\) ?|\w\] |\dZ ))"
)
"""What launchers, services and loggers put before a line."""
_NAMES = """FileNotFound ModuleNotFound Import Key Type Index Attribute Assertion ZeroDivision Name Syntax Permission OS
    IO NotImplemented Memory UnicodeDecode UnicodeEncode UnboundLocal Value"""
_BUILT_IN = "|".join(["StopIteration", *(f"{each}Error" for each in _NAMES.split())])


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """The first exception and its own words; of one that PyTorch brings from a loader's process that of the loader."""
    own = [each for each in groups if "error" in each]
    first = next((each for each in own if not each.get("said", "").startswith(_BROUGHT)), own[0] if own else {})
    said = first.get("said", "").strip()
    words = f" ({said[:MAX_SAID]}{' ...' if len(said) > MAX_SAID else ''})" if said else ""
    return f"a rank's own program failed with {first.get('error', 'an exception')}{words}; other ranks' errors follow"


SIGNATURE = Signature(
    name="python-exception",
    stage=Stage.CRASH,
    title="a rank's own program failed with {error}; the other ranks' errors follow from it",
    patterns=(
        rf"^{_HEAD}(?<![\w.])(?P<error>{_BUILT_IN}): (?P<said>.{{3,}})",
        rf"^{_HEAD}(?<![\w.])(?P<error>AssertionError|StopIteration|StopAsyncIteration|EOFError|RecursionError|NotImplementedError)"
        r":?\W{0,3}$",
        rf"^{_HEAD}(?<![\w.])(?<!CUDA )(?<!HSA )(?P<error>Exception|EOFError|RecursionError|OverflowError"
        r"|FloatingPointError|StopIteration|generator raised StopIteration|"
        r"(?-i:[A-Z]\w{2,40}(?<!Runtime)(?<!Dist)(?<!Lustre)(?<!Backend)(?<!Store)(?<!Network)"
        r"(?<!Timeout)(?<!Connection)(?<!ChildFailed)(?<!Process)(?<!Accelerator)(?<!OutOfMemory)(?<!System)(?<!XlaRuntime)Error))"
        r": (?P<said>.{3,})",
        rf"^{_HEAD}(?<![\w.])(?!torch\.|subprocess\.|ray\.|jax|tensorflow\.|grpc|urllib3|requests|pynvml|horovod)"
        r"(?P<error>[a-z_]\w{1,40}(?:\.\w{1,60}){1,6}(?:Error|Exception)): (?P<said>.{3,})",
        rf"^{_HEAD}(?<![\w.])(?!torch\.|subprocess\.|ray\.|jax|tensorflow\.|grpc|urllib3|requests|pynvml|horovod)"
        rf"(?P<error>(?:\w{{1,40}}\.){{1,5}}(?:errors?|exceptions?|exc)\.\w{{2,60}}(?<!Warning)): (?P<said>.{{3,}})",
        rf"^{_HEAD}(?<![\w.])(?P<error>MaxRetryError|HTTPError|ProcessRaisedException|ProcessExitedException|_?pickle\.\w*Error)",
        rf"^{_HEAD}(?<![\w.])tensorflow\.python\.framework\.errors(?:_impl)?\.(?P<error>(?:DataLoss|NotFound|InvalidArgument"
        r"|PermissionDenied|FailedPrecondition|OutOfRange|AlreadyExists)Error): (?P<said>.{3,})",
        r"(?P<error>RuntimeError: DataLoader timed out)",
        rf"^{_HEAD}(?<![\w.])(?P<error>RuntimeError): (?P<said>(?:Error: accessing tensor output of CUDAGraphs"
        r"|\S{0,20}RPC ran for more than set timeout).{3,})",
        r"(?P<error>RuntimeError): (?P<said>Version mismatch: The cluster was started with.{0,60})",
        # What a program can do without, it names in a sentence of its own.
        r"^(?!.{0,300}(?:caught was|optional|not available|unavailable"
        r"|will (?:not )?be (?:enabled|used|disabled|skipped)|disabl(?:ed|ing)|fall(?:ing|s)? ?back|skipping"
        r"|\bWARN(?:ING)?\b))"
        r".{0,300}?(?P<error>No module named '?[\w.]{1,60})",
        rf"^{_HEAD}(?<![\w.])(?P<error>RuntimeError): (?!.{{0,200}}(?:\bcuda(?!:\d)|\bhip\b|gloo|timed? ?out|socket"
        r"|pipe|engine|rank|store|cudnn|cublas|worker|thread|memory|process|nvshmem|fabric|peer|device(?!=)|address|init"
        r"|barrier|collective|default group|closed|reset|refused|\bibv_|mlx5|verbs))(?P<said>.{3,})",
    ),
    unless=(
        "root cause",
        "torch.distributed",
        "nccl",
        "hccl",
        "rendezvous",
        "environment variable",
        "libnccl",
        "cannot open shared",
        "master_addr",
        "'rank'",
        "local_rank",
        "world_size",
        "no space left",
        "address already in use",
        "name resolution",
        "undefined symbol",
        "too many open files",
        "tensors must be",
        "connection re",
        "series doesn't support",
        "divisible by",
        "total available gpus",
        "placement group",
        "in your slurm",
        "configured in slurm",
        "world size",
        "rank should be in range",
        "not compiled with cuda",
        "default process group",
        "cuda multicast",
        "[errno 12]",
        "[errno 99]",
        "[errno 113]",
        "/dev/shm",
        "unhandled system error",
        "unhandled cuda error",
    ),
    confirm="the first traceback by time, of any rank",
    cure=(
        "look at the last frame of your own code in that rank's traceback, and at what it passes there; compare the "
        "versions of the packages in it between nodes. Other ranks' errors end with it"
    ),
    source="Python's own words",
    tell=tell,
)
