"""Hooks on resources of others: an admission review of a Pod, say, flows in, a JSON patch that a reconciler makes flows out.

A hook of that kind stands in the way of everybody, so it is held to be harmless: it is asked about new objects only,
always fails open, waits 5 s at most, and sees neither the control plane's own namespace nor the operator's.
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from konverge.model.admission import FailurePolicy, HookOptions, Operation
from konverge.model.resource import Object, ResourceType
from konverge.model.review import BadReview

Operations = Sequence[Mapping[str, Any]]
"""Of a JSON patch."""

SPARED: Final = ("kube-system",)
"""Namespaces whose objects are never sent to such a hook, beside the operator's own."""


@dataclass(frozen=True, slots=True)
class Intercept:
    """A hook on new objects of `resource`, served at `path`. The expressions narrow down which the API server sends."""

    path: str
    name: str
    resource: ResourceType
    namespaces: tuple[Mapping[str, Any], ...] = ()
    """`matchExpressions` on the labels of the namespace."""
    objects: tuple[Mapping[str, Any], ...] = ()
    """`matchExpressions` on the labels of the object."""
    conditions: Mapping[str, str] | None = None
    """CEL expressions on the request, by name, that must all hold."""
    options: HookOptions = field(default_factory=HookOptions)

    @property
    def mutating(self) -> bool:
        """It changes objects."""
        return True

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What it is asked about."""
        return ("CREATE",)

    @property
    def on_failure(self) -> FailurePolicy:
        """What holds when no answer comes."""
        return "Ignore"

    def answer(self, review: Object, decide: Callable[[Object, str], Operations]) -> dict[str, Any]:
        """The AdmissionReview with what `decide` makes of the object and its namespace.

        Raises: BadReview; what `decide` raises.
        """
        asked = review.get("request")
        if not isinstance(asked, dict):
            raise BadReview("there is no request in the review")
        wanted, own = asked.get("resource") or {}, self.resource
        if (wanted.get("group"), wanted.get("version"), wanted.get("resource")) != (own.group, own.version, own.plural):
            raise BadReview(f"{self.name} is about {own.plural} of {own.api_version}, not about {wanted}")
        if asked.get("operation") not in self.operations:
            raise BadReview(f"{self.name} is not asked about {asked.get('operation')}")
        response: dict[str, Any] = {"uid": asked.get("uid", ""), "allowed": True}
        if operations := decide(asked["object"], asked.get("namespace") or ""):
            patch = base64.b64encode(json.dumps(list(operations)).encode()).decode()
            response |= {"patchType": "JSONPatch", "patch": patch}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
