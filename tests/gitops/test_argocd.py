"""Argo CD, the real one, takes Konverge from a git repository into an empty cluster, keeps it there and takes it away.

Each test leaves the cluster as it found it, but the last.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.e2e.kubectl import until
from tests.gitops.argo import health_in
from tests.gitops.fields import owned, shared
from tests.gitops.journal import Write
from tests.gitops.manifests import key_of, wave_of
from tests.gitops.page import section
from tests.gitops.world import OPERATOR_USER, World, is_argo

DATABASE, POLICY = "databases.data.konverge.dev/orders", "schedulingpolicies.scheduling.konverge.dev/konverge-demo"
DATABASE_FILE, POLICY_FILE = "config/samples/database.yaml", "config/samples/scheduling_policy.yaml"
LIST_FILE = "config/samples/kustomization.yaml"
ARGO_MANAGER = "argocd-controller"
PODS = "--selector=app.kubernetes.io/instance=orders"
CHILDREN = "secrets,configmaps,services,statefulsets.apps,poddisruptionbudgets.policy"


def with_fields(world: World, *arguments: str) -> Any:
    """What kubectl gets, managedFields included."""
    return json.loads(world.kubectl("get", *arguments, "--output=json", "--show-managed-fields"))


@contextmanager
def cordoned(world: World) -> Iterator[None]:
    """No node takes a new pod."""
    nodes = [node["metadata"]["name"] for node in world.kubectl.list("nodes")]
    world.kubectl("cordon", *nodes)
    try:
        yield
    finally:
        world.kubectl("uncordon", *nodes)


def firsts(writes: list[Write]) -> list[tuple[str, str]]:
    """What Argo CD wrote, each object once, in order."""
    return list(dict.fromkeys(write.key for write in writes if is_argo(write)))


def deleted(world: World, since: int) -> list[tuple[str, str]]:
    """What Argo CD deleted after a mark, in order."""
    return firsts([write for write in world.written(since) if write.verb == "delete"])


# From an empty cluster


def test_waves_go_in_order(synced: World) -> None:
    """The namespace, the CRDs, who may do what, the operator."""
    wave = {key_of(obj): wave_of(obj) for obj in synced.manifests("operator")}
    written = [key for key in firsts(synced.journal.writes()) if key in wave]
    assert set(written) == set(wave)
    order = [wave[key] for key in written]
    assert order == sorted(order)
    assert set(order) >= {-3, -2, -1, 0}


def test_no_resource_comes_before_its_crd(synced: World) -> None:
    """Both Applications were applied at once, so the second one had to try until the first one was as far."""
    order = firsts(synced.journal.writes())
    for target in (DATABASE, POLICY):
        crd, name = target.split("/")
        assert order.index(("customresourcedefinitions", crd)) < order.index((crd.partition(".")[0], name))


def test_what_nobody_works_on_is_progressing(synced: World) -> None:
    assert synced.without_operator == {"Database": "Progressing", "SchedulingPolicy": "Progressing"}


def test_the_operator_makes_it_healthy_with_the_shipped_rights_alone(world: World) -> None:
    assert [world.resources.health_of(kind) for kind in ("Database", "SchedulingPolicy")] == ["Healthy", "Healthy"]
    written = {write.resource for write in world.journal.writes() if write.user == OPERATOR_USER}
    assert {"databases.data.konverge.dev", "schedulingpolicies.scheduling.konverge.dev", "pods"} <= written
    assert world.journal.refused(OPERATOR_USER) == []
    assert "forbidden" not in world.operator_said()
    [look] = section("Look")
    world.settle()
    world.follow(look)


# Edits in git


def test_an_edit_rolls_through_and_is_progressing_meanwhile(world: World) -> None:
    world.settle()
    with world.watching(world.resources) as states:
        with cordoned(world):
            world.publish((DATABASE_FILE, "replicas: 3", "replicas: 4"))
            until(lambda: len(world.kubectl.list("pods", PODS)) == 4, "the fourth pod")
            until(lambda: world.resources.health_of("Database") == "Progressing", "a Database in progress")
        until(lambda: world.resources.health_of("Database") == "Healthy", "the Database healthy again")
        said = [health_in(state, "Database") for state in states()]
    assert world.kubectl.get(DATABASE)["status"]["readyReplicas"] == 4
    assert list(dict.fromkeys(said)) == ["Healthy", "Progressing"]
    world.unpublish()
    assert world.kubectl.get("statefulset/orders")["spec"]["replicas"] == 3


def test_only_what_a_person_must_change_is_degraded(world: World) -> None:
    world.settle()
    world.publish((POLICY_FILE, "- name: NodeLabelPriority\n          weight", "- name: NodeColour\n          weight"))
    until(lambda: world.resources.health_of("SchedulingPolicy") == "Degraded", "the policy Degraded")
    assert world.kubectl.condition(POLICY, "Stalled")["status"] == "True"
    assert world.resources.health_of("Database") == "Healthy"
    world.unpublish()
    assert world.kubectl.condition(POLICY, "Stalled") == {}


def test_what_is_suspended_says_so(world: World) -> None:
    world.settle()
    world.publish((DATABASE_FILE, "replicas: 3", "replicas: 3\n  suspend: true"))
    until(lambda: world.resources.health_of("Database") == "Suspended", "the Database suspended")
    assert world.kubectl.list("pods", PODS) == []
    world.unpublish()


# Changes by hand


def test_a_change_by_hand_is_healed_without_a_fight(world: World) -> None:
    before = world.settle()
    world.kubectl.edit(DATABASE, replicas=5)
    until(lambda: world.kubectl.get(DATABASE)["spec"]["replicas"] == 3, "three replicas again")
    world.kubectl.wait_ready(DATABASE)
    after = world.settle()
    assert {write.key for write in world.written(before, by_operator=False)} == {("databases", "orders")}
    assert world.quiet(after) == []


def test_what_the_operator_made_is_healed_by_the_operator_alone(world: World) -> None:
    before = world.settle()
    world.kubectl("delete", "service/orders")
    world.kubectl("scale", "statefulset/orders", "--replicas=1")
    until(lambda: world.kubectl.get("service/orders"), "the Service again")
    until(lambda: world.kubectl.get("statefulset/orders")["spec"]["replicas"] == 3, "three replicas again")
    world.kubectl.wait_ready(DATABASE)
    world.settle()
    assert world.written(before, by_operator=False) == []


def test_self_heal_and_the_operator_never_touch_the_same_field(world: World) -> None:
    world.settle()
    for target in (DATABASE, POLICY):
        assert shared(with_fields(world, target), ARGO_MANAGER) == {}
    children = with_fields(world, CHILDREN, PODS)["items"]
    assert {child["kind"] for child in children} >= {"Secret", "ConfigMap", "Service", "StatefulSet"}
    for child in children:
        assert ARGO_MANAGER not in owned(child)
        assert "argocd" not in json.dumps([child["metadata"].get("labels"), child["metadata"].get("annotations")])


def test_nothing_differs_from_git_after_a_sync_and_after_a_restart_of_the_operator(world: World) -> None:
    """Argo CD compares by server-side dry runs, without any cache; the operator finds all as it left it."""
    before = world.settle()
    syncs = [world.operator_app.syncs, world.resources.syncs]
    world.stop_operator()
    world.start_operator()
    for application in (world.operator_app, world.resources):
        application.refresh("hard")
        assert application.is_synced, application.problem()
        assert application.health == "Healthy"
    assert world.quiet(before) == []
    assert [world.operator_app.syncs, world.resources.syncs] == syncs


# Deletion


def test_what_git_no_longer_has_is_pruned_with_all_that_was_made_of_it(world: World) -> None:
    world.settle()
    world.publish((LIST_FILE, "- database.yaml\n", ""))
    until(lambda: world.kubectl.get(DATABASE) is None, "the Database's deletion")
    until(lambda: world.kubectl.list(CHILDREN, PODS) == [], "the deletion of what was made of it")
    world.unpublish()
    world.kubectl.wait_ready(DATABASE)


def test_what_is_deleted_without_an_operator_goes_once_there_is_one(world: World) -> None:
    """Even when all that it stood for is gone by then."""
    world.settle()
    world.stop_operator()
    world.repository.edit(LIST_FILE, "- database.yaml\n", "")
    world.repository.commit("no Database")
    world.resources.refresh()
    until(lambda: "deletionTimestamp" in world.kubectl.get(DATABASE)["metadata"], "the Database's deletion")
    assert world.kubectl.get(DATABASE)["metadata"]["finalizers"]
    world.kubectl("delete", CHILDREN, PODS)
    world.start_operator()
    until(lambda: world.kubectl.get(DATABASE) is None, "its end")
    world.unpublish()
    world.kubectl.wait_ready(DATABASE)


def test_a_crd_that_git_no_longer_has_stays_with_all_its_resources(world: World) -> None:
    """Argo CD tracks no CRDs."""
    before = world.settle()
    world.repository.edit("config/default/kustomization.yaml", "  - ../crd\n", "")
    world.operator_app.wait_synced(world.repository.commit("no CRDs"))
    assert world.written(before) == []
    assert world.resources.health == "Healthy"
    world.operator_app.wait_synced(world.repository.revert())


def test_all_goes_in_order_and_nothing_hangs_on_a_finalizer(world: World) -> None:
    """The resources first, then the operator, and the CRDs by hand. Nothing is left for another test."""
    world.settle()
    wave = {key_of(obj): wave_of(obj) for obj in world.manifests("operator")}
    resources = {key_of(obj) for obj in world.manifests("resources")}
    applications, crds = section("Delete")
    before = world.journal.mark()
    world.follow(applications)
    assert [application.read() for application in (world.operator_app, world.resources)] == [None, None]
    assert world.kubectl.get("deployment/konverge-demo") is None
    assert world.kubectl.list(CHILDREN, PODS) == []

    gone = deleted(world, before)
    assert set(gone[: len(resources)]) == resources
    order = [wave[key] for key in gone if key in wave]
    assert order == sorted(order, reverse=True)
    stay = {key for key in wave if key[0] == "customresourcedefinitions"}
    assert set(gone) & set(wave) == set(wave) - stay
    world.follow(crds)
    assert world.system.get("namespace/konverge-system") is None
