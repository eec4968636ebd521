"""What subscribers are told, what one's own writes do, and what the caches of a process offer."""

import asyncio
from typing import Any

import pytest

from konverge.cache.informer import Cache, Caches, Informer
from konverge.cache.store import OWNER_INDEX, Change, ChangeType
from konverge.errors import ApiError, CacheNotSynced, ConnectionFailed
from konverge.model.meta import Key
from konverge.model.resource import ConfigMap, Deployment, Node, Object, Pod, ResourceType
from konverge.model.selectors import Selector
from konverge.ports import Page, Scope
from konverge.testing.fake import FakeApi
from konverge.testing.sim import Sim, simulate
from tests.unit.cache.scripted import ScriptedApi, Silence, Step, Widget, added, deleted, modified, page, pod

A = Key("ns", "a")


def informer_of(sim: Sim, api: ScriptedApi, scope: Scope = Scope(), resource: ResourceType = Pod) -> Informer:  # noqa: B008 - frozen
    return Informer(api, resource, scope, clock=sim.clock, random=sim.random)


async def synced(sim: Sim, api: ScriptedApi, scope: Scope = Scope()) -> Informer:  # noqa: B008 - frozen
    informer = informer_of(sim, api, scope)
    sim.spawn(informer.run())
    await informer.wait_for_sync(10)
    return informer


# Subscribers


@simulate()
async def test_a_subscriber_is_told_of_every_change_with_old_and_new(sim: Sim) -> None:
    first, second = pod("a", 1), pod("a", 11)
    informer = informer_of(sim, ScriptedApi([page(first)], [[modified(second), deleted(pod("a", 12)), Silence(300)]]))
    changes: list[Change] = []
    informer.subscribe(changes.append)
    sim.spawn(informer.run())
    await sim.until(lambda: len(changes) == 3)
    assert changes == [
        Change(ChangeType.ADDED, A, None, first, initial=True),
        Change(ChangeType.UPDATED, A, first, second),
        Change(ChangeType.DELETED, A, second, None),
    ]


@simulate()
async def test_a_late_subscriber_is_told_of_what_is_there_already(sim: Sim) -> None:
    informer = await synced(
        sim, ScriptedApi([page(pod("a"), pod("b"))], [[Silence(5), added(pod("c", 9)), Silence(300)]])
    )
    changes: list[Change] = []
    informer.subscribe(changes.append)
    assert [(c.type.name, c.key.name, c.initial) for c in changes] == [("ADDED", "a", True), ("ADDED", "b", True)]
    await sim.until(lambda: len(changes) == 3)
    assert changes[2] == Change(ChangeType.ADDED, Key("ns", "c"), None, pod("c", 9))


@simulate()
async def test_an_object_made_anew_is_told_as_deleted_then_added(sim: Sim) -> None:
    api = ScriptedApi([page(pod("a", 1, uid="first"))], [[modified(pod("a", 9, uid="second")), Silence(300)]])
    informer = informer_of(sim, api)
    told: list[str] = []
    informer.subscribe(lambda change: told.append(change.type.name))
    sim.spawn(informer.run())
    await sim.until(lambda: told == ["ADDED", "DELETED", "ADDED"])


@simulate()
async def test_a_subscriber_that_raises_does_not_hurt_the_others(sim: Sim, caplog: pytest.LogCaptureFixture) -> None:
    informer = informer_of(sim, ScriptedApi([page(pod("a"), pod("b"))]))
    told: list[str] = []

    def broken(change: Change) -> None:
        raise RuntimeError("broken")

    informer.subscribe(broken)
    informer.subscribe(lambda change: told.append(change.key.name))
    sim.spawn(informer.run())
    await sim.until(lambda: told == ["a", "b"])
    assert "pods: a subscriber failed on ADDED of ns/a" in caplog.text


