"""What the scheduler would do with the pods that wait: policies and a cluster's objects flow in, nodes and reasons flow out.

The scheduler is the one that runs in the operator, with its queue, cycle, plugins, gangs and preemption; only its API
server is a `Stage`, so nothing outside is written. PreBind and PostBind plugins do not run, for what they do is real, and
binds go to the stage. Meant to run on a loop and a clock whose time jumps.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from konverge.model import meta
from konverge.model.resource import Namespace, Node, Object, Pod, ResourceType
from konverge.ports import Clock, Random
from konverge.scheduler.framework import Point
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.policies import Rule
from konverge.scheduler.profile import ALL_PLUGINS, PluginSet, PluginUse, ProfileConfig
from konverge.scheduler.registry import Registry
from konverge.scheduler.resources import PODS, capacity_of
from konverge.scheduler.scheduler import Scheduler
from konverge.scheduler.stage import Silence, Stage

QUIET: Final = 30.0
"""Seconds without a bind or an eviction that end a rehearsal: by then each pod that backs off was tried again."""

Objects = Mapping[ResourceType, Sequence[Object]]


@dataclass(frozen=True, slots=True)
class Part:
    """A policy of the rehearsal."""

    owner: str
    config: ProfileConfig
    rule: Rule


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one pod."""

    pod: str
    policy: str
    before: str
    """The node that it is on in the cluster; empty: it waits."""
    node: str
    """The node that it would get; empty: none."""
    message: str = ""
    """Why it would get none."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that would have to go."""

    pod: str
    node: str
    priority: int
    preemptor: str


