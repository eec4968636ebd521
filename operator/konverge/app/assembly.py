"""The wiring: settings and reconcilers in, a running operator and its exit code out."""

import asyncio
import logging
import random
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from konverge import __version__
from konverge.app.settings import FIELD_MANAGER, Settings, report_changes
from konverge.cache.informer import Caches
from konverge.election import LeaderElector, default_identity
from konverge.errors import ConfigError
from konverge.host import collector
from konverge.host.admission import Answer, Webhooks
from konverge.host.beside import Beside
from konverge.host.certificates import ReloadingCertificate
from konverge.host.debugging import debug_site
from konverge.host.endpoints import Site
from konverge.host.login import ConnectionSettings
from konverge.host.logs import configure_logging
from konverge.host.metrics_auth import metrics_guard
from konverge.host.modules import LoadedModules
from konverge.host.process import HostOptions, serve
from konverge.host.watching import FileWatch
from konverge.kube.auth import ConnectionDetails
from konverge.kube.client import Client
from konverge.kube.connect import connect
from konverge.kube.discovery import served_of
from konverge.kube.gate import WriteGate
from konverge.model.intercept import Intercept, Operations
from konverge.model.meta import Key
from konverge.model.resource import Namespace, Node, Object, Pod, ReplicaSet, ReplicationController, StatefulSet
from konverge.model.review import hooks_of
from konverge.runtime.clock import SystemClock
from konverge.runtime.controller import Controller
from konverge.runtime.debug import ExplainPod, Inspector
from konverge.runtime.events import EventRecorder
from konverge.runtime.history import History
from konverge.runtime.limits import AdjustableLimiter
from konverge.runtime.manager import Manager, Runnable
from konverge.runtime.metrics import Metrics
from konverge.runtime.reconciler import Reconciler
from konverge.runtime.tracing import tracer

if TYPE_CHECKING:  # numpy is some 15 MB and a sixth of the start: loaded where there is a SchedulingPolicy to reconcile
    from konverge.app.sharing import SharedScheduler
    from konverge.controllers.scheduling_policy import SchedulingPolicyReconciler
    from konverge.scheduler.scheduler import Scheduler
    from konverge.scheduler.sharing import Shared

logger = logging.getLogger(__name__)

_TEMPLATE: Final = ("spec.template", "status")
_LEFT_OUT: Final = {
    ReplicaSet: _TEMPLATE,
    ReplicationController: _TEMPLATE,
    StatefulSet: ("spec.volumeClaimTemplates", *_TEMPLATE),
}
"""What the scheduler's caches do not hold: old ReplicaSets alone, with their pod templates, can outweigh all pods."""

ReconcilerClass = type[Reconciler[Any]]


