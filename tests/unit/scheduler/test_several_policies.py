"""Several policies for one schedulerName under a running scheduler: whose its pods are, and what those are told."""

import asyncio
from typing import Any

from konverge.errors import TooManyRequests
from konverge.model.resource import DaemonSet, Namespace, Pod, ReplicaSet, ResourceType
from konverge.model.selectors import Selector
from konverge.scheduler import PluginSet, Point, ProfileConfig, Rule
from konverge.scheduler.framework import Code, CycleState, Permit, PermitResult, Verdict
from konverge.scheduler.podinfo import PodInfo
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import NAME, Running, node, pod, registry_with, running, with_plugin


def app(name: str) -> dict[str, Any]:
    """A pod with the label app, by its name."""
    made = pod(name)
    made["metadata"]["labels"] = {"app": name}
    return made


async def owned(cluster: Running, name: str, kind: ResourceType) -> dict[str, Any]:
    """A pod with a controller of that kind."""
    owner = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
    controller = await cluster.api.client("author").create(kind, owner, "default")
    made = pod(name)
    head = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": controller["metadata"]["uid"]}
    made["metadata"]["ownerReferences"] = [{**head, "controller": True}]
    return made


def only(node_name: str) -> ProfileConfig:
    """A profile that prefers that node over whatever else speaks for another."""
    return with_plugin("NodeLabelPriority", weight=100, label="kubernetes.io/hostname", values={node_name: 100})


@simulate()
async def test_each_places_the_pods_that_it_picks_and_counts_them(sim: Sim) -> None:
    cluster = await running(sim, node("n1"), node("n2"))
    cluster.scheduler.set_profile("web", only("n2"), Rule(pods=Selector.parse("app=web"), priority=1))
    cluster.scheduler.set_profile("policy", only("n1"))
    await cluster.create(pod("plain"), app("web"))
    assert await cluster.placed("plain", "web") == ["n1", "n2"]
    await sim.until(lambda: [cluster.scheduler.stats(owner).scheduled for owner in ("policy", "web")] == [1, 1])
    cluster.scheduler.remove_profile("web")
    assert [cluster.scheduler.stats(owner).scheduled for owner in ("policy", "web")] == [2, 0]


@simulate()
async def test_a_pod_that_no_policy_matches_waits_uncounted_and_is_told_once(sim: Sim) -> None:
    cluster = await running(sim, node("n1"))
    cluster.scheduler.set_profile("policy", ProfileConfig(NAME), Rule(pods=Selector.parse("app=web")))
    await cluster.create(pod("odd"))
    await asyncio.sleep(120)
    assert cluster.at("odd") == ""
    assert cluster.scheduler.stats("policy").matched == 0
    message = (
        "no SchedulingPolicy matches this pod: its schedulerName konverge is that of policy, whose selectors or canary "
        "shares leave it out"
    )
    assert cluster.recorder.of("odd") == [("FailedScheduling", message)]
    assert (cluster.condition("odd")["reason"], cluster.condition("odd")["message"]) == ("SchedulerError", message)
    await cluster.api.patch(Pod, "odd", {"metadata": {"labels": {"app": "web"}}}, "default")
    assert await cluster.placed("odd") == ["n1"]


@simulate()
async def test_pods_of_a_scheduler_name_that_no_policy_serves_are_not_ours_to_tell(sim: Sim) -> None:
    cluster = await running(sim, node("n1"), pod("theirs", scheduler="another"))
    cluster.scheduler.remove_profile("policy")
    await cluster.create(pod("orphan"))
    await asyncio.sleep(60)
    assert cluster.recorder.events == []


@simulate()
async def test_policies_that_come_one_after_the_other_tell_nobody_in_between(sim: Sim) -> None:
    cluster = await running(sim, pod("a"))
    cluster.scheduler.set_profile("policy", ProfileConfig(NAME), Rule(pods=Selector.parse("app=web")))
    await asyncio.sleep(1)
    cluster.scheduler.set_profile("second", ProfileConfig(NAME))
    await cluster.create(node("n1"))
    assert await cluster.placed("a") == ["n1"]
    await asyncio.sleep(60)
    assert not [message for _, message in cluster.recorder.of("a") if "no SchedulingPolicy" in message]


