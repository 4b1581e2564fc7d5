"""The stand-in of Azure's services, empty for each test, and a cloud that speaks to it through the real SDK."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from azure_parts import Credential
from stand_in import StandIn, serving

from busbw.launch.clouds.azureml.settings import EXAMPLE, Settings, load

if TYPE_CHECKING:
    from busbw.launch.clouds.azureml.cloud import Cloud


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    with serving(tmp_path_factory.mktemp("azure")) as (stand_in, certificate), pytest.MonkeyPatch.context() as patch:
        patch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        patch.setenv("ARM_CLOUD_METADATA_URL", f"{stand_in.url}/metadata/endpoints?api-version=2019-05-01")
        patch.delenv("AZUREML_CURRENT_CLOUD", raising=False)
        yield stand_in


@pytest.fixture
def azure(service: StandIn) -> Iterator[StandIn]:
    """The stand-in with nothing in it; whatever was asked in a wrong way fails the test."""
    service.asked.clear()
    service.there.clear()
    service.refuse.clear()
    service.logs.clear()
    service.history.clear()
    service.steps.clear()
    service.ranges.clear()
    yield service
    assert service.complaints == []


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "names.toml"
    path.write_text(EXAMPLE)
    return load(path)


@pytest.fixture
def cloud(settings: Settings, azure: StandIn) -> Cloud:
    pytest.importorskip("azure.ai.ml", reason="azure-ai-ml is not installed; the extra named azureml has it")
    pytest.importorskip("azure.identity", reason="azure-identity is not installed")
    from busbw.launch.clouds.azureml.cloud import Cloud

    return Cloud(settings, Credential())
