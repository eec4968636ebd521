"""The scheduler as a whole, on a fake API server: what becomes of pods, and what they are told."""

import asyncio

import pytest

from konverge.errors import Conflict, ConnectionFailed, Forbidden
from konverge.model.resource import Namespace, Node, Pod
from konverge.scheduler import ALL_PLUGINS, PluginSet, PluginUse, Point, ProfileConfig
from konverge.scheduler.framework import (
    SKIP,
    SUCCESS,
    Bind,
    Code,
    CycleState,
    Filter,
    PreEnqueue,
    PreFilter,
    PreFilterResult,
    Reserve,
    Score,
    Verdict,
    unschedulable,
)
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import NAME, Broken, binds, node, pod, registry_with, running, with_plugin

# Placing


@simulate()
async def test_a_pod_of_the_profile_is_bound_and_told_so(sim: Sim) -> None:
    cluster = await running(sim, node("n1"))
    await cluster.create(pod("a", cpu="1"))
    assert await cluster.placed("a") == ["n1"]
    await sim.until(lambda: cluster.recorder.events)
    assert cluster.recorder.events == [("a", "Normal", "Scheduled", "Successfully assigned default/a to n1")]


@simulate()
async def test_pods_that_were_there_before_the_scheduler_are_placed_too(sim: Sim) -> None:
    cluster = await running(sim, node("n1"), pod("a"), pod("b"))
    assert await cluster.placed("a", "b") == ["n1", "n1"]


@simulate()
async def test_only_pods_that_name_the_profile_and_wait_are_touched(sim: Sim) -> None:
    gated = pod("gated", spec={"schedulingGates": [{"name": "example.com/wait"}]})
    cluster = await running(sim, node("n1"), pod("others", scheduler="default-scheduler"), pod("bound", on="n9"), gated)
    await cluster.create(pod("ours"))
    await cluster.placed("ours")
    assert [request.name for request in binds(cluster)] == ["ours"]
    await cluster.api.patch(Pod, "gated", {"spec": {"schedulingGates": None}}, "default")
    assert await cluster.placed("gated") == ["n1"]


class Undecided(PreEnqueue):
    """Raises on every pod."""

    name = "Undecided"

    def pre_enqueue(self, pod: PodInfo, /) -> Verdict:
        raise RuntimeError(pod.name)


@simulate()
async def test_a_preenqueue_plugin_that_raises_keeps_nobody_out(sim: Sim) -> None:
    registry = registry_with(Undecided)
    cluster = await running(sim, node("n1"), pod("a"), profile=with_plugin("Undecided"), registry=registry)
    assert await cluster.placed("a") == ["n1"]


@simulate()
async def test_a_pod_that_must_be_near_another_goes_when_that_one_has_a_node(sim: Sim) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster = await running(sim, node("n1"), node("n2"), pod("web", spec={"affinity": near}))
    await sim.until(lambda: cluster.recorder.of("web"))
    await asyncio.sleep(20)
    db = pod("db", spec={"nodeSelector": {"kubernetes.io/hostname": "n2"}})
    db["metadata"]["labels"] = {"app": "db"}
    await cluster.create(db)
    await sim.until(lambda: cluster.at("web") == "n2", within=5)


@simulate()
async def test_a_namespaces_labels_decide_whose_pods_affinity_means(sim: Sim) -> None:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {},
        "namespaceSelector": {"matchLabels": {"team": "a"}},
    }
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster = await running(sim, node("n1"), node("n2"), pod("x", on="n1"))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "a"}}}
    await cluster.api.client("author").create(Namespace, namespace)
    await sim.until(lambda: len(cluster.namespaces))
    await cluster.create(pod("shy", spec={"affinity": apart}))
    assert await cluster.placed("shy") == ["n2"]


@simulate()
async def test_a_pod_goes_where_the_profiles_plugin_prefers(sim: Sim) -> None:
    profile = with_plugin("NodeLabelPriority", weight=100, label="disk", values={"ssd": 100})
    disks = [node(f"n{i}", labels={"disk": "ssd" if i == 7 else "hdd"}) for i in range(10)]
    cluster = await running(sim, *disks, profile=profile)
    await cluster.create(pod("a", cpu="100m"))
    assert await cluster.placed("a") == ["n7"]


@simulate()
async def test_pods_bound_by_another_scheduler_count(sim: Sim) -> None:
    cluster = await running(
        sim, node("n1", cpu="2"), node("n2", cpu="2"), pod("theirs", cpu="2", on="n1", scheduler="x")
    )
    await cluster.create(pod("ours", cpu="1"))
    assert await cluster.placed("ours") == ["n2"]


