"""The page about scheduler plugins says what is: its plugin is the sample's, its test passes, its keys are those read."""

import re
from pathlib import Path
from typing import Any

import yaml

from konverge.controllers.scheduling_policy import SchedulingPolicy
from konverge.scheduler import gangs, spot
from konverge.scheduler.bandwidth import MEMORY_BANDWIDTH
from konverge.scheduler.events import NodeChange, PodChange
from konverge.scheduler.framework import INTERFACES
from konverge.scheduler.numa import ZONES
from konverge.scheduler.plugins import node_topology, regions
from konverge.scheduler.podinfo import PodInfo
from tests.unit.docs.test_pages import DOCS
from tests.unit.scheduler.clusters import node, plugin_handle, pod

PAGE = (DOCS / "scheduler-plugins.md").read_text()
SAMPLE = Path(__file__).parents[2] / "samples" / "quiet_nodes" / "quiet_nodes.py"


def blocks(language: str) -> list[str]:
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found


def test_the_plugin_is_the_sample() -> None:
    assert blocks("python")[0] == SAMPLE.read_text()


def test_the_batch_form_says_the_same_and_the_test_passes() -> None:
    plugin, batch, _, test = blocks("python")
    names: dict[str, Any] = {}
    exec(plugin + batch + test, names)
    handle = plugin_handle()
    names["test_a_node_with_enough_pods_takes_no_more"](handle)
    names["QuietNodes"].score_batch = names["score_batch"]
    one = names["QuietNodes"](names["QuietNodesArgs"](max_pods=4), handle)
    snapshot, state = names["Snapshot"](), names["CycleState"]()
    for name in ("a", "b"):
        snapshot.set_node({"metadata": {"name": name}})
    for index in range(3):
        snapshot.place(names["pod"](f"p{index}", "b"))
    fast = one.score_batch(state, names["pod"]("new"), snapshot, snapshot.rows).tolist()
    assert fast == [one.score(state, names["pod"]("new"), node) for node in snapshot.nodes(snapshot.rows)] == [100, 25]


def test_the_hint_leaves_cordoned_nodes_out_for_all_pods_alike() -> None:
    plugin, _, hinting, _ = blocks("python")
    names: dict[str, Any] = {}
    exec(plugin + hinting, names)
    one = names["HintingQuietNodes"](names["QuietNodesArgs"](), plugin_handle())
    waiting = PodInfo(pod())
    causes = [NodeChange(None, node("n")), NodeChange(None, node("n", unschedulable=True)), PodChange(waiting, None)]
    assert [one.hint(waiting, cause) for cause in causes] == [True, False, True]
    assert one.hint_key(waiting) == one.hint_key(PodInfo(pod("other", cpu="1"))) == ()


def test_the_manifest_is_a_policy() -> None:
    (manifest,) = map(yaml.safe_load, blocks("yaml"))
    policy = SchedulingPolicy.parse(manifest)
    assert policy.spec.profile.plugin_config[0].args == {"maxPods": 20}


def test_all_points_are_listed() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert set(listed) >= {interface.__name__ for interface in INTERFACES.values()}


def test_all_keys_that_are_read_are_documented() -> None:
    keys = [
        gangs.GANG,
        gangs.POD_GROUP,
        gangs.MIN_COUNT,
        node_topology.NVLINK_DOMAIN,
        node_topology.GPU_CLIQUE,
        MEMORY_BANDWIDTH,
        ZONES,
        regions.IO,
        spot.PRICE,
        spot.SPOT,
        *(key for key, _ in spot.SPOT_LABELS),
    ]
    assert [key for key in keys if key not in PAGE] == []