@simulate()
async def test_a_subscriber_that_writes_does_not_turn_the_order_around_for_the_others(sim: Sim) -> None:
    informer = await synced(sim, ScriptedApi([page()]))

    def writer(change: Change) -> None:
        if change.new == pod("a", 5):
            informer.wrote(pod("a", 6))

    versions: list[str] = []
    informer.subscribe(writer)
    informer.subscribe(lambda change: versions.append((change.new or {})["metadata"]["resourceVersion"]))
    informer.wrote(pod("a", 5))
    assert versions == ["5", "6"]


@simulate()
async def test_a_subscriber_added_by_a_subscriber_hears_each_state_once(sim: Sim) -> None:
    informer = await synced(sim, ScriptedApi([page()]))
    told: list[str] = []

    def host(change: Change) -> None:
        if change.type is ChangeType.ADDED:
            informer.subscribe(lambda change: told.append(change.type.name))

    informer.subscribe(host)
    informer.wrote(pod("a", 5))
    informer.wrote(pod("a", 6))
    assert told == ["ADDED", "UPDATED"]


@simulate()
async def test_who_unsubscribes_is_told_nothing_more(sim: Sim) -> None:
    informer = await synced(sim, ScriptedApi([page(pod("a", 2), version=3)]))
    told: list[str] = []

    def once(change: Change) -> None:
        told.append(change.key.name)
        if change.key.name == "b":
            informer.wrote(pod("c", 8))  # happened before the end, and yet is not told
            end()

    end = informer.subscribe(once)
    informer.wrote(pod("b", 7))
    end()  # a second time: no harm
    assert told == ["a", "b"]


@simulate(seeds=range(3))
async def test_every_ten_hours_or_so_all_is_told_again(sim: Sim) -> None:
    informer = await synced(sim, ScriptedApi([page(pod("a", 2), pod("b", 3), version=3)]))
    told: list[tuple[float, Change]] = []
    informer.subscribe(lambda change: told.append((sim.time, change)))
    assert [change for _, change in told] == [added_initially("a", 2), added_initially("b", 3)]
    told.clear()
    await sim.until(lambda: len(told) == 4, within=80_000, every=60)
    assert [change for _, change in told] == [added_initially("a", 2), added_initially("b", 3)] * 2
    assert all(32_400 <= at <= 39_600 for at, _ in told[:2])
    assert told[2][0] - told[0][0] != told[0][0]


@simulate()
async def test_no_resync_tells_nothing_twice(sim: Sim) -> None:
    api = ScriptedApi([page(pod("a", 2), version=3)])
    informer = Informer(api, Widget, clock=sim.clock, random=sim.random, resync=0)
    sim.spawn(informer.run())
    told: list[Change] = []
    informer.subscribe(told.append)
    await sim.clock.sleep(100_000)
    assert told == [added_initially("a", 2)]


def added_initially(name: str, version: int) -> Change:
    return Change(ChangeType.ADDED, Key("ns", name), None, pod(name, version), initial=True)


# Write-through


@simulate()
async def test_the_next_read_sees_what_was_written_and_the_late_event_is_no_second_change(sim: Sim) -> None:
    api = ScriptedApi([page(version=3)], [[Silence(5), added(pod("a", 5)), added(pod("b", 6)), Silence(300)]])
    informer = await synced(sim, api)
    told: list[str] = []
    informer.subscribe(lambda change: told.append(f"{change.type.name} {change.key.name}"))
    informer.wrote(pod("a", 5))
    assert informer.store.get(A) == pod("a", 5)
    await sim.until(lambda: "ADDED b" in told)
    assert told == ["ADDED a", "ADDED b"]


@simulate()
async def test_a_write_that_returns_after_a_newer_event_changes_nothing(sim: Sim) -> None:
    informer = await synced(sim, ScriptedApi([page(pod("a", 9), version=9)]))
    informer.wrote(pod("a", 8))
    assert informer.store.get(A) == pod("a", 9)


