"""SchedulingPolicies with a real scheduler on the fake API server, in simulated time."""

from typing import Any

from konverge.controllers.scheduling_policy import SchedulingPolicy, SchedulingPolicyReconciler
from konverge.controllers.scheduling_policy.reconciler import STATS_INTERVAL
from konverge.model.resource import Node, Pod, ReplicaSet
from konverge.scheduler.registry import Registry
from konverge.scheduler.scheduler import Scheduler
from konverge.testing.sim import Sim, simulate
from tests.unit.controllers.policies import manifest
from tests.unit.controllers.world import World

POLICY = SchedulingPolicy.resource


def prefer(disk: str) -> dict[str, Any]:
    """A profile that prefers nodes with that `disktype`, whatever else speaks for another."""
    return {
        "plugins": {"score": {"enabled": [{"name": "NodeLabelPriority", "weight": 100}]}},
        "pluginConfig": [{"name": "NodeLabelPriority", "args": {"label": "disktype", "values": {disk: 100}}}],
    }


class Cell(World):
    """Two nodes, `ssd-1` and `hdd-1`, a scheduler, and the policies' reconciler."""

    async def open(self, *, with_scheduler: bool = True) -> None:
        for disk in ("ssd", "hdd"):
            name, capacity = f"{disk}-1", {"cpu": "4", "memory": "8Gi", "pods": "110"}
            await self.user.create(Node, {"metadata": {"name": name, "labels": {"disktype": disk}}})
            status = {"capacity": capacity, "allocatable": capacity}
            await self.user.patch(Node, name, {"status": status}, subresource="status")
        scheduler = Scheduler(
            self.konverge,
            self.caches.cache(Pod),
            self.caches.cache(Node),
            clock=self.sim.clock,
            random=self.sim.random,
            recorder=self.events,
            caches={resource: self.caches.cache(resource) for resource in Registry.default().reads},
        )
        await self.run([SchedulingPolicyReconciler(scheduler if with_scheduler else None, self.sim.clock)])
        self.sim.spawn(scheduler.run())

    async def add(self, name: str = "demo", **spec: Any) -> None:
        await self.user.create(POLICY, manifest(name, **spec))

    async def pod(self, name: str, *, cpu: str = "100m", scheduler_name: str = "demo", **labels: str) -> None:
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        body = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"schedulerName": scheduler_name, "containers": [container]},
        }
        await self.user.create(Pod, body, "default")

    def policy(self, name: str = "demo") -> Any:
        return self.get(POLICY, name)

    def status(self, name: str = "demo") -> Any:
        return self.policy(name).get("status") or {}

    def shown(self, name: str = "demo") -> dict[str, tuple[str, str] | None]:
        """Status and reason of the conditions that a policy shows."""
        return {kind: self.condition(self.policy(name), kind) for kind in ("Accepted", "Active", "Ready")}

    def message(self, name: str, kind: str) -> str:
        """What a condition of a policy says."""
        (found,) = [c["message"] for c in self.status(name)["conditions"] if c["type"] == kind]
        return str(found)

    def node_of(self, pod: str) -> str | None:
        node_name: str | None = self.get(Pod, pod, "default")["spec"].get("nodeName")
        return node_name

    async def until_ready(self, name: str = "demo") -> None:
        await self.sim.until(lambda: self.condition(self.policy(name), "Ready") == ("True", "Active"))


