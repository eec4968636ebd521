"""The one place where the parts are wired together: settings and reconcilers in, a running operator and its exit code out."""

import asyncio
import logging
import random
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from konverge import __version__
from konverge.cache.informer import Caches
from konverge.controllers.scheduling_policy import SchedulingPolicyReconciler
from konverge.election import LeaderElector, default_identity
from konverge.errors import ConfigError
from konverge.host.login import ConnectionSettings
from konverge.host.logs import LogOptions
from konverge.host.modules import LoadedModules
from konverge.host.process import HostOptions, serve
from konverge.kube.auth import ConnectionDetails
from konverge.kube.client import Client
from konverge.kube.connect import connect
from konverge.kube.gate import WriteGate
from konverge.model.resource import Node, Pod
from konverge.runtime.clock import SystemClock
from konverge.runtime.controller import Controller
from konverge.runtime.events import EventRecorder
from konverge.runtime.manager import SHUTDOWN_BUDGET, SYNC_TIMEOUT, Manager, Runnable
from konverge.runtime.metrics import Metrics
from konverge.runtime.reconciler import Reconciler
from konverge.scheduler.scheduler import Scheduler

logger = logging.getLogger(__name__)

DEFAULT_LEASE: Final = "konverge-leader"
FIELD_MANAGER: Final = "konverge"

