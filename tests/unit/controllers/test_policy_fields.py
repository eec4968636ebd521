"""The fields of a policy that are short for plugins, on a real scheduler: each does what it says."""

from typing import Any

from konverge.model.resource import Node, Pod
from konverge.testing.sim import Sim, simulate
from tests.unit.controllers.test_policy_reconciler import POLICY, Cell, prefer

GANG = "scheduling.konverge.dev/gang"


def region(name: str, disk: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "disktype", "operator": "In", "values": [disk]}]}
    return {"name": name, "nodeSelectorTerms": [term]}


async def urgent(cell: Cell, name: str, *, priority: int, cpu: str) -> None:
    """A pod of the policy with a priority."""
    spec = {
        "schedulerName": "demo",
        "priority": priority,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
    }
    await cell.user.create(Pod, {"metadata": {"name": name}, "spec": spec}, "default")


async def full(sim: Sim, **spec: Any) -> Cell:
    """A policy, whose two nodes are full of pods of no priority, and an urgent pod that waits."""
    cell = Cell(sim)
    await cell.open()
    await cell.add(**spec)
    await cell.until_ready()
    for number in range(2):
        await urgent(cell, f"low-{number}", priority=0, cpu="4")
    await sim.until(lambda: cell.status().get("scheduled") == 2)
    await urgent(cell, "high", priority=10, cpu="4")
    return cell


@simulate()
async def test_a_gang_waits_until_all_of_it_exists_and_is_placed_together(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    await cell.add(gang={"minCount": 3})
    await cell.until_ready()
    for name in ("a", "b"):
        await cell.pod(name, **{GANG: "g"})
    await sim.clock.sleep(60)
    assert [cell.node_of(name) for name in ("a", "b")] == [None, None]

    await cell.pod("c", **{GANG: "g"})
    await sim.until(lambda: all(cell.node_of(name) for name in ("a", "b", "c")))


@simulate()
async def test_a_pod_takes_the_place_of_one_with_a_lower_priority(sim: Sim) -> None:
    cell = await full(sim, preemption={"policy": "LowerPriority"})

    await sim.until(lambda: cell.node_of("high") is not None)
    assert len(cell.api.objects(Pod, "default")) == 2


@simulate()
async def test_preemption_never_leaves_pods_where_they_are(sim: Sim) -> None:
    cell = await full(sim, preemption={"policy": "Never"})
    await sim.until(lambda: cell.status().get("unschedulable") == 1)
    await sim.clock.sleep(60)

    assert cell.node_of("high") is None
    assert len(cell.api.objects(Pod, "default")) == 3


@simulate()
async def test_the_first_region_is_preferred(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    heavy = {"plugins": {"score": {"enabled": [{"name": "Regions", "weight": 100}]}}}
    await cell.add(placement={"regions": [region("fast", "ssd"), region("slow", "hdd")]}, profile=heavy)
    await cell.until_ready()
    for number in range(3):
        await cell.pod(f"p{number}")
    await sim.until(lambda: cell.status().get("scheduled") == 3)
    assert {cell.node_of(f"p{number}") for number in range(3)} == {"ssd-1"}

    await cell.edit(POLICY, "demo", placement={"regions": [region("slow", "hdd"), region("fast", "ssd")]})
    await sim.until(lambda: cell.status().get("observedGeneration") == 2)
    await cell.pod("later")
    await sim.until(lambda: cell.node_of("later") == "hdd-1")


@simulate()
async def test_a_hard_topology_keeps_the_pods_of_a_group_together(sim: Sim) -> None:
    cell = Cell(sim)
    await cell.open()
    for name in ("ssd-1", "hdd-1"):
        await cell.user.patch(Node, name, {"metadata": {"labels": {"example.com/rack": name}}})
    await cell.add(topology={"level": "example.com/rack", "mode": "Hard"}, gang={"minCount": 2}, profile=prefer("ssd"))
    await cell.until_ready()
    for name in ("a", "b"):
        await cell.pod(name, cpu="3", **{GANG: "g"})
    await sim.clock.sleep(120)

    assert [cell.node_of(name) for name in ("a", "b")] == [None, None]


@simulate()
async def test_a_ratio_packs_nodes_up_to_its_peak(sim: Sim) -> None:
    """Two more pods of a quarter node each: the peak at one half draws the second to the first, the third elsewhere."""
    cell = Cell(sim)
    await cell.open()
    shape = [{"utilization": 0, "score": 0}, {"utilization": 50, "score": 10}, {"utilization": 51, "score": 0}]
    alone = {"plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}}}
    scoring = {"strategy": "RequestedToCapacityRatio", "shape": shape, "resources": [{"name": "cpu"}]}
    await cell.add(scoring=scoring, profile=alone)
    await cell.until_ready()
    for number in range(3):
        await cell.pod(f"p{number}", cpu="1")
        await sim.until(lambda count=number + 1: cell.status().get("scheduled") == count)  # type: ignore[misc]
    first, second, third = (cell.node_of(f"p{number}") for number in range(3))

    assert first == second
    assert third != first
