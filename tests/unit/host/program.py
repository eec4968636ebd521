"""A process for the tests of the host: settings as JSON in argv[1]; what happens comes out as lines on stdout."""

import asyncio
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

settings: dict[str, Any] = json.loads(sys.argv[1])
if settings.get("loop") == "asyncio":
    sys.modules["uvloop"] = None  # type: ignore[assignment] # makes its import fail

from konverge.errors import ConfigError, ConnectionFailed, LeaseLost  # noqa: E402
from konverge.host.beside import Beside  # noqa: E402
from konverge.host.certificates import ReloadingCertificate  # noqa: E402
from konverge.host.login import ConnectionSettings  # noqa: E402
from konverge.host.logs import LogOptions  # noqa: E402
from konverge.host.modules import load_modules  # noqa: E402
from konverge.host.process import HostOptions, Runnable, serve  # noqa: E402
from konverge.host.watching import FileWatch  # noqa: E402


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def block() -> None:
    while True:
        time.sleep(60)


class Manager:
    """Behaves as the settings say; a worker task of its own tells whether it could finish or was cancelled."""

    async def run(self, stop: asyncio.Event) -> None:
        release = asyncio.Event()
        worker = asyncio.create_task(self._work(release))
        say(f"manager started on {type(asyncio.get_running_loop()).__module__.partition('.')[0]}")
        match settings["manager"]:
            case "orderly":
                await stop.wait()
                say("manager stopping")
            case "failing":
                release.set()
                await worker
                raise LeaseLost("another replica leads")
            case "leaving":
                say("manager leaving")
            case "stubborn":
                release.set()
                await worker
                say("manager ignores the stop")
                await asyncio.Event().wait()
            case "blocking":
                block()
            case "standby":
                await stop.wait()
            case "leading":
                assert beside is not None
                handlers = asyncio.create_task(beside.run())
                await stop.wait()
                handlers.cancel()
                await asyncio.gather(handlers, return_exceptions=True)
                say("lease released")
        release.set()
        await worker
        say("manager stopped")

    async def _work(self, release: asyncio.Event) -> None:
        try:
            await release.wait()
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            say("worker cancelled")
            raise
        say("worker finished")


async def factory() -> Runnable:
    if settings["manager"] == "slow to build":
        say("building")
        await asyncio.Event().wait()
    return Manager()


logins = itertools.count(1)


async def login() -> ConnectionSettings:
    number = next(logins)
    say(f"login {number}")
    match settings.get("login"):
        case "impossible":
            raise ConfigError("no kubeconfig; set KUBECONFIG")
        case "unreachable":
            raise ConnectionFailed("cannot connect to https://cluster.example: refused")
        case "hanging":
            await asyncio.Event().wait()
        case "lost" if number > 1:
            raise ConfigError("the kubeconfig is gone")
    return ConnectionSettings(server=settings["server"], token=f"token-{number}")


modules = load_modules(settings.get("modules", []))
beside = Beside(modules, settings.get("namespaces", [])) if settings["manager"] in {"standby", "leading"} else None
certificate = ReloadingCertificate(Path(settings["certificates"])) if "certificates" in settings else None
options = HostOptions(
    login=login,
    modules=modules,
    beside=beside,
    metrics_tls=certificate.context if certificate else None,
    namespaces=tuple(settings.get("namespaces", [])),
    probe_address=settings.get("probe", "0"),
    metrics_address=settings.get("metrics", "0"),
    readiness=lambda: settings.get("readiness", {}),
    liveness=lambda: settings.get("liveness", {}),
    metrics=lambda: (b"answer 42\n", "text/plain; version=0.0.4; charset=utf-8"),
    shutdown_budget=settings.get("budget", 20.0),
    logs=LogOptions(file=settings.get("log")),
    hangup=(lambda: say("reloading")) if settings.get("hangup") else None,
    watches=[FileWatch([Path(path)], lambda: say("changed"), poll=0.01) for path in settings.get("watched", [])],
)
code = serve(factory, options)
say(f"served {code}")
sys.exit(code)
