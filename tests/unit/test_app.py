"""Taking over a changed configuration while the operator runs."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from konverge.app import App, Settings, assembly
from konverge.cache.informer import Caches
from konverge.controllers.scheduling_policy import SchedulingPolicyReconciler
from konverge.errors import ConfigError
from konverge.host.logs import LogOptions
from konverge.host.modules import LoadedModules
from konverge.model.meta import Key
from konverge.model.resource import ReplicaSet, ReplicationController, ResourceType, StatefulSet
from konverge.runtime.clock import SystemClock
from konverge.runtime.context import Context
from konverge.runtime.events import EventRecorder
from konverge.runtime.limits import RetryLimits
from konverge.runtime.reconciler import Reconciler
from konverge.runtime.result import Result
from konverge.scheduler.registry import Registry
from konverge.testing.fake import FakeApi
from tests.certificates import pair, write
from tests.gadgets import GadgetReconciler
from tests.unit.model.versions import Site


class Configured:
    """An app whose settings the test changes."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.app = App(
            self.settings, [GadgetReconciler], LoadedModules(), config=Path("konverge.yaml"), reread=self.read
        )
        self.limiter = self.app._limiter()

    def read(self) -> Settings:
        return self.settings

    def change(self, **changes: object) -> None:
        self.settings = replace(self.settings, **changes)  # type: ignore[arg-type]
        self.app.reload()


@pytest.fixture
def configured(caplog: pytest.LogCaptureFixture) -> Iterator[Configured]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    caplog.set_level(logging.INFO)
    yield Configured()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_the_log_level_is_taken_over(configured: Configured) -> None:
    configured.change(logs=LogOptions(level="debug"))
    assert logging.getLogger().level == logging.DEBUG


def test_limits_on_retries_are_taken_over_by_every_queue(
    configured: Configured, caplog: pytest.LogCaptureFixture
) -> None:
    key = Key("team", "one")
    assert configured.limiter.when(key) == 0.005
    configured.change(retries=RetryLimits(min_delay=2))
    assert configured.limiter.when(key) == 4
    assert "configuration: retry-min-delay is now 2" in caplog.text


def test_what_needs_a_restart_is_said_each_time_and_not_taken_over(
    configured: Configured, caplog: pytest.LogCaptureFixture
) -> None:
    configured.change(lease_name="another", retries=RetryLimits(burst=5))
    assert "configuration: lease-name has changed; that needs a restart" in caplog.text
    assert configured.app._settings.lease_name == Settings().lease_name
    assert configured.app._settings.retries.burst == 5


def test_bad_settings_change_nothing_and_are_said(configured: Configured, caplog: pytest.LogCaptureFixture) -> None:
    def bad() -> Settings:
        raise ConfigError("konverge.yaml: unknown key 'x'")

    configured.app._reread = bad
    configured.app.reload()
    assert configured.app._settings == Settings()
    assert "the configuration is not taken over: konverge.yaml: unknown key 'x'" in caplog.text


def test_the_same_settings_change_nothing(configured: Configured, caplog: pytest.LogCaptureFixture) -> None:
    configured.change()
    assert "the configuration has not changed" in caplog.text


class Part:
    """Stands for the manager, or for the election."""

    trouble = ""

    def health(self) -> dict[str, str | None]:
        return {"caches-synced": None}


def test_readiness_knows_the_election_and_a_standby_is_ready(configured: Configured) -> None:
    app, manager, lease = configured.app, Part(), Part()
    assert app._readiness() == {"assembly": "the operator is not assembled yet"}
    app._manager = manager  # type: ignore[assignment]
    assert app._readiness() == {"caches-synced": None}
    app._lease = lease  # type: ignore[assignment]
    assert app._readiness() == {"caches-synced": None, "leader-election": None}
    lease.trouble = "403 Forbidden"
    assert app._readiness() == {"caches-synced": None, "leader-election": "403 Forbidden"}


def test_a_log_file_that_cannot_be_opened_leaves_the_old_log(
    configured: Configured, caplog: pytest.LogCaptureFixture
) -> None:
    configured.change(logs=LogOptions(file="/nowhere/log"), retries=RetryLimits(burst=9))
    assert "the configuration is not taken over: log file /nowhere/log" in caplog.text
    assert configured.app._settings == Settings()


class SiteReconciler(Reconciler[Site]):
    async def reconcile(self, site: Site, ctx: Context, /) -> Result:
        return Result.done()


def test_conversion_needs_a_certificate_and_something_to_convert(tmp_path: Path) -> None:
    without = App(Settings(conversion_address=":9444"), [SiteReconciler], LoadedModules())
    with pytest.raises(ConfigError, match="--conversion-cert-dir"):
        without.run()
    write(tmp_path, *pair("conversion"))
    settings = Settings(conversion_address=":9444", conversion_cert_dir=tmp_path)
    with pytest.raises(ConfigError, match="no resource of these modules has more than one version"):
        App(settings, [GadgetReconciler], LoadedModules()).run()


def test_pods_of_others_are_left_alone_while_the_caches_have_not_listed(tmp_path: Path) -> None:
    write(tmp_path, *pair("webhooks"))
    settings = Settings(webhook_address="127.0.0.1:9443", webhook_cert_dir=tmp_path)
    app = App(settings, [SchedulingPolicyReconciler], LoadedModules())
    (hook,) = SchedulingPolicyReconciler.intercepts
    asked = {
        "uid": "u",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "team",
        "object": {"metadata": {"generateName": "web-"}, "spec": {"schedulerName": "default-scheduler"}},
    }
    answer = app._intercept(SchedulingPolicyReconciler, hook)
    assert answer({"request": asked})["response"] == {"uid": "u", "allowed": True}


def test_an_operator_for_some_namespaces_looks_at_nothing_of_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    App(Settings(), [SchedulingPolicyReconciler], LoadedModules())._webhooks([])
    assert "assign/pods" in caplog.text
    caplog.clear()
    App(Settings(namespaces=("team",)), [SchedulingPolicyReconciler], LoadedModules())._webhooks([])
    assert "assign/pods" not in caplog.text


async def test_the_scheduler_has_a_cache_of_all_that_its_plugins_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(_client: object, _resources: object) -> frozenset[ResourceType]:
        return frozenset()

    monkeypatch.setattr(assembly, "served_of", nothing)
    app, api, clock = App(Settings(), [SchedulingPolicyReconciler], LoadedModules()), FakeApi(), SystemClock()
    caches = Caches(api, clock=clock, random=Random(0))
    recorder = EventRecorder(api, clock, component="test", instance="test")
    await app._scheduler(api, caches, recorder)  # type: ignore[arg-type] # it asks for no more than an Api
    scopes = {informer.resource: informer.scope for informer in caches.informers}
    assert Registry.default().reads <= scopes.keys()
    assert {resource for resource, scope in scopes.items() if "spec.template" in scope.left_out} == {
        ReplicaSet,
        ReplicationController,
        StatefulSet,
    }
