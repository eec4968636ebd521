"""The fake API server beyond what it shares with the real one: its history, its hooks, its log, its watches."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from konverge.errors import ApiError, BadRequest, Conflict, Gone, Invalid, NotFound, ServerError
from konverge.model.meta import owner_reference, resource_version
from konverge.model.resource import ConfigMap, Namespace, Node, Object, Pod, ResourceType, Secret
from konverge.ports import Api, PatchType, Scope, WatchEvent
from konverge.testing.fake import FakeApi, Faults, Traits, gone
from konverge.testing.sim import Sim, simulate
from tests.unit.testing.conformance import Widget, config, pod, widget


def fresh(sim: Sim, **options: Any) -> FakeApi:
    return FakeApi(clock=sim.clock, random=sim.random, **options)


async def collect(stream: AsyncIterator[WatchEvent]) -> list[tuple[str, str]]:
    return [(event.type, event.object["metadata"].get("name", "")) async for event in stream]


def test_it_has_all_that_the_port_names() -> None:
    api: Api = FakeApi()
    assert all(hasattr(api, name) for name in ("get", "list", "watch", "create", "apply", "patch", "replace", "delete"))


@simulate()
async def test_what_a_client_holds_is_its_own(sim: Sim) -> None:
    api = fresh(sim)
    body = config("a", k="v")
    made = await api.create(ConfigMap, body, "default")
    body["data"]["k"] = "changed"
    assert isinstance(made, dict)
    made["data"]["k"] = "changed"
    assert (await api.get(ConfigMap, "a", "default"))["data"] == {"k": "v"}


@simulate()
async def test_what_json_cannot_carry_is_a_type_error(sim: Sim) -> None:
    with pytest.raises(TypeError, match="cannot be sent as JSON"):
        await fresh(sim).create(ConfigMap, {"metadata": {"name": "a"}, "data": {"k": {1, 2}}}, "default")


@simulate()
async def test_mappings_and_tuples_are_json_too(sim: Sim) -> None:
    class Frozen(Mapping[str, Any]):
        def __getitem__(self, key: str) -> Any:
            return {"list": (1, 2)}[key]

        def __iter__(self) -> Any:
            return iter(["list"])

        def __len__(self) -> int:
            return 1

    made = await fresh(sim).create(Widget, widget(spec=Frozen()), "default")
    assert made["spec"] == {"list": [1, 2]}


@simulate()
async def test_history_has_a_window(sim: Sim) -> None:
    api = fresh(sim, history=3)
    first = await api.create(ConfigMap, config("a"), "default")
    for n in range(3):
        await api.patch(ConfigMap, "a", {"data": {"n": str(n)}}, "default")
    stream = api.watch(ConfigMap, resource_version=resource_version(first), timeout_seconds=1)
    assert await collect(stream) == [("MODIFIED", "a")] * 3
    await api.patch(ConfigMap, "a", {"data": {"n": "3"}}, "default")
    with pytest.raises(Gone):
        await collect(api.watch(ConfigMap, resource_version=resource_version(first), timeout_seconds=1))


@simulate()
async def test_compaction_makes_old_versions_and_tokens_gone(sim: Sim) -> None:
    api = fresh(sim)
    for name in "abc":
        await api.create(ConfigMap, config(name), "default")
    page = await api.list(ConfigMap, limit=2)
    api.compact()
    with pytest.raises(Gone):
        await collect(api.watch(ConfigMap, resource_version=page.resource_version, timeout_seconds=1))
    with pytest.raises(Gone):
        await api.list(ConfigMap, limit=2, continue_token=page.continue_token)
    with pytest.raises(Gone):
        await api.list(ConfigMap, limit=2, continue_token="nonsense")
    with pytest.raises(Gone):
        await collect(api.watch(ConfigMap, resource_version="5", timeout_seconds=1))
    now = (await api.list(ConfigMap)).resource_version
    assert await collect(api.watch(ConfigMap, resource_version=now, timeout_seconds=1)) == []


@simulate()
async def test_versions_of_the_future_or_that_are_none_are_refused(sim: Sim) -> None:
    api = fresh(sim)
    with pytest.raises(ServerError, match="Too large resource version"):
        await api.list(ConfigMap, resource_version="99999")
    with pytest.raises(BadRequest):
        await collect(api.watch(ConfigMap, resource_version="x", timeout_seconds=1))


@simulate()
async def test_a_watch_without_version_begins_with_what_is_there(sim: Sim) -> None:
    api = fresh(sim)
    for name in "ba":
        await api.create(ConfigMap, config(name), "default")
    await api.create(ConfigMap, config("c"), "elsewhere")
    stream = api.watch(ConfigMap, Scope("default"), resource_version="0", timeout_seconds=1)
    assert await collect(stream) == [("ADDED", "a"), ("ADDED", "b")]


@simulate()
async def test_bookmarks_come_when_nothing_happens_and_can_be_resumed_from(sim: Sim) -> None:
    api = fresh(sim, bookmark_seconds=10)
    await api.create(Secret, {"metadata": {"name": "s"}}, "default")
    events = [e async for e in api.watch(ConfigMap, resource_version="1000", timeout_seconds=35)]
    assert [event.type for event in events] == ["BOOKMARK"] * 3
    assert events[0].object["kind"] == "ConfigMap"
    resumed = api.watch(ConfigMap, resource_version=resource_version(events[0].object), timeout_seconds=1)
    assert await collect(resumed) == []


@simulate()
async def test_watches_can_be_ended_and_silenced(sim: Sim) -> None:
    api = fresh(sim)

    def watching() -> asyncio.Task[list[tuple[str, str]]]:
        return asyncio.create_task(collect(api.watch(ConfigMap, resource_version="1000", timeout_seconds=30)))

    ended, unaffected = (
        watching(),
        asyncio.create_task(collect(api.watch(Pod, resource_version="1000", timeout_seconds=30))),
    )
    await sim.clock.sleep(1)
    assert api.end_watches(ConfigMap) == 1
    assert await ended == []
    broken = watching()
    await sim.clock.sleep(1)
    api.end_watches(ConfigMap, gone("too old"))
    with pytest.raises(Gone):
        await broken
    silent = watching()
    await sim.clock.sleep(1)
    begun = sim.time
    assert api.silence_watches(ConfigMap) == 1
    await api.create(ConfigMap, config("a"), "default")
    assert await silent == []
    assert sim.time - begun > 30
    assert await unaffected == []


@simulate()
async def test_a_resource_can_go_and_come_back(sim: Sim) -> None:
    api = fresh(sim)
    await api.create(Widget, widget(), "default")
    events = asyncio.create_task(collect(api.watch(Widget, resource_version="0", timeout_seconds=300)))
    await sim.clock.sleep(1)
    api.uninstall(Widget)
    assert await events == [("ADDED", "w")]
    with pytest.raises(NotFound, match="could not find the requested resource"):
        await api.list(Widget)
    api.install(Widget)
    assert (await api.list(Widget)).items == []


@simulate()
async def test_a_resource_without_status_can_be_declared(sim: Sim) -> None:
    api = fresh(sim)
    api.install(Widget, Traits(status=False, generation=False))
    made = await api.create(Widget, widget(status={"x": 1}), "default")
    assert made["status"] == {"x": 1}
    assert "generation" not in made["metadata"]
    with pytest.raises(NotFound):
        await api.patch(Widget, "w", {"status": {}}, "default", subresource="status")


@simulate()
async def test_hooks_default_normalise_and_refuse(sim: Sim) -> None:
    api = fresh(sim)

    def hook(verb: str, resource: ResourceType, new: dict[str, Any], old: Object | None) -> None:
        if resource == Widget and new["spec"].get("cpu") == "1000m":
            new["spec"]["cpu"] = "1"
        if resource == Widget and new["spec"].get("size", 0) > 9:
            raise ApiError.of(422, "Invalid", "spec.size: must not be above 9")

    api.admission.append(hook)
    made = await api.create(Widget, widget(spec={"cpu": "1000m"}), "default")
    assert made["spec"] == {"cpu": "1"}
    same = await api.patch(Widget, "w", {"spec": {"cpu": "1000m"}}, "default")
    assert resource_version(same) == resource_version(made)
    with pytest.raises(Invalid, match="above 9"):
        await api.patch(Widget, "w", {"spec": {"size": 10}}, "default")
    assert not api.writes[-1].changed


@simulate()
async def test_the_log_tells_who_wrote_what_and_whether_it_changed_anything(sim: Sim) -> None:
    api = fresh(sim)
    second = api.client("second")
    await api.create(ConfigMap, config("a"), "default")
    await second.patch(ConfigMap, "a", {"data": {"k": "v"}}, "default")
    await second.patch(ConfigMap, "a", {"data": {"k": "v"}}, "default")
    await second.get(ConfigMap, "a", "default")
    with pytest.raises(NotFound):
        await second.delete(ConfigMap, "b", "default")
    assert [(w.user, w.verb, w.name, w.changed) for w in api.writes] == [
        ("client", "create", "a", True),
        ("second", "patch", "a", True),
        ("second", "patch", "a", False),
    ]
    assert [r.verb for r in api.requests] == ["create", "patch", "patch", "get", "delete"]
    assert isinstance(api.requests[-1].error, NotFound)
    assert api.writes[1].body == {"data": {"k": "v"}}
    (stored,) = api.objects(ConfigMap)
    assert [(f["manager"], f["operation"]) for f in stored["metadata"]["managedFields"]] == [("second", "Update")]


@simulate()
async def test_field_managers_are_shown_as_the_api_does(sim: Sim) -> None:
    api = fresh(sim)
    body = pod("p")
    body["metadata"]["finalizers"] = ["x.io/f"]
    body["spec"]["containers"][0]["ports"] = [{"containerPort": 80}]
    made = await api.apply(Pod, "p", body, "default", field_manager="m")
    (entry,) = made["metadata"]["managedFields"]
    assert entry["manager"] == "m"
    assert entry["operation"] == "Apply"
    assert entry["fieldsV1"] == {
        "f:metadata": {"f:finalizers": {'v:"x.io/f"': {}}},
        "f:spec": {
            "f:containers": {
                'k:{"name":"c"}': {
                    ".": {},
                    "f:image": {},
                    "f:name": {},
                    "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
                }
            },
            "f:schedulerName": {},
        },
    }
    status = await api.patch(Pod, "p", {"status": {"phase": "Running"}}, "default", subresource="status")
    assert [f.get("subresource") for f in status["metadata"]["managedFields"]] == [None, "status"]


@simulate()
async def test_apply_takes_back_the_item_of_a_list_but_not_what_others_hold_in_it(sim: Sim) -> None:
    api = fresh(sim)

    async def apply(manager: str, *containers: dict[str, Any]) -> list[Any]:
        body = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": list(containers)}}
        applied = await api.apply(Pod, "p", body, "default", field_manager=manager)
        found: list[Any] = applied["spec"].get("containers", [])
        return found

    await apply("m", {"name": "a", "image": "i"}, {"name": "b", "image": "i"})
    await apply("n", {"name": "b", "env": [{"name": "X", "value": "1"}]})
    assert await apply("m") == [{"name": "b", "env": [{"name": "X", "value": "1"}]}]
    assert await apply("n") == []


@simulate()
async def test_an_apply_must_say_what_it_is(sim: Sim) -> None:
    api = fresh(sim)
    with pytest.raises(BadRequest, match="apiVersion v1 and kind ConfigMap"):
        await api.apply(ConfigMap, "a", {"data": {}}, "default", field_manager="m")
    with pytest.raises(Invalid):
        await api.apply(ConfigMap, "Bad_Name", config("Bad_Name"), "default", field_manager="m")
    stale = config("a")
    stale["metadata"]["resourceVersion"] = "1"
    with pytest.raises(Conflict):
        await api.apply(ConfigMap, "a", stale, "default", field_manager="m")
    status = {"apiVersion": Widget.api_version, "kind": "Widget", "status": {"x": 1}}
    with pytest.raises(NotFound):
        await api.apply(Widget, "w", status, "default", field_manager="m", subresource="status")


@simulate()
async def test_requests_that_make_no_sense_are_bad(sim: Sim) -> None:
    api = fresh(sim)
    with pytest.raises(BadRequest, match="namespace"):
        await api.create(ConfigMap, config("a"))
    with pytest.raises(Invalid, match="name or generateName"):
        await api.create(ConfigMap, {"metadata": {}}, "default")
    with pytest.raises(BadRequest):
        await api.list(ConfigMap, Scope(label_selector="a=("))
    with pytest.raises(BadRequest, match="invalid selector"):
        await api.list(ConfigMap, Scope(field_selector="metadata.name"))
    await api.create(Pod, pod("p"), "default")
    with pytest.raises(NotFound):
        await api.create(Pod, {}, "default", name="p", subresource="attach")
    with pytest.raises(Invalid, match="name of a Node"):
        await api.create(Pod, {"target": {"kind": "Pod", "name": "x"}}, "default", name="p", subresource="binding")
    with pytest.raises(BadRequest, match=r"\$ directives"):
        await api.patch(Pod, "p", {"spec": {"$patch": "replace"}}, "default", patch_type=PatchType.STRATEGIC)
    with pytest.raises(BadRequest, match="unknown operation"):
        await api.patch(Pod, "p", [{"op": "jump", "path": "/a"}], "default", patch_type=PatchType.JSON)


@simulate()
async def test_strategic_patches_delete_with_null(sim: Sim) -> None:
    api = fresh(sim)
    await api.create(Node, {"metadata": {"name": "n", "labels": {"a": "1", "b": "2"}}, "spec": {"unschedulable": True}})
    patch = {"metadata": {"labels": {"a": None}}, "spec": {"unschedulable": None, "podCIDR": "10.0.0.0/24"}}
    patched = await api.patch(Node, "n", patch, patch_type=PatchType.STRATEGIC)
    assert patched["metadata"]["labels"] == {"b": "2"}
    assert patched["spec"] == {"podCIDR": "10.0.0.0/24"}


@simulate()
async def test_cluster_scoped_objects_have_no_namespace(sim: Sim) -> None:
    api = fresh(sim)
    made = await api.create(Namespace, {"metadata": {"name": "n"}}, "ignored")
    assert "namespace" not in made["metadata"]
    nodes = [{"metadata": {"name": n}, "spec": {"unschedulable": n == "b"}} for n in "ab"]
    for node in nodes:
        await api.create(Node, node)
    page = await api.list(Node, Scope("ignored", field_selector="spec.unschedulable==true"))
    assert [item["metadata"]["name"] for item in page.items] == ["b"]


@simulate()
async def test_a_pod_that_is_deleting_or_gated_is_not_bound(sim: Sim) -> None:
    api = fresh(sim)
    gated = pod("gated")
    gated["spec"]["schedulingGates"] = [{"name": "x.io/wait"}]
    await api.create(Pod, gated, "default")
    held = pod("held")
    held["metadata"]["finalizers"] = ["x.io/hold"]
    await api.create(Pod, held, "default")
    await api.delete(Pod, "held", "default")
    binding = {"target": {"name": "n"}, "metadata": {"annotations": {"why": "best"}}}
    for name, why in (("gated", "schedulingGates"), ("held", "being deleted")):
        with pytest.raises(Conflict, match=why):
            await api.create(Pod, binding, "default", name=name, subresource="binding")
    await api.create(Pod, pod("free"), "default")
    await api.create(Pod, binding, "default", name="free", subresource="binding")
    assert (await api.get(Pod, "free", "default"))["metadata"]["annotations"] == {"why": "best"}


@simulate(seeds=range(3))
async def test_children_of_an_owner_that_never_was_are_collected_and_shared_ones_stay(sim: Sim) -> None:
    api = fresh(sim)
    owner = await api.create(Widget, widget(), "default")
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "none"}
    for name, owners in (("orphan", [ghost]), ("shared", [ghost, owner_reference(owner)])):
        await api.create(ConfigMap, {"metadata": {"name": name, "ownerReferences": owners}}, "default")
    assert len(api.objects(ConfigMap)) == 2
    await sim.clock.sleep(1)
    assert [obj["metadata"]["name"] for obj in api.objects(ConfigMap)] == ["shared"]
    grandchild = {"name": "deep", "ownerReferences": [owner_reference(api.objects(ConfigMap)[0])]}
    await api.create(Secret, {"metadata": grandchild}, "default")
    await api.delete(Widget, "w", "default", propagation="Foreground")
    await sim.clock.sleep(5)
    assert not api.objects(Widget)
    assert not api.objects(ConfigMap)
    assert not api.objects(Secret)


@simulate()
async def test_without_a_kubelet_a_deleted_pod_is_gone(sim: Sim) -> None:
    api = fresh(sim, faults=Faults())
    await api.create(Pod, pod("p"), "default")
    await api.delete(Pod, "p", "default")
    assert api.objects(Pod) == []