@simulate()
async def test_a_write_is_kept_through_a_list_that_was_taken_before_it(sim: Sim) -> None:
    class SlowApi(ScriptedApi):
        async def list(self, *args: Any, **options: Any) -> Page:
            answer = await super().list(*args, **options)
            await asyncio.sleep(10)
            return answer

    informer = informer_of(sim, SlowApi([page(version=3)]))
    sim.spawn(informer.run())
    await sim.clock.sleep(5)
    informer.wrote(pod("a", 5))
    await informer.wait_for_sync(10)
    assert informer.store.get(A) == pod("a", 5)


@simulate()
async def test_a_removal_of_one_s_own_is_seen_at_once_and_stays(sim: Sim) -> None:
    informer = await synced(sim, ScriptedApi([page(pod("a", 2), version=3)]))
    informer.removed(pod("a", 2))
    assert informer.store.get(A) is None
    informer.wrote(pod("a", 2))
    assert informer.store.get(A) is None


@simulate()
async def test_events_of_before_one_s_own_removal_do_not_bring_it_back(sim: Sim) -> None:
    """It was changed twice between our last look and our DELETE."""
    events: list[Step] = [Silence(5), modified(pod("a", 4)), modified(pod("a", 5)), deleted(pod("a", 6)), Silence(300)]
    informer = await synced(sim, ScriptedApi([page(pod("a", 2), version=3)], [events]))
    told: list[Change] = []
    informer.removed(pod("a", 2))
    informer.subscribe(told.append)
    await sim.clock.sleep(10)
    assert told == []
    assert informer.store.get(A) is None


@simulate()
async def test_a_removal_that_turns_out_to_wait_for_a_finalizer_is_taken_back(sim: Sim) -> None:
    """It was put on between our last look and our DELETE."""
    waits = pod("a", 4, finalizers=["demo.dev/keep"], deletionTimestamp="2026-01-01T00:00:00Z")
    informer = await synced(sim, ScriptedApi([page(pod("a", 2), version=3)], [[Silence(5), modified(waits)]]))
    informer.removed(pod("a", 2))
    assert informer.store.get(A) is None
    await sim.clock.sleep(10)
    assert informer.store.get(A) == waits


@simulate()
async def test_an_object_with_finalizers_stays_until_the_watch_tells(sim: Sim) -> None:
    kept = pod("a", 2, finalizers=["demo.dev/keep"])
    informer = await synced(sim, ScriptedApi([page(kept, version=3)]))
    informer.removed(kept)
    assert informer.store.get(A) == kept


@pytest.mark.parametrize(
    ("scope", "obj", "taken"),
    [
        (Scope("ns"), pod("a", 5), True),
        (Scope("elsewhere"), pod("a", 5), False),
        (Scope(label_selector="app=web"), pod("a", 5, labels={"app": "web"}), True),
        (Scope(label_selector="app=web"), pod("a", 5), False),
        (Scope(field_selector="spec.nodeName=n1"), pod("a", 5), False),
        (Scope(field_selector="spec.nodeName=n1"), pod("held", 5), True),
    ],
)
@simulate()
async def test_a_write_outside_the_scope_is_not_taken_over(sim: Sim, scope: Scope, obj: Object, taken: bool) -> None:
    informer = await synced(sim, ScriptedApi([page(pod("held", 1), version=3)]), scope)
    informer.wrote(obj)
    assert (obj in informer.store.list()) is taken


# Waiting for the first list


def api_error(status: int, message: str = "no") -> ApiError:
    return ApiError.of(status, "Because", message)


