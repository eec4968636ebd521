"""The page about scheduling: its files and commands are run, and its explanations are those of a scheduler on its cluster."""

import asyncio
import os
import re
import sys
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from konverge.controllers.scheduling_policy import SchedulingPolicy
from konverge.controllers.scheduling_policy.profile import profile_config, rule_of
from konverge.model.resource import Namespace, Node, Pod
from konverge.runtime.metrics import Metrics
from konverge.scheduler import Registry, Scheduler
from konverge.scheduler.stage import Silence, Stage
from konverge.scheduler.variants import Variants
from konverge.testing.sim import Sim, run_sim
from tests.tutorial import Reader, blocks, commands
from tests.unit.cli.explained import lines
from tests.unit.scheduler.clusters import plugin_handle

PAGE = Path(__file__).parents[3] / "docs" / "scheduling.md"
BLOCKS = blocks(PAGE.read_text())
FILES = {block.title: yaml.safe_load(block.text) for block in BLOCKS if block.title}
EXPLAINED = [
    (command.split("/")[1].split()[0], shown)
    for block in BLOCKS
    if block.language == "console"
    for command, shown in commands(block)
    if command.startswith("konverge explain")
]


def told(name: str) -> dict[str, Any]:
    """What the scheduler tells of a pod of the page's cluster a while after the page's policy came."""

    async def scenario(sim: Sim) -> dict[str, Any]:
        stage, registry = Stage(sim.clock, sim.random), Registry.default()
        for resource in (Node, Pod):
            stage.set(resource, [raw for raw in FILES["cluster.yaml"]["items"] if raw["kind"] == resource.kind])
        scheduler = Scheduler(
            stage,
            stage.cache(Pod),
            stage.cache(Node),
            clock=sim.clock,
            random=sim.random,
            recorder=Silence(),
            namespaces=stage.cache(Namespace),
            caches={each: stage.cache(each) for each in registry.reads},
        )
        policy = SchedulingPolicy.parse(FILES["batch.yaml"])
        scheduler.set_profile(policy.name, profile_config(policy.spec), rule_of(policy.spec))
        sim.spawn(scheduler.run())
        await asyncio.sleep(12)
        found = scheduler.explain("jobs", name)
        assert found is not None
        return found

    return run_sim(scenario)


def explained(name: str) -> str:
    """What `konverge explain` prints of that."""
    return "\n".join(line.rstrip() for line in lines("jobs", name, told(name)))


def test_the_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with Reader(tmp_path, environment) as reader:
        for block in BLOCKS:
            if block.title or "konverge explain" not in block.text:
                reader.follow(block)


@pytest.mark.parametrize(("name", "shown"), EXPLAINED, ids=[name for name, _ in EXPLAINED])
def test_the_explanations_are_the_schedulers(name: str, shown: str) -> None:
    told = explained(name)
    assert OutputChecker().check_output(shown.strip(), told.strip(), ELLIPSIS | NORMALIZE_WHITESPACE), told


@pytest.mark.parametrize("title", [title for title in FILES if title != "cluster.yaml"])
def test_a_policy_on_the_page_can_be_run(title: str) -> None:
    policy = SchedulingPolicy.parse(FILES[title])
    known = policy.spec.model_dump(by_alias=True, exclude_unset=True)

    assert known.keys() == FILES[title]["spec"].keys()
    Variants(profile_config(policy.spec), Registry.default(), plugin_handle())


def test_the_fields_are_those_that_the_endpoint_gives() -> None:
    found = told("training")
    table = PAGE.read_text().split("gives the same as JSON", 1)[1].split("\n\n`attempt` is null", 1)[0]
    named = _spelt_out(table)
    assert {name for name in named if name.startswith("attempt.")} == {f"attempt.{field}" for field in found["attempt"]}
    assert {name.partition(".")[0] for name in named} == set(found)
    assert {f"queue.{field}" for field in found["queue"]} - {"queue.why"} <= named


def _spelt_out(table: str) -> set[str]:
    """The fields of the table's first column, `a.b`, `.c` as `a.b` and `a.c`."""
    found: set[str] = set()
    for row in table.splitlines():
        parent = ""
        for name in re.findall(r"`([^`]+)`", row.split("|")[1]) if row.startswith("| `") else ():
            full = f"{parent}{name}" if name.startswith(".") else name
            parent = full.partition(".")[0]
            found.add(full)
    return found


def test_the_metrics_exist() -> None:
    metrics = Metrics()
    metrics.scheduler()
    families = text_string_to_metric_families(metrics.exposition()[0].decode())
    known = {family.name for family in families}
    named = re.findall(r"`(scheduler_\w+)`", PAGE.read_text())
    assert named
    assert [name for name in named if name.removesuffix("_total") not in known] == []


def test_every_block_is_a_file_or_commands() -> None:
    assert {block.language for block in BLOCKS if not block.title} == {"console"}
