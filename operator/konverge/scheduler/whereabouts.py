"""Where a pod waits, for people: in whose hands it is, at which place, and what could bring it on. Plain data flows out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from konverge.cache.informer import Cache
from konverge.ports import Clock
from konverge.scheduler.events import ANY_EVENT
from konverge.scheduler.gangs import census, gang_of
from konverge.scheduler.handle import Handle, WaitingPod
from konverge.scheduler.plugins.coscheduling import Coscheduling, CoschedulingArgs
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.policies import Policies, Policy
from konverge.scheduler.profile import Profile, ProfileConfig
from konverge.scheduler.queue import MAX_UNSCHEDULABLE, Place, SchedulingQueue, Waiting
from konverge.scheduler.registry import Registry
from konverge.scheduler.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Sight:
    """What is looked at."""

    pods: Cache
    snapshot: Snapshot
    policies: Policies
    queue: SchedulingQueue
    registry: Registry
    handle: Handle
    clock: Clock
    elsewhere: Callable[[PodInfo], str]
    """The replica that places the pod, where that is another one; else empty."""


def policies_for(sight: Sight, pod: PodInfo) -> Iterator[dict[str, str]]:
    """The policies for the pod's schedulerName in the order in which they are asked, each with what it says."""
    answer = ""
    for policy in sight.policies.serving(pod.scheduler_name):
        if answer == "has the pod":
            break
        rule = policy.rule
        if not rule.pods.matches(pod.labels):
            answer = "its podSelector leaves the pod out"
        elif not rule.namespaces.matches(sight.snapshot.namespace_labels(pod.namespace)):
            answer = "its namespaceSelector leaves the pod out"
        elif not rule.takes(policy.owner, pod.uid):
            answer = f"the pod is outside its canaryPercent of {rule.canary_percent}"
        else:
            answer = "has the pod"
        yield {"name": policy.owner, "answer": answer}


def place_of(sight: Sight, pod: PodInfo, policy: Policy | None, profile: Profile | None) -> dict[str, Any]:
    """Where the pod waits, and why. `profile` is asked why it keeps the pod out."""
    waiting = sight.queue.get(pod.uid)
    told: dict[str, Any] = {"place": "none", "why": ""}
    held = next((each for each in sight.handle.waiting.all() if each.pod.uid == pod.uid), None)
    if pod.node_name:
        return told | {"place": "placed", "node": pod.node_name}
    if held is not None:
        return told | _held(sight, held)
    if sight.snapshot.is_assumed(pod.uid):
        return told | {"place": "binding", "node": sight.snapshot.node_of(pod.uid)}
    if waiting is not None:
        return told | _waiting(sight, waiting)
    return told | {"why": _why_not_queued(sight, pod, policy, profile)}


def _held(sight: Sight, held: WaitingPod) -> dict[str, Any]:
    """What a Permit plugin waits for with the pod: the rest of its gang, or without a gang the others that it holds."""
    gang = gang_of(held.pod)
    others = [
        each
        for each in sight.handle.waiting.all()
        if each.pod.uid != held.pod.uid and each.plugins & held.plugins and gang_of(each.pod) == gang
    ]
    return {
        "place": "permit",
        "node": held.node_name,
        "heldBy": sorted(held.plugins),
        "latest": max(0.0, held.until - sight.clock.monotonic()),
        "with": sorted(str(each.pod.key) for each in others),
    }


def _waiting(sight: Sight, waiting: Waiting) -> dict[str, Any]:
    now = sight.clock.monotonic()
    events = waiting.judges.events
    unschedulable = waiting.place is Place.UNSCHEDULABLE
    return {
        "place": waiting.place.value,
        "why": "pods that leave make room for it" if waiting.held else "",
        "attempts": waiting.failures,
        "seconds": now - waiting.since,
        "rejectedBy": [judge.label for judge in waiting.judges.each],
        "ahead": sight.queue.ahead(waiting.pod.uid),
        "early": waiting.may_go_early,
        "earliest": max(0.0, waiting.retry_at - now),
        "latest": max(0.0, waiting.since + MAX_UNSCHEDULABLE - now) if unschedulable else None,
        "events": [] if not unschedulable or events == ANY_EVENT else sorted(event.value for event in events),
    }


def _why_not_queued(sight: Sight, pod: PodInfo, policy: Policy | None, profile: Profile | None) -> str:
    if not pod.waiting:
        return "the pod is being deleted" if pod.deleting else "the pod has run to its end"
    if policy is None:
        serving = sight.policies.serving(pod.scheduler_name)
        lacking = (
            "no policy matches the pod" if serving else f"no policy here has the schedulerName {pod.scheduler_name}"
        )
        return f"{lacking}; of several replicas only the leader knows policies"
    if other := sight.elsewhere(pod):
        return f"another replica places it: {other}"
    if profile is None:
        return f"the policy {policy.owner} is suspended and holds its pods"
    for plugin in profile.pre_enqueues:
        verdict = plugin.pre_enqueue(pod)
        if verdict.rejected:
            return f"{plugin.label()} keeps it out: {', '.join(verdict.reasons)}"
    return "the scheduler has not seen it yet"


def gang_with(sight: Sight, config: ProfileConfig, profile: Profile, pod: PodInfo) -> dict[str, Any] | None:
    """How the pod's gang stands, where its profile minds gangs."""
    gang = gang_of(pod)
    if gang is None or not any(isinstance(plugin, Coscheduling) for plugin in profile.permits):
        return None
    args = CoschedulingArgs.model_validate(config.args.get(Coscheduling.name, {}))
    found = census(gang, pod.scheduler_name, sight.handle.lister, args.min_count)
    held = {each.pod.uid for each in sight.handle.waiting.all()}
    return {
        "name": str(gang),
        "minCount": found.min_count,
        "pods": found.size,
        "bound": len(found.bound),
        "holding": len(found.unbound & held),
    }
