"""Which pods belong together: a pod flows in, the selector of the Services and the controller that it is part of flows out."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from konverge.model import meta
from konverge.model.resource import Object, ReplicaSet, ReplicationController, ResourceType, Service, StatefulSet
from konverge.model.selectors import Operator, Requirement, Selector
from konverge.scheduler.handle import Lister
from konverge.scheduler.podinfo import PodInfo

READS: Final = frozenset({Service, ReplicaSet, StatefulSet, ReplicationController})
"""What is read to find out."""

_CONTROLLERS: Final[Mapping[tuple[str, str], ResourceType]] = {
    (resource.api_version, resource.kind): resource for resource in (ReplicaSet, StatefulSet, ReplicationController)
}


def selector_of(pod: PodInfo, lister: Lister) -> Selector:
    """All that the Services which select the pod, and its controller, require of a pod; no requirement without any.

    What spreads by default is spread by this, as in kube-scheduler's helper.DefaultSelector.
    """
    labels = dict(item for service in _services(pod, lister) for item in service["spec"]["selector"].items())
    more: tuple[Requirement, ...] = ()
    controller = _controller(pod, lister)
    if controller is not None:
        kind, selector = controller
        if kind is ReplicationController:
            labels |= selector
        else:
            more = Selector.of(selector).requirements
    own = [Requirement(key, Operator.IN, frozenset({value})) for key, value in sorted(labels.items())]
    return Selector((*own, *more))


def _services(pod: PodInfo, lister: Lister) -> Iterator[Object]:
    """The Services that select the pod; one without a selector selects none."""
    for service in lister.list(Service, pod.namespace):
        wanted = (service.get("spec") or {}).get("selector")
        if wanted and wanted.items() <= pod.labels.items():
            yield service


def _controller(pod: PodInfo, lister: Lister) -> tuple[ResourceType, Mapping[str, Any]] | None:
    """The kind of the controller that owns the pod, and its selector, if it is one of those that keep pods alike."""
    owner = meta.controller_of(pod.raw)
    if owner is None:
        return None
    resource = _CONTROLLERS.get((owner["apiVersion"], owner["kind"]))
    if resource is None:
        return None
    controller = lister.get(resource, owner["name"], pod.namespace)
    return (resource, (controller.get("spec") or {}).get("selector") or {}) if controller else None
