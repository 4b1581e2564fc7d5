"""Parts of one program, launcher or library are of different versions."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """With the program that says it."""
    what = next((each["what"] for each in groups if "what" in each), "")
    return f"parts of one program are of different versions{': ' if what else ''}{what}"


SIGNATURE = Signature(
    name="parts-differ",
    stage=Stage.PROGRAM,
    title="parts of one program are of different versions",
    patterns=(
        r"(?P<what>NVSHMEM) device library version does not match",
        r"(?P<what>NVSHMEM) .{0,60}version .{0,60}(?:mismatch|not compatible|incompatible|does not match)",
        r"(?P<what>ORTE|PRTE|PMIX|OPAL)[ _]ERROR(?:_LOG)?: .{0,20}(?:unpack (?:would read past|had inadequate|fail)"
        r"|UNPACK-\w+|PACK-MISMATCH|pack data mismatch|Data for specified key not found.{0,80}base/\w*pack)",
        r"\b(?P<what>PMIx|PRRTE|UCX|UCC|libfabric|Open MPI)\b.{0,40}version (?:mismatch|conflict)",
        r"(?P<what>UCP|UCX) version is incompatible",
        r"(?:transport|plugin|module|component) .{0,60}"
        r"(?P<what>ABI|API) version .{0,40}(?:mismatch|does not match|unsupported)",
        r"(?P<what>[A-Z][\w.+-]{1,30}) client version \S{1,30} .{0,20}(?:does not match|differs from|!=).{0,20}server",
    ),
    explains=("mpi-launch", "node-lost", "nvshmem-init", "pmi", "mpi-other"),
    confirm="which mpirun; mpirun --version; ldd PROGRAM; pip list | grep -e nvidia -e nvshmem: on every node",
    cure=(
        "use one version on all nodes and in the container. Take the same release of what is named for library, "
        "launcher and build (mpirun --prefix, one image). Rebuild what was built for another"
    ),
    source="NVSHMEM src/host/init; Open MPI orte/util, opal/dss; OpenPMIx src/mca/bfrops; UCX src/ucp/core",
    tell=tell,
)
