"""The process as a kopf operator: a manager's factory and options in, an exit code out.

The order of the start is: HTTP endpoints, the login, kopf with its start-up activity, then the manager. The stop goes
backwards: the manager within its budget, kopf with its clean-up activity, the endpoints last. A first login that fails
ends the process before kopf starts, which would bury the reason under its own errors. kopf gets handlers of ours for the
login, the liveness and the clean-up, and beside them those of the user's modules; where these bring none for
resources, kopf only reads the API discovery, so it needs no permissions. With an election the handlers for resources
are left to the manager (`Beside`), which runs them while it leads.

A user's hooks are kopf's: `@kopf.on.startup` before anything of the manager, on every replica, and able to keep it from
starting; `@kopf.on.cleanup` after all of it.
"""

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import kopf

from konverge.errors import KonvergeError
from konverge.host.admission import Webhooks
from konverge.host.beside import Beside
from konverge.host.endpoints import Checks, Guard, Site, ask_kopf, listening, metrics_routes, probe_routes
from konverge.host.lifecycle import Lifecycle, Runnable, RunnableFactory
from konverge.host.login import ConnectionSettings, Login, add_login, first_given
from konverge.host.logs import LogOptions, configure_logging, reopen_log
from konverge.host.modules import LoadedModules
from konverge.host.signals import Signals
from konverge.host.watching import FileWatch

_new_event_loop: Callable[[], asyncio.AbstractEventLoop]
try:
    from uvloop import new_event_loop as _new_event_loop
except ImportError:  # there is none for Windows
    _new_event_loop = asyncio.new_event_loop

__all__ = ["HostOptions", "Runnable", "RunnableFactory", "serve"]

logger = logging.getLogger(__name__)


def _no_checks() -> Checks:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """What the host needs beside the manager.

    `namespaces` empty means the whole cluster. Addresses are `host:port` or `:port`; `0` turns an endpoint off.
    `readiness` and `liveness` are asked at each probe and must not block. `metrics` gives a body and its content type, to
    those whom `metrics_guard` lets in.
    `shutdown_budget` is in seconds. `logs` None leaves logging as it is. `beside` is given where the handlers for resources
    are the manager's to run. `webhooks` is what kopf has to serve admission with. `sites` are served too, `watches` are run, and `hangup` is called on SIGHUP; without it that
    signal ends the process, as it does by default.
    """

    login: Login
    namespaces: tuple[str, ...] = ()
    modules: LoadedModules = field(default_factory=LoadedModules)
    probe_address: str = ":8081"
    metrics_address: str = "127.0.0.1:8080"
    readiness: Callable[[], Checks] = _no_checks
    liveness: Callable[[], Checks] = _no_checks
    metrics: Callable[[], tuple[bytes, str]] | None = None
    metrics_tls: ssl.SSLContext | None = None
    metrics_guard: Guard | None = None
    sites: Sequence[Site] = ()
    watches: Sequence[FileWatch] = ()
    hangup: Callable[[], None] | None = None
    beside: Beside | None = None
    webhooks: Webhooks | None = None
    shutdown_budget: float = 30.0
    logs: LogOptions | None = field(default_factory=LogOptions)


def serve(runnable_factory: RunnableFactory, options: HostOptions) -> int:
    """Run until a signal or a failure, and return the exit code: 0 after an ordered stop, 1 after a failure.

    The factory is called, and what it returns is run, once kopf has started. A second signal ends the process with
    128 + its number. Nothing is raised for a failure: its reason is logged.
    """
    try:
        if options.logs is not None:
            configure_logging(options.logs)
        calls = {signal.SIGUSR1: reopen_log}
        if options.hangup is not None:
            calls[signal.SIGHUP] = options.hangup
        with Signals(calls) as signals, asyncio.Runner(loop_factory=_new_event_loop) as runner:
            return runner.run(_serve(runnable_factory, options, signals))
    except KonvergeError as error:
        logger.error("%s", error)  # noqa: TRY400 - the message says what to do, a traceback does not
        return 1