class App:
    """One operator process: made of settings, the reconcilers, and the user's kopf modules.

    Where the settings came from a file, `config` names it and `reread` makes the settings anew from it (and from what
    goes before it); it raises ConfigError for what cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        reconcilers: Sequence[ReconcilerClass],
        modules: LoadedModules,
        *,
        config: Path | None = None,
        reread: Callable[[], Settings] | None = None,
    ) -> None:
        if not reconcilers and not modules.has_resource_handlers:
            raise ConfigError(
                "there is nothing to run: the modules define neither a Reconciler subclass nor a kopf handler; "
                "name a module that does, or none for the built-in operator"
            )
        if settings.share_scheduling and not settings.leader_elect:
            raise ConfigError(
                "--share-scheduling is for several replicas, of which one leads: it needs --leader-elect as well"
            )
        if settings.share_scheduling and settings.namespaces:
            raise ConfigError("--share-scheduling places pods, which needs the whole cluster: leave --namespace out")
        _refuse_twice(reconcilers)
        self._settings, self._reconcilers, self._modules = settings, reconcilers, modules
        self._clock, self._random = SystemClock(), random.Random()  # noqa: S311 - jitter, not a secret
        self._gate, self._metrics, self._tracer = WriteGate(), Metrics(), tracer()
        self._config, self._reread = config, reread
        self._limiters: list[AdjustableLimiter[Key]] = []
        self._beside = (
            Beside(modules, settings.namespaces) if settings.leader_elect and modules.has_resource_handlers else None
        )
        self._inspector: Inspector | None = None
        self._explain_pod: ExplainPod | None = None
        self._identity = default_identity()
        self._lease: LeaderElector | None = None
        self._sharing: SharedScheduler | None = None
        self._manager: Manager | None = None
        self._client: Client | None = None
        self._caches: Caches | None = None
        self._connecting = asyncio.Lock()

    def run(self) -> int:
        """Run until a signal or a failure; return the exit code. Raises: ConfigError for settings that cannot be used."""
        settings = self._settings
        certificate = ReloadingCertificate(settings.metrics_cert_dir) if settings.metrics_cert_dir else None
        watches = [certificate.watch] if certificate else []
        webhooks = self._webhooks(watches)
        if self._config is not None:
            watches.append(FileWatch([self._config], self.reload))
        options = HostOptions(
            login=self._login,
            namespaces=settings.namespaces,
            modules=self._modules,
            probe_address=settings.probe_address,
            metrics_address=settings.metrics_address,
            metrics_tls=certificate.context if certificate else None,
            metrics_guard=metrics_guard(
                settings.metrics_address,
                settings.metrics_auth,
                tls=certificate is not None,
                review=self._judged,
                clock=self._clock,
            ),
            readiness=self._readiness,
            metrics=self._metrics.exposition,
            shutdown_budget=settings.shutdown_budget,
            logs=settings.logs,
            sites=[
                debug_site(
                    settings.debug_address,
                    settings.debug_token_file,
                    lambda: self._inspector,
                    self._metrics.exposition,
                ),
                *self._conversion(watches),
            ],
            watches=watches,
            hangup=self.reload if self._config is not None else None,
            beside=self._beside,
            webhooks=webhooks,
        )
        return serve(self._assemble, options)

    def _conversion(self, watches: list[FileWatch]) -> list[Site]:
        """The site that converts between the versions of our resources, with its certificate watched; may be none."""
        settings = self._settings
        if settings.conversion_address == "0":
            return []
        if settings.conversion_cert_dir is None:
            raise ConfigError(
                "conversion is served over TLS only: say where tls.crt and tls.key are, --conversion-cert-dir"
            )
        # Schemas take a while to load, and few operators have several versions.
        from konverge.host.conversion import conversion_site  # noqa: PLC0415 - see above
        from konverge.model.conversion import registry_of  # noqa: PLC0415 - see above

        registry = registry_of(kind.resource() for kind in self._reconcilers)
        certificate = ReloadingCertificate(settings.conversion_cert_dir)
        watches.append(certificate.watch)
        return [conversion_site(settings.conversion_address, certificate.context, registry)]

    def _webhooks(self, watches: list[FileWatch]) -> Webhooks | None:
        """What serves the hooks of our resources, with its certificate watched; None where that is turned off."""
        settings = self._settings
        answers: dict[str, Answer] = {
            hook.path: hook.answer for kind in self._reconcilers for hook in hooks_of(kind.resource())
        }
        if not settings.namespaces:  # what is not ours is looked at by an operator for the whole cluster only
            answers |= {
                hook.path: self._intercept(kind, hook) for kind in self._reconcilers for hook in kind.intercepts
            }
        if settings.webhook_address == "0":
            if answers:
                logger.info("admission hooks are not served, there is no --webhook-address: %s", ", ".join(answers))
            return None
        if settings.webhook_cert_dir is None:
            raise ConfigError(
                "webhooks are served over TLS only: say where tls.crt and tls.key are, --webhook-cert-dir"
            )
        certificate = ReloadingCertificate(settings.webhook_cert_dir)
        watches.append(certificate.watch)
        return Webhooks(settings.webhook_address, certificate.context, answers, self._metrics.webhooks())

    def _intercept(self, kind: ReconcilerClass, hook: Intercept) -> Answer:
        """The answer of a hook on objects of others: none of them is changed before the caches have listed."""

        def decide(obj: Object, namespace: str) -> Operations:
            caches = self._caches
            if caches is None or not all(informer.synced.is_set() for informer in caches.informers):
                return ()
            return kind.intercept(hook, obj, namespace, caches)

        return lambda review: hook.answer(review, decide)

    def reload(self) -> None:
        """Take over from the file what a running operator can; say what needs a restart. Bad settings change nothing."""
        if self._reread is None:
            return
        try:
            new = self._reread()
            now = replace(self._settings, logs=new.logs, retries=new.retries)
            if now.logs != self._settings.logs:
                configure_logging(now.logs)
        except ConfigError as error:
            logger.error("the configuration is not taken over: %s", error)  # noqa: TRY400 - the message says what to do
            return
        for limiter in self._limiters:
            limiter.adjust(now.retries)
        report_changes(self._settings, new)
        self._settings = now

    async def _assemble(self) -> "_Running":
        client = await self._connected()
        details = client.credentials()
        logger.info("konverge %s on %s", __version__, details.server)
        self._caches = caches = Caches(
            client,
            namespaces=self._settings.namespaces,
            clock=self._clock,
            random=self._random,
            resync=self._settings.resync,
            watch_list=self._settings.watch_list,
        )
        recorder = EventRecorder(client, self._clock, component=FIELD_MANAGER, instance=socket.gethostname())
        reconcilers, placing = await self._instances(client, caches, recorder)
        shared = self._settings.share_scheduling
        controllers = [
            Controller(
                reconciler,
                api=client,
                caches=caches,
                recorder=recorder,
                clock=self._clock,
                random=self._random,
                metrics=self._metrics.controller(
                    reconciler.resource().resource.kind.lower(),
                    workers=self._settings.workers or type(reconciler).workers,
                ),
                field_manager=FIELD_MANAGER,
                workers=self._settings.workers,
                limiter=self._limiter(),
                history=History() if self._settings.debug_address != "0" else None,
                tracer=self._tracer,
            )
            for reconciler in reconcilers
        ]
        self._inspector = Inspector(controllers, caches, recorder, self._explain_pod)
        self._metrics.watch_caches(caches, recorder)
        self._lease = lease = self._elector(client, details)
        if lease is not None:
            self._gate.fence(lambda: lease.is_leader)
        self._manager = Manager(
            caches=caches,
            controllers=controllers,
            recorder=recorder,
            block_writes=self._gate.close,
            leader_only=[*([] if shared else placing), *([self._beside] if self._beside else [])],
            everywhere=placing if shared else [],
            elector=self._lease,
            on_leading=self._leads,
            sync_timeout=self._settings.sync_timeout,
            shutdown_budget=self._settings.shutdown_budget,
        )
        return _Running(self._manager, client)

    async def _instances(
        self, client: Client, caches: Caches, recorder: EventRecorder
    ) -> tuple[list[Reconciler[Any]], list[Runnable]]:
        """The reconcilers, and what places pods where a SchedulingPolicy is among their resources.

        A scheduler has to see all nodes and pods: one that watches some namespaces only would overfill nodes.
        """
        reconcilers: list[Reconciler[Any]] = []
        placing: list[Runnable] = []
        for kind in self._reconcilers:
            if not _schedules(kind):
                reconcilers.append(kind())
                continue
            if self._settings.namespaces:
                reconcilers.append(kind(None, self._clock))
                continue
            scheduler, part = await self._scheduler(client, caches, recorder)
            placing.append(part)
            self._explain_pod = scheduler.explain
            reconciler = kind(scheduler, self._clock)
            if self._settings.share_scheduling:
                caches.cache(kind.resource().resource).subscribe(reconciler.follow)
            reconcilers.append(reconciler)
        return reconcilers, placing

    async def _scheduler(self, client: Client, caches: Caches, recorder: EventRecorder) -> "tuple[Scheduler, Runnable]":
        """The scheduler, and what runs it: itself, or where replicas share the work their membership."""
        from konverge.scheduler.registry import Registry  # noqa: PLC0415 - see above
        from konverge.scheduler.scheduler import Scheduler  # noqa: PLC0415 - see above

        pods, nodes, registry = caches.cache(Pod), caches.cache(Node), Registry.default()
        reads = registry.reads | await served_of(client, registry.reads_if_served)

        def scheduler(api: Client, recorder: EventRecorder, shared: "Shared | None" = None) -> Scheduler:
            return Scheduler(
                api,
                pods,
                nodes,
                clock=self._clock,
                random=self._random,
                recorder=recorder,
                observer=self._metrics.scheduler(),
                namespaces=caches.cache(Namespace),
                registry=registry,
                caches={each: caches.cache(each, left_out=_LEFT_OUT.get(each, ())) for each in reads},
                shared=shared,
            )

        if not self._settings.share_scheduling:
            alone = scheduler(client, recorder)
            return alone, alone
        from konverge.app.sharing import SharedScheduler  # noqa: PLC0415 - only where the work is shared

        self._sharing = SharedScheduler.on(
            client,
            group=f"{self._settings.lease_name}-scheduler",
            namespace=self._settings.lease_namespace or client.credentials().namespace,
            identity=self._identity,
            clock=self._clock,
            random=self._random,
            synced=lambda: caches.wait_for_sync(self._settings.sync_timeout),
            scheduler=scheduler,
        )
        return self._sharing.scheduler, self._sharing

    def _limiter(self) -> AdjustableLimiter[Key]:
        self._limiters.append(AdjustableLimiter(self._settings.retries, self._clock))
        return self._limiters[-1]

    def _elector(self, client: Client, details: ConnectionDetails) -> LeaderElector | None:
        if not self._settings.leader_elect:
            return None
        self._leads(leads=False)
        return LeaderElector(
            client,
            name=self._settings.lease_name,
            namespace=self._settings.lease_namespace or details.namespace,
            identity=self._identity,
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

    async def _judged(self, path: str, review: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the API server says to a review."""
        return await (await self._connected()).review(path, review)

    def _observe(self, method: str, host: str, code: str, seconds: float) -> None:
        self._metrics.request(method, host, code)
        self._tracer.request(method, host, code, seconds)

    def _leads(self, leads: bool) -> None:
        if leads:  # the caches have listed by now
            collector.settle()
        if self._settings.leader_elect:
            self._metrics.leads(self._settings.lease_name, now=leads)

    def _readiness(self) -> Mapping[str, str | None]:
        """A standby is ready while its caches are warm and it can read the lease."""
        if self._manager is None:
            return {"assembly": "the operator is not assembled yet"}
        lease = {} if self._lease is None else {"leader-election": self._lease.trouble or None}
        sharing = {} if self._sharing is None else {"shared-scheduling": self._sharing.trouble or None}
        return {**self._manager.health(), **lease, **sharing}


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


def _schedules(kind: ReconcilerClass) -> "TypeGuard[type[SchedulingPolicyReconciler]]":
    """Whether `kind` is the reconciler of SchedulingPolicies, which comes with a scheduler. Loads neither."""
    module = sys.modules.get("konverge.controllers.scheduling_policy")
    return module is not None and issubclass(kind, module.SchedulingPolicyReconciler)


def _refuse_twice(reconcilers: Sequence[ReconcilerClass]) -> None:
    """Two controllers of one resource would write against each other."""
    seen: dict[str, str] = {}
    for kind in reconcilers:
        resource = str(kind.resource().resource)
        if resource in seen:
            raise ConfigError(f"{kind.__name__} and {seen[resource]} both reconcile {resource}; keep one of them")
        seen[resource] = kind.__name__