@simulate()
async def test_a_deleted_node_takes_no_more_pods_and_its_own_count_again_when_it_returns(sim: Sim) -> None:
    cluster = await running(sim, node("n1", cpu="2"), node("n2", cpu="2"))
    await cluster.create(pod("a", cpu="1"))
    (first,) = await cluster.placed("a")
    await cluster.api.delete(Node, first)
    await cluster.create(pod("b", cpu="1"), pod("c", cpu="1"))
    (second,) = set(await cluster.placed("b", "c"))
    assert second != first
    await cluster.create(node(first, cpu="2"), pod("d", cpu="2"), pod("e", cpu="1"))
    assert await cluster.placed("e") == [first]
    assert cluster.at("d") == ""


@simulate()
async def test_finished_pods_hold_no_room(sim: Sim) -> None:
    done = pod("done", cpu="2", on="n1", status={"phase": "Succeeded"})
    cluster = await running(sim, node("n1", cpu="2"), done)
    await cluster.create(pod("next", cpu="2"))
    assert await cluster.placed("next") == ["n1"]


@simulate()
async def test_the_higher_priority_goes_first(sim: Sim) -> None:
    cluster = await running(sim, pod("low", cpu="1"), pod("high", cpu="1", priority=10), node("n1", cpu="1"))
    assert await cluster.placed("high") == ["n1"]
    assert cluster.at("low") == ""


# Not placing


