"""A service refuses who asks."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="credentials",
    stage=Stage.SYSTEM,
    title="a service refuses the job's credentials ({what})",
    patterns=(
        r"(?P<what>.{0,60}\b40[13] (?:Client Error|Unauthorized|Forbidden).{0,80})",
        r"(?P<what>\b(?:API key|(?:access|auth|refresh|bearer|HF)[ _-]token|credentials?|licen[sc]e)\b.{0,40}"
        r"(?:invalid|expired|missing|not found|failed|refused).{0,40})",
        r"(?P<what>(?:Invalid|Unable to locate|No valid|Missing) (?:credentials|API key|token).{0,40})",
        r"\(AccessDenied\w{0,12}\) when calling the (?P<what>\w{3,60} operation.{0,80})",
        r"(?P<what>googleapi: Error 403.{0,80})",
        r"(?P<what>(?:gated repo|Access to model .{2,60} is restricted))",
    ),
    unless=("pyxis", "imagepull", "manifest", "registry", "docker", "job credential", "munge", "retrying", "warning"),
    confirm="the same request by hand in the container of that rank (curl, huggingface-cli whoami, aws sts)",
    cure="log in, renew the token or key, and give it to every rank's environment; or fetch the data before the job",
    cost="the rank does not start, and the others wait",
    source="HTTP statuses 401 and 403; Hugging Face, AWS and NGC clients",
    explains=("python-exception",),
)
