"""What a pod asks of a node: its resource requests as integers, from the pod's spec and status.

In flows a pod's raw JSON; out flow amounts by resource name: `cpu` in millicores, everything else in whole units
(bytes, devices). Sums are exact and rounded up once, at the end, as the kubelet and kube-scheduler do; an amount is
capped so that adding two of them stays within int64.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from konverge.model.quantity import parse_quantity
from konverge.model.resource import Object

CPU: Final = "cpu"
MEMORY: Final = "memory"
STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

LIMIT: Final = 2**62 - 1
"""The largest amount kept. Kubernetes caps at 2**63 - 1; half of that keeps the sum of two within int64."""

DEFAULT_CPU: Final = 100
"""Millicores that a container without a cpu request counts for, in scoring only."""

DEFAULT_MEMORY: Final = 200 * 1024 * 1024
"""Bytes that a container without a memory request counts for, in scoring only."""

Amounts = Mapping[str, int]
"""Resource name to amount: millicores for cpu, whole units for the rest."""

_NANO: Final = 10**9
_NANO_PER_MILLI: Final = 10**6
_CAP: Final = (2**63 - 1) * _NANO

_Nanos = dict[str, int]

_DEFAULTS: Final = {CPU: DEFAULT_CPU * _NANO_PER_MILLI, MEMORY: DEFAULT_MEMORY * _NANO}


@dataclass(frozen=True, slots=True)
class Requests:
    """What one pod asks for: the requests proper, and cpu and memory with the defaults that only scoring counts."""

    amounts: Amounts
    scored_cpu: int
    scored_memory: int
    of_containers: Amounts | None = None
    """Of a pod with resources as a whole: what its containers ask for, with those defaults. See NodeResourcesFit."""


def requests_of(pod: Object) -> Requests:
    """Compute the requests of `pod`.

    Raises: ValueError for a quantity that is none; the API server admits no such pod.
    """
    requested = _pod_total(pod, {})
    missing = _DEFAULTS
    of_containers = None
    if _pod_level(pod):
        of_containers = _amounts(_plus_overhead(pod, _containers(pod, missing)))
        missing = {name: amount for name, amount in missing.items() if name not in requested}
    scored = _pod_total(pod, missing) if missing else requested
    return Requests(
        _amounts(requested), _amount(CPU, scored.get(CPU, 0)), _amount(MEMORY, scored.get(MEMORY, 0)), of_containers
    )


def capacity_of(quantities: Mapping[str, Any]) -> Amounts:
    """A node's `status.allocatable` as amounts. A negative one counts as nothing."""
    return {
        name: max(0, _amount(name, _nanos(quantity)))
        for name, quantity in quantities.items()
        if name == PODS or is_schedulable(name)
    }


@lru_cache(maxsize=1024)
def is_schedulable(name: str) -> bool:
    """Whether the scheduler counts that resource at all: a native one it knows, or a scalar one."""
    return name in {CPU, MEMORY, STORAGE} or is_scalar(name)


@lru_cache(maxsize=1024)
def is_scalar(name: str) -> bool:
    """Whether it is an extended resource, huge pages or attachable volumes: skipped in scoring unless requested."""
    if name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name:
        return True
    return "/" in name and not name.startswith("requests.")


@lru_cache(maxsize=8192)
def _nanos(quantity: str | float) -> int:
    return min(_CAP, math.ceil(parse_quantity(quantity) * _NANO))


def _amounts(nanos: _Nanos) -> Amounts:
    return {name: _amount(name, amount) for name, amount in nanos.items() if is_schedulable(name)}


def _amount(name: str, nanos: int) -> int:
    unit = _NANO_PER_MILLI if name == CPU else _NANO
    return min(LIMIT, -(-nanos // unit))


def _pod_total(pod: Object, missing: Mapping[str, int]) -> _Nanos:
    spec = pod["spec"]
    total = _containers(pod, missing)
    if _pod_level(pod):
        own = _effective(spec["resources"], pod.get("status") or {}, pod)
        names = filter(_is_pod_level_name, spec["resources"]["requests"])
        total.update({name: own.get(name, 0) for name in names})
    return _plus_overhead(pod, total)


def _plus_overhead(pod: Object, total: _Nanos) -> _Nanos:
    _add(total, _parsed(pod["spec"].get("overhead")))
    return total


def _containers(pod: Object, missing: Mapping[str, int]) -> _Nanos:
    """Sum the containers and sidecars, or take the largest init step where that is more.

    While the i-th init container runs, the sidecars before it run too.
    """
    spec, statuses = pod["spec"], _statuses(pod)
    total: _Nanos = {}
    for container in spec.get("containers") or ():
        _add(total, _container(container, statuses, pod, missing))
    sidecars: _Nanos = {}
    peak: _Nanos = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            own = _container(container, statuses, pod, missing)
            _add(total, own)
            _add(sidecars, own)
            step = sidecars
        else:
            step = _container(container, {}, pod, missing)
            _add(step, sidecars)
        _raise(peak, step)
    _raise(total, peak)
    return total


def _container(
    container: Mapping[str, Any], statuses: Mapping[str, Any], pod: Object, missing: Mapping[str, int]
) -> _Nanos:
    own = _effective(container.get("resources") or {}, statuses.get(container["name"]) or {}, pod)
    return {**missing, **own} if missing else own


def _effective(resources: Mapping[str, Any], status: Mapping[str, Any], pod: Object) -> _Nanos:
    """The spec's requests; under an in-place resize the largest of what is asked, in force and set aside."""
    wanted = _parsed(resources.get("requests"))
    actuated = status.get("resources")
    if actuated is None:
        return wanted
    result: _Nanos = {} if _resize_infeasible(pod) else wanted
    _raise(result, _parsed(actuated.get("requests")))
    _raise(result, _parsed(status.get("allocatedResources")))
    return result


def _statuses(pod: Object) -> Mapping[str, Any]:
    status = pod.get("status") or {}
    return {
        entry["name"]: entry
        for field in ("containerStatuses", "initContainerStatuses")
        for entry in status.get(field) or ()
    }


def _resize_infeasible(pod: Object) -> bool:
    conditions: Iterable[Mapping[str, Any]] = (pod.get("status") or {}).get("conditions") or ()
    pending = next((c for c in conditions if c.get("type") == "PodResizePending"), None)
    return pending is not None and pending.get("reason") == "Infeasible"


def _pod_level(pod: Object) -> bool:
    requests = (pod["spec"].get("resources") or {}).get("requests") or {}
    return any(_is_pod_level_name(name) for name in requests)


def _is_pod_level_name(name: str) -> bool:
    return name in {CPU, MEMORY} or name.startswith("hugepages-")


def _parsed(quantities: Mapping[str, Any] | None) -> _Nanos:
    return {name: _nanos(quantity) for name, quantity in (quantities or {}).items()}


def _add(total: _Nanos, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: _Nanos, other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        total[name] = max(total.get(name, amount), amount)