@simulate()
async def test_a_pod_that_fits_nowhere_is_told_why_in_kube_schedulers_words(sim: Sim) -> None:
    nodes = [
        node("small", cpu="1"),
        node("small2", cpu="1"),
        *(node(f"t{i}", taints=["k=v:NoSchedule"]) for i in range(3)),
    ]
    cluster = await running(sim, *nodes, pod("a", cpu="3"))
    message = (
        "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s). "
        "preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."
    )
    await sim.until(lambda: cluster.condition("a"))
    condition = dict(cluster.condition("a"))
    assert condition.pop("lastTransitionTime")
    assert condition.pop("observedGeneration") == 1
    assert condition == {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    assert cluster.recorder.of("a") == [("FailedScheduling", message)]


@simulate()
async def test_the_condition_is_written_again_only_when_it_changes(sim: Sim) -> None:
    cluster = await running(sim, node("n1", cpu="1"), pod("a", cpu="2"))
    await sim.until(lambda: cluster.condition("a"))
    since = cluster.condition("a")["lastTransitionTime"]
    for name in ("b", "c"):  # each has room for the pod, which is tried again with the same outcome but for the count
        await asyncio.sleep(15)
        await cluster.create(node(name, cpu="2", taints=["team=a:NoSchedule"]))
    await sim.until(lambda: cluster.condition("a")["message"].startswith("0/3"))
    assert cluster.condition("a")["lastTransitionTime"] == since
    await asyncio.sleep(1000)
    assert len(cluster.recorder.of("a")) > 3
    assert len([request for request in cluster.api.writes if request.name == "a" and request.verb == "patch"]) == 3


@simulate()
async def test_without_nodes_a_pod_waits_for_one(sim: Sim) -> None:
    cluster = await running(sim, pod("a"))
    await sim.until(lambda: cluster.condition("a"))
    assert cluster.condition("a")["message"] == "no nodes available to schedule pods"
    await cluster.create(node("n1"))
    assert await cluster.placed("a") == ["n1"]


@pytest.mark.parametrize("way", ["node added", "node grown", "pod deleted", "pod finished", "pod shrunk"])
def test_what_makes_room_lets_a_waiting_pod_go(way: str) -> None:
    @simulate()
    async def scenario(sim: Sim) -> None:
        cluster = await running(sim, node("n1", cpu="2"), pod("old", cpu="2", on="n1"), pod("a", cpu="1"))
        await sim.until(lambda: cluster.condition("a"))
        await asyncio.sleep(2)
        api = cluster.api
        match way:
            case "node added":
                await cluster.create(node("n2"))
            case "node grown":
                await api.patch(Node, "n1", {"status": {"allocatable": {"cpu": "3"}}}, subresource="status")
            case "pod deleted":
                await api.delete(Pod, "old", "default")
            case "pod finished":
                await api.patch(Pod, "old", {"status": {"phase": "Failed"}}, "default", subresource="status")
            case "pod shrunk":
                less = pod("old", cpu="1")["spec"]["containers"]
                await api.patch(Pod, "old", {"spec": {"containers": less}}, "default")
        await sim.until(lambda: cluster.at("a"), within=2)

    scenario(seed=0)


@simulate()
async def test_what_cannot_help_does_not_wake_a_pod(sim: Sim) -> None:
    cluster = await running(sim, node("n1", cpu="1"), pod("a", cpu="2"))
    await sim.until(lambda: cluster.recorder.of("a"))
    await cluster.api.patch(Node, "n1", {"metadata": {"labels": {"x": "y"}}})
    await cluster.api.patch(Pod, "a", {"metadata": {"annotations": {"x": "y"}}}, "default")
    await asyncio.sleep(60)
    assert len(cluster.recorder.of("a")) == 1


@simulate()
async def test_an_edit_of_the_pod_wakes_it(sim: Sim) -> None:
    cluster = await running(sim, node("n1", labels={"disk": "ssd"}), pod("a", spec={"nodeSelector": {"disk": "hdd"}}))
    await sim.until(lambda: cluster.recorder.of("a"))
    await cluster.api.patch(Pod, "a", {"spec": {"nodeSelector": {"disk": "ssd"}}}, "default")
    await sim.until(lambda: cluster.at("a"), within=2)


@simulate()
async def test_a_long_message_is_cut_for_the_event_and_whole_in_the_condition(sim: Sim) -> None:
    class Verbose(Filter):
        name = "Verbose"

        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
            return unschedulable("ü" * 1000)

    cluster = await running(sim, node("n1"), pod("a"), profile=with_plugin("Verbose"), registry=registry_with(Verbose))
    await sim.until(lambda: cluster.condition("a"))
    ((_, note),) = cluster.recorder.of("a")
    assert len(note.encode()) <= 1024
    assert note.endswith("ü ...")
    assert len(cluster.condition("a")["message"]) > 1000


# Binding goes wrong


@simulate()
async def test_a_conflict_sends_the_pod_to_backoff_and_it_is_bound_later(sim: Sim) -> None:
    cluster = await running(sim, node("n1"))
    cluster.api.faults.inject(Conflict(409, "Conflict", "try again"), verbs=["create"], resource=Pod, name="a", times=1)
    raw = pod("a")
    await cluster.create(raw)
    await sim.until(lambda: cluster.condition("a").get("reason") == "SchedulerError")
    assert cluster.condition("a")["message"] == "binding rejected: 409 Conflict: try again"
    assert await cluster.placed("a") == ["n1"]
    assert len(binds(cluster)) == 2
    assert binds(cluster)[1].time - binds(cluster)[0].time >= 1


@simulate()
async def test_room_promised_to_a_pod_whose_bind_failed_is_given_back(sim: Sim) -> None:
    cluster = await running(sim, node("n1", cpu="1"))
    denied = Forbidden(403, "Forbidden", "pods/binding is forbidden")
    cluster.api.faults.inject(denied, verbs=["create"], resource=Pod, name="a", times=100)
    await cluster.create(pod("a", cpu="1"))
    await sim.until(lambda: cluster.condition("a").get("reason") == "SchedulerError")
    await cluster.create(pod("b", cpu="1"))
    assert await cluster.placed("b") == ["n1"]


@simulate()
async def test_an_answer_lost_after_the_bind_is_found_out_and_no_second_bind_sent(sim: Sim) -> None:
    cluster = await running(sim, node("n1", cpu="1"), node("n2", cpu="1"))
    lost = ConnectionFailed("reset by peer")
    cluster.api.faults.inject(lost, verbs=["create"], resource=Pod, name="a", after=True)
    cluster.api.faults.inject(lost, verbs=["get"], resource=Pod, name="a", times=3)
    await cluster.create(pod("a", cpu="1"))
    await sim.until(lambda: cluster.recorder.of("a"))
    assert [reason for reason, _ in cluster.recorder.of("a")] == ["Scheduled"]
    await asyncio.sleep(100)
    assert len(binds(cluster)) == 1


@simulate()
async def test_a_pod_that_another_scheduler_bound_first_is_left_there(sim: Sim) -> None:
    cluster = await running(sim, node("n1", cpu="1"), node("n2", cpu="1"))
    other = cluster.api.client("other")
    raw = await other.create(Pod, pod("a", cpu="1"), "default")
    theirs = {"metadata": {"name": "a", "uid": raw["metadata"]["uid"]}, "target": {"kind": "Node", "name": "n2"}}
    await other.create(Pod, theirs, "default", name="a", subresource="binding")
    await asyncio.sleep(5)
    assert cluster.at("a") == "n2"
    await cluster.create(pod("b", cpu="1"))
    assert await cluster.placed("b") == ["n1"]


@simulate()
async def test_a_pod_that_another_scheduler_binds_while_our_bind_is_on_its_way_frees_the_node_we_chose(
    sim: Sim,
) -> None:
    cluster = await running(sim, node("n1", cpu="1"), node("theirs", cpu="1", unschedulable=True))
    cluster.api.faults.latency = (4.0, 4.0)
    other = cluster.api.client("other")
    await cluster.create(pod("a", cpu="1"), pod("b", cpu="1"))
    await sim.until(lambda: cluster.recorder.of("b"))  # there is no room beside the assumed pod
    assert cluster.at("a") == ""
    theirs = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "theirs"}}
    await other.create(Pod, theirs, "default", name="a", subresource="binding")
    assert await cluster.placed("b") == ["n1"]
    await asyncio.sleep(60)
    assert cluster.at("a") == "theirs"
    assert cluster.recorder.of("a") == []


