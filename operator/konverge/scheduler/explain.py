"""Why a pod is where it is, for people: which policy has it, where it waits, and what each plugin says of each node.

In flow the parts of a running scheduler and the name of a pod; out flows plain data, ready for JSON. For the plugins'
answers a cycle runs on the snapshot as it is, with a cache, a start and plugin instances of its own: these get a handle
that lets no pod go and wakes none, and nothing is assumed, reserved or bound. A pod that has a node is taken off it
meanwhile, so it is told what would become of it now. Nothing here yields, so nobody sees the snapshot without the pod.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from konverge.errors import PluginFailed
from konverge.model.meta import Key
from konverge.model.resource import Object
from konverge.scheduler.cycle import Cycle, Ranking
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.framework import Plugin
from konverge.scheduler.handle import WaitingPod, WaitingPods, activate_nobody
from konverge.scheduler.nodegroups import node_groups
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import DEFAULT_PLUGINS, Profile
from konverge.scheduler.snapshot import Snapshot
from konverge.scheduler.variants import SHARES, Variants
from konverge.scheduler.whereabouts import Sight, gang_with, place_of, policies_for

BEST: Final = 5
"""So many nodes are told with their scores."""


class _Onlooker:
    """The pods that Permit plugins keep waiting, for one who only looks. See `konverge.scheduler.handle.WaitingPods`."""

    def __init__(self, room: WaitingPods) -> None:
        self._room = room

    def all(self) -> Sequence[WaitingPod]:
        return self._room.all()

    def allow(self, uid: str, plugin: str) -> None:
        """Nobody goes on."""

    def reject(self, uid: str, plugin: str, reason: str) -> None:
        """Nobody goes back."""


class _First:
    """Chance that always takes the first."""

    def random(self) -> float:
        return 0.0

    def uniform(self, a: float, b: float) -> float:  # noqa: ARG002 - the protocol's signature
        return a


def explain(sight: Sight, namespace: str, name: str, *, attempt: bool = True) -> dict[str, Any] | None:
    """All about the scheduling of a pod; None where the cache has no such pod. docs/scheduling.md describes the fields.

    Without `attempt` only where it stands, which costs next to nothing.
    """
    raw = sight.pods.get(Key(namespace, name))
    if raw is None:
        return None
    pod = PodInfo(raw)
    policy, variants = sight.policies.of(pod), sight.policies.variants_of(pod)
    asked = attempt or (pod.waiting and pod.uid not in sight.queue)
    profile = _profile(sight, variants, pod) if variants is not None and asked else None
    told: dict[str, Any] = {
        "schedulerName": pod.scheduler_name,
        "policy": policy.owner if policy else None,
        "policies": list(policies_for(sight, pod)),
        "priority": pod.priority,
        "queue": place_of(sight, pod, policy, profile),
        "nominated": sight.queue.nominations.node_of(pod.uid) or pod.nominated_node,
        "gang": None,
        "plugins": [],
        "added": [],
        "leftOut": [],
        "versions": [],
        "attempt": None,
    }
    if variants is None or profile is None or not attempt or pod.finished or pod.deleting:
        return told
    plugins = list(dict.fromkeys(plugin.label() for plugin in _plugins(profile)))
    defaults = [use.name for use in DEFAULT_PLUGINS]
    return told | {
        "plugins": plugins,
        "added": [label for label in plugins if label not in defaults],
        "leftOut": [name for name in defaults if name not in plugins],
        "versions": list(_versions(variants, profile)),
        "gang": gang_with(sight, variants.config, profile, pod),
        "attempt": _attempt(sight, profile, pod),
    }


def _profile(sight: Sight, variants: Variants, pod: PodInfo) -> Profile:
    """The pod's profile with plugins that can do nothing: those at work remember what they are asked."""
    handle = replace(sight.handle, waiting=_Onlooker(sight.handle.waiting), activate=activate_nobody)
    return Variants(variants.config, sight.registry, handle).of(pod.uid)


