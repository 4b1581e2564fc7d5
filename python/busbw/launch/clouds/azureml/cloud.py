"""The one place that speaks to Azure: the SDK loads our documents, checks them, and sends them."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from busbw.base.errors import UserError
from busbw.base.scratch import scratch_folder
from busbw.base.secrets import shortened
from busbw.launch.clouds.azureml.documents import TAGS, Resource
from busbw.launch.clouds.azureml.settings import Settings
from busbw.launch.yaml_text import to_yaml

GROUPS_API = "2021-04-01"
COMPUTE_API = "2023-10-01"
CANCEL_SECONDS = 120.0
LOG_SECONDS = 30.0
MOST_LOG_BYTES = 4 << 20
_FIRST_LOG = re.compile(r"user_logs/std_log\D*0*\.txt")  # of process 0


@dataclass(frozen=True)
class Look:
    """How a job stands; `log` is an address that holds a right to read, and is never shown."""

    status: str
    nodes: int = 1
    seconds: float | None = None
    why: str = ""
    log: str = ""


@dataclass(frozen=True)
class Nodes:
    """What the cluster has of the nodes that it wants, and why not all."""

    name: str
    current: int
    wanted: int
    errors: tuple[str, ...]

    @property
    def is_refused(self) -> bool:
        """Waiting does not help against a quota."""
        return any("quota" in each.lower() for each in self.errors)

    def __str__(self) -> str:
        why = f" ({self.errors[0]})" if self.errors else ""
        hint = "; ask Azure for more quota, or take fewer nodes" if self.is_refused else ""
        return f"the cluster {self.name} has {self.current} of {self.wanted} nodes{why}{hint}"


def sdk() -> Any:
    """azure.ai.ml, or a sentence that says how to get it."""
    try:
        import azure.ai.ml
        import azure.identity
    except ImportError as problem:
        raise UserError(
            f"Azure ML needs packages that are not installed ({problem.name}): "
            f"{sys.executable} -m pip install azure-ai-ml azure-identity"
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

    def look(self, name: str) -> Look:
        """How a job stands: Azure ML's word, and what its run's history adds, where that can be asked for."""
        with _explained(f"job {name} could not be asked for"):
            job = self._client.jobs.get(name)
        status = str(getattr(job.status, "value", job.status))
        nodes = getattr(getattr(job, "resources", None), "instance_count", None) or 1
        try:
            # The SDK prints logs by itself only until it is told to stop; the same answer is asked for here.
            details = self._client.jobs._runs_operations.get_run_details(name)
            begin, end = details.start_time_utc, details.end_time_utc
            error = getattr(getattr(details, "error", None), "error", None)
            logs = sorted(each for each in details.log_files or {} if _FIRST_LOG.fullmatch(each))
            return Look(
                status,
                int(nodes),
                (end - begin).total_seconds() if begin and end else None,
                _first_sentence(getattr(error, "message", None) or ""),
                str(details.log_files[logs[0]]) if logs else "",
            )
        except Exception:  # noqa: BLE001 - whatever a version of the SDK lacks, the state alone is enough to go on
            return Look(status, int(nodes))

    def read_log(self, address: str, seen: int) -> tuple[str, int]:
        """What a log has beyond its first bytes, and how many it has then; nothing where it cannot be read now."""
        requests: Any = import_module("requests")  # the SDK's own way to the network
        if not address.startswith("https://"):
            return "", seen
        try:
            headers = {"Range": f"bytes={seen}-"}
            with requests.get(address, headers=headers, timeout=LOG_SECONDS, stream=True) as answer:
                if answer.status_code not in {200, 206}:
                    return "", seen
                data = answer.raw.read(MOST_LOG_BYTES + (seen if answer.status_code == 200 else 0), decode_content=True)
        except (requests.RequestException, OSError):
            return "", seen
        new = data[seen:] if answer.status_code == 200 else data
        whole = new[: new.rfind(b"\n") + 1]  # the rest of a line comes the next time
        return whole.decode(errors="replace"), seen + len(whole)

    def nodes(self) -> Nodes | None:
        """The cluster's nodes; None where Azure does not say."""
        azure, cluster = self._settings.azure, self._settings.cluster.name
        place = f"Microsoft.MachineLearningServices/workspaces/{azure.workspace}/computes/{cluster}"
        try:
            found = self._manage("GET", f"/providers/{place}", COMPUTE_API)["properties"]
            inner = found.get("properties") or {}
            raised = [*(inner.get("errors") or ()), *(found.get("provisioningErrors") or ())]
            errors = [each.get("error") or {} for each in raised]
            said = tuple(_first_sentence(f"{each.get('code')}: {each.get('message')}") for each in errors)
            return Nodes(cluster, int(inner.get("currentNodeCount") or 0), int(inner.get("targetNodeCount") or 0), said)
        except Exception:  # noqa: BLE001 - a reason for waiting is welcome, and nothing depends on it
            return None

    def cancel(self, name: str) -> None:
        """End a job that may still run."""
        with _explained(f"job {name} could not be cancelled"):
            self._client.jobs.begin_cancel(name).result(CANCEL_SECONDS)

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
        return self._manage(method, "", GROUPS_API, body)

    def _manage(self, method: str, rest: str, version: str, body: dict[str, Any] | None = None) -> Any:
        """Ask Azure's manager about the resource group, or about what lies in it."""
        from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
        from azure.core.pipeline.policies import RetryPolicy
        from azure.core.rest import HttpRequest
        from azure.mgmt.core import ARMPipelineClient
        from azure.mgmt.core.policies import ARMChallengeAuthenticationPolicy

        base = _manager()
        azure = self._settings.azure
        policy = ARMChallengeAuthenticationPolicy(self._credential, f"{base}/.default")
        group = f"/subscriptions/{azure.subscription}/resourcegroups/{azure.resource_group}"
        url = f"{base}{group}{rest}?api-version={version}"
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
            raise UserError(f"{self._what}: {shortened(found, 300)}") from None
        if isinstance(problem, (AzureError, MlException, OSError, ValueError)):
            said = _first_sentence(problem)
            quota = "; ask Azure for more quota (portal: Quotas, Machine Learning), or take fewer nodes"
            raise UserError(f"{self._what}: {said}{quota if 'quota' in said.lower() else ''}") from None


def _first_sentence(problem: BaseException | str) -> str:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    if lines:
        return shortened("".join(each for each in lines[0] if each.isprintable()), 300)
    return "" if isinstance(problem, str) else type(problem).__name__


def scratch() -> AbstractContextManager[Path]:
    """A folder for what is downloaded, gone afterwards."""
    return scratch_folder("busbw-azureml-")