@pytest.mark.parametrize(
    ("error", "resource", "scope", "expected"),
    [
        (
            api_error(403, 'User "op" cannot list resource "deployments"'),
            Deployment,
            Scope(),
            (
                'deployments.apps: list and watch are forbidden (User "op" cannot list resource "deployments"). '
                "Add to the rules of the ClusterRole:\n"
                '- apiGroups: ["apps"]\n'
                '  resources: ["deployments"]\n'
                '  verbs: ["get", "list", "watch"]'
            ),
        ),
        (
            api_error(403, "no"),
            Pod,
            Scope("shop"),
            (
                "pods in namespace shop: list and watch are forbidden (no). Add to the rules of the Role in namespace shop:\n"
                '- apiGroups: [""]\n'
            ),
        ),
        (
            api_error(404),
            Widget,
            Scope(),
            (
                "widgets.demo.dev: the API server has no Widget of demo.dev/v1. "
                "Install its CustomResourceDefinition: konverge crds MODULE, then "
                "kubectl apply --server-side -f crds/demo.dev_widgets.yaml"
            ),
        ),
        (api_error(404), Deployment, Scope(), "the API server does not serve apps/v1 Deployment. Check its version"),
        (api_error(401), Pod, Scope(), "pods: the API server does not accept the credentials (no). Renew them"),
        (ConnectionFailed("127.0.0.1:6443 refused"), Pod, Scope(), "pods: 127.0.0.1:6443 refused"),
        (ConnectionFailed(), Pod, Scope(), "pods: ConnectionFailed"),
    ],
)
@simulate()
async def test_a_sync_that_does_not_come_says_why_and_what_to_do(
    sim: Sim, error: Exception, resource: ResourceType, scope: Scope, expected: str
) -> None:
    informer = informer_of(sim, ScriptedApi([error]), scope, resource)
    sim.spawn(informer.run())
    with pytest.raises(CacheNotSynced) as caught:
        await informer.wait_for_sync(30)
    assert str(caught.value).startswith("not synced after 30 s: ")
    assert expected in str(caught.value)


@simulate()
async def test_a_list_that_just_takes_long_is_called_that(sim: Sim) -> None:
    with pytest.raises(CacheNotSynced, match="the first list is still under way"):
        await informer_of(sim, ScriptedApi([page()])).wait_for_sync(1)


@simulate()
async def test_waiting_ends_as_soon_as_the_list_is_there(sim: Sim) -> None:
    informer = informer_of(sim, ScriptedApi([ConnectionFailed("refused"), page()]))
    sim.spawn(informer.run())
    start = sim.time
    await informer.wait_for_sync(3600)
    assert sim.time - start < 10


# Caches


class ByScope:
    """An API that answers each resource and namespace from a table."""

    def __init__(self, objects: dict[tuple[ResourceType, str | None], list[Object]]) -> None:
        self._objects = objects
        self.listed: list[tuple[ResourceType, Scope]] = []
        self._silent = ScriptedApi([page()])

    async def get(self, resource: ResourceType, name: str, namespace: str | None = None) -> Object:
        raise AssertionError("a cache reads by list and watch only")

    async def list(self, resource: ResourceType, scope: Scope = Scope(), **options: Any) -> Page:  # noqa: B008 - frozen
        self.listed.append((resource, scope))
        return page(*self._objects.get((resource, scope.namespace), []), version=10)

    def watch(self, resource: ResourceType, scope: Scope = Scope(), **options: Any) -> Any:  # noqa: B008 - frozen
        return self._silent.watch(resource, scope, **options)


def node(name: str) -> Object:
    return pod(name, namespace="", uid=f"node-{name}")


def two_namespaces() -> ByScope:
    return ByScope(
        {
            (Pod, "one"): [pod("a", namespace="one", labels={"app": "web"})],
            (Pod, "two"): [pod("b", namespace="two", uid="b2")],
            (Pod, None): [pod("everywhere")],
            (Node, None): [node("n1")],
        }
    )


async def pods_of_two_namespaces(sim: Sim) -> Cache:
    caches = Caches(
        two_namespaces(), namespaces=["one", "two", "one"], clock=sim.clock, random=sim.random, watch_list=False
    )
    pods = caches.cache(Pod)
    sim.spawn(caches.run())
    await caches.wait_for_sync(10)
    return pods