def _attempt(sight: Sight, profile: Profile, pod: PodInfo) -> dict[str, Any]:
    """What an attempt would come to now, with all nodes looked at."""
    profile = replace(profile, percentage_of_nodes_to_score=100)
    cycle = Cycle(sight.snapshot, _First(), nominations=sight.queue.nominations)
    placement = sight.snapshot.lift(pod.uid)
    told: dict[str, Any] = {
        "error": "",
        "message": "",
        "nodes": len(sight.snapshot),
        "groups": [],
        "best": [],
        "weights": {},
        "preemption": None,
    }
    try:
        return told | _tried(sight.snapshot, cycle, profile, pod)
    except PluginFailed as error:
        return told | {"error": str(error)}
    finally:
        if placement is not None:
            sight.snapshot.put_back(placement)


def _tried(snapshot: Snapshot, cycle: Cycle, profile: Profile, pod: PodInfo) -> dict[str, Any]:
    waiting, free = PodInfo(_without_node(pod.raw)), PodInfo(_without_node(pod.raw, nominated=False))
    result = cycle.rank(profile, waiting)
    if isinstance(result, Diagnosis):
        fitting: tuple[str, ...] = ()
        told: dict[str, Any] = {"message": result.message, "preemption": _preemption(result)}
    else:
        # A node that the pod is nominated to is taken alone, if it fits; of interest is how it compares.
        everywhere = cycle.rank(profile, free) if waiting.nominated_node else result
        ranking = everywhere if isinstance(everywhere, Ranking) else result
        fitting, told = ranking.node_names, _scores(ranking, profile)
    if len(snapshot):
        told["groups"] = node_groups(snapshot, cycle.judge(profile, free), frozenset(fitting))
    return told


def _scores(ranking: Ranking, profile: Profile) -> dict[str, Any]:
    order = sorted(range(len(ranking.node_names)), key=lambda at: (-int(ranking.totals[at]), ranking.node_names[at]))
    labels = {plugin.name: plugin.label() for plugin, _ in profile.scores}
    return {
        "best": [
            {
                "node": ranking.node_names[at],
                "total": int(ranking.totals[at]),
                "scores": {labels[name]: int(scores[at]) for name, scores in ranking.scores.items()},
            }
            for at in order[:BEST]
        ],
        "weights": {plugin.label(): weight for plugin, weight in profile.scores if plugin.name in ranking.scores},
    }


def _preemption(diagnosis: Diagnosis) -> dict[str, Any]:
    """What would be done to make room."""
    return {
        "message": diagnosis.way_out,
        "node": diagnosis.nominated or "",
        "victims": [{"pod": str(victim.key), "priority": victim.priority} for victim in diagnosis.victims],
    }


def _without_node(raw: Object, *, nominated: bool = True) -> Object:
    """The pod as it waits; with `nominated` still with the node that is being cleared for it."""
    spec = {field: value for field, value in raw["spec"].items() if field != "nodeName"}
    status: Mapping[str, Any] = raw.get("status") or {}
    if not nominated:
        status = {field: value for field, value in status.items() if field != "nominatedNodeName"}
    return {**raw, "spec": spec, "status": status}


def _versions(variants: Variants, profile: Profile) -> Iterator[dict[str, Any]]:
    """The plugins that are there in two versions, with the one that the pod meets."""
    met = {plugin.name: plugin.version for plugin in _plugins(profile)}
    uses = [use for plugins in variants.config.plugins.values() for use in plugins.enabled]
    for use in {use.name: use for use in uses if use.version and use.canary_percent < SHARES}.values():
        yield {
            "plugin": use.name,
            "meets": met.get(use.name, ""),
            "canary": use.version,
            "percent": use.canary_percent,
        }


def _plugins(profile: Profile) -> Iterator[Plugin]:
    """All plugins of a profile, in the order in which they come to speak."""
    for each in fields(profile):
        value = getattr(profile, each.name)
        for part in value if isinstance(value, tuple) else (value,):
            plugin = part[0] if isinstance(part, tuple) else part
            if isinstance(plugin, Plugin):
                yield plugin
