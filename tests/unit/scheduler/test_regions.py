"""Regions: whom each kind of region suits, shares of groups, and the order as the tie break."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from konverge.errors import InvalidPluginArgs
from konverge.model.resource import Pod
from konverge.scheduler import Registry
from konverge.scheduler.plugins.regions import Regions
from konverge.scheduler.spot import PRICE, SPOT_LABELS, price_of
from konverge.testing.sim import Sim, simulate
from tests.unit.scheduler.clusters import node, pod, running, snapshot_of, toleration, with_plugin
from tests.unit.scheduler.shown import annotated, of_gang, owned, ranks, reading


def region(name: str, kind: str = "Custom") -> dict[str, Any]:
    """The nodes with the label `pool: name`."""
    terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": [name]}]}]
    return {"name": name, "kind": kind, "nodeSelectorTerms": terms}


def pools(**of: str) -> list[dict[str, Any]]:
    return [node(name, labels={"pool": pool}) for name, pool in of.items()]


def asking_for(resource: str) -> dict[str, Any]:
    """A pod that requests one piece of a resource."""
    raw = pod()
    raw["spec"]["containers"][0]["resources"]["requests"] = {resource: "1"}
    return raw


def order(scores: dict[str, int]) -> list[set[str]]:
    """The nodes, best first; equals together."""
    return [
        {name for name, score in scores.items() if score == each} for each in sorted(set(scores.values()), reverse=True)
    ]


def test_of_equals_the_region_that_is_named_first_is_better_and_any_better_than_none() -> None:
    one = reading(Regions, regions=[region("x"), region("y")])
    assert order(ranks(one, pod(), snapshot_of(*pools(a="y", b="x", c="z", d="y")))) == [{"b"}, {"a", "d"}, {"c"}]


def test_a_node_in_several_regions_is_in_the_first() -> None:
    everywhere = {"name": "all", "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]}
    one = reading(Regions, regions=[region("x"), everywhere])
    assert order(ranks(one, pod(), snapshot_of(*pools(a="x", b="y")))) == [{"a"}, {"b"}]


@pytest.mark.parametrize("count", [1, 2, 9, 32])
def test_the_order_decides_between_equals_only_however_many_regions_there_are(count: int) -> None:
    """The last region suits a GPU pod, the others do not care about it; and scores stay within 0-100."""
    regions = [*(region(f"p{i}", "HighIO") for i in range(count - 1)), region("gpus", "GPUAffinity")]
    one = reading(Regions, regions=regions)
    snapshot = snapshot_of(*pools(**{f"n{i}": f"p{i}" for i in range(count - 1)}, g="gpus", z="none"))
    scores = ranks(one, pod(nvidia_com__gpu="1"), snapshot)
    assert order(scores) == [{"g"}, *({f"n{i}"} for i in range(count - 1)), {"z"}]
    assert order(ranks(one, pod(), snapshot))[-1] == {"g"}
    assert min(scores.values()) >= 0
    assert max(scores.values()) <= 100


@pytest.mark.parametrize(
    "asking",
    [
        annotated(pod(), scheduling_konverge_dev__io="high"),
        asking_for("ephemeral-storage"),
    ],
)
def test_pods_that_ask_for_fast_disks_prefer_high_io(asking: dict[str, Any]) -> None:
    one = reading(Regions, regions=[region("x", "GPUAffinity"), region("fast", "HighIO")])
    snapshot = snapshot_of(*pools(a="fast", b="none"))
    asked, plain = ranks(one, asking, snapshot), ranks(one, pod(), snapshot)
    assert asked["a"] > plain["a"]
    assert asked["b"] == plain["b"]


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-1g", "amd.com/gpu", "gpu.intel.com/i915"])
def test_gpu_pods_prefer_gpu_regions_and_others_stay_away(resource: str) -> None:
    one = reading(Regions, regions=[region("gpus", "GPUAffinity")])
    snapshot = snapshot_of(*pools(a="gpus", b="none"))
    assert order(ranks(one, asking_for(resource), snapshot)) == [{"a"}, {"b"}]
    assert order(ranks(one, pod(cpu="1"), snapshot)) == [{"b"}, {"a"}]


COSTS = [region("cheap", "CostOptimal")]


@pytest.mark.parametrize(("key", "value"), SPOT_LABELS)
def test_spot_nodes_are_best_for_pods_that_bear_it_and_worst_for_others(key: str, value: str) -> None:
    """The clouds' own labels tell spot nodes, and a toleration of their taints who bears them."""
    snapshot = snapshot_of(node("spot", labels={"pool": "cheap", key: value}), *pools(plain="cheap", other="none"))
    one = reading(Regions, regions=COSTS)
    bearing = pod(spec={"tolerations": [toleration(key, value, "NoSchedule")]})
    assert order(ranks(one, bearing, snapshot))[0] == {"spot"}
    assert order(ranks(one, annotated(pod(), scheduling_konverge_dev__spot="tolerated"), snapshot))[0] == {"spot"}
    assert order(ranks(one, pod(), snapshot))[-1] == {"spot"}