@simulate()
async def test_a_pod_deleted_while_it_is_bound_is_no_trouble(sim: Sim) -> None:
    cluster = await running(sim, node("n1", cpu="1"))
    cluster.api.faults.latency = (2.0, 2.0)
    author = cluster.api.client("author")
    await author.create(Pod, pod("a", cpu="1"), "default")
    await asyncio.sleep(0.5)
    await author.delete(Pod, "a", "default")
    await author.create(Pod, pod("b", cpu="1"), "default")
    assert await cluster.placed("b") == ["n1"]
    assert cluster.recorder.of("a") == []


@simulate()
async def test_a_pod_made_anew_under_the_same_name_is_another_pod(sim: Sim) -> None:
    cluster = await running(sim, node("n1", cpu="1"), pod("a", cpu="2"))
    await sim.until(lambda: cluster.condition("a"))
    await cluster.api.delete(Pod, "a", "default")
    await cluster.create(pod("a", cpu="1"))
    assert await cluster.placed("a") == ["n1"]


@simulate()
async def test_a_status_write_that_fails_is_no_trouble(sim: Sim) -> None:
    cluster = await running(sim, node("n1", cpu="1"))
    cluster.api.faults.inject(Forbidden(403, "Forbidden", "no"), verbs=["patch"], resource=Pod, times=1)
    await cluster.create(pod("a", cpu="2"))
    await sim.until(lambda: cluster.recorder.of("a"))
    await cluster.create(node("n2", cpu="2"))
    assert await cluster.placed("a") == ["n2"]


# Plugins that misbehave


@simulate()
async def test_a_plugin_that_raises_fails_its_pod_alone_and_is_named(sim: Sim) -> None:
    cluster = await running(sim, node("n1"), pod("bad"))
    cluster.scheduler.registry.register(Broken)
    cluster.scheduler.set_profile("policy", with_plugin("Broken"))
    await sim.until(lambda: cluster.condition("bad"))
    assert cluster.condition("bad")["reason"] == "SchedulerError"
    assert cluster.condition("bad")["message"] == "running 'Broken' filter plugin: RuntimeError: boom"
    await cluster.create(pod("good"))
    assert await cluster.placed("good") == ["n1"]
    await asyncio.sleep(100)
    assert 8 <= len(cluster.recorder.of("bad")) <= 20  # after 1, 2, 4, 8, 10, 10, ... seconds


@simulate()
async def test_a_pod_that_our_own_code_cannot_digest_fails_alone(sim: Sim) -> None:
    unchecked = PluginSet(disabled=frozenset({"NodeResourcesFit"}))
    profile = ProfileConfig(NAME, plugins={Point.MULTI_POINT: unchecked})
    cluster = await running(sim, node("n1"), pod("bad", cpu="much"), profile=profile)
    await sim.until(lambda: cluster.condition("bad"))
    assert cluster.condition("bad")["message"].startswith("ValueError: 'much' is no quantity")
    await cluster.create(pod("good"))
    assert await cluster.placed("good") == ["n1"]


class Books(Reserve):
    """Rejects, fails or lets through by the pod's name, and keeps books."""

    name = "Books"
    held: list[str] = []  # noqa: RUF012 - one instance a test

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str, /) -> Verdict:
        self.held.append(pod.name)
        match pod.name:
            case "rejected":
                return unschedulable("no licence left")
            case "raises":
                raise RuntimeError("boom")
            case "waits":
                return Verdict(Code.WAIT)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str, /) -> None:
        self.held.remove(pod.name)
        if pod.name == "raises":
            raise RuntimeError("boom again")


