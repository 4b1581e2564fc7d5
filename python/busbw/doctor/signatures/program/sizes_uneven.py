"""A batch, a dimension or a vocabulary that does not go evenly into the devices over which it is spread."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

Groups = Sequence[Mapping[str, str]]
_N = r"\d{1,10}"


def _sizes(groups: Groups) -> tuple[int, int, Mapping[str, str]]:
    """The first size that is no multiple of the other, and what else its line names."""
    for each in groups:
        if "size" in each and "by" in each and int(each["by"]) > 1 and int(each["size"]) % int(each["by"]):
            return int(each["size"]), int(each["by"]), each
    return 0, 0, {}


def tell(groups: Groups) -> str:
    """What does not divide, and the next sizes that do."""
    size, by, named = _sizes(groups)
    lower = size // by * by
    next_ones = f"{lower} or {lower + by}" if lower else f"{by}"
    if "vocab" in named:
        return f"a vocabulary of {size} does not divide by {by} ranks: it has to be padded to {lower + by}"
    what = "the batch" if "batch" in named else "a size"
    if "axis" in named:
        first = named["axis"] == "0"
        what = "dimension 0 of an array, mostly the batch," if first else f"dimension {named['axis']} of an array"
    over = "devices" if "axis" in named or "batch" in named else "parts"
    return f"{what} of {size} cannot be split evenly over {by} {over}; {next_ones} can"


SIGNATURE = Signature(
    name="sizes-uneven",
    stage=Stage.PROGRAM,
    title="a size cannot be split evenly over the devices",
    patterns=(
        rf"array axis (?P<axis>\d) is partitioned (?P<by>{_N}) times, but the dimension size is (?P<size>{_N})",
        rf"size of its dimension (?P<axis>\d) should be divisible by (?P<by>{_N}), but it is equal to (?P<size>{_N})",
        rf"array axis (?P<axis>\d) \(of size (?P<size>{_N})\) to mesh ax[ei]s.{{0,80}}?size (?P<by>{_N})\)",
        rf"(?P<batch>batch)[\w` ]{{0,30}}[=:(]{{0,2}} ?(?P<size>{_N})\)?,? "
        rf"(?:must|should|is|has to|needs to|cannot)(?: not)?(?: be)?(?: evenly)? (?:divisible|divided) by "
        rf"[\w` ]{{0,40}}(?:devices?|replicas\w{{0,12}}|workers)[` ]{{0,2}}[=:(]{{0,2}} ?(?P<by>{_N})",
        rf"(?P<vocab>vocab)\w{{0,12}}(?:[ _]size)?[` ]{{0,2}}[=:(]{{0,2}} ?(?P<size>{_N})\)? "
        rf"(?:must|should|is)(?: not)?(?: be)? divisible by (?P<by>{_N})",
        rf"(?:Assertion|Value)Error: (?P<size>{_N}) is not divisible by (?P<by>{_N})\W{{0,3}}$",
    ),
    holds=lambda groups: _sizes(groups)[1] > 1,
    explains=("xla-error",),
    tell=tell,
    confirm="print the shape that is passed at the last frame of your own code, and the number of devices",
    cure=(
        "take a size that is a multiple of the devices over which it is spread (a global batch: devices times the "
        "batch of each), or fewer devices. Drop the last batch that is not full (drop_last, drop_remainder=True), or "
        "pad it. A vocabulary is padded (--make-vocab-size-divisible-by). GPUs, mesh and versions are right"
    ),
    source="JAX: pjit and shard_map; TensorFlow; Megatron (ensure_divisibility)",
)