@dataclass(frozen=True, slots=True)
class Usage:
    """How much of one resource pods ask for, before and after, and how much the nodes have; millicores or whole units."""

    resource: str
    allocatable: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What came of it."""

    outcomes: Sequence[Outcome]
    """Those that got a node in the order in which they did, then the others by name."""
    reasons: Sequence[tuple[str, int]]
    """Why pods get no node, with the number of pods, the most frequent first. A pod may have several."""
    evictions: Sequence[Eviction]
    usage: Sequence[Usage]
    nodes: int
    nodes_before: int
    """So many have pods before, those of DaemonSets not counted."""
    nodes_after: int


async def rehearse(
    cluster: Objects, waiting: Sequence[Object], parts: Sequence[Part], registry: Registry, clock: Clock, random: Random
) -> Rehearsal:
    """Schedule `waiting`, in the order of the queue and else in the order given, on `cluster`, whose pods they are among.

    Raises: SchedulingError for a profile that cannot be used.
    """
    stage, recorder = Stage(clock, random), Silence()
    tried = {meta.key_of(pod) for pod in waiting}
    for resource, objects in cluster.items():
        stage.set(resource, (obj for obj in objects if resource != Pod or meta.key_of(obj) not in tried))
    stage.set(Pod, map(_waiting, waiting))
    scheduler = Scheduler(
        stage,
        stage.cache(Pod),
        stage.cache(Node),
        clock=clock,
        random=random,
        recorder=recorder,
        registry=registry,
        namespaces=stage.cache(Namespace),
        caches={each: stage.cache(each) for each in cluster if each not in {Pod, Node, Namespace}},
    )
    for part in parts:
        scheduler.set_profile(part.owner, _on_stage(part.config), replace(part.rule, drain=False))
    running = asyncio.create_task(scheduler.run())
    try:
        while clock.monotonic() - stage.changed_at < QUIET:
            await asyncio.wait({running}, timeout=1.0)
            if running.done():
                await running
        return _result(cluster, waiting, stage, recorder, scheduler)
    finally:  # pods that hold a node for others give it back now
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _waiting(pod: Object) -> Object:
    """The pod as if it had been made just now: on no node, and told nothing yet."""
    spec = {field: value for field, value in pod["spec"].items() if field != "nodeName"}
    return {**pod, "spec": spec, "status": {"phase": "Pending"}}


def _on_stage(config: ProfileConfig) -> ProfileConfig:
    """The profile without the plugins that act on the world."""
    plugins = {
        **config.plugins,
        Point.PRE_BIND: PluginSet(disabled=frozenset({ALL_PLUGINS})),
        Point.POST_BIND: PluginSet(disabled=frozenset({ALL_PLUGINS})),
        Point.BIND: PluginSet((PluginUse("DefaultBinder"),), frozenset({ALL_PLUGINS})),
    }
    return replace(config, plugins=plugins)


# The result


def _result(
    cluster: Objects, waiting: Sequence[Object], stage: Stage, recorder: Silence, scheduler: Scheduler
) -> Rehearsal:
    outcomes, reasons = [], Counter[str]()
    for raw in waiting:
        outcome, why = _outcome(raw, stage, scheduler)
        outcomes.append(outcome)
        reasons.update([why] if why else ())
    for owner in {outcome.policy for outcome in outcomes}:
        reasons.update(dict(scheduler.stats(owner).top_reasons))
    rank = {str(key): number for number, key in enumerate(stage.bound)}
    outcomes.sort(key=lambda outcome: (not outcome.node, rank.get(outcome.pod, 0), outcome.pod))
    before, after = list(map(PodInfo, cluster[Pod])), list(map(PodInfo, stage.cache(Pod).list()))
    names = {pod.uid: str(pod.key) for pod in before}
    return Rehearsal(
        outcomes=outcomes,
        reasons=sorted(reasons.items(), key=lambda item: (-item[1], item[0])),
        evictions=[_eviction(PodInfo(raw), recorder, names) for raw in stage.evicted],
        usage=_usage(cluster[Node], before, after),
        nodes=len(cluster[Node]),
        nodes_before=_in_use(before),
        nodes_after=_in_use(after),
    )


def _outcome(raw: Object, stage: Stage, scheduler: Scheduler) -> tuple[Outcome, str]:
    """What became of the pod, and why it got no node, unless the scheduler has counted that."""
    key, before = meta.key_of(raw), raw["spec"].get("nodeName") or ""
    now = stage.cache(Pod).get(key)
    told = scheduler.explain(*key, attempt=False)
    if now is None or told is None:
        why = "evicted again for a more important pod"
        return Outcome(str(key), "", before, "", why), why
    policy, queue = told["policy"] or "", told["queue"]
    if queue["place"] == "placed":
        return Outcome(str(key), policy, before, queue["node"]), ""
    if queue["place"] == "permit":
        why = f"waits for leave of {', '.join(queue['heldBy'])}"
        return Outcome(str(key), policy, before, "", f"would keep node {queue['node']}, but {why}"), why
    condition = PodInfo(now).scheduled_condition or {}
    message = str(queue["why"] or condition.get("message") or "was not tried")
    counted = condition.get("reason") == "Unschedulable"
    return Outcome(str(key), policy, before, "", message), "" if counted else message


def _eviction(pod: PodInfo, recorder: Silence, names: Mapping[str, str]) -> Eviction:
    preemptor = recorder.preempted_by.get(pod.uid, "")
    return Eviction(str(pod.key), pod.node_name, pod.priority, names.get(preemptor, preemptor))


def _usage(nodes: Sequence[Object], before: Sequence[PodInfo], after: Sequence[PodInfo]) -> list[Usage]:
    """Of every resource that a pod asks for and a node has."""
    known = {node["metadata"]["name"] for node in nodes}
    have = _sum(capacity_of((node.get("status") or {}).get("allocatable") or {}) for node in nodes)
    earlier, later = (_sum(_asked(pod) for pod in pods if pod.node_name in known) for pods in (before, after))
    return [
        Usage(name, have[name], earlier[name], later[name])
        for name in sorted(have)
        if have[name] and (earlier[name] or later[name])
    ]


def _asked(pod: PodInfo) -> Mapping[str, int]:
    return {} if pod.finished else {PODS: 1, **pod.requests.amounts}


def _sum(amounts: Iterable[Mapping[str, int]]) -> defaultdict[str, int]:
    total: defaultdict[str, int] = defaultdict(int)
    for each in amounts:
        for name, amount in each.items():
            total[name] += amount
    return total


def _in_use(pods: Iterable[PodInfo]) -> int:
    return len({pod.node_name for pod in pods if pod.node_name and not pod.finished and not bound_to_its_node(pod.raw)})


def bound_to_its_node(pod: Object) -> bool:
    """Whether the pod is there for its node's sake: one of a DaemonSet, or of the kubelet's own."""
    owner = meta.controller_of(pod)
    return owner is not None and owner["kind"] in {"DaemonSet", "Node"}