@simulate()
async def test_reserve_is_undone_whenever_the_pod_does_not_get_there(sim: Sim) -> None:
    Books.held.clear()
    names = ("rejected", "raises", "waits", "unbound", "fine")
    cluster = await running(sim, node("n1", pods=1), profile=with_plugin("Books"), registry=registry_with(Books))
    denied = Forbidden(403, "Forbidden", "no")
    cluster.api.faults.inject(denied, verbs=["create"], resource=Pod, name="unbound", times=100)
    for name in names:
        await cluster.create(pod(name))
    await cluster.placed("fine")
    messages = {name: cluster.recorder.of(name)[0][1] for name in names[:4]}
    assert messages == {
        "rejected": "0/1 nodes are available: 1 no licence left.",
        "raises": "running 'Books' reserve plugin: RuntimeError: boom",
        "waits": "running 'Books' reserve plugin: wait: no reason given",
        "unbound": "binding rejected: 403 Forbidden: no",
    }
    assert Books.held == ["fine"]


class Elsewhere(Bind):
    """Binds pods by its own means, leaves some to the next plugin, and refuses some."""

    name = "Elsewhere"

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str, /) -> Verdict:
        return unschedulable("closed today") if pod.name == "refused" else SKIP


@simulate()
async def test_a_bind_plugin_may_leave_a_pod_to_the_next_or_refuse_it(sim: Sim) -> None:
    both = PluginSet(enabled=(PluginUse("Elsewhere"),))
    profile = ProfileConfig(NAME, plugins={Point.BIND: both})
    cluster = await running(sim, node("n1"), profile=profile, registry=registry_with(Elsewhere))
    await cluster.create(pod("refused"), pod("left"))
    assert await cluster.placed("left") == ["n1"]
    await sim.until(lambda: cluster.condition("refused"))
    refusal = "binding rejected: running 'Elsewhere' bind plugin: unschedulable: closed today"
    assert cluster.condition("refused")["message"] == refusal


@simulate()
async def test_a_pod_that_no_bind_plugin_takes_is_tried_again(sim: Sim) -> None:
    alone = PluginSet(enabled=(PluginUse("Elsewhere"),), disabled=frozenset({ALL_PLUGINS}))
    profile = ProfileConfig(NAME, plugins={Point.BIND: alone})
    cluster = await running(sim, node("n1"), pod("left"), profile=profile, registry=registry_with(Elsewhere))
    await sim.until(lambda: cluster.condition("left"))
    assert cluster.condition("left")["message"] == "binding rejected: no bind plugin of profile 'konverge' took the pod"


# Stopping and forgetting


@simulate()
async def test_a_stop_lets_a_running_bind_end(sim: Sim) -> None:
    cluster = await running(sim, node("n1"))
    cluster.api.faults.latency = (2.0, 2.0)
    await cluster.create(pod("a"))
    await asyncio.sleep(0.2)
    cluster.running.cancel()
    await asyncio.wait([cluster.running])
    assert cluster.at("a") == "n1"


@simulate()
async def test_a_stop_does_not_wait_for_ever(sim: Sim) -> None:
    cluster = await running(sim, node("n1"), pod("huge", cpu="99"))
    cluster.api.faults.latency = (500.0, 500.0)
    await cluster.create(pod("a"))
    await asyncio.sleep(0.2)
    started = sim.time
    cluster.running.cancel()
    await asyncio.wait([cluster.running])
    assert sim.time - started < 30


@simulate()
async def test_the_search_narrowed_to_nodes_by_a_plugin_names_it(sim: Sim) -> None:
    class Only(PreFilter, Score):
        name = "Only"

        def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: object, /) -> PreFilterResult:
            return PreFilterResult(node_names=frozenset({"n2", "gone"}))

        def score(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> int:
            return 0

    cluster = await running(sim, node("n1"), node("n2"), profile=with_plugin("Only"), registry=registry_with(Only))
    await cluster.create(pod("a"), pod("b", cpu="9"))
    assert await cluster.placed("a") == ["n2"]
    await sim.until(lambda: cluster.condition("b"))
    reasons = "1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [Only]"
    assert cluster.condition("b")["message"].startswith(f"0/2 nodes are available: {reasons}.")
