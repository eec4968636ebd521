"""How to run an operator: what flags, variables and a file said flows in, one value for the wiring flows out.

Also what a changed file means for an operator that runs: logs and retries are taken over, the rest needs a restart.
"""

import logging
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from konverge.cache.informer import RESYNC
from konverge.host.logs import LogOptions
from konverge.host.metrics_auth import Mode
from konverge.runtime.limits import RetryLimits
from konverge.runtime.manager import SHUTDOWN_BUDGET, SYNC_TIMEOUT

logger = logging.getLogger(__name__)

FIELD_MANAGER: Final = "konverge"
"""Who we are to the API server, as it keeps the owners of fields and the reporters of events."""

DEFAULT_LEASE: Final = "konverge-leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to run. `namespaces` empty means the whole cluster; addresses are `host:port`, `:port`, or `0` for off.

    `share_scheduling`: all replicas place pods, not only the leader. `sync_timeout`, `shutdown_budget` and `resync` (0: never) are in seconds. `watch_list` takes the first list as the
    beginning of a watch, where the server can do that. `workers` None leaves each reconciler its own number.
    """

    kubeconfig: str | None = None
    context: str | None = None
    namespaces: tuple[str, ...] = ()
    leader_elect: bool = False
    lease_name: str = DEFAULT_LEASE
    lease_namespace: str = ""
    share_scheduling: bool = False
    metrics_address: str = "127.0.0.1:8080"
    metrics_cert_dir: Path | None = None
    metrics_auth: Mode = "auto"
    probe_address: str = "127.0.0.1:8081"
    debug_address: str = "0"
    debug_token_file: Path | None = None
    webhook_address: str = "0"
    webhook_cert_dir: Path | None = None
    conversion_address: str = "0"
    conversion_cert_dir: Path | None = None
    sync_timeout: float = SYNC_TIMEOUT
    shutdown_budget: float = SHUTDOWN_BUDGET
    workers: int | None = None
    resync: float = RESYNC
    watch_list: bool = True
    retries: RetryLimits = field(default_factory=RetryLimits)
    logs: LogOptions = field(default_factory=LogOptions)


def report_changes(before: Settings, new: Settings) -> None:
    """Say, in the names of the flags, what a running operator has taken over, and what it cannot."""
    old, values = _flags(before), _flags(new)
    changed = [name for name, value in values.items() if old[name] != value]
    if not changed:
        logger.info("the configuration has not changed")
    for name in changed:
        if name.startswith(("log-", "retry-")):
            logger.info("configuration: %s is now %s", name, values[name])
        else:
            logger.warning("configuration: %s has changed; that needs a restart", name)


def _flags(settings: Settings) -> dict[str, Any]:
    """The settings by the names of their flags."""
    flags: dict[str, Any] = {}
    for each in fields(settings):
        value = getattr(settings, each.name)
        prefix = {"logs": "log-", "retries": "retry-"}.get(each.name)
        inner = (
            {each.name: value} if prefix is None else {part.name: getattr(value, part.name) for part in fields(value)}
        )
        flags.update({f"{prefix or ''}{name}".replace("_", "-"): part for name, part in inner.items()})
    return flags
