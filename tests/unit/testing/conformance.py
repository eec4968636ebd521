"""What clients of an API server rely on, as tests that both the fake and the real one must pass.

`tests/unit/testing/test_fake_conformance.py` runs them on the fake, `tests/e2e/test_fake_conformance.py` on the real
server through the real client. Each class that derives from `Conformance` brings the fixtures `api` and `namespace`,
and a server that serves `Widget` as the CRD below says.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import pytest

from konverge.errors import AlreadyExists, ApiError, BadRequest, Conflict, Invalid, NotFound
from konverge.model.meta import annotations_of, finalizers_of, is_newer, owner_reference, resource_version, uid_of
from konverge.model.resource import ConfigMap, Deployment, Lease, Object, Pod, ResourceType
from konverge.ports import INITIAL_EVENTS_END, Api, PatchType, Scope, WatchEvent

Widget: Final = ResourceType("conformance.konverge.dev", "v1", "Widget", "widgets")
_FREE: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
WIDGET_CRD: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.conformance.konverge.dev"},
    "spec": {
        "group": Widget.group,
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _FREE, "status": _FREE}}},
            }
        ],
    },
}

SECONDS: Final = 120.0
"""How long a condition may take. The real garbage collector needs up to 60 s to know of a new CRD."""


async def eventually(condition: Callable[[], Any], seconds: float = SECONDS) -> None:
    """Ask `condition()`, which is a coroutine function, until it is true."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - the server has no event for us
            await asyncio.sleep(0.05)


async def exists(api: Api, resource: ResourceType, name: str, namespace: str) -> bool:
    try:
        await api.get(resource, name, namespace)
    except NotFound:
        return False
    return True


async def take(stream: AsyncIterator[WatchEvent], count: int) -> list[tuple[str, str]]:
    """The next events but bookmarks, as (type, name)."""
    found: list[tuple[str, str]] = []
    async with asyncio.timeout(SECONDS):
        async for event in stream:
            if event.type != "BOOKMARK":
                found.append((event.type, event.object["metadata"]["name"]))
            if len(found) == count:
                break
    return found


def widget(name: str = "w", **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": Widget.api_version,
        "kind": "Widget",
        "metadata": {"name": name} | more.pop("metadata", {}),
        "spec": {"size": 1},
    } | more


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "registry.invalid/none"}]},
    }


