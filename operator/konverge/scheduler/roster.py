"""Policies that come, change and go under a running scheduler, and what that means for the pods that are there.

In flow policies, and the labels of namespaces; out flow pods that are looked at again: into the queue or out of it, and
into the books of another policy.
"""

import logging
from collections.abc import Callable, Collection, Iterable

from konverge.cache.informer import Cache
from konverge.cache.store import Change
from konverge.model import meta
from konverge.scheduler.framework import PreEnqueue
from konverge.scheduler.handle import Handle
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.policies import Policies, Policy, Rule
from konverge.scheduler.profile import ProfileConfig
from konverge.scheduler.queue import SchedulingQueue
from konverge.scheduler.registry import Registry
from konverge.scheduler.stats import Ledger
from konverge.scheduler.unmatched import Unmatched
from konverge.scheduler.variants import Variants

_log = logging.getLogger(__name__)


class Roster:
    """Who is in charge of which pods; the scheduler's hand on its policies."""

    def __init__(
        self,
        policies: Policies,
        pods: Cache,
        *,
        queue: SchedulingQueue,
        ledger: Ledger,
        unmatched: Unmatched,
        see: Callable[[PodInfo], None],
    ) -> None:
        """`see` puts a pod where it belongs."""
        self._policies, self._pods, self._queue, self._ledger = policies, pods, queue, ledger
        self._unmatched, self._see = unmatched, see

    def admits(self, pod: PodInfo) -> bool:
        """Whether a policy takes the waiting pod into the queue. One that none takes is told so after a while."""
        profile = self._policies.profile_of(pod)
        if profile is None:
            if self._policies.serving(pod.scheduler_name):
                self._unmatched.note(pod)
            return False
        return not any(_keeps_out(plugin, pod) for plugin in profile.pre_enqueues)

    def put(self, owner: str, config: ProfileConfig, rule: Rule, registry: Registry, handle: Handle) -> bool:
        """Add or replace the policy of `owner`; whether that changed anything.

        Raises: what `Variants` and `Policies.put` raise; nothing has changed then.
        """
        before = self._policies.get(owner)
        if before is not None and (before.config, before.rule) == (config, rule):
            return False
        same = before is not None and before.config == config
        variants = before.variants if before is not None and same else Variants(config, registry, handle)
        names = {config.scheduler_name} | ({before.config.scheduler_name} if before is not None else set())
        pods = self._named(names)
        self._policies.put(Policy(owner, config, rule, variants), [pod for pod in pods if pod.uid in self._queue])
        self._queue.sort_by(variants.queue_sort.sort_key)
        self._look_again(pods)
        self._queue.retry_now(lambda pod: pod.scheduler_name in names)
        self._ledger.open(owner)
        return True

    def remove(self, owner: str) -> bool:
        """Take the policy of `owner` away: its pods are another's now, or wait; whether there was one."""
        policy = self._policies.get(owner)
        if policy is None:
            return False
        self._policies.remove(owner)
        self._queue.discard_all(lambda pod: self._policies.profile_of(pod) is None)
        name = policy.config.scheduler_name
        self._look_again(self._named({name}))
        self._queue.retry_now(lambda pod: pod.scheduler_name == name)
        self._ledger.close(owner)
        return True

    def on_pod(self, change: Change) -> None:
        """A pod that has its node, or is gone, keeps no earlier profile."""
        if change.old is not None and (change.new is None or change.new["spec"].get("nodeName")):
            self._policies.forget(meta.uid_of(change.old))

    def on_namespace(self, change: Change) -> None:
        """A namespace came or has other labels: its pods may be another policy's."""
        names = self._policies.minds_namespaces
        if names and _labels_differ(change):
            pods = map(PodInfo, self._pods.list(change.key.name))
            self._look_again([pod for pod in pods if pod.scheduler_name in names])

    def look_again(self) -> None:
        """Put every pod with a schedulerName of ours where it belongs now."""
        self._look_again(self._named(self._policies.scheduler_names))

    def _named(self, scheduler_names: Collection[str]) -> list[PodInfo]:
        return [PodInfo(raw) for raw in self._pods.list() if raw["spec"].get("schedulerName") in scheduler_names]

    def _look_again(self, pods: Iterable[PodInfo]) -> None:
        for pod in pods:
            if pod.node_name:
                self._ledger.see(pod)
            else:
                self._see(pod)


def _labels_differ(change: Change) -> bool:
    return change.old is None or change.new is None or meta.labels_of(change.old) != meta.labels_of(change.new)


def _keeps_out(plugin: PreEnqueue, pod: PodInfo) -> bool:
    try:
        return plugin.pre_enqueue(pod).rejected
    except Exception:  # noqa: BLE001 - whatever a plugin raises, it is called from a cache's subscription
        _log.exception("plugin %s failed on whether pod %s may be queued; it may", plugin.name, pod.key)
        return False
