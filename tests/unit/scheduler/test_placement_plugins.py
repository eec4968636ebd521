"""The plugins that look at ports, images, balance and gates, with kube-scheduler's numbers worked out by hand."""

from typing import Any

import pytest
from pydantic import ValidationError

from konverge.scheduler.framework import SUCCESS, Code, CycleState
from konverge.scheduler.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from konverge.scheduler.plugins.image_locality import ImageLocality
from konverge.scheduler.plugins.node_ports import TAKEN, NodePorts
from konverge.scheduler.plugins.node_resources_fit import NodeResourcesFit
from konverge.scheduler.plugins.scheduling_gates import SchedulingGates
from konverge.scheduler.podinfo import PodInfo
from tests.unit.scheduler.clusters import container, node, passing, plugin, pod, scores, snapshot_of, verdicts

MIB = 2**20

# Ports


def with_port(name: str, *, on: str = "", sidecar: bool = False, init: bool = False, **port: Any) -> dict[str, Any]:
    """A pod one of whose containers takes a host port."""
    taker = {**container("port", sidecar=sidecar), "ports": [{"containerPort": 1, **port}]}
    spec = {"initContainers": [taker]} if init or sidecar else {"containers": [taker]}
    return pod(name, on=on, spec={"containers": [container("main")], **spec})