class Conformance:
    """See the module."""

    async def test_create_gives_identity_and_drops_status(self, api: Api, namespace: str) -> None:
        made = await api.create(Widget, widget(status={"x": 1}), namespace)
        metadata = made["metadata"]
        assert metadata["uid"]
        assert metadata["creationTimestamp"]
        assert metadata["namespace"] == namespace
        assert metadata["generation"] == 1
        assert "status" not in made
        assert made["apiVersion"] == Widget.api_version
        assert made["kind"] == "Widget"

    async def test_generate_name(self, api: Api, namespace: str) -> None:
        body = {"metadata": {"generateName": "w-"}, "apiVersion": "v1", "kind": "ConfigMap"}
        one, two = await api.create(ConfigMap, body, namespace), await api.create(ConfigMap, body, namespace)
        assert one["metadata"]["name"].startswith("w-")
        assert one["metadata"]["name"] != two["metadata"]["name"]

    async def test_create_refuses_what_exists_and_what_has_no_good_name(self, api: Api, namespace: str) -> None:
        await api.create(ConfigMap, config("a"), namespace)
        with pytest.raises(AlreadyExists) as caught:
            await api.create(ConfigMap, config("a"), namespace)
        assert caught.value.reason == "AlreadyExists"
        with pytest.raises(Invalid):
            await api.create(ConfigMap, config("Not_A_Name"), namespace)
        versioned = config("b")
        versioned["metadata"]["resourceVersion"] = "1"
        with pytest.raises(ApiError) as refused:
            await api.create(ConfigMap, versioned, namespace)
        assert refused.value.status in {400, 500}

    async def test_what_is_absent_is_not_found(self, api: Api, namespace: str) -> None:
        with pytest.raises(NotFound) as caught:
            await api.get(ConfigMap, "absent", namespace)
        assert caught.value.reason == "NotFound"
        assert caught.value.details.get("name") == "absent"
        with pytest.raises(NotFound):
            await api.patch(ConfigMap, "absent", {"data": {}}, namespace)
        with pytest.raises(NotFound):
            await api.delete(ConfigMap, "absent", namespace)

    async def test_generation_counts_spec_changes_only(self, api: Api, namespace: str) -> None:
        await api.create(Widget, widget(), namespace)
        labelled = await api.patch(Widget, "w", {"metadata": {"labels": {"a": "b"}}}, namespace)
        assert labelled["metadata"]["generation"] == 1
        status = await api.patch(Widget, "w", {"status": {"seen": 1}}, namespace, subresource="status")
        assert status["metadata"]["generation"] == 1
        assert status["status"] == {"seen": 1}
        sized = await api.patch(Widget, "w", {"spec": {"size": 2}}, namespace)
        assert sized["metadata"]["generation"] == 2

    async def test_spec_and_status_are_written_apart(self, api: Api, namespace: str) -> None:
        await api.create(Widget, widget(), namespace)
        main = await api.patch(Widget, "w", {"spec": {"size": 2}, "status": {"x": 1}}, namespace)
        assert "status" not in main
        patch = {"spec": {"size": 3}, "status": {"x": 1}, "metadata": {"labels": {"a": "b"}, "finalizers": ["x.io/f"]}}
        status = await api.patch(Widget, "w", patch, namespace, subresource="status")
        assert status["spec"] == {"size": 2}
        assert status["status"] == {"x": 1}
        assert "finalizers" not in status["metadata"]

    async def test_a_patch_that_changes_nothing_changes_no_version(self, api: Api, namespace: str) -> None:
        await api.create(Widget, widget(), namespace)
        before = await api.patch(Widget, "w", {"status": {"a": 1}}, namespace, subresource="status")
        after = await api.patch(Widget, "w", {"status": {"a": 1}}, namespace, subresource="status")
        same = await api.patch(Widget, "w", {"spec": {"size": 1}}, namespace)
        assert resource_version(before) == resource_version(after) == resource_version(same)

    async def test_versions_grow(self, api: Api, namespace: str) -> None:
        first = await api.create(ConfigMap, config("a"), namespace)
        second = await api.create(ConfigMap, config("b"), namespace)
        third = await api.patch(ConfigMap, "a", {"data": {"k": "v"}}, namespace)
        assert is_newer(resource_version(second), resource_version(first))
        assert is_newer(resource_version(third), resource_version(second))

    async def test_a_merge_patch_deletes_with_null(self, api: Api, namespace: str) -> None:
        await api.create(ConfigMap, config("a", x="1", y="2"), namespace)
        patched = await api.patch(ConfigMap, "a", {"data": {"x": None, "z": "3"}}, namespace)
        assert patched["data"] == {"y": "2", "z": "3"}

    async def test_a_replace_is_guarded_by_the_version(self, api: Api, namespace: str) -> None:
        old = await api.create(ConfigMap, config("a", x="1"), namespace)
        new = await api.replace(ConfigMap, "a", {**old, "data": {"x": "2"}}, namespace)
        with pytest.raises(Conflict) as caught:
            await api.replace(ConfigMap, "a", {**old, "data": {"x": "3"}}, namespace)
        assert caught.value.reason == "Conflict"
        assert (await api.get(ConfigMap, "a", namespace))["data"] == {"x": "2"}
        assert resource_version(new) != resource_version(old)

    async def test_a_patch_that_names_a_version_or_uid_is_guarded_by_it(self, api: Api, namespace: str) -> None:
        old = await api.create(ConfigMap, config("a", x="1"), namespace)
        stale = {"metadata": {"resourceVersion": resource_version(old)}, "data": {"x": "3"}}
        assert (await api.patch(ConfigMap, "a", stale, namespace))["data"] == {"x": "3"}
        with pytest.raises(Conflict):
            await api.patch(ConfigMap, "a", {**stale, "data": {"x": "4"}}, namespace)
        with pytest.raises(Invalid):
            await api.patch(ConfigMap, "a", {"metadata": {"uid": "other"}, "data": {"x": "4"}}, namespace)
        other = {**old, "metadata": {"name": "a", "uid": "other"}}
        with pytest.raises(Conflict):
            await api.replace(ConfigMap, "a", other, namespace)

    async def test_a_replace_without_version_is_for_some_resources_only(self, api: Api, namespace: str) -> None:
        await api.create(ConfigMap, config("a", x="1"), namespace)
        assert (await api.replace(ConfigMap, "a", config("a", x="2"), namespace))["data"] == {"x": "2"}
        await api.create(Widget, widget(), namespace)
        with pytest.raises(Invalid, match="must be specified for an update"):
            await api.replace(Widget, "w", widget(), namespace)
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
        await api.create(Lease, lease, namespace)
        with pytest.raises(Invalid, match="must be specified for an update"):
            await api.replace(Lease, "l", lease, namespace)

    async def test_a_document_must_fit_its_request(self, api: Api, namespace: str) -> None:
        made = await api.create(ConfigMap, config("a"), namespace)
        renamed = {**made, "metadata": {**made["metadata"], "name": "b"}}
        with pytest.raises(BadRequest):
            await api.replace(ConfigMap, "a", renamed, namespace)
        with pytest.raises(BadRequest):
            await api.create(ConfigMap, {**config("c"), "kind": "Secret"}, namespace)
        with pytest.raises(BadRequest):
            await api.create(
                ConfigMap,
                {**config("c"), "metadata": {"name": "c", "namespace": "another"}},
                namespace,
            )

    async def test_json_patch(self, api: Api, namespace: str) -> None:
        await api.create(Widget, widget(spec={"list": [1, 2], "a/b": "x"}), namespace)
        patch: list[dict[str, Any]] = [
            {"op": "test", "path": "/spec/list/0", "value": 1},
            {"op": "add", "path": "/spec/list/-", "value": 3},
            {"op": "replace", "path": "/spec/a~1b", "value": "y"},
            {"op": "copy", "from": "/spec/list/2", "path": "/spec/third"},
            {"op": "move", "from": "/spec/list/0", "path": "/spec/first"},
        ]
        patched = await api.patch(Widget, "w", patch, namespace, patch_type=PatchType.JSON)
        assert patched["spec"] == {"list": [2, 3], "a/b": "y", "third": 3, "first": 1}

    async def test_a_json_patch_whose_test_or_path_fails_is_422_and_does_nothing(
        self, api: Api, namespace: str
    ) -> None:
        made = await api.create(Widget, widget(metadata={"finalizers": ["x.io/a", "x.io/b"]}), namespace)
        failing: list[list[dict[str, Any]]] = [
            [
                {"op": "test", "path": "/metadata/finalizers/0", "value": "x.io/b"},
                {"op": "remove", "path": "/metadata/finalizers/0"},
            ],
            [{"op": "remove", "path": "/spec/absent"}],
            [{"op": "test", "path": "/metadata/finalizers/7", "value": "x"}],
        ]
        for patch in failing:
            with pytest.raises(Invalid):
                await api.patch(Widget, "w", patch, namespace, patch_type=PatchType.JSON)
        with pytest.raises(Conflict):
            await api.patch(
                Widget,
                "w",
                [
                    {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"},
                    {"op": "add", "path": "/spec/size", "value": 2},
                ],
                namespace,
                patch_type=PatchType.JSON,
            )
        assert resource_version(await api.get(Widget, "w", namespace)) == resource_version(made)
        await api.patch(Widget, "w", {"metadata": {"finalizers": None}}, namespace)

    async def test_strategic_patches_merge_lists_by_key_and_are_not_for_custom_resources(
        self, api: Api, namespace: str
    ) -> None:
        labels = {"app": "x"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
        }
        await api.create(Deployment, body, namespace)
        patch = {"spec": {"template": {"spec": {"containers": [{"name": "second", "image": "j"}]}}}}
        patched = await api.patch(Deployment, "d", patch, namespace, patch_type=PatchType.STRATEGIC)
        containers = patched["spec"]["template"]["spec"]["containers"]
        assert {c["name"]: c["image"] for c in containers} == {"c": "i", "second": "j"}
        await api.create(Widget, widget(), namespace)
        with pytest.raises(ApiError) as caught:
            await api.patch(Widget, "w", {"spec": {"size": 2}}, namespace, patch_type=PatchType.STRATEGIC)
        assert caught.value.status == 415

    async def test_a_finalizer_holds_a_deletion_until_it_is_taken_off(self, api: Api, namespace: str) -> None:
        await api.create(Widget, widget(metadata={"finalizers": ["x.io/a", "x.io/b"]}), namespace)
        await api.delete(Widget, "w", namespace)
        deleting = await api.get(Widget, "w", namespace)
        assert deleting["metadata"]["deletionTimestamp"]
        assert deleting["metadata"]["generation"] == 2
        await api.delete(Widget, "w", namespace)
        assert resource_version(await api.get(Widget, "w", namespace)) == resource_version(deleting)
        with pytest.raises(Invalid, match="no new finalizers"):
            await api.patch(Widget, "w", {"metadata": {"finalizers": ["x.io/a", "x.io/c"]}}, namespace)
        one_less = await api.patch(Widget, "w", {"metadata": {"finalizers": ["x.io/a"]}}, namespace)
        assert finalizers_of(one_less) == ("x.io/a",)
        await api.patch(Widget, "w", {"metadata": {"finalizers": None}}, namespace)
        assert not await exists(api, Widget, "w", namespace)

    async def test_a_deletion_may_be_bound_to_a_uid(self, api: Api, namespace: str) -> None:
        made = await api.create(ConfigMap, config("a"), namespace)
        with pytest.raises(Conflict):
            await api.delete(ConfigMap, "a", namespace, uid="00000000-0000-0000-0000-000000000000")
        await api.delete(ConfigMap, "a", namespace, uid=uid_of(made))
        assert not await exists(api, ConfigMap, "a", namespace)

    async def test_dependents_of_a_deleted_owner_are_collected(self, api: Api, namespace: str) -> None:
        owner = await api.create(Widget, widget(), namespace)
        child = config("child")
        child["metadata"]["ownerReferences"] = [owner_reference(owner)]
        await api.create(ConfigMap, child, namespace)
        await api.create(ConfigMap, config("bystander"), namespace)
        await api.delete(Widget, "w", namespace)

        async def gone() -> bool:
            return not await exists(api, ConfigMap, "child", namespace)

        await eventually(gone)
        assert await exists(api, ConfigMap, "bystander", namespace)

    async def test_foreground_deletion_takes_dependents_first(self, api: Api, namespace: str) -> None:
        owner = await api.create(Widget, widget(), namespace)
        child = config("child")
        child["metadata"] |= {"ownerReferences": [owner_reference(owner)], "finalizers": ["x.io/hold"]}
        await api.create(ConfigMap, child, namespace)
        await api.delete(Widget, "w", namespace, propagation="Foreground")

        async def child_deleting() -> bool:
            return "deletionTimestamp" in (await api.get(ConfigMap, "child", namespace))["metadata"]

        await eventually(child_deleting)
        waiting = await api.get(Widget, "w", namespace)
        assert finalizers_of(waiting) == ("foregroundDeletion",)
        await api.patch(ConfigMap, "child", {"metadata": {"finalizers": None}}, namespace)

        async def owner_gone() -> bool:
            return not await exists(api, Widget, "w", namespace)

        await eventually(owner_gone)

    async def test_orphaning_deletion_leaves_dependents_without_owner(self, api: Api, namespace: str) -> None:
        owner = await api.create(Widget, widget(), namespace)
        child = config("child")
        child["metadata"]["ownerReferences"] = [owner_reference(owner)]
        await api.create(ConfigMap, child, namespace)
        await api.delete(Widget, "w", namespace, propagation="Orphan")

        async def owner_gone() -> bool:
            return not await exists(api, Widget, "w", namespace)

        await eventually(owner_gone)
        assert "ownerReferences" not in (await api.get(ConfigMap, "child", namespace))["metadata"]

    async def test_lists_come_in_pages_of_one_snapshot(self, api: Api, namespace: str) -> None:
        for n in range(5):
            await api.create(ConfigMap, config(f"c{n}", part="yes") | _labels(f"c{n}", part="yes"), namespace)
        scope = Scope(namespace, label_selector="part=yes")
        first = await api.list(ConfigMap, scope, limit=2)
        await api.create(ConfigMap, _labels("c11", part="yes"), namespace)
        second = await api.list(ConfigMap, scope, limit=2, continue_token=first.continue_token)
        third = await api.list(ConfigMap, scope, limit=2, continue_token=second.continue_token)
        names = [item["metadata"]["name"] for page in (first, second, third) for item in page.items]
        assert names == ["c0", "c1", "c2", "c3", "c4"]
        assert first.resource_version == second.resource_version == third.resource_version
        assert third.continue_token == ""
        assert all(item["kind"] == "ConfigMap" and item["apiVersion"] == "v1" for item in first.items)

    async def test_selectors_choose_what_is_listed(self, api: Api, namespace: str) -> None:
        await api.create(Pod, pod("one"), namespace)
        await api.create(Pod, pod("two"), namespace)
        unbound = await api.list(Pod, Scope(namespace, field_selector="spec.nodeName=,metadata.name!=two"))
        assert [item["metadata"]["name"] for item in unbound.items] == ["one"]
        with pytest.raises(BadRequest, match="field label not supported"):
            await api.list(Pod, Scope(namespace, field_selector="spec.nonsense=x"))

    async def test_a_watch_goes_on_from_a_version(self, api: Api, namespace: str) -> None:
        first = await api.create(ConfigMap, config("a"), namespace)
        await api.patch(ConfigMap, "a", {"data": {"k": "v"}}, namespace)
        await api.create(ConfigMap, config("b"), namespace)
        stream = api.watch(ConfigMap, Scope(namespace), resource_version=resource_version(first), timeout_seconds=60)
        assert await take(stream, 2) == [("MODIFIED", "a"), ("ADDED", "b")]
        await api.delete(ConfigMap, "a", namespace)
        again = api.watch(ConfigMap, Scope(namespace), resource_version=resource_version(first), timeout_seconds=60)
        assert await take(again, 3) == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]

    async def test_a_watch_sees_objects_enter_and_leave_its_selector(self, api: Api, namespace: str) -> None:
        start = await api.create(ConfigMap, _labels("a", on="no"), namespace)
        await api.patch(ConfigMap, "a", {"metadata": {"labels": {"on": "yes"}}}, namespace)
        await api.patch(ConfigMap, "a", {"data": {"k": "v"}}, namespace)
        await api.patch(ConfigMap, "a", {"metadata": {"labels": {"on": "no"}}}, namespace)
        stream = api.watch(
            ConfigMap,
            Scope(namespace, label_selector="on=yes"),
            resource_version=resource_version(start),
            timeout_seconds=60,
        )
        assert await take(stream, 3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]

    async def test_a_watch_ends_by_itself(self, api: Api, namespace: str) -> None:
        start = await api.create(ConfigMap, config("a"), namespace)
        stream = api.watch(ConfigMap, Scope(namespace), resource_version=resource_version(start), timeout_seconds=1)
        assert await take(stream, 1) == []

    async def test_initial_events_come_first_and_end_with_a_bookmark(self, api: Api, namespace: str) -> None:
        for name in ("b", "a"):
            await api.create(ConfigMap, _labels(name, mine="yes"), namespace)
        await api.create(ConfigMap, _labels("other"), namespace)
        newest = resource_version(await api.create(Widget, widget(), namespace))
        scope = Scope(namespace, label_selector="mine=yes")
        stream = api.watch(ConfigMap, scope, resource_version="", timeout_seconds=60, initial_events=True)
        seen: list[tuple[str, str]] = []
        async with asyncio.timeout(SECONDS):
            async for event in stream:
                if event.type == "BOOKMARK":
                    assert annotations_of(event.object) == {INITIAL_EVENTS_END: "true"}
                    assert not is_newer(newest, resource_version(event.object))
                    break
                seen.append((event.type, event.object["metadata"]["name"]))
            assert sorted(seen) == [("ADDED", "a"), ("ADDED", "b")]
            await api.delete(ConfigMap, "a", namespace)
            assert await take(stream, 1) == [("DELETED", "a")]

    async def test_metadata_alone(self, api: Api, namespace: str) -> None:
        await api.create(Widget, widget(), namespace)
        await api.patch(Widget, "w", {"status": {"x": 1}}, namespace, subresource="status")
        scope = Scope(namespace, metadata_only=True)
        whole, lean = await api.list(Widget, Scope(namespace)), await api.list(Widget, scope)
        assert list(lean.items) == [{name: whole.items[0][name] for name in ("apiVersion", "kind", "metadata")}]
        stream = api.watch(Widget, scope, resource_version=lean.resource_version, timeout_seconds=60)
        await api.patch(Widget, "w", {"spec": {"size": 2}}, namespace)
        await api.delete(Widget, "w", namespace)
        async with asyncio.timeout(SECONDS):
            changed, gone = [await anext(stream) for _ in range(2)]
        assert (changed.type, gone.type) == ("MODIFIED", "DELETED")
        for event in (changed, gone):
            assert event.object.keys() == {"apiVersion", "kind", "metadata"}
            assert event.object["kind"] == "Widget"
            assert event.object["metadata"]["generation"] == 2

    async def test_apply_creates_merges_and_takes_back_what_it_names_no_more(self, api: Api, namespace: str) -> None:
        one = await _apply(api, namespace, "m", spec={"a": 1, "nested": {"b": 2, "c": 3}, "list": [1, 2]})
        assert one["metadata"]["generation"] == 1
        await api.patch(Widget, "w", {"spec": {"other": 9}}, namespace, field_manager="person")
        two = await _apply(api, namespace, "m", spec={"a": 1, "nested": {"b": 2}, "list": [3]})
        assert two["spec"] == {"a": 1, "nested": {"b": 2}, "list": [3], "other": 9}

    async def test_an_apply_that_says_the_same_changes_no_version(self, api: Api, namespace: str) -> None:
        first = await _apply(api, namespace, "m", spec={"a": 1}, labels={"x": "y"})
        again = await _apply(api, namespace, "m", spec={"a": 1}, labels={"x": "y"})
        assert resource_version(first) == resource_version(again)

    async def test_apply_conflicts_unless_forced_and_then_owns_the_field(self, api: Api, namespace: str) -> None:
        await _apply(api, namespace, "m", spec={"a": 1, "b": 1})
        with pytest.raises(Conflict, match=r"\.spec\.a") as caught:
            await _apply(api, namespace, "n", force=False, spec={"a": 2})
        assert [c["reason"] for c in caught.value.details["causes"]] == ["FieldManagerConflict"]
        shared = await _apply(api, namespace, "n", force=False, spec={"b": 1})
        assert shared["spec"] == {"a": 1, "b": 1}
        forced = await _apply(api, namespace, "n", spec={"a": 2, "b": 1})
        assert forced["spec"] == {"a": 2, "b": 1}
        dropped = await _apply(api, namespace, "m", spec={})
        assert dropped["spec"] == {"a": 2, "b": 1}

    async def test_a_field_that_a_person_edited_is_theirs_until_forced(self, api: Api, namespace: str) -> None:
        await _apply(api, namespace, "m", spec={"a": 1})
        await api.patch(Widget, "w", {"spec": {"a": 5}}, namespace, field_manager="person")
        with pytest.raises(Conflict, match="person"):
            await _apply(api, namespace, "m", force=False, spec={"a": 1})
        assert (await _apply(api, namespace, "m", spec={"a": 1}))["spec"] == {"a": 1}

    async def test_apply_shares_associative_lists(self, api: Api, namespace: str) -> None:
        for manager, name in (("m", "x.io/a"), ("n", "x.io/b")):
            body = widget(metadata={"finalizers": [name]})
            await api.apply(Widget, "w", body, namespace, field_manager=manager)
        both = await api.get(Widget, "w", namespace)
        assert set(finalizers_of(both)) == {"x.io/a", "x.io/b"}
        await api.apply(Widget, "w", widget(), namespace, field_manager="m")
        assert finalizers_of(await api.get(Widget, "w", namespace)) == ("x.io/b",)
        await api.patch(Widget, "w", {"metadata": {"finalizers": None}}, namespace)

    async def test_a_dry_run_leaves_no_trace(self, api: Api, namespace: str) -> None:
        await _apply(api, namespace, "m", dry_run=True, spec={"a": 1})
        assert not await exists(api, Widget, "w", namespace)
        before = await _apply(api, namespace, "m", spec={"a": 1})
        shown = await _apply(api, namespace, "m", dry_run=True, spec={"a": 2})
        assert shown["spec"] == {"a": 2}
        assert resource_version(await api.get(Widget, "w", namespace)) == resource_version(before)

    async def test_apply_of_a_status_touches_nothing_else(self, api: Api, namespace: str) -> None:
        await _apply(api, namespace, "m", spec={"a": 1})
        body = {"apiVersion": Widget.api_version, "kind": "Widget", "metadata": {"name": "w"}, "status": {"x": 1}}
        written = await api.apply(Widget, "w", body, namespace, field_manager="m", subresource="status")
        assert written["status"] == {"x": 1}
        assert written["spec"] == {"a": 1}
        assert written["metadata"]["generation"] == 1

    async def test_binding_places_a_pod_once(self, api: Api, namespace: str) -> None:
        made = await api.create(Pod, pod("p"), namespace)
        assert made["status"]["phase"] == "Pending"

        def binding(node: str, uid: str = "", name: str = "p") -> Object:
            metadata = {"name": name, "namespace": namespace} | ({"uid": uid} if uid else {})
            return {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": metadata,
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            }

        other = "00000000-0000-0000-0000-000000000000"
        with pytest.raises(Conflict):
            await api.create(Pod, binding("node-x", other), namespace, name="p", subresource="binding")
        await api.create(Pod, binding("node-x", uid_of(made)), namespace, name="p", subresource="binding")
        bound = await api.get(Pod, "p", namespace)
        assert bound["spec"]["nodeName"] == "node-x"
        assert [c["status"] for c in bound["status"]["conditions"] if c["type"] == "PodScheduled"] == ["True"]
        with pytest.raises(Conflict, match="already assigned"):
            await api.create(Pod, binding("node-y"), namespace, name="p", subresource="binding")
        with pytest.raises(NotFound):
            await api.create(Pod, binding("node-y", name="absent"), namespace, name="absent", subresource="binding")
        with pytest.raises(BadRequest):
            await api.create(Pod, binding("node-y", name="another"), namespace, name="p", subresource="binding")

    async def test_an_eviction_deletes_the_pod(self, api: Api, namespace: str) -> None:
        def eviction(name: str) -> Object:
            return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}

        await api.create(Pod, pod("p"), namespace)
        await api.create(Pod, eviction("p"), namespace, name="p", subresource="eviction")

        async def gone() -> bool:
            return not await exists(api, Pod, "p", namespace)

        await eventually(gone)
        with pytest.raises(NotFound):
            await api.create(Pod, eviction("absent"), namespace, name="absent", subresource="eviction")


async def _apply(
    api: Api,
    namespace: str,
    manager: str,
    *,
    spec: dict[str, Any],
    labels: dict[str, str] | None = None,
    force: bool = True,
    dry_run: bool = False,
) -> Object:
    body = widget(spec=spec, metadata={"labels": labels} if labels else {})
    return await api.apply(Widget, "w", body, namespace, field_manager=manager, force=force, dry_run=dry_run)


def _labels(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}