@simulate()
async def test_a_held_pod_waits_for_its_policy_and_is_told_whose_it_is(sim: Sim) -> None:
    cluster = await running(sim, node("n1"))
    cluster.scheduler.set_profile("policy", ProfileConfig(NAME), Rule(hold=True, priority=1))
    cluster.scheduler.set_profile("second", ProfileConfig(NAME))
    await cluster.create(pod("a"))
    await sim.until(lambda: cluster.recorder.of("a"))
    assert cluster.recorder.of("a")[0][1] == "held by SchedulingPolicy policy, which is suspended"
    assert (cluster.at("a"), cluster.scheduler.stats("policy").pending) == ("", 1)
    cluster.scheduler.set_profile("policy", ProfileConfig(NAME))
    assert await cluster.placed("a") == ["n1"]


@simulate()
async def test_the_labels_of_a_namespace_decide_whose_its_pods_are(sim: Sim) -> None:
    cluster = await running(sim, node("n1"))
    cluster.scheduler.set_profile("policy", ProfileConfig(NAME), Rule(namespaces=Selector.parse("team=a")))
    await cluster.create(pod("a"))
    await asyncio.sleep(5)
    assert cluster.at("a") == ""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "a"}}}
    await cluster.api.client("author").create(Namespace, namespace)
    assert await cluster.placed("a") == ["n1"]


@simulate()
async def test_a_lazy_edit_is_for_pods_that_come_later(sim: Sim) -> None:
    cluster = await running(sim)
    cluster.scheduler.set_profile("policy", only("n1"), Rule(lazy=True))
    await cluster.create(pod("waits"))
    await sim.until(lambda: cluster.condition("waits"))
    cluster.scheduler.set_profile("policy", only("n2"), Rule(lazy=True))
    await cluster.create(node("n1"), node("n2"))
    await sim.until(lambda: len(cluster.nodes) == 2, within=0.5)
    await cluster.create(pod("comes"))
    assert await cluster.placed("waits", "comes") == ["n1", "n2"]


@simulate()
async def test_the_pods_of_a_drained_policy_are_evicted_where_something_makes_them_anew(sim: Sim) -> None:
    cluster = await running(sim, node("n1"))
    await cluster.create(
        await owned(cluster, "web", ReplicaSet), await owned(cluster, "agent", DaemonSet), pod("alone")
    )
    await cluster.create(pod("theirs", scheduler="x", on="n1"))
    await cluster.placed("web", "agent", "alone")
    cluster.scheduler.set_profile("policy", ProfileConfig(NAME), Rule(hold=True, drain=True))
    await sim.until(lambda: cluster.scheduler.stats("policy").matched == 2)
    await asyncio.sleep(60)
    assert sorted(raw["metadata"]["name"] for raw in cluster.api.objects(Pod)) == ["agent", "alone", "theirs"]


@simulate()
async def test_a_pod_that_goes_over_to_another_policy_is_tried_again_at_once(sim: Sim) -> None:
    cluster = await running(sim, node("n1", taints=["k=v:NoSchedule"]))
    await cluster.create(pod("a"))
    await sim.until(lambda: cluster.condition("a"))
    tolerant = PluginSet(disabled=frozenset({"TaintToleration"}))
    cluster.scheduler.set_profile(
        "tolerant", ProfileConfig(NAME, plugins={Point.MULTI_POINT: tolerant}), Rule(priority=-1)
    )
    await asyncio.sleep(5)
    assert cluster.at("a") == ""
    cluster.scheduler.remove_profile("policy")
    await sim.until(lambda: cluster.at("a"), within=0.5)


class Never(Permit):
    """Keeps every pod waiting, for longer than a test takes."""

    name = "Never"

    def permit(self, _state: CycleState, _pod: PodInfo, _node_name: str, /) -> PermitResult:
        return PermitResult(Verdict(Code.WAIT), 600)