ReconcilerClass = type[Reconciler[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to run. `namespaces` empty means the whole cluster; addresses are `host:port`, `:port`, or `0` for off.

    `sync_timeout` and `shutdown_budget` are in seconds.
    """

    kubeconfig: str | None = None
    context: str | None = None
    namespaces: tuple[str, ...] = ()
    leader_elect: bool = False
    lease_name: str = DEFAULT_LEASE
    lease_namespace: str = ""
    metrics_address: str = "127.0.0.1:8080"
    probe_address: str = "127.0.0.1:8081"
    sync_timeout: float = SYNC_TIMEOUT
    shutdown_budget: float = SHUTDOWN_BUDGET
    logs: LogOptions = field(default_factory=LogOptions)


class App:
    """One operator process: made of settings, the reconcilers, and the user's kopf modules."""

    def __init__(self, settings: Settings, reconcilers: Sequence[ReconcilerClass], modules: LoadedModules) -> None:
        if not reconcilers and not modules.has_resource_handlers:
            raise ConfigError(
                "there is nothing to run: the modules define neither a Reconciler subclass nor a kopf handler; "
                "name a module that does, or none for the built-in operator"
            )
        _refuse_twice(reconcilers)
        self._settings, self._reconcilers, self._modules = settings, reconcilers, modules
        self._clock, self._random = SystemClock(), random.Random()  # noqa: S311 - jitter, not a secret
        self._gate, self._metrics = WriteGate(), Metrics()
        self._manager: Manager | None = None
        self._client: Client | None = None
        self._connecting = asyncio.Lock()

    def run(self) -> int:
        """Run until a signal or a failure; return the exit code."""
        options = HostOptions(
            login=self._login,
            namespaces=self._settings.namespaces,
            modules=self._modules,
            probe_address=self._settings.probe_address,
            metrics_address=self._settings.metrics_address,
            readiness=self._readiness,
            metrics=self._metrics.exposition,
            shutdown_budget=self._settings.shutdown_budget,
            logs=self._settings.logs,
        )
        return serve(self._assemble, options)

    async def _assemble(self) -> "_Running":
        client = await self._connected()
        details = client.credentials()
        logger.info("konverge %s on %s", __version__, details.server)
        caches = Caches(client, namespaces=self._settings.namespaces, clock=self._clock, random=self._random)
        recorder = EventRecorder(client, self._clock, component=FIELD_MANAGER, instance=socket.gethostname())
        reconcilers, leader_only = self._instances(client, caches, recorder)
        controllers = [
            Controller(
                reconciler,
                api=client,
                caches=caches,
                recorder=recorder,
                clock=self._clock,
                random=self._random,
                metrics=self._metrics.controller(
                    reconciler.resource().resource.kind.lower(), workers=type(reconciler).workers
                ),
                field_manager=FIELD_MANAGER,
            )
            for reconciler in reconcilers
        ]
        self._manager = Manager(
            caches=caches,
            controllers=controllers,
            recorder=recorder,
            block_writes=self._gate.close,
            leader_only=leader_only,
            elector=self._elector(client, details),
            on_leading=self._leads,
            sync_timeout=self._settings.sync_timeout,
            shutdown_budget=self._settings.shutdown_budget,
        )
        return _Running(self._manager, client)

    def _instances(
        self, client: Client, caches: Caches, recorder: EventRecorder
    ) -> tuple[list[Reconciler[Any]], list[Runnable]]:
        """The reconcilers, and the scheduler where a SchedulingPolicy is among their resources.

        A scheduler has to see all nodes and pods: one that watches some namespaces only would overfill nodes.
        """
        reconcilers: list[Reconciler[Any]] = []
        leader_only: list[Runnable] = []
        for kind in self._reconcilers:
            if not issubclass(kind, SchedulingPolicyReconciler):
                reconcilers.append(kind())
                continue
            scheduler = None if self._settings.namespaces else self._scheduler(client, caches, recorder)
            if scheduler is not None:
                leader_only.append(scheduler)
            reconcilers.append(kind(scheduler, self._clock))
        return reconcilers, leader_only

    def _scheduler(self, client: Client, caches: Caches, recorder: EventRecorder) -> Scheduler:
        pods, nodes = caches.cache(Pod), caches.cache(Node)
        return Scheduler(client, pods, nodes, clock=self._clock, random=self._random, recorder=recorder)

    def _elector(self, client: Client, details: ConnectionDetails) -> LeaderElector | None:
        if not self._settings.leader_elect:
            return None
        return LeaderElector(
            client,
            name=self._settings.lease_name,
            namespace=self._settings.lease_namespace or details.namespace,
            identity=default_identity(),
            clock=self._clock,
            random=self._random,
        )

    async def _connected(self) -> Client:
        """The one client; kopf's login and the manager ask for it at the same time."""
        async with self._connecting:
            if self._client is None:
                self._client = await connect(
                    self._settings.kubeconfig,
                    self._settings.context,
                    clock=self._clock,
                    random=self._random,
                    gate=self._gate,
                    observer=self._observe,
                )
            return self._client

    async def _login(self) -> ConnectionSettings:
        """How kopf gets in: the credentials that our client uses, as they are now."""
        details = (await self._connected()).credentials()
        return ConnectionSettings(
            server=details.server,
            ca_path=details.ca_path or None,
            insecure=details.insecure,
            token=details.token or None,
            scheme=details.scheme or None,
            certificate_path=details.cert_path or None,
            private_key_path=details.key_path or None,
            proxy_url=details.proxy or None,
            default_namespace=details.namespace,
        )

    def _observe(self, method: str, host: str, code: str, seconds: float) -> None:  # noqa: ARG002 - the hook's form
        self._metrics.request(method, host, code)

    def _leads(self, leads: bool) -> None:
        self._metrics.leads(self._settings.lease_name, now=leads)

    def _readiness(self) -> Mapping[str, str | None]:
        return self._manager.health() if self._manager is not None else {"manager": "not assembled yet"}


@dataclass(frozen=True, slots=True)
class _Running:
    """The manager with the client that it ends with."""

    manager: Manager
    client: Client

    async def run(self, stop: asyncio.Event) -> None:
        try:
            await self.manager.run(stop)
        finally:
            await self.client.close()


def _refuse_twice(reconcilers: Sequence[ReconcilerClass]) -> None:
    """Two controllers of one resource would write against each other."""
    seen: dict[str, str] = {}
    for kind in reconcilers:
        resource = str(kind.resource().resource)
        if resource in seen:
            raise ConfigError(f"{kind.__name__} and {seen[resource]} both reconcile {resource}; keep one of them")
        seen[resource] = kind.__name__