def test_the_cheaper_node_is_better_and_an_unknown_price_is_in_the_middle() -> None:
    prices = {"a": "0.10", "b": "0.55", "c": "1.0", "d": "cheap"}
    nodes = [node(name, labels={"pool": "cheap", PRICE: price}) for name, price in prices.items()]
    assert order(ranks(reading(Regions, regions=COSTS), pod(), snapshot_of(*nodes))) == [{"a"}, {"b", "d"}, {"c"}]


@pytest.mark.parametrize(
    ("label", "thousandths"),
    [("0.384", 384), ("2", 2000), ("0.0019", 1), (None, -1), ("-1", -1), ("1e3", -1), ("", -1)],
)
def test_prices_are_decimal_numbers(label: str | None, thousandths: int) -> None:
    assert price_of(label) == thousandths


SHARES = [{"region": "x", "percent": 75}, {"region": "y", "percent": 25}]


def test_the_region_that_lacks_most_of_its_share_is_best() -> None:
    one = reading(Regions, regions=[region("x"), region("y"), region("z")], spread=SHARES)
    snapshot = snapshot_of(*pools(a="x", b="y", c="z"))
    placed = []
    for number in range(8):
        (best,) = order(ranks(one, owned(pod(f"p{number}"), "rs"), snapshot))[0]
        placed.append(best)
        snapshot = snapshot_of(
            *pools(a="x", b="y", c="z"), pods=[owned(pod(f"p{i}", on=on), "rs") for i, on in enumerate(placed)]
        )
    assert Counter(placed) == {"a": 6, "b": 2}
    assert Counter(placed[:4]) == {"a": 3, "b": 1}


def test_a_pod_that_stands_alone_has_no_share() -> None:
    one = reading(Regions, regions=[region("x"), region("y")], spread=SHARES)
    snapshot = snapshot_of(*pools(a="x", b="y"), pods=[pod("other", on="a")])
    assert order(ranks(one, pod(), snapshot)) == [{"a"}, {"b"}]


@simulate(seeds=range(4))
async def test_a_gang_is_shared_out_between_regions(sim: Sim) -> None:
    """The plugin weighs more than those that spread pods by themselves."""
    profile = with_plugin("Regions", weight=20, regions=[region("x"), region("y")], spread=SHARES)
    cluster = await running(sim, *pools(a="x", b="x", c="y"), profile=profile)
    for number in range(12):
        await cluster.create(of_gang(pod(f"p{number}", cpu="100m"), "g"))
        await asyncio.sleep(1)
    await sim.until(lambda: all(raw["spec"].get("nodeName") for raw in cluster.api.objects(Pod)))
    on = Counter("y" if raw["spec"]["nodeName"] == "c" else "x" for raw in cluster.api.objects(Pod))
    assert on == {"x": 9, "y": 3}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"regions": []}, "regions: Tuple should have at least 1 item"),
        ({"regions": [region("x"), region("x")]}, "two regions have the same name"),
        ({"regions": [{**region("x"), "kind": "Fast"}]}, "regions.0.kind: Input should be 'HighIO', 'GPUAffinity'"),
        ({"regions": [{"name": "x", "nodeSelectorTerms": [{}]}]}, "matches no node: give matchExpressions"),
        (
            {"regions": [region("x")], "spread": [{"region": "y", "percent": 100}]},
            "spread names the region 'y', which is not among: x",
        ),
        ({"regions": [region("x")], "spread": [{"region": "x", "percent": 90}]}, "must make 100, not 90"),
        (
            {"regions": [region("x")], "spread": [{"region": "x", "percent": 50}] * 2},
            "spread names the region 'x' more than once",
        ),
    ],
)
def test_arguments_that_make_no_sense_are_refused(args: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidPluginArgs, match=says):
        Registry.default().check_args("Regions", args)
