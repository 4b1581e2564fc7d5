"""Intel's oneCCL reports an error."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """The first place and sentence, if any."""
    named = [each["what"].strip() for each in groups if each.get("what")]
    return "oneCCL (Intel's collectives) failed" + (f": {named[0]}" if named else "")


SIGNATURE = Signature(
    name="oneccl-error",
    stage=Stage.PROGRAM,
    title="oneCCL (Intel's collectives) failed",
    patterns=(
        r"\|CCL_(?:ERROR|FATAL)\| (?P<what>\S.{5,140})",
        r"\boneCCL: (?P<what>\S.{0,80}EXCEPTION.{3,120})",
        r"\bccl::v1::exception|\bze_result_t\b.{0,60}(?:error|fail)",
    ),
    confirm="CCL_LOG_LEVEL=info; sycl-ls; fi_info; ls -l /dev/dri",
    cure=(
        "start all ranks alike (CCL_PROCESS_LAUNCHER, CCL_ATL_TRANSPORT=mpi under mpirun, else ofi); reach rank 0's "
        "store from all hosts. Where Level Zero (ze) is named, give each rank its device (ZE_AFFINITY_MASK, /dev/dri) "
        "and one release of driver and oneAPI"
    ),
    source="oneCCL's own words",
    explains=("python-exception", "pmi", "process-crashed", "mpi-network"),
    tell=tell,
)
