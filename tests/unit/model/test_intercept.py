"""Hooks on resources of others: their reviews, and what their configurations keep away from them."""

import base64
import json
from typing import Any

import pytest

from konverge.model.intercept import Intercept, Operations
from konverge.model.resource import Object, Pod
from konverge.model.review import BadReview
from konverge.model.webhooks import configurations

LABELLED = {"key": "demo.dev/on", "operator": "Exists"}
UNLESS = {"key": "demo.dev/off", "operator": "DoesNotExist"}
HOOK = Intercept("mark/pods", "mark.pods.demo.dev", Pod, (LABELLED,), (UNLESS,), {"young": "true"})
PODS = {"group": "", "version": "v1", "resource": "pods"}


def marked(obj: Object, namespace: str) -> Operations:
    return [{"op": "add", "path": "/metadata/labels/in", "value": f"{namespace}/{obj['metadata']['name']}"}]


def untouched(_obj: Object, _namespace: str) -> Operations:
    return ()


def review(**request: Any) -> dict[str, Any]:
    asked = {
        "uid": "u1",
        "operation": "CREATE",
        "resource": PODS,
        "namespace": "ns",
        "object": {"metadata": {"name": "p"}},
    }
    return {"request": {**asked, **request}}


def test_what_is_decided_comes_back_as_a_patch() -> None:
    response = HOOK.answer(review(), marked)["response"]

    assert (response["uid"], response["allowed"], response["patchType"]) == ("u1", True, "JSONPatch")
    assert json.loads(base64.b64decode(response["patch"])) == [
        {"op": "add", "path": "/metadata/labels/in", "value": "ns/p"}
    ]


def test_what_needs_no_change_passes_as_it_is() -> None:
    assert HOOK.answer(review(), untouched)["response"] == {"uid": "u1", "allowed": True}


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({}, "there is no request in the review"),
        (review(resource={**PODS, "resource": "nodes"}), "mark.pods.demo.dev is about pods of v1, not about"),
        (review(operation="UPDATE"), "mark.pods.demo.dev is not asked about UPDATE"),
    ],
)
def test_another_question_is_not_answered(asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadReview, match=problem):
        HOOK.answer(asked, marked)


def test_its_configuration_fails_open_is_short_and_spares_the_control_plane_and_ourselves() -> None:
    (manifest,) = configurations([HOOK], name="ours", namespace="system", service="front")
    (webhook,) = manifest["webhooks"]

    assert manifest["kind"] == "MutatingWebhookConfiguration"
    assert (webhook["name"], webhook["failurePolicy"], webhook["sideEffects"]) == (HOOK.name, "Ignore", "None")
    assert webhook["timeoutSeconds"] <= 5
    assert webhook["rules"] == [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["pods"],
            "operations": ["CREATE"],
            "scope": "Namespaced",
        }
    ]
    away = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "system"]}
    assert webhook["namespaceSelector"]["matchExpressions"] == [away, LABELLED]
    assert webhook["objectSelector"]["matchExpressions"] == [UNLESS]
    assert webhook["matchConditions"] == [{"name": "young", "expression": "true"}]
    assert webhook["clientConfig"]["service"]["path"] == "/mark/pods"


def test_without_conditions_there_are_none_in_it() -> None:
    (manifest,) = configurations([Intercept("p", "p.demo.dev", Pod)], name="o", namespace="s", service="f")
    (webhook,) = manifest["webhooks"]

    assert "matchConditions" not in webhook
    assert "objectSelector" not in webhook
