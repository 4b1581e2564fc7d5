"""A compiled engine that does not fit the TensorRT, GPU or number of ranks that load it."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="engine-mismatch",
    stage=Stage.PROGRAM,
    title="the compiled engine was built for another version, kind of GPU or number of ranks: {what}",
    patterns=(
        r"engine plan file is (?P<what>not compatible with this version of TensorRT.{0,80})",
        r"engine plan file is (?P<what>generated on an incompatible device.{0,60})",
        r"(?:kSERIALIZATION_VERSION|[Vv]ersion tag) (?P<what>(?:does not|doesn't) match.{0,80})",
        r"(?P<what>[Ee]ngine (?:world size|was built).{0,100}(?:!=|but|does not match).{0,60})",
        r"(?P<what>mpiSize == tp ?\* ?pp.{0,60}|"
        r"MPI world ?[Ss]ize is expected to be equal to tp\*pp.{0,60})",
        r"(?P<what>MPI size \(?\d+\)? .{0,40}(?:does not match|doesn't match|!=)"
        r".{0,40}(?:world size|tp|engine).{0,40})",
        r"[Ff]ailed to (?P<what>deserialize (?:cuda|the|TensorRT)? ?engine.{0,60})",
        r"Using an engine plan file "
        r"across different models of devices.{0,10}(?P<what>is not (?:allowed|supported).{0,40})",
    ),
    explains=("cuda-call-failed", "rank-count", "killed-by-launcher"),
    confirm="the engine's config.json (mapping: world_size, tp_size, pp_size); python -c 'import tensorrt_llm'",
    cure=(
        "start as many processes as tensor times pipeline parallel size of the engine (mpirun -n tp_size*pp_size, one "
        "GPU each). Else rebuild the engine (trtllm-build) for that number, with the TensorRT that loads it and on the "
        "kind of GPU that runs it"
    ),
    source="TensorRT's and TensorRT-LLM's own words (cpp/tensorrt_llm/executor, runtime)",
)