def meet(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether `other` may join `one` on its node."""
    one["spec"]["nodeName"] = "n1"
    return passing(plugin(NodePorts), other, node("n1"), pods=[one]) == {"n1"}


def test_a_taken_port_is_a_reason_that_preemption_can_remove() -> None:
    there = with_port("x", on="n1", hostPort=80)
    found = verdicts(plugin(NodePorts), with_port("p", hostPort=80), snapshot_of(node("n1"), node("n2"), pods=[there]))
    assert (found["n1"].code, found["n1"].reasons) == (Code.UNSCHEDULABLE, (TAKEN,))
    assert found["n2"] == SUCCESS


def test_hostnetwork_pods_whose_sidecars_use_one_port_never_share_a_node() -> None:
    """Replay 31."""
    assert not meet(with_port("x", sidecar=True, hostPort=8081), with_port("p", sidecar=True, hostPort=8081))
    assert meet(with_port("x", sidecar=True, hostPort=8081), with_port("p", sidecar=True, hostPort=8082))


def test_a_port_on_two_addresses_is_two_ports_but_any_address_is_all() -> None:
    """Replay 32."""
    first: dict[str, Any] = {"hostPort": 8080, "hostIP": "10.1.1.1"}
    second: dict[str, Any] = {"hostPort": 8080, "hostIP": "10.1.1.2"}
    spellings: list[dict[str, Any]] = [{"hostPort": 8080, "hostIP": "0.0.0.0"}, {"hostPort": 8080}]
    assert meet(with_port("x", **first), with_port("p", **second))
    for everywhere in spellings:
        assert not meet(with_port("x", **everywhere), with_port("p", **first))
        assert not meet(with_port("x", **second), with_port("p", **everywhere))


def test_protocols_are_apart_and_tcp_is_meant_without_one() -> None:
    assert meet(with_port("x", hostPort=53, protocol="UDP"), with_port("p", hostPort=53))
    assert not meet(with_port("x", hostPort=53, protocol="TCP"), with_port("p", hostPort=53))


def test_ordinary_init_containers_and_container_ports_take_nothing() -> None:
    assert meet(with_port("x", init=True, hostPort=80), with_port("p", hostPort=80))
    assert meet(with_port("x"), with_port("p"))


# Images


def holding(name: str, image: str, mib: int) -> dict[str, Any]:
    raw = node(name)
    raw["status"]["images"] = [{"names": [image], "sizeBytes": mib * MIB}]
    return raw


def using(*images: str, init: str = "") -> dict[str, Any]:
    containers = [{**container(f"c{i}"), "image": image} for i, image in enumerate(images)]
    return pod(spec={"containers": containers, "initContainers": [{**container("i"), "image": init}] if init else []})


def test_an_image_is_worth_its_size_by_the_share_of_nodes_that_hold_it() -> None:
    # Half of 546 MiB is 273: 100 * (273 - 23) / (1000 - 23) = 25.
    assert scores(plugin(ImageLocality), using("app:1"), holding("n1", "app:1", 546), node("n2")) == [25, 0]


def test_images_below_and_beyond_the_bounds() -> None:
    nodes = holding("n1", "small:1", 23), holding("n2", "huge:1", 9000)
    assert scores(plugin(ImageLocality), using("small:1"), *nodes) == [0, 0]
    assert scores(plugin(ImageLocality), using("huge:1"), *nodes) == [0, 100]


def test_the_upper_bound_grows_with_the_containers() -> None:
    # 1000 MiB on the only node: 100 * (1000 - 23) / (2000 - 23) = 49.
    assert scores(plugin(ImageLocality), using("app:1", init="b:1"), holding("n1", "app:1", 1000)) == [49]


def test_no_tag_is_latest_and_a_registrys_port_is_no_tag() -> None:
    assert scores(plugin(ImageLocality), using("reg:5000/app"), holding("n1", "reg:5000/app:latest", 9000)) == [100]
    assert scores(plugin(ImageLocality), using("app@sha256:0"), holding("n1", "app@sha256:0", 9000)) == [100]


# Balance


def test_a_pod_that_evens_out_a_node_scores_above_75_and_one_that_tilts_it_below() -> None:
    # n1 is at cpu 1/2 of 4, memory 0: deviation 0.25, balance 75. With 4Gi of 8: both 1/2, 100. 50 + (50+25)/2 = 87.
    # n2 is empty, 100; memory at 1/2: 75. 50 + (50-25)/2 = 62.
    there = [pod("x", cpu="2", on="n1")]
    balance = plugin(NodeResourcesBalancedAllocation)
    assert scores(balance, pod(memory="4Gi"), node("n1"), node("n2"), pods=there) == [87, 62]


def test_what_is_not_asked_for_does_not_count_toward_balance() -> None:
    # Without defaults for missing requests: x counts for nothing, so the node is empty. cpu 1/2, memory 1/2: 75.
    balance = plugin(NodeResourcesBalancedAllocation)
    assert scores(balance, pod(cpu="2", memory="4Gi"), node("n1"), pods=[pod("x", on="n1")]) == [75]


def test_three_resources_take_the_standard_deviation() -> None:
    # Fractions 1/2, 1/2, 1: mean 2/3, deviation sqrt(1/18) = 0.2357: 76 against 100: 50 + (50-24)/2 = 63.
    balance = plugin(
        NodeResourcesBalancedAllocation,
        resources=[{"name": "cpu"}, {"name": "memory"}, {"name": "example.com/gpu"}],
    )
    raw = pod(cpu="2", memory="4Gi", example_com__gpu=2)
    assert scores(balance, raw, node("n1", example_com__gpu=2), node("n2")) == [63, 75]


def test_a_pod_that_asks_for_nothing_is_left_to_other_plugins() -> None:
    snapshot = snapshot_of(node("n1"))
    balance = plugin(NodeResourcesBalancedAllocation)
    for raw, code in ((pod(), Code.SKIP), (pod(cpu="0"), Code.SKIP), (pod(cpu="1m"), Code.SUCCESS)):
        assert balance.pre_score(CycleState(), PodInfo(raw), snapshot, snapshot.rows).code is code


@pytest.mark.parametrize(
    ("resources", "problem"),
    [
        ([], "must name a resource"),
        ([{"name": "cpu"}, {"name": "cpu"}], "names a resource more than once"),
        ([{"name": "cpu", "weight": 2}], "less than or equal to 1"),
    ],
)
def test_bad_arguments_of_balance_are_refused(resources: Any, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        plugin(NodeResourcesBalancedAllocation, resources=resources)


# The line of RequestedToCapacityRatio


def by_line(*points: tuple[int, int], **strategy: Any) -> NodeResourcesFit:
    shape = [{"utilization": at, "score": score} for at, score in points]
    ratio = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}, **strategy}
    return plugin(NodeResourcesFit, scoringStrategy=ratio)


def test_the_line_is_straight_between_its_points_and_level_beyond() -> None:
    cpu = [{"name": "cpu"}]
    rising = by_line((20, 0), (80, 10), resources=cpu)
    # 100 % 3/4 is between: (75-20) * 100 / 60 = 91.
    assert [scores(rising, pod(cpu=f"{cores}m"), node("n1"))[0] for cores in (400, 3000, 3600)] == [0, 91, 100]
    falling = by_line((0, 10), (100, 0), resources=cpu)
    assert scores(falling, pod(cpu="1"), node("n1")) == [75]
    # 100 - 70*1/3 truncated toward zero: 100 - 23.
    assert scores(by_line((0, 10), (3, 3), resources=cpu), pod(cpu="40m"), node("n1")) == [77]


def test_resources_that_score_nothing_leave_the_mean_and_halves_round_up() -> None:
    # cpu 50 -> 50, memory 25 -> 25: 37.5 is 38. In the second the memory scores 0 and only cpu counts.
    raw = pod(cpu="2", memory="2Gi")
    assert scores(by_line((0, 0), (100, 10)), raw, node("n1")) == [38]
    assert scores(by_line((25, 0), (50, 10)), raw, node("n1")) == [100]


@pytest.mark.parametrize(
    ("strategy", "problem"),
    [
        ({"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": []}}, "at least 1 item"),
        ({"requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}]}}, "shape goes with the type"),
        (
            {
                "type": "RequestedToCapacityRatio",
                "requestedToCapacityRatio": {"shape": [{"utilization": 9, "score": 1}, {"utilization": 9, "score": 2}]},
            },
            "utilization must rise",
        ),
    ],
)
def test_a_bad_line_is_refused(strategy: Any, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        plugin(NodeResourcesFit, scoringStrategy=strategy)


# Gates


def test_a_gated_pod_stays_out_of_the_queue_and_is_told_what_it_waits_for() -> None:
    gates = plugin(SchedulingGates)
    gated = pod(spec={"schedulingGates": [{"name": "a.example/x"}, {"name": "b.example/y"}]})
    verdict = gates.pre_enqueue(PodInfo(gated))
    assert verdict.reasons == ("waiting for scheduling gates: [a.example/x b.example/y]",)
    assert verdict.rejected
    assert gates.pre_enqueue(PodInfo(pod())) == SUCCESS
