"""A checkpoint's names do not fit the model, and loading passed over them."""

from collections.abc import Mapping, Sequence

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage


def differ_by_prefix(groups: Sequence[Mapping[str, str]]) -> bool:
    """Whether a wrapper's prefix is seen, or the first name of the one list ends in that of the other."""
    pairs = [(each["lacks"], each["has"]) for each in groups if "lacks" in each and "has" in each]
    return any("prefix" in each for each in groups) or any(
        one.endswith(f".{other}") or other.endswith(f".{one}") for one, other in pairs
    )


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """What the names that do not fit have in front, where they show it."""
    said = next((each["prefix"] for each in groups if each.get("prefix")), "")
    front = f": its names begin with `{said}.`, as a wrapper writes them" if said else ""
    return f"a checkpoint was loaded whose names do not fit the model, so that its weights stayed as they were{front}"


SIGNATURE = Signature(
    name="weights-not-loaded",
    stage=Stage.PROGRAM,
    title="a checkpoint was loaded whose names do not fit the model, so that its weights stayed as they were",
    patterns=(
        r"IncompatibleKeys\(missing_keys=\['.{1,2000}?unexpected_keys=\['(?P<prefix>module|_orig_mod|_fsdp_wrapped_module)\.",
        r"IncompatibleKeys\(missing_keys=\['(?P<prefix>module|_orig_mod|_fsdp_wrapped_module)\.",
        r"IncompatibleKeys\(missing_keys=\['(?P<lacks>[\w.-]{1,200})'.{0,2000}?unexpected_keys=\['(?P<has>[\w.-]{1,200})'",
    ),
    holds=differ_by_prefix,
    confirm="print the first names of both: list(model.state_dict())[:3], list(checkpoint)[:3]",
    cure=(
        "save model.module.state_dict() (DDP) or the unwrapped model, or strip the prefix before loading (torch.nn."
        "modules.utils.consume_prefix_in_state_dict_if_present). Load with strict=True, so that it cannot pass unseen"
    ),
    cost="the job goes on with weights that were not trained",
    severity=Severity.WARNING,
    source="torch/nn/modules/module.py (load_state_dict)",
    tell=tell,
)
