"""What a running operator knows, for people: its queues, its caches, and all about one object.

It asks nobody and changes nothing: what the controllers, the caches and the event recorder hold flows in, plain data
(ready for JSON) flows out. The host serves it under `/debug`, the commands `top`, `queue` and `explain` show it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import orjson

from konverge.cache.informer import Caches, Informer
from konverge.cache.store import OWNER_INDEX
from konverge.errors import KonvergeError
from konverge.model import meta
from konverge.model.custom import CustomResource
from konverge.model.meta import Key
from konverge.model.resource import Pod
from konverge.runtime.controller import Controller
from konverge.runtime.describe import summarize, summarize_child
from konverge.runtime.events import EventRecorder

KEYS: Final = 1000
"""How many keys of each place in a queue are listed."""

SAMPLE: Final = 100
"""How many objects the size of a cache is estimated from."""

PODS: Final = frozenset({"pod", "pods", "po"})
"""How a person may call the kind that the scheduler knows about."""

ExplainPod = Callable[[str, str], dict[str, Any] | None]
"""What the scheduler tells of the pod with that namespace and name; None of one that it does not know."""


class UnknownToOperator(KonvergeError):
    """No controller reconciles such a kind; the message lists those that are known."""


class Inspector:
    """Looks into the parts of one operator."""

    def __init__(
        self,
        controllers: Sequence[Controller],
        caches: Caches,
        recorder: EventRecorder,
        explain_pod: ExplainPod | None = None,
    ) -> None:
        """`explain_pod` is the scheduler's part, where there is one."""
        self._controllers = {controller.name: controller for controller in controllers}
        self._caches, self._recorder, self._explain_pod = caches, recorder, explain_pod

    def queues(self, controller: str = "", limit: int = KEYS) -> list[dict[str, Any]]:
        """Each queue, or that of one controller: what is ready, delayed and processing. Raises: UnknownToOperator."""
        wanted = [self._find(controller)] if controller else self._controllers.values()
        return [_queue(each, limit) for each in wanted]

    def caches(self) -> list[dict[str, Any]]:
        """Each informer: what it holds, and how it follows the server."""
        return [_informer(informer) for informer in self._caches.informers]

    def explain(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        """All that is known of one object; of a pod what the scheduler knows. Raises: UnknownToOperator."""
        if self._explain_pod is not None and kind.lower() in PODS:
            return self._pod(self._explain_pod, Key(namespace, name))
        controller = self._find(kind)
        key = Key(namespace if controller.resource.namespaced else "", name)
        obj = self._caches.cache(controller.resource).get(key)
        past = controller.history.get(key) if controller.history else None
        uid = meta.uid_of(obj) if obj is not None else ""
        return {
            "kind": controller.resource.kind,
            "resource": str(controller.resource),
            "namespace": key.namespace,
            "name": key.name,
            "object": None if obj is None else summarize(obj),
            "queue": {"controller": controller.name, **_place(controller, key)},
            "last": past
            and {
                "at": past.at.isoformat(),
                "seconds": past.seconds,
                "result": past.result,
                "reason": past.reason,
                "message": past.message,
                "reconcileID": past.reconcile_id,
            },
            "children": [summarize_child(child) for child in self._children(controller, uid)] if uid else [],
            "events": [event._asdict() for event in self._recorder.recent(uid)] if uid else [],
        }

    def _pod(self, explain_pod: ExplainPod, key: Key) -> dict[str, Any]:
        """The same for a pod, which no controller of ours has in its queue, with the scheduler's part instead."""
        obj = self._caches.cache(Pod).get(key)
        return {
            "kind": Pod.kind,
            "resource": str(Pod),
            "namespace": key.namespace,
            "name": key.name,
            "object": None if obj is None else summarize(obj),
            "queue": None,
            "last": None,
            "children": [],
            "events": [] if obj is None else [event._asdict() for event in self._recorder.recent(meta.uid_of(obj))],
            "scheduling": explain_pod(*key),
        }

    def _find(self, text: str) -> Controller:
        """By the controller's name, or any name of its resource, in any case."""
        for controller in self._controllers.values():
            if text.lower() in names_of(controller.resource_class):
                return controller
        known = ", ".join(self._controllers) or "none"
        raise UnknownToOperator(f"no controller reconciles {text!r}; known: {known}")

    def _children(self, controller: Controller, uid: str) -> Iterator[Mapping[str, Any]]:
        for resource in controller.reconciler.owns:
            yield from self._caches.cache(resource).by_index(OWNER_INDEX, uid)


def names_of(resource_class: type[CustomResource[Any, Any]]) -> Iterable[str]:
    """All names by which a person may call a resource, in lower case."""
    resource = resource_class.resource
    return {
        resource.kind.lower(),
        resource.plural,
        resource.name,
        f"{resource.kind.lower()}.{resource.group}",
        *resource_class.crd.short_names,
    }


def _queue(controller: Controller, limit: int) -> dict[str, Any]:
    queue = controller.queue
    ready, delayed, processing = queue.ready, queue.delayed, queue.processing
    return {
        "controller": controller.name,
        "resource": str(controller.resource),
        "workers": controller.workers,
        "depth": len(queue),
        "delayedTotal": len(delayed),
        "processingTotal": len(processing),
        "ready": _listed(controller, ready, "priority", limit),
        "delayed": _listed(controller, delayed, "dueIn", limit),
        "processing": _listed(controller, processing, "seconds", limit),
    }


def _listed(controller: Controller, keys: Mapping[Key, float], what: str, limit: int) -> list[dict[str, Any]]:
    return [
        {"key": str(key), what: value, "failures": controller.queue.failures(key)}
        for key, value in islice(keys.items(), limit)
    ]


def _place(controller: Controller, key: Key) -> dict[str, Any]:
    """Where the queue has the key right now."""
    queue = controller.queue
    place: dict[str, Any] = {"state": "idle", "failures": queue.failures(key)}
    if (seconds := queue.processing.get(key)) is not None:
        place.update(state="processing", seconds=seconds)
    elif (priority := queue.ready.get(key)) is not None:
        place.update(state="ready", priority=priority)
    elif (due := queue.delayed.get(key)) is not None:
        place.update(state="delayed", dueIn=due)
    return place


def _informer(informer: Informer) -> dict[str, Any]:
    health, scope, objects = informer.health, informer.scope, len(informer.store)
    return {
        "resource": str(informer.resource),
        "namespace": scope.namespace or "",
        "selector": ",".join(filter(None, (scope.label_selector, scope.field_selector))),
        "metadataOnly": scope.metadata_only,
        "leftOut": list(scope.left_out),
        "objects": objects,
        "bytes": _bytes(informer, objects),
        "synced": health.synced,
        "watching": health.watching,
        "healthy": health.healthy,
        "lastError": health.last_error,
        "failures": health.failures,
        "lists": health.lists,
        "resourceVersion": informer.resource_version,
    }


def _bytes(informer: Informer, objects: int) -> int:
    """The size of all objects as JSON, from a sample: an estimate of what the store holds, not of Python's own cost."""
    sample = [obj for key in islice(informer.store.keys(), SAMPLE) if (obj := informer.store.get(key)) is not None]
    if not sample:
        return 0
    return sum(len(orjson.dumps(obj, default=dict)) for obj in sample) * objects // len(sample)