async def _serve(factory: RunnableFactory, options: HostOptions, signals: Signals) -> int:
    lifecycle = Lifecycle(factory, budget=options.shutdown_budget)
    signals.bind(asyncio.get_running_loop(), lifecycle.request_stop)
    kopf_url = f"http://127.0.0.1:{_free_port()}/healthz" if options.probe_address != "0" else None

    async def liveness() -> Checks:
        own = {**lifecycle.liveness(), **options.liveness()}
        # kopf's endpoint comes after the login, and goes first when kopf stops: no signs of a stuck process.
        if kopf_url is None or not lifecycle.started or lifecycle.stopping.is_set():
            return own
        return {**own, "kopf": await ask_kopf(kopf_url)}

    async def readiness() -> Checks:
        webhooks = {} if options.webhooks is None else {"webhooks": options.webhooks.trouble}
        return {**lifecycle.readiness(), **webhooks, **options.readiness()}

    sites = [Site("probe", options.probe_address, probe_routes(liveness, readiness))]
    if options.metrics is not None:
        routes = metrics_routes(options.metrics, options.metrics_guard)
        sites.append(Site("metrics", options.metrics_address, routes, options.metrics_tls))
    async with listening([*sites, *options.sites]), _watching(options.watches):
        if (connection := await _logged_in(options.login, lifecycle.stopping)) is not None:
            await _run_kopf(lifecycle, options, signals, kopf_url, connection)
    return 1 if lifecycle.failure else 0


async def _logged_in(login: Login, stopping: asyncio.Event) -> ConnectionSettings | None:
    """What the first login gives; None when a stop is requested before. Raises: what the login raises."""
    attempt, stop = asyncio.ensure_future(login()), asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait((attempt, stop), return_when=asyncio.FIRST_COMPLETED)
        return await attempt if attempt.done() else None
    finally:
        for each in (attempt, stop):
            each.cancel()
        await asyncio.gather(attempt, stop, return_exceptions=True)


async def _run_kopf(
    lifecycle: Lifecycle,
    options: HostOptions,
    signals: Signals,
    liveness_url: str | None,
    connection: ConnectionSettings,
) -> None:
    """Run kopf, and beside it the manager, until both have ended. kopf begins with `connection`."""
    modules, beside = options.modules, options.beside
    settings = beside.settings if beside else kopf.OperatorSettings()
    settings.scanning.disabled = not modules.has_resource_handlers
    settings.posting.enabled = modules.has_resource_handlers
    if options.webhooks is not None:
        settings.admission.server = options.webhooks
    add_login(modules.registry, first_given(connection, options.login))
    _add_probe(modules.registry, lifecycle, options.liveness)
    _add_cleanup(modules.registry, lifecycle)
    if beside:
        beside.spawned = lambda: signals.reclaim(asyncio.get_running_loop())
    # The manager's task exists before kopf starts, and its stop ends before kopf's: kopf cancels what it finds later.
    lifecycle.start()
    ignored = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=beside.everywhere() if beside else modules.registry,
        settings=settings,
        memo=beside.memo if beside else None,
        standalone=True,
        clusterwide=not options.namespaces,
        namespaces=options.namespaces,
        liveness_endpoint=liveness_url,
        ready_flag=lifecycle.ready,
        stop_flag=lifecycle.ended,
    )
    signals.reclaim(asyncio.get_running_loop())
    try:
        await kopf.run_tasks(tasks, ignored=ignored)
    except Exception as error:  # noqa: BLE001 - whatever it is, kopf has logged it, and the manager has to stop
        lifecycle.fail(f"kopf failed: {type(error).__name__}: {error}")
    if not lifecycle.stopping.is_set():
        lifecycle.fail("kopf stopped without being asked to")
    await lifecycle.wait()


@asynccontextmanager
async def _watching(watches: Sequence[FileWatch]) -> AsyncIterator[None]:
    running = [asyncio.create_task(watch.run(), name="file watch") for watch in watches]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _add_probe(registry: kopf.OperatorRegistry, lifecycle: Lifecycle, liveness: Callable[[], Checks]) -> None:
    """Make kopf's liveness endpoint fail when a check of ours fails."""

    async def konverge_liveness(**_: object) -> None:
        checks = {**lifecycle.liveness(), **liveness()}
        if problems := [f"{name}: {why}" for name, why in checks.items() if why is not None]:
            raise kopf.PermanentError("; ".join(problems))

    kopf.on.probe(registry=registry, id="konverge-liveness", errors=kopf.ErrorsMode.PERMANENT)(konverge_liveness)


def _add_cleanup(registry: kopf.OperatorRegistry, lifecycle: Lifecycle) -> None:
    """Hold kopf's end until the manager's, also where kopf is the one that stops first."""

    async def konverge_cleanup(**_: object) -> None:
        if not lifecycle.stopping.is_set():
            lifecycle.fail("kopf stopped without being asked to")
        await lifecycle.wait()

    kopf.on.cleanup(registry=registry, id="konverge-cleanup")(konverge_cleanup)


def _free_port() -> int:
    """A port of the loopback interface for kopf, which cannot choose one itself."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
