"""Where credentials come from: a kubeconfig (files, tokens, certificates, exec plugins) or a pod's service account.

In flow flags, environment and files; out flows a `Source`, which can be loaded again whenever the server no longer
accepts what it gave before. Parsing is the `kubernetes` package's; finding the file, and errors that say what to do,
are ours. An exec plugin is run here too, because the package logs its failure and goes on without credentials.
"""

import asyncio
import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import orjson
import yaml
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.exec_provider import ExecProvider
from kubernetes.aio.config.incluster_config import InClusterConfigLoader
from kubernetes.aio.config.kube_config import FileOrData, KubeConfigLoader, KubeConfigMerger

from konverge.errors import CredentialsError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its token, the cluster's CA and its own namespace."""

PLUGIN_TIMEOUT = 60.0
"""Seconds that an exec plugin may take: long enough for a login service, too short to hang for ever."""


class Loaded(NamedTuple):
    """A filled `kubernetes` Configuration, and the namespace that the context or the pod belongs to."""

    configuration: Any
    namespace: str


class Source(Protocol):
    """A place to load credentials from, again and again."""

    @property
    def description(self) -> str:
        """How messages name it."""
        ...

    async def load(self) -> Loaded:
        """Read it now. Raises: CredentialsError."""
        ...


@dataclass(frozen=True)
class KubeconfigSource:
    """One kubeconfig, or several joined by `:`; `context` None means the current one."""

    paths: str
    context: str | None = None

    @property
    def description(self) -> str:
        return f"kubeconfig {self.paths}" + (f", context {self.context}" if self.context else "")

    async def load(self) -> Loaded:
        configuration = Configuration()
        try:
            # A kubeconfig of many clusters takes a while to parse.
            merger = await asyncio.to_thread(KubeConfigMerger, self.paths)
            # Without a base path, relative paths are taken from each file's own directory.
            loader = _Loader(config_dict=merger.config, active_context=self.context, config_base_path=None)
            loader.require_complete(self.description)
            await loader.load_and_set(configuration)
        except CredentialsError as error:
            message = f"{self.description}: {error}"
            raise CredentialsError(message) from error
        except (ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            message = f"{self.description} cannot be used: {error}; `kubectl config view` shows what is in it"
            raise CredentialsError(message) from error
        return Loaded(configuration, loader.current_context["context"].get("namespace") or "default")


@dataclass(frozen=True)
class InClusterSource:
    """The service account of the pod that this process runs in. Its token is replaced on disk before it expires."""

    directory: Path = SERVICE_ACCOUNT
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @property
    def description(self) -> str:
        return f"service account in {self.directory}"

    async def load(self) -> Loaded:
        configuration = Configuration()
        loader = InClusterConfigLoader(
            token_filename=str(self.directory / "token"),
            cert_filename=str(self.directory / "ca.crt"),
            environ=self.environ,
        )
        try:
            loader.load_and_set(configuration)
            namespace = (self.directory / "namespace").read_text().strip()
        except (ConfigException, OSError) as error:
            message = f"{self.description} cannot be used: {error}"
            raise CredentialsError(message) from error
        return Loaded(configuration, namespace or "default")


def find_source(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    home: Path | None = None,
) -> Source:
    """The first of: `kubeconfig`, the files in KUBECONFIG, the pod's service account, `~/.kube/config`.

    A file that was asked for and is not there is an error, never a reason to talk to another cluster. A `context` only
    makes sense in a kubeconfig, so with one the service account is passed over.

    Raises: CredentialsError that lists what was tried.
    """
    environ = os.environ if environ is None else environ
    if kubeconfig:
        return _existing(kubeconfig, context, "--kubeconfig")
    if environ.get("KUBECONFIG"):
        return _existing(environ["KUBECONFIG"], context, "KUBECONFIG")
    tried = ["--kubeconfig: not given", "KUBECONFIG: not set"]
    if context:
        tried.append(f"service account: passed over, it has no context {context}")
    elif (service_account / "token").is_file():
        return InClusterSource(service_account, environ)
    else:
        tried.append(f"service account: no {service_account / 'token'}, so this is not a pod")
    default = (home or Path.home()) / ".kube" / "config"
    if default.is_file():
        return KubeconfigSource(str(default), context)
    tried.append(f"{default}: no such file")
    message = (
        "no cluster to connect to; tried " + "; ".join(tried) + ". Give --kubeconfig FILE, set KUBECONFIG, "
        "or start a local cluster with `konverge cluster up`"
    )
    raise CredentialsError(message)


def _existing(paths: str, context: str | None, origin: str) -> KubeconfigSource:
    if any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path):
        return KubeconfigSource(paths, context)
    message = f"{origin} names {paths}, and there is no such file; correct the path, or leave it off to use the default"
    raise CredentialsError(message)