def names(objects: list[Object]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


@simulate()
async def test_a_cache_joins_its_namespaces(sim: Sim) -> None:
    pods = await pods_of_two_namespaces(sim)
    assert len(pods.informers) == 2
    assert len(pods) == 2
    assert names(pods.list()) == ["a", "b"]
    assert names(pods.list("two")) == ["b"]
    assert names(pods.list(selector=Selector.parse("app=web"))) == ["a"]
    assert pods.get(Key("one", "a")) == pod("a", namespace="one", labels={"app": "web"})


@simulate()
async def test_a_namespace_that_is_not_covered_is_empty_and_takes_no_writes(sim: Sim) -> None:
    pods = await pods_of_two_namespaces(sim)
    pods.wrote(pod("c", 99, namespace="three"))
    pods.removed(pod("c", 99, namespace="three"))
    assert pods.list("three") == []
    assert pods.get(Key("three", "c")) is None
    assert len(pods) == 2


@simulate()
async def test_writes_indexes_and_subscriptions_span_the_namespaces(sim: Sim) -> None:
    pods = await pods_of_two_namespaces(sim)
    told: list[str] = []
    pods.subscribe(lambda change: told.append(f"{change.type.name} {change.key}"))
    pods.add_index("name", lambda obj: [obj["metadata"]["name"]])
    owners = [{"uid": "u", "controller": True}]
    for namespace in ("one", "two"):
        pods.wrote(pod("c", 99, namespace=namespace, uid=f"c-{namespace}", ownerReferences=owners))
    pods.removed(pod("b", 99, namespace="two", uid="b2"))
    assert told == ["ADDED one/a", "ADDED two/b", "ADDED one/c", "ADDED two/c", "DELETED two/b"]
    assert names(pods.by_index(OWNER_INDEX, "u")) == ["c", "c"]
    assert names(pods.by_index("name", "a")) == ["a"]


@simulate()
async def test_cluster_scoped_resources_have_one_informer_whatever_the_namespaces(sim: Sim) -> None:
    api = two_namespaces()
    caches = Caches(api, namespaces=["one", "two"], clock=sim.clock, random=sim.random, watch_list=False)
    nodes = caches.cache(Node)
    sim.spawn(caches.run())
    await caches.wait_for_sync(10)
    assert nodes.get(Key("", "n1")) == node("n1")
    assert api.listed == [(Node, Scope())]


@simulate()
async def test_without_namespaces_one_informer_covers_the_cluster(sim: Sim) -> None:
    api = two_namespaces()
    caches = Caches(api, clock=sim.clock, random=sim.random, watch_list=False)
    pods = caches.cache(Pod)
    sim.spawn(caches.run())
    await caches.wait_for_sync(10)
    assert names(pods.list("ns")) == ["everywhere"]


@simulate()
async def test_a_cache_is_made_once_for_a_resource_and_its_selectors(sim: Sim) -> None:
    caches = Caches(two_namespaces(), clock=sim.clock, random=sim.random, watch_list=False)
    assert caches.cache(Pod) is caches.cache(Pod)
    labelled = caches.cache(Pod, label_selector="app=web")
    assert labelled is not caches.cache(Pod)
    assert labelled.informers[0].scope == Scope(None, "app=web")


@simulate()
async def test_a_cache_asked_for_later_starts_at_once(sim: Sim) -> None:
    caches = Caches(two_namespaces(), clock=sim.clock, random=sim.random, watch_list=False)
    sim.spawn(caches.run())
    await sim.clock.sleep(1)
    nodes = caches.cache(Node)
    await caches.wait_for_sync(10)
    assert len(nodes) == 1


@simulate()
async def test_cancelling_run_stops_every_informer_and_later_caches_do_not_start(sim: Sim) -> None:
    api = two_namespaces()
    caches = Caches(api, clock=sim.clock, random=sim.random, watch_list=False)
    caches.cache(Pod)
    running = sim.spawn(caches.run())
    await caches.wait_for_sync(10)
    before = asyncio.all_tasks()
    running.cancel()
    await asyncio.wait({running})
    assert len(before - asyncio.all_tasks()) >= 2
    caches.cache(Node)
    await sim.clock.sleep(10)
    assert [resource for resource, _ in api.listed] == [Pod]


@simulate()
async def test_health_covers_every_informer(sim: Sim) -> None:
    caches = Caches(two_namespaces(), namespaces=["one", "two"], clock=sim.clock, random=sim.random, watch_list=False)
    caches.cache(Pod)
    caches.cache(Node)
    assert [health.synced for health in caches.health()] == [False] * 3
    sim.spawn(caches.run())
    await caches.wait_for_sync(10)
    await sim.until(lambda: all(health.healthy for health in caches.health()))
    assert [(health.resource, health.scope.namespace) for health in caches.health()] == [
        (Pod, "one"),
        (Pod, "two"),
        (Node, None),
    ]


@simulate()
async def test_caches_that_do_not_sync_are_all_named(sim: Sim) -> None:
    caches = Caches(ScriptedApi([api_error(403)]), clock=sim.clock, random=sim.random, watch_list=False)
    caches.cache(Pod)
    caches.cache(Widget)
    sim.spawn(caches.run())
    with pytest.raises(CacheNotSynced, match=r"(?s)pods: list and watch.*widgets\.demo\.dev: list and watch"):
        await caches.wait_for_sync(5)


@simulate()
async def test_a_cache_of_metadata_alone_is_another_one_and_holds_no_more(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"big": "x" * 1000}}
    await api.create(ConfigMap, body, "ns")
    caches = Caches(api, clock=sim.clock, random=sim.random)
    whole, lean = caches.cache(ConfigMap), caches.cache(ConfigMap, metadata_only=True)
    assert lean is caches.cache(ConfigMap, metadata_only=True)
    sim.spawn(caches.run())
    await caches.wait_for_sync(5)
    (held,) = lean.list()
    assert held == {name: whole.list()[0][name] for name in ("apiVersion", "kind", "metadata")}
    patched = await api.patch(ConfigMap, "a", {"metadata": {"labels": {"x": "y"}}, "data": {"n": "1"}}, "ns")
    lean.wrote(patched)  # what a write returns is whole
    (held,) = lean.list()
    assert held["metadata"]["labels"] == {"x": "y"}
    assert "data" not in held


