"""What plugins say that they set is known by their own wordings, and nothing else is."""

from __future__ import annotations

import pytest

from busbw.base.plugin_settings import setting_of_plugin

HEAD = "ip-10-0-0-1:2017:2031 [3] NCCL INFO "


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('NET/OFI Setting NCCL_PROTO to "simple"', ("NCCL_PROTO", "simple", "NET/OFI")),
        (
            "NET/OFI Running on p4d.24xlarge platform, Setting NCCL_TOPO_FILE environment variable to /opt/p4d.xml",
            ("NCCL_TOPO_FILE", "/opt/p4d.xml", "NET/OFI"),
        ),
        (
            "NET/OFI Setting NCCL_TOPO_FILE environment variable to /proc/self/fd/31",
            ("NCCL_TOPO_FILE", "/proc/self/fd/31", "NET/OFI"),
        ),
        (
            "NET/OFI Running on p5.48xlarge platform, topology file /opt/amazon/xml/p5.48xl-topo.xml",
            ("NCCL_TOPO_FILE", "/opt/amazon/xml/p5.48xl-topo.xml", "NET/OFI"),
        ),
        ("NET/OFI Adding NCCL_BUFFSIZE=8388608 to environment", ("NCCL_BUFFSIZE", "8388608", "NET/OFI")),
        (
            "NET/OFI Setting NCCL_NVLSTREE_MAX_CHUNKSIZE to 512KiB",
            ("NCCL_NVLSTREE_MAX_CHUNKSIZE", "524288", "NET/OFI"),
        ),
        ("NET/OFI Disabling NVLS support due to NCCL version 21803", ("NCCL_NVLS_ENABLE", "0", "NET/OFI")),
        (
            "NET/OFI Setting FI_EFA_FORK_SAFE environment variable to 1",
            ("FI_EFA_FORK_SAFE", "1", "NET/OFI"),
        ),
        ("TUNER/Plugin: Using tuner plugin nccl_ofi_tuner", ("tuner", "nccl_ofi_tuner", "TUNER/Plugin")),
        ("TUNER/Plugin: Using nccl_ofi_tuner (v3)", ("tuner", "nccl_ofi_tuner (v3)", "TUNER/Plugin")),
        (
            "TUNER/ExamplePlugin: Loaded 44 tuning configurations from /x/nccl_tuner.conf",
            ("tuner's table", "44 tuning configurations from /x/nccl_tuner.conf", "TUNER/ExamplePlugin"),
        ),
        ("NET/OFI Region base Tuner is chosen for platform: p5.48xlarge", ("tuner's table", "Region", "NET/OFI")),
        # What the user set, what is no variable, and what nobody set.
        ("NET/OFI Setting OFI_NCCL_PROTOCOL environment variable to SENDRECV", None),
        ("NET/OFI Setting provider_filter to efa", None),
        ("NET/OFI Setting FI_OPT_CUDA_API_PERMITTED to false succeeded", None),
        ("NET/OFI Setting FI_OPT_MAX_MSG_SIZE not supported.", None),
        ("NET/OFI Running on p5.48xlarge platform, NCCL_TOPO_FILE environment variable is already set to /x", None),
        ("NET/OFI Skipping adding NCCL_BUFFSIZE to environment, already set", None),
        ("TUNER/Plugin: Using internal tuner plugin.", None),
        ("NCCL_PROTO set by environment to simple", None),
        ("Setting affinity for GPU 0 to ffff", None),
    ],
)
def test_a_line_of_a_plugin_is_read_as_what_it_sets(line: str, said: tuple[str, str, str] | None) -> None:
    assert setting_of_plugin(HEAD + line) == said
    assert setting_of_plugin(line) is None, "without NCCL's prefix it may be anybody's sentence"
