"""A shared library is missing."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="library-not-found",
    stage=Stage.SYSTEM,
    title="a shared library cannot be found: {library}",
    patterns=(
        r"name '(?P<library>nccl)\w+' is not defined",
        r"Distributed package doesn't have (?P<library>NCCL)",
        r"Backend nccl is not available",
        r"(?:Error|Exception): .{0,60}\bNCCL (?:is|was) not (?:available|installed|found)",
        r"module 'cupy\S{0,20}nccl' has no attribute '\w{3,30}'",
        r"NCCL_NET_PLUGIN \S+ not found",
        r"Unable to load NCCL library",
        r"Failed to load NCCL library",
        r"Could not load library (?P<library>\S{1,60}?)(?:\.? |$)",
        r"error while loading shared libraries: (?P<library>[\w.+-]{1,80})",
        r"(?P<library>lib(?:nccl|cuda|cudart|mpi|nvrtc|fabric)[\w.+-]{0,60}): cannot open shared object file",
        r"Failed to find CUDA library",
        r"Library not loaded",
        r"(?P<library>[\w.+-]{1,80}\.so[\w.]{0,20}): (?:file too short|invalid ELF|wrong ELF class|cannot map)",
        r"ImportError: (?P<library>lib[\w.+-]{1,60}): cannot open",
        r"Failed to load CUDA missing symbol",
    ),
    unless=(
        "libibverbs",
        "libnccl-net",
        "libnccl-tuner",
        "plugin",
        "libibumad",
        "libcuda.so",
    ),
    confirm="ldd PROGRAM | grep 'not found'; echo $LD_LIBRARY_PATH on every node",
    cure=(
        "install the library on every node (or the build of PyTorch that brings it) or pass LD_LIBRARY_PATH on (mpirun "
        "-x LD_LIBRARY_PATH)"
    ),
    source="ld.so's own words",
)