@simulate()
async def test_its_pods_go_where_it_prefers(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add(profile=prefer("ssd"))
    await cell.until_ready()
    for number in range(3):
        await cell.pod(f"p{number}")
    await sim.until(lambda: cell.status().get("scheduled") == 3)

    assert [cell.node_of(f"p{number}") for number in range(3)] == ["ssd-1"] * 3
    assert cell.shown() == {"Accepted": ("True", "Valid"), "Active": ("True", "Ready"), "Ready": ("True", "Active")}
    assert (cell.status()["matched"], cell.status()["pending"]) == (3, 0)


@simulate()
async def test_an_edit_takes_effect_on_the_next_pod(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add(profile=prefer("ssd"))
    await cell.until_ready()
    await cell.edit(POLICY, "demo", profile=prefer("hdd"))
    await sim.until(lambda: cell.status().get("observedGeneration") == 2)
    await cell.pod("later")

    await sim.until(lambda: cell.node_of("later") == "hdd-1")


@simulate()
async def test_an_unknown_plugin_is_named_beside_the_known_ones(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add(profile={"plugins": {"score": {"enabled": [{"name": "Nope"}]}}})
    await sim.until(lambda: cell.shown()["Accepted"] == ("False", "UnknownPlugin"))

    assert cell.shown()["Active"] == ("False", "NotAccepted")
    assert cell.shown()["Ready"] == ("False", "UnknownPlugin")
    assert cell.condition(cell.policy(), "Stalled") is not None
    (message,) = {c["message"] for c in cell.status()["conditions"] if c["type"] == "Accepted"}
    assert "'Nope'" in message
    assert "NodeLabelPriority" in message


@simulate()
async def test_unusable_arguments_are_explained(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add(profile={"pluginConfig": [{"name": "NodeLabelPriority", "args": {"colour": "red"}}]})
    await sim.until(lambda: cell.shown()["Accepted"] == ("False", "InvalidArgs"))

    (message,) = {c["message"] for c in cell.status()["conditions"] if c["type"] == "Accepted"}
    assert "NodeLabelPriority" in message
    assert "colour" in message


@simulate()
async def test_a_typo_leaves_the_last_usable_profile_in_force(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add(profile=prefer("ssd"))
    await cell.until_ready()
    await cell.edit(POLICY, "demo", profile={"plugins": {"score": {"enabled": [{"name": "Nope"}]}}})
    await sim.until(lambda: cell.shown()["Accepted"] == ("False", "UnknownPlugin"))
    assert cell.shown()["Active"] == ("True", "Ready")
    await cell.pod("later")
    await sim.until(lambda: cell.node_of("later") == "ssd-1")

    await cell.edit(POLICY, "demo", profile=prefer("ssd"))
    await cell.until_ready()


@simulate()
async def test_pods_that_fit_nowhere_are_counted_with_their_reasons(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add()
    await cell.until_ready()
    await cell.pod("huge", cpu="64")
    await sim.until(lambda: cell.status().get("unschedulable") == 1)

    assert cell.status()["topReasons"] == [{"reason": "Insufficient cpu", "count": 1}]
    assert cell.status()["pending"] == 1


@simulate()
async def test_a_burst_of_pods_is_a_handful_of_status_writes(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add()
    await cell.until_ready()
    started = sim.time
    for number in range(60):
        await cell.pod(f"p{number}", cpu="1m")
        await sim.clock.sleep(0.1)
    await sim.until(lambda: cell.status().get("scheduled") == 60)

    written = [w for w in cell.api.writes if w.resource == POLICY and w.subresource == "status" and w.time > started]
    assert len(written) <= (sim.time - started) / STATS_INTERVAL + 2


@simulate()
async def test_writes_nothing_when_nothing_changes(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add()
    await cell.until_ready()
    await cell.pod("one")
    await sim.until(lambda: cell.status().get("scheduled") == 1)
    await sim.clock.sleep(2 * STATS_INTERVAL)
    writes = len(cell.api.writes)
    await sim.clock.sleep(3600)

    assert len(cell.api.writes) == writes


@simulate()
async def test_suspended_it_places_nothing_and_is_done(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add(suspend=True)
    await sim.until(lambda: cell.shown()["Ready"] == ("True", "Suspended"))
    assert cell.shown()["Active"] == ("False", "Suspended")
    await cell.pod("waits")
    await sim.clock.sleep(60)
    assert cell.node_of("waits") is None

    await cell.edit(POLICY, "demo", suspend=False)
    await sim.until(lambda: cell.node_of("waits") is not None)
    await cell.until_ready()


@simulate()
async def test_suspending_it_stops_the_placing(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add()
    await cell.until_ready()
    await cell.edit(POLICY, "demo", suspend=True)
    await sim.until(lambda: cell.shown()["Ready"] == ("True", "Suspended"))
    await cell.pod("waits")
    await sim.clock.sleep(60)

    assert cell.node_of("waits") is None
    assert "matched" not in cell.status()
    assert "others may take them" in cell.message("demo", "Active")


@simulate()
async def test_the_higher_priority_takes_a_scheduler_name_and_gives_it_back(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add("low", profile=prefer("hdd"))
    await cell.until_ready("low")

    await cell.add("top", priority=10, profile=prefer("ssd"))
    await cell.until_ready("top")
    await sim.until(lambda: cell.shown("low")["Accepted"] == ("False", "Conflict"))
    assert cell.shown("low")["Ready"] == ("False", "Conflict")
    await cell.pod("first")
    await sim.until(lambda: cell.node_of("first") == "ssd-1")

    await cell.user.delete(POLICY, "top")
    await cell.until_ready("low")
    await cell.pod("second")
    await sim.until(lambda: cell.node_of("second") == "hdd-1")


@simulate()
async def test_raising_a_priority_takes_the_name_over(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add("a")
    await cell.add("b")
    await cell.until_ready("a")
    await sim.until(lambda: cell.shown("b")["Accepted"] == ("False", "Conflict"))

    await cell.edit(POLICY, "b", priority=1)
    await cell.until_ready("b")
    await sim.until(lambda: cell.shown("a")["Accepted"] == ("False", "Conflict"))


@simulate()
async def test_policies_share_a_scheduler_name_by_their_selectors(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add("all", profile=prefer("hdd"))
    await cell.add("web", profile=prefer("ssd"), podSelector={"matchLabels": {"app": "web"}})
    for name in ("all", "web"):
        await cell.until_ready(name)
    await cell.pod("front", app="web")
    await cell.pod("other")
    await sim.until(lambda: [cell.status(name).get("scheduled") for name in ("all", "web")] == [1, 1])

    assert (cell.node_of("front"), cell.node_of("other")) == ("ssd-1", "hdd-1")
    assert [cell.status(name)["matched"] for name in ("all", "web")] == [1, 1]


@simulate()
async def test_equal_selectors_of_equal_priority_are_a_conflict_that_the_first_name_wins(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    selector = {"matchLabels": {"app": "web"}}
    await cell.add("b", podSelector=selector)
    await cell.until_ready("b")
    await cell.add("a", podSelector={"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]})
    await sim.until(lambda: cell.shown("b")["Accepted"] == ("False", "Conflict"))

    assert cell.shown("a")["Ready"] == ("True", "Active")
    assert "taken by the policy a" in cell.message("b", "Accepted")
    await sim.until(lambda: "b may match the same pods" in cell.message("a", "Accepted"))


@simulate()
async def test_a_canary_beside_the_stable_policy_is_no_conflict(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add("stable")
    await cell.add("canary", priority=1, canaryPercent=20)
    for name in ("stable", "canary"):
        await cell.until_ready(name)
    for number in range(40):
        await cell.pod(f"p{number}", cpu="1m")
    await sim.until(lambda: sum(cell.status(name).get("scheduled") or 0 for name in ("stable", "canary")) == 40)

    assert 0 < cell.status("canary")["scheduled"] < 20
    await cell.edit(POLICY, "canary", canaryPercent=100)
    await sim.until(lambda: cell.shown("stable")["Accepted"] == ("False", "Conflict"))
    await sim.until(lambda: cell.status("canary").get("matched") == 40)


@simulate()
async def test_a_restarted_operator_knows_all_policies_before_the_first_pod_is_placed(sim: Sim) -> None:
    """The one that is reconciled first must not take a pod of another."""
    cell = Cell(sim)
    await cell.add("a", profile=prefer("hdd"))
    await cell.add("b", priority=1, profile=prefer("ssd"))
    await cell.pod("early")
    await cell.open()

    await sim.until(lambda: cell.node_of("early") == "ssd-1")


@simulate()
async def test_suspended_with_hold_its_pods_wait_and_are_counted(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add("low")
    await cell.add("top", priority=1, suspend=True, stopPolicy="Hold")
    await sim.until(lambda: cell.shown("top")["Ready"] == ("True", "Suspended"))
    await cell.pod("waits")
    await sim.until(lambda: cell.status("top").get("pending") == 1)
    assert cell.node_of("waits") is None
    assert cell.status("low").get("matched") == 0

    await cell.edit(POLICY, "top", stopPolicy="None")
    await sim.until(lambda: cell.node_of("waits") is not None)
    await sim.until(lambda: cell.status("low").get("scheduled") == 1)


@simulate()
async def test_suspended_with_hold_and_drain_it_says_how_many_are_left(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add()
    await cell.until_ready()
    owner = await cell.user.create(ReplicaSet, {"metadata": {"name": "web"}}, "default")
    head = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": owner["metadata"]["uid"]}
    await cell.pod("web")
    await cell.user.patch(Pod, "web", {"metadata": {"ownerReferences": [{**head, "controller": True}]}}, "default")
    await cell.pod("alone")
    await sim.until(lambda: cell.status().get("scheduled") == 2)
    await cell.edit(POLICY, "demo", suspend=True, stopPolicy="HoldAndDrain")
    await sim.until(lambda: cell.status().get("scheduled") == 1)

    assert "1 that have a node are evicted, save those that nothing would make anew" in cell.message("demo", "Active")
    assert cell.get(Pod, "web", "default") is None
    assert cell.node_of("alone") is not None


@simulate()
async def test_suspended_with_a_profile_that_cannot_be_used_it_places_nothing(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add()
    await cell.until_ready()
    nope = {"plugins": {"score": {"enabled": [{"name": "Nope"}]}}}
    await cell.edit(POLICY, "demo", suspend=True, stopPolicy="Hold", profile=nope)
    await sim.until(lambda: cell.shown()["Accepted"] == ("False", "UnknownPlugin"))
    await cell.pod("waits")
    await sim.clock.sleep(60)

    assert cell.shown()["Active"] == ("False", "NotAccepted")
    assert cell.node_of("waits") is None


@simulate()
async def test_a_hard_topology_that_no_node_has_is_told_until_one_has_it(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add(topology={"level": "example.com/rack", "mode": "Hard"})
    await sim.until(lambda: cell.shown()["Active"] == ("False", "TopologyNotFound"))
    assert cell.shown()["Ready"] == ("False", "TopologyNotFound")
    assert "no node has the label example.com/rack" in cell.message("demo", "Active")

    await cell.user.patch(Node, "ssd-1", {"metadata": {"labels": {"example.com/rack": "r1"}}})
    await cell.until_ready()
    assert cell.shown()["Active"] == ("True", "Ready")


@simulate()
async def test_a_soft_topology_that_no_node_has_is_told_beside(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add(topology={"level": "example.com/rack"})
    await cell.until_ready()

    assert "no node has the label example.com/rack" in cell.message("demo", "Active")


@simulate()
async def test_a_version_that_does_not_exist_is_told_with_those_that_do(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    use = {"name": "NodeResourcesFit", "version": "v9", "canaryPercent": 10}
    await cell.add(profile={"plugins": {"multiPoint": {"enabled": [use]}}})
    await sim.until(lambda: cell.shown()["Accepted"] == ("False", "UnknownPlugin"))

    assert "unknown plugin 'NodeResourcesFit@v9'; known: NodeResourcesFit@v1" in cell.message("demo", "Accepted")


@simulate()
async def test_deleted_it_places_nothing_any_more(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add()
    await cell.until_ready()
    await cell.user.delete(POLICY, "demo")
    await sim.until(lambda: cell.policy() is None)
    await cell.pod("waits")
    await sim.clock.sleep(60)

    assert cell.node_of("waits") is None


@simulate()
async def test_without_a_scheduler_it_says_so_and_can_still_be_deleted(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open(with_scheduler=False)
    await cell.add()
    await sim.until(lambda: cell.shown()["Active"] == ("False", "SchedulerUnavailable"))
    assert cell.shown()["Ready"] == ("False", "SchedulerUnavailable")

    await cell.user.delete(POLICY, "demo")
    await sim.until(lambda: cell.policy() is None)
