"""The values of the training are no numbers any more."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

_TITLE = (
    "values became infinite or no numbers (NaN) on a rank: by the data, the step size, or a GPU that computes wrongly"
)


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """With the rank, node and step, where a line names them."""
    first = next((each for each in groups if "node" in each), None)
    if first is None:
        return _TITLE
    where = f"rank {first['rank']} (node {first['node']}, GPU {first['gpu']}) at iteration {first['step']}"
    return _TITLE.replace("on a rank", f"on {where}", 1)


SIGNATURE = Signature(
    name="not-a-number",
    soft=True,
    stage=Stage.PROGRAM,
    title=_TITLE,
    patterns=(
        r"rank (?P<rank>\d{1,7}), node (?P<node>[\w.-]{1,80}), device (?P<gpu>\d{1,3}), iteration (?P<step>\d{1,9}): "
        r"Unexpected result (?:nan|inf|tensor\((?:nan|inf))",
        r"found (?:NaN|Inf) in (?:local|the) ",
        r"Unexpected result (?:nan|inf|tensor\((?:nan|inf))",
        r"\b(?:loss is nan|loss is inf|loss became nan|loss became inf|loss went to nan|loss = nan|loss=nan)\b",
        r"(?:NaN|Inf)(?:/Inf)? (?:detected|encountered|found) (?:in|at|on|during)\b",
        r"but found invalid values: ?tensor\(\[{1,4}\s?-?(?:nan|inf)",
        r"FloatingPointError: invalid value \((?:nan|inf)\)",  # JAX's debug_nans
        r"checkForNaN|\b[Nn]on-?finite (?:grad|loss|value)\w*",
        r"\bloss is (?:infinite|not finite|NaN or)",
        r"Function '\w+Backward\d*' returned nan values",
    ),
    unless=("skipping", "overflow"),
    confirm="the same step from the same checkpoint on other nodes: where it is right, a GPU computes wrongly "
    "(dcgmi diag -r 3 on the rank's node)",
    cure=(
        "where it follows the data or the step: lower the learning rate, clip, mend the sample; where it follows the "
        "node: leave it out and test it"
    ),
    source="Megatron-LM's rerun state machine; PyTorch's NaN check",
    explains=("python-exception", "watchdog-timeout", "illegal-access", "cuda-call-failed"),
    tell=tell,
)
