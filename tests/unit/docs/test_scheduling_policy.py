"""The policies on the page about SchedulingPolicy are such as the scheduler runs."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from konverge.controllers.scheduling_policy import SchedulingPolicy
from konverge.controllers.scheduling_policy.profile import profile_config, rule_of
from konverge.scheduler import Registry
from konverge.scheduler.framework import CycleState, Score
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.variants import Variants
from tests.unit.scheduler.clusters import plugin_handle

PAGE = Path(__file__).parents[3] / "docs" / "scheduling-policy.md"
POLICIES = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)]


class Example(Score):
    """The plugin that the page speaks of."""

    name = "ExamplePlugin"

    def score(self, _state: CycleState, _pod: PodInfo, _node: NodeInfo, /) -> int:
        return 0


class Example2(Example):
    version = "v2"


@pytest.mark.parametrize("manifest", POLICIES, ids=lambda manifest: manifest["metadata"]["name"])
def test_a_policy_on_the_page_can_be_run(manifest: dict[str, Any]) -> None:
    registry = Registry.default()
    registry.register(Example)
    registry.register(Example2)
    policy = SchedulingPolicy.parse(manifest)
    known = policy.spec.model_dump(by_alias=True, exclude_unset=True)

    assert known.keys() == manifest["spec"].keys()
    rule_of(policy.spec)
    Variants(profile_config(policy.spec), registry, plugin_handle())
