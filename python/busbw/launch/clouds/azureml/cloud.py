"""The one place that speaks to Azure: the SDK loads our documents, checks them, and sends them."""

from __future__ import annotations

import io
import logging
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from busbw.base.errors import UserError
from busbw.launch.clouds.azureml.documents import TAGS, Resource
from busbw.launch.clouds.azureml.settings import Settings
from busbw.launch.yaml_text import to_yaml

GROUPS_API = "2021-04-01"
FINISHED = {"Completed": 0, "Failed": 1, "Canceled": 130, "NotResponding": 1}


def sdk() -> Any:
    """azure.ai.ml, or a sentence that says how to get it."""
    try:
        import azure.ai.ml
        import azure.identity
    except ImportError as problem:
        raise UserError(
            f"Azure ML needs packages that are not installed ({problem.name}): pip install azure-ai-ml azure-identity"
        ) from None
    # The SDK announces experimental classes and every upload; what matters here is said by us.
    for name in ("azure", "msrest", "azure.ai.ml"):
        logging.getLogger(name).setLevel(logging.ERROR)
    return azure.ai.ml


class Cloud:
    """A workspace, seen by somebody with a credential that nobody keeps or prints."""

    def __init__(self, settings: Settings, credential: Any = None) -> None:
        self._ml = sdk()
        self._settings = settings
        self._credential = credential or _credential()
        azure = settings.azure
        self._client = self._ml.MLClient(
            self._credential, azure.subscription, azure.resource_group, azure.workspace, enable_telemetry=False
        )

    def exists(self, resource: Resource) -> bool:
        """Whether it is there already."""
        return self._get(resource) is not None

    def create(self, resource: Resource) -> None:
        """Make it and wait until it is there."""
        with _explained(f"the {resource.kind} {resource.name} could not be made"):
            match resource.kind:
                case "resource group":
                    self._group("PUT", dict(resource.document))
                case "workspace":
                    self._client.workspaces.begin_create(self._ml.load_workspace(_stream(resource.document))).result()
                case "compute cluster":
                    compute = self._ml.load_compute(_stream(resource.document))
                    self._client.compute.begin_create_or_update(compute).result()
                case _:
                    self._client.environments.create_or_update(self._ml.load_environment(_stream(resource.document)))

    def delete(self, resource: Resource) -> None:
        """Delete it and wait until it is gone."""
        with _explained(f"the {resource.kind} {resource.name} could not be deleted"):
            match resource.kind:
                case "resource group":
                    self._group("DELETE")
                case "workspace":
                    self._client.workspaces.begin_delete(resource.name, delete_dependent_resources=True).result()
                case "compute cluster":
                    self._client.compute.begin_delete(resource.name).result()
                case _:
                    pass  # an environment is part of its workspace and costs nothing

    def is_ours(self, resource: Resource) -> bool:
        """Whether busbw made it: what somebody else made is never deleted."""
        found = self._get(resource)
        tags = found.get("tags") if isinstance(found, dict) else getattr(found, "tags", None)
        return bool(tags) and all((tags or {}).get(name) == value for name, value in TAGS.items())

    def check(self, document: Mapping[str, Any]) -> Any:
        """The job as the SDK understands it; a sentence where its schema refuses it."""
        with _explained("the job's document is refused"):
            return self._ml.load_job(_stream(document))

    def submit(self, document: Mapping[str, Any]) -> tuple[str, str]:
        """Name of the job, and where it can be looked at."""
        loaded = self.check(document)
        with _explained("Azure ML took no job"):
            made = self._client.jobs.create_or_update(loaded)
        return str(made.name), str(getattr(made, "studio_url", "") or "")

    def status(self, name: str) -> str:
        """Where a job stands, in Azure ML's word."""
        with _explained(f"job {name} could not be asked for"):
            status = self._client.jobs.get(name).status
        return str(getattr(status, "value", status))

    def cancel(self, name: str) -> None:
        """End a job that may still run."""
        with _explained(f"job {name} could not be cancelled"):
            self._client.jobs.begin_cancel(name).result()

    def download(self, name: str, folder: Path) -> list[Path]:
        """Everything that the job left, in a folder of ours."""
        with _explained(f"what job {name} left could not be fetched"):
            self._client.jobs.download(name, download_path=str(folder))
        return sorted(path for path in folder.rglob("*") if path.is_file())

    def _get(self, resource: Resource) -> Any:
        from azure.core.exceptions import ResourceNotFoundError

        with _explained(f"the {resource.kind} {resource.name} could not be asked for"):
            try:
                match resource.kind:
                    case "resource group":
                        return self._group("GET")
                    case "workspace":
                        return self._client.workspaces.get(resource.name)
                    case "compute cluster":
                        return self._client.compute.get(resource.name)
                    case _:
                        return self._client.environments.get(resource.name, str(resource.document["version"]))
            except ResourceNotFoundError:
                return None

    def _group(self, method: str, body: dict[str, Any] | None = None) -> Any:
        """Resource groups belong to Azure's manager itself, for which the SDK has no client of its own."""
        from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
        from azure.core.pipeline.policies import RetryPolicy
        from azure.core.rest import HttpRequest
        from azure.mgmt.core import ARMPipelineClient
        from azure.mgmt.core.policies import ARMChallengeAuthenticationPolicy

        base = _manager()
        azure = self._settings.azure
        policy = ARMChallengeAuthenticationPolicy(self._credential, f"{base}/.default")
        url = (
            f"{base}/subscriptions/{azure.subscription}/resourcegroups/{azure.resource_group}?api-version={GROUPS_API}"
        )
        client: Any = ARMPipelineClient(base_url=base, policies=[RetryPolicy(), policy])
        with client:
            response = client.send_request(HttpRequest(method, url, json=body))
            if response.status_code == 404:
                raise ResourceNotFoundError(response=response)
            if response.status_code >= 400:
                raise HttpResponseError(response=response)
            return response.json() if response.status_code != 202 and response.content else {}