@simulate()
async def test_a_pod_that_waits_for_its_bind_gives_its_node_back_when_its_policy_stops(sim: Sim) -> None:
    registry = registry_with(Never)
    cluster = await running(sim, node("n1", cpu="2"), profile=with_plugin("Never"), registry=registry)
    await cluster.create(pod("a", cpu="2"))
    await asyncio.sleep(5)
    cluster.scheduler.set_profile("policy", with_plugin("Never"), Rule(pods=Selector.parse("app=b")))
    cluster.scheduler.set_profile("other", ProfileConfig("other"))
    await cluster.create(pod("b", cpu="2", scheduler="other"))
    assert await cluster.placed("b") == ["n1"]
    assert cluster.at("a") == ""


@simulate()
async def test_an_eviction_that_a_budget_refuses_is_asked_for_again(sim: Sim) -> None:
    cluster = await running(sim, node("n1"))
    await cluster.create(await owned(cluster, "web", ReplicaSet))
    await cluster.placed("web")
    refusal = TooManyRequests(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's budget.")
    for _ in range(3):
        cluster.api.faults.inject(refusal, verbs=["create"], resource=Pod, name="web")
    cluster.scheduler.set_profile("policy", ProfileConfig(NAME), Rule(hold=True, drain=True))
    await sim.until(lambda: not cluster.api.objects(Pod))
    asked = [request for request in cluster.api.requests if request.subresource == "eviction"]
    assert len(asked) == 4


OWNERS = ("policy", "a", "b", "c")
SELECTORS = ("", "app=web", "app in (web,db)", "tier", "!tier", "app=web,tier=front")


LABELS = {"app": ("web", "db"), "tier": ("front", "back")}


def some_labels(sim: Sim) -> dict[str, str]:
    return {key: sim.random.choice(values) for key, values in LABELS.items() if sim.random.random() < 0.7}


@simulate(seeds=range(8))
async def test_whatever_comes_and_goes_every_pod_is_counted_where_it_belongs_and_none_is_left_waiting(sim: Sim) -> None:
    """Policies, pods and their labels change at random; the rules in force, applied afresh, say what must be."""
    nodes = [node(name, cpu="100", pods=500) for name in OWNERS]
    cluster = await running(sim, *nodes, profile=only("policy"))
    rules, author, names = {"policy": Rule()}, cluster.api.client("author"), list[str]()
    for number in range(60):
        match sim.random.randrange(5):
            case 0:
                owner = sim.random.choice(OWNERS)
                selector, rank = sim.random.choice(SELECTORS), sim.random.randrange(3)
                share = sim.random.choice((0, 50, 100, 100))
                rules[owner] = Rule(pods=Selector.parse(selector), priority=rank, canary_percent=share)
                cluster.scheduler.set_profile(owner, only(owner), rules[owner])
            case 1 if len(rules) > 1:
                owner = sim.random.choice(sorted(rules))
                del rules[owner]
                cluster.scheduler.remove_profile(owner)
            case 2 if names:
                labels = {"app": None, "tier": None} | some_labels(sim)
                await author.patch(Pod, sim.random.choice(names), {"metadata": {"labels": labels}}, "default")
            case 3 if names:
                await author.delete(Pod, names.pop(sim.random.randrange(len(names))), "default")
            case _:
                names.append(f"p{number}")
                made = pod(names[-1], cpu="1m")
                made["metadata"]["labels"] = some_labels(sim)
                await cluster.create(made)
        await asyncio.sleep(sim.random.random())
    await asyncio.sleep(30)

    owners: dict[str, str | None] = {}
    for raw in cluster.api.objects(Pod):
        matching = [
            (-rule.priority, -rule.specificity, owner)
            for owner, rule in rules.items()
            if rule.pods.matches(raw["metadata"].get("labels")) and rule.takes(owner, raw["metadata"]["uid"])
        ]
        owners[raw["metadata"]["name"]] = min(matching)[2] if matching else None
    counted = {owner: cluster.scheduler.stats(owner).matched for owner in OWNERS}
    assert counted == {owner: [*owners.values()].count(owner) for owner in OWNERS}
    assert all(cluster.at(name) for name, owner in owners.items() if owner)
