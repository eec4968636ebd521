"""Roles hold what the framework does for the declared kinds, and nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.errors import ModelError
from konverge.model.rbac import Access, Declaration, leader_election_role, roles, user_roles
from konverge.model.resource import ConfigMap, Deployment, Node, Pod, ResourceType, Secret, Service

WEB = ResourceType("demo.example.dev", "v1", "Web", "webs")
POLICY = ResourceType("demo.example.dev", "v1", "Policy", "policies", namespaced=False)
KINDS = st.lists(st.sampled_from([ConfigMap, Deployment, Node, Pod, Secret, Service]), max_size=4).map(tuple)


def verbs(role: dict[str, Any], group: str, resource: str) -> list[str]:
    """What a role allows on a resource; each stands in one rule."""
    [found] = [r["verbs"] for r in role["rules"] if group in r["apiGroups"] and resource in r["resources"]] or [[]]
    assert isinstance(found, list)
    return found


class TestACustomResource:
    def test_is_read_and_its_status_written(self) -> None:
        [role] = roles("web", [Declaration(WEB)])
        assert role["kind"] == "ClusterRole"
        assert role["metadata"] == {"name": "web"}
        assert role["rules"] == [
            {"apiGroups": ["demo.example.dev"], "resources": ["webs"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["demo.example.dev"], "resources": ["webs/finalizers"], "verbs": ["update"]},
            {"apiGroups": ["demo.example.dev"], "resources": ["webs/status"], "verbs": ["update", "patch"]},
            {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        ]

    def test_itself_is_patched_only_to_hold_a_finalizer(self) -> None:
        [role] = roles("web", [Declaration(WEB, uses_finalizer=True)])
        assert verbs(role, "demo.example.dev", "webs") == ["get", "list", "watch", "patch"]


class TestOtherKinds:
    def test_that_are_owned_are_written(self) -> None:
        [role] = roles("web", [Declaration(WEB, owns=(Deployment,))])
        assert verbs(role, "apps", "deployments") == ["get", "list", "watch", "create", "patch", "delete"]

    def test_that_are_watched_or_read_are_not(self) -> None:
        [role] = roles("web", [Declaration(WEB, watches=(Secret,), reads=(Node,))])
        assert verbs(role, "", "secrets") == verbs(role, "", "nodes") == ["get", "list", "watch"]

    def test_that_several_declare_are_joined(self) -> None:
        [role] = roles("web", [Declaration(WEB, reads=(Secret,)), Declaration(POLICY, owns=(Secret,))])
        assert verbs(role, "", "secrets") == ["get", "list", "watch", "create", "patch", "delete"]

    def test_can_be_reached_beyond_that_by_name(self) -> None:
        binding = Access(Pod, ("create",), "binding")
        [role] = roles("web", [Declaration(WEB, extra=(binding,))])
        assert verbs(role, "", "pods/binding") == ["create"]
        assert verbs(role, "", "pods") == []

    @pytest.mark.parametrize(
        ("resource", "verb", "subresource"),
        [
            (Pod, "*", ""),
            (Pod, "get", "*"),
            (Pod, "impersonate", ""),
            (ResourceType("*", "v1", "X", "x"), "get", ""),
            (ResourceType("x.dev", "v1", "X", "*"), "get", ""),
            (ResourceType("rbac.authorization.k8s.io", "v1", "Role", "roles"), "escalate", ""),
        ],
    )
    def test_are_never_reached_by_a_wildcard_or_in_another_name(
        self, resource: ResourceType, verb: str, subresource: str
    ) -> None:
        with pytest.raises(ModelError, match="gives more than it says; name what is needed"):
            Access(resource, (verb,), subresource)


class TestNamespaces:
    def test_get_a_role_each_and_no_cluster_role(self) -> None:
        found = roles("web", [Declaration(WEB, owns=(Deployment,))], namespaces=["b", "a"])
        assert [(role["kind"], role["metadata"]) for role in found] == [
            ("Role", {"name": "web", "namespace": "a"}),
            ("Role", {"name": "web", "namespace": "b"}),
        ]

    def test_leave_cluster_scoped_kinds_to_a_cluster_role(self) -> None:
        found = roles("web", [Declaration(WEB, reads=(Node,))], namespaces=["a"])
        cluster = found[0]
        assert cluster["kind"] == "ClusterRole"
        assert cluster["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}]

    def test_let_events_of_cluster_scoped_objects_be_written_where_they_go(self) -> None:
        found = roles("policy", [Declaration(POLICY)], namespaces=["a"])
        by_namespace = {role["metadata"].get("namespace"): role for role in found}
        assert verbs(by_namespace["default"], "events.k8s.io", "events") == ["create", "patch"]

    def test_that_are_not_asked_for_get_no_rights_but_for_those_events(self) -> None:
        found = roles("policy", [Declaration(POLICY), Declaration(WEB, owns=(Secret,))], namespaces=["a"])
        by_namespace = {role["metadata"].get("namespace"): role for role in found}
        assert [rule["resources"] for rule in by_namespace["default"]["rules"]] == [["events"]]


def test_replicas_hold_their_lease_in_the_operators_namespace() -> None:
    assert leader_election_role("web", "system") == {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "web-leader-election", "namespace": "system"},
        "rules": [
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "verbs": ["get", "create", "update", "patch"],
            }
        ],
    }


class TestPeople:
    def test_get_three_roles_a_kind_that_join_the_cluster_s_own(self) -> None:
        found = user_roles("web", WEB)
        label = "rbac.authorization.k8s.io/aggregate-to-"
        assert [role["metadata"] for role in found] == [
            {"name": "web-web-admin", "labels": {f"{label}admin": "true"}},
            {"name": "web-web-editor", "labels": {f"{label}edit": "true"}},
            {"name": "web-web-viewer", "labels": {f"{label}view": "true"}},
        ]

    def test_look_edit_and_rule_and_never_write_a_status(self) -> None:
        admin, editor, viewer = user_roles("web", WEB)
        looking = ["get", "list", "watch"]
        assert verbs(viewer, WEB.group, "webs") == looking
        assert verbs(editor, WEB.group, "webs") == [*looking, "create", "update", "patch", "delete"]
        assert verbs(admin, WEB.group, "webs") == [*looking, "create", "update", "patch", "delete", "deletecollection"]
        for role in (admin, editor, viewer):
            assert verbs(role, WEB.group, "webs/status") == ["get"]
            assert verbs(role, WEB.group, "webs/scale") == []

    def test_scale_where_there_is_something_to_scale(self) -> None:
        admin, editor, viewer = user_roles("web", WEB, scale=True)
        assert verbs(viewer, WEB.group, "webs/scale") == ["get"]
        assert (
            verbs(editor, WEB.group, "webs/scale")
            == verbs(admin, WEB.group, "webs/scale")
            == ["get", "update", "patch"]
        )

    def test_of_one_namespace_do_not_edit_what_is_for_all(self) -> None:
        assert all("labels" not in role["metadata"] for role in user_roles("web", POLICY))


@given(owns=KINDS, watches=KINDS, reads=KINDS)
def test_no_order_of_declarations_changes_a_role(
    owns: tuple[ResourceType, ...], watches: tuple[ResourceType, ...], reads: tuple[ResourceType, ...]
) -> None:
    first = Declaration(WEB, owns, watches, reads)
    second = Declaration(POLICY, reads, owns, watches)
    backwards = Declaration(WEB, owns[::-1], watches[::-1], reads[::-1])
    assert roles("web", [first, second]) == roles("web", [second, backwards])