def _credential() -> Any:
    """What azure-identity finds: environment, managed identity, `az login`. It stays inside the SDK."""
    from azure.identity import DefaultAzureCredential

    return DefaultAzureCredential()


def _manager() -> str:
    """Azure's resource manager: another in each sovereign cloud, and only the SDK's own table knows them all."""
    try:
        from azure.ai.ml._azure_environments import _get_base_url_from_metadata
    except ImportError:
        return "https://management.azure.com"
    return str(_get_base_url_from_metadata())


def _stream(document: Mapping[str, Any]) -> io.StringIO:
    return io.StringIO(to_yaml([document]))


class _explained:  # noqa: N801 - read as a word: with _explained("...")
    """Turns what the SDK raises into one sentence; nothing of a credential is in it."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, problem: BaseException | None, _trace: object) -> None:
        if problem is None or isinstance(problem, UserError) or not isinstance(problem, Exception):
            return
        from azure.ai.ml.exceptions import MlException
        from azure.core.exceptions import AzureError, ClientAuthenticationError
        from marshmallow import ValidationError

        if isinstance(problem, ClientAuthenticationError):
            raise UserError(
                f"{self._what}: Azure knows nobody here; run `az login`, or set AZURE_CLIENT_ID and its like"
            ) from None
        if isinstance(problem, ValidationError):
            # The SDK's own schema: a tree of braces with the fields and what is wrong with them.
            faults = re.findall(r'(\w+)\\*": \[\\n\s*\\*"([^"\\]+)', str(problem))
            found = ", ".join(f"{field}: {fault}" for field, fault in faults) or "its schema does not know it"
            raise UserError(f"{self._what}: {found[:300]}") from None
        if isinstance(problem, (AzureError, MlException, OSError, ValueError)):
            raise UserError(f"{self._what}: {_first_sentence(problem)}") from None


def _first_sentence(problem: BaseException) -> str:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(problem).__name__


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for what is downloaded, gone afterwards."""
    return tempfile.TemporaryDirectory(prefix="busbw-azureml-")
