"""A benchmark that checks its results found wrong values."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """How many values were wrong, where the benchmark says it."""
    wrong = next((each["wrong"] for each in groups if "wrong" in each), "")
    said = f": {wrong} values out of bounds" if wrong else ""
    return f"results are wrong{said}: a GPU computes, or the way between GPUs carries, other values than it should"


SIGNATURE = Signature(
    name="wrong-results",
    stage=Stage.HARDWARE,
    title="results are wrong: a GPU computes, or the way between GPUs carries, other values than it should",
    patterns=(
        r"Verification error @ element"
        # Who says that it passes tells of no error, whatever stands behind it.
        r"|simpleP2P(?!.{0,80}\b(?:pass\w*|fine|clean|ok|(?:no|without|0) (?:fail|err)\w*)\b).{0,60}(?:fail|error)",
        r"Out of bounds values *: *(?P<wrong>[1-9]\d*)",
        r"Out of bounds values *:.{0,20}FAILED",
        r"data corruption detected",
        # Megatron runs a step again where its result is odd.
        r"rerun_state_machine.{0,40}Possible (?:transient|persistent) error|result is not reproducible within",
    ),
    confirm=(
        "run it with -c 1 on pairs of GPUs (CUDA_VISIBLE_DEVICES), with NCCL_P2P_DISABLE=1, "
        "NCCL_NVLS_ENABLE=0, NCCL_PAT_ENABLE=0 and NCCL_ALGO=Ring in turn: which one is right"
    ),
    cure=(
        "do not trust this machine. Switch the IOMMU and ACS off where P2P over PCIe is wrong, replace a GPU or NIC "
        "that is wrong alone, update NCCL and driver. NCCL 2.32.3 with one rank a node needs NCCL_PAT_ENABLE=0, since "
        "its reduce-scatter of avg, prod and premulsum is wrong there"
    ),
    cost="sums are silently wrong",
    source="nccl-tests src/common.cu; megatron/core/rerun_state_machine.py",
    tell=tell,
)