@simulate()
async def test_a_cache_that_leaves_fields_out_is_another_one_and_does_not_hold_them(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"big": "x" * 1000, "n": "1"}}
    await api.create(ConfigMap, body, "ns")
    caches = Caches(api, clock=sim.clock, random=sim.random)
    whole, lean = caches.cache(ConfigMap), caches.cache(ConfigMap, left_out=("data.big", "spec.template", "data.n.x"))
    sim.spawn(caches.run())
    await caches.wait_for_sync(5)
    assert whole.list()[0]["data"] == body["data"]
    assert lean.list()[0]["data"] == {"n": "1"}
    patched = await api.patch(ConfigMap, "a", {"data": {"n": "2"}}, "ns")
    lean.wrote(patched)
    assert lean.list()[0]["data"] == {"n": "2"}


@simulate()
async def test_each_pair_of_selectors_has_a_cache_of_its_own(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock)
    for name, tier in (("a", "front"), ("b", "back")):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"tier": tier}}}
        await api.create(ConfigMap, body, "ns")
    caches = Caches(api, clock=sim.clock, random=sim.random)
    front = caches.cache(ConfigMap, label_selector="tier=front")
    named = caches.cache(ConfigMap, field_selector="metadata.name=b")
    sim.spawn(caches.run())
    await caches.wait_for_sync(5)
    assert (names(front.list()), names(named.list())) == (["a"], ["b"])
    await api.patch(ConfigMap, "a", {"metadata": {"labels": {"tier": "back"}}}, "ns")
    await sim.until(lambda: not front.list())
