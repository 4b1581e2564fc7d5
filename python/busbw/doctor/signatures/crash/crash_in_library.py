"""A process crashed inside of a library, as the first frames of Open MPI's or gdb's stack tell."""

from busbw.doctor.signature import Signature, Stage

_OTHERS = r"(?!lib(?:c|m|dl|rt|pthread|stdc\+\+|python\d|ucs|open-pal|open-rte|mpi|torch\w*|c10\w*)[.-]|ld-)"
_LIBRARY = rf"(?P<what>{_OTHERS}lib[\w+-]{{1,40}}(?:\.so|-rdmav)[\w.-]{{0,20}})"

SIGNATURE = Signature(
    name="crash-in-library",
    stage=Stage.CRASH,
    title="a process crashed inside of {what}",
    patterns=(
        rf"\[ ?[12]\] (?:/\S{{0,120}}/)?{_LIBRARY}\(",
        rf"^\W{{0,12}}[0-3] {{1,3}}(?:/\S{{0,160}}/)?{_LIBRARY}\((?:\+0x|\w+\+0x)",
        rf"^\W{{0,12}}#[01] +0x[0-9a-f]+ in .{{0,120}} from (?:/\S{{0,120}}/)?{_LIBRARY}",
        rf"segfault at [0-9a-f]+ ip [0-9a-f]+ sp [0-9a-f]+ error \d+ in {_LIBRARY}\[",
    ),
    confirm="the core file: gdb PROGRAM CORE, bt; ldd on the library: which releases are loaded",
    cure=(
        "use one release of that library and of what it talks to, on the host and in the container; "
        "try the next and the "
        "last release of it. If it is NCCL itself, see NCCL_DEBUG=INFO before the crash"
    ),
    source="stacks of Open MPI and gdb; the kernel's line of a segfault",
    explains=("process-crashed",),
)
