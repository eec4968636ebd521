"""The hook that gives new pods to policies: a pod and the policies flow in, the schedulerName that it gets flows out. Pure.

It is for pods whose owner did not choose a scheduler, and in namespaces whose owner opted in:

- the namespace has the label `scheduling.konverge.dev/assign: enabled`, and the pod does not say `disabled`;
- the pod names kube-scheduler, which is what the API server fills in, has no node, and is no DaemonSet's;
- the policy has selectors that match it (one without takes only pods that name it), is accepted, not suspended, and has
  a canaryPercent of 100: whether a new pod is in a smaller share is not known yet, for it has no uid.

Everything else stays with kube-scheduler, and so does a pod for which no answer comes.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from konverge.controllers.scheduling_policy.plugins import DEFAULT_SCHEDULER
from konverge.model import meta
from konverge.model.conditions import is_true
from konverge.model.intercept import Intercept, Operations
from konverge.model.resource import Object, Pod
from konverge.model.selectors import Selector
from konverge.scheduler.policies import Rule, order

ASSIGN: Final = "scheduling.konverge.dev/assign"
"""The label of namespaces (`enabled`) that give their pods to policies, and of pods (`disabled`) that stay."""

ASSIGN_PODS: Final = Intercept(
    path="assign/pods",
    name="assign.pods.scheduling.konverge.dev",
    resource=Pod,
    namespaces=({"key": ASSIGN, "operator": "In", "values": ["enabled"]},),
    objects=({"key": ASSIGN, "operator": "NotIn", "values": ["disabled"]},),
    conditions={
        "default-scheduler": f"object.spec.?schedulerName.orValue('') in ['', '{DEFAULT_SCHEDULER}']",
        "without-node": "object.spec.?nodeName.orValue('') == ''",
    },
)


def assign(pod: Object, namespace_labels: Mapping[str, str], policies: Iterable[Object]) -> Operations:
    """The JSON patch that gives the pod to the policy that is asked first of those that match; none leaves it."""
    spec = pod.get("spec") or {}
    labels = meta.labels_of(pod)
    if spec.get("nodeName") or spec.get("schedulerName") not in {None, "", DEFAULT_SCHEDULER} or _is_daemon(pod):
        return ()
    matching = [
        (order(owner, rule), scheduler_name)
        for owner, scheduler_name, rule in _candidates(policies)
        if rule.pods.matches(labels) and rule.namespaces.matches(namespace_labels)
    ]
    if not matching or labels.get(ASSIGN) == "disabled":
        return ()
    _, scheduler_name = min(matching)
    return ({"op": "add", "path": "/spec/schedulerName", "value": scheduler_name},)


def _candidates(policies: Iterable[Object]) -> Iterator[tuple[str, str, Rule]]:
    """Owner, schedulerName and rule of the policies that take pods in. Raises nothing: accepted ones are sound."""
    for policy in policies:
        spec: Mapping[str, Any] = policy["spec"]
        accepted = is_true((policy.get("status") or {}).get("conditions") or (), "Accepted")
        if not accepted or spec.get("suspend") or spec.get("canaryPercent", 100) < 100 or meta.is_deleting(policy):
            continue
        rule = Rule(
            pods=Selector.of(spec.get("podSelector") or {}),
            namespaces=Selector.of(spec.get("namespaceSelector") or {}),
            priority=spec.get("priority", 0),
        )
        if rule.specificity:
            yield policy["metadata"]["name"], spec["profile"]["schedulerName"], rule


def _is_daemon(pod: Object) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner.get("kind") == "DaemonSet" for owner in owners)