class _Loader(KubeConfigLoader):  # type: ignore[misc]  # the package is not typed
    """The package's loader, with an exec plugin whose failure is not swallowed."""

    def require_complete(self, description: str) -> None:
        """Raises: CredentialsError where the package would go on with a default, or fail without naming the place."""
        context = self.current_context
        if not self._cluster.safe_get("server"):
            message = f"cluster {context['context']['cluster']} has no `server`"
            raise CredentialsError(message)
        if self._user is None and self._cluster["server"].startswith("https"):
            user = context["context"].get("user")
            what = f"names user {user}, which is not in `users`" if user else "names no user"
            message = f"context {context['name']} {what}: nothing to authenticate with ({description})"
            raise CredentialsError(message)

    async def load_from_exec_plugin(self) -> bool:
        """Run the plugin and take over the token or certificate it prints. Raises: CredentialsError."""
        status = await run_plugin(self._user["exec"])
        if status.get("token"):
            self.token = f"Bearer {status['token']}"
        if status.get("clientCertificateData") and status.get("clientKeyData"):
            self.cert_file = _file_of(status, "clientCertificateData")
            self.key_file = _file_of(status, "clientKeyData")
        elif not status.get("token"):
            message = "the exec plugin printed neither `status.token` nor `status.clientCertificateData` with its key"
            raise CredentialsError(message)
        return True


def _file_of(status: Mapping[str, Any], key: str) -> Any:
    return FileOrData(status, None, data_key_name=key, base64_file_content=False).as_file()


async def run_plugin(exec_config: Any) -> Mapping[str, Any]:
    """The `status` of the ExecCredential that the plugin prints.

    Raises: CredentialsError that holds the plugin's own words when it fails, hangs, or prints something else.
    """
    provider = ExecProvider(exec_config)
    command = provider.args[0]
    request = {"apiVersion": provider.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
    try:
        process = await asyncio.create_subprocess_exec(
            *provider.args,
            env={**provider.env, "KUBERNETES_EXEC_INFO": orjson.dumps(request).decode()},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = exec_config.safe_get("installHint") or "install it, or correct the user's `exec.command`"
        message = f"the exec plugin {command} cannot be started: {error}; {hint}"
        raise CredentialsError(message) from error
    try:
        async with asyncio.timeout(PLUGIN_TIMEOUT):
            stdout, stderr = await process.communicate()
    except TimeoutError as error:
        message = f"the exec plugin {command} did not finish in {PLUGIN_TIMEOUT:g} s"
        raise CredentialsError(message) from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        words = stderr.decode(errors="replace").strip() or "it said nothing"
        message = f"the exec plugin {command} failed with code {process.returncode}: {words}"
        raise CredentialsError(message)
    return _plugin_status(stdout, command, provider.api_version)


def _plugin_status(stdout: bytes, command: str, api_version: str) -> Mapping[str, Any]:
    try:
        credential = orjson.loads(stdout)
    except orjson.JSONDecodeError as error:
        message = f"the exec plugin {command} printed what is not JSON"  # what it printed may hold a secret
        raise CredentialsError(message) from error
    if not isinstance(credential, dict) or not isinstance(credential.get("status"), dict):
        message = f"the exec plugin {command} printed no ExecCredential with a `status`"
        raise CredentialsError(message)
    if credential.get("apiVersion") != api_version:
        message = f"the exec plugin {command} speaks {credential.get('apiVersion')}, the kubeconfig says {api_version}"
        raise CredentialsError(message)
    status: Mapping[str, Any] = credential["status"]
    return status
