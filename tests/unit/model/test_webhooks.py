"""The webhook configurations: what each kind of hook asks the API server for."""

from collections.abc import Iterable, Mapping
from typing import Any

from konverge.model.admission import Problem, Request, hook
from konverge.model.custom import CustomResource, Spec, Status
from konverge.model.review import hooks_of
from konverge.model.webhooks import configurations


class Gate(CustomResource[Spec, Status], group="demo.dev", version="v1", namespaced=False):
    def validate(self, old: "Gate | None", request: Request, /) -> Iterable[Problem]:
        return ()

    @hook(on_failure="Ignore", timeout=2, when="oldObject.metadata.name != 'x'")
    def validate_delete(self, request: Request, /) -> Iterable[Problem]:
        return ()

    def default(self, request: Request, /) -> Mapping[str, Any]:
        return {}


class Door(CustomResource[Spec, Status], group="demo.dev", version="v2"):
    def default(self, request: Request, /) -> Mapping[str, Any]:
        return {}


def made(*resources: type[CustomResource[Any, Any]]) -> dict[str, dict[str, Any]]:
    hooks = [each for resource in resources for each in hooks_of(resource)]
    manifests = configurations(hooks, name="ours", namespace="system", service="front")
    return {manifest["kind"]: manifest for manifest in manifests}


def webhooks(*resources: type[CustomResource[Any, Any]]) -> dict[str, dict[str, Any]]:
    return {webhook["name"]: webhook for each in made(*resources).values() for webhook in each["webhooks"]}


def test_mutating_and_validating_hooks_are_in_configurations_of_their_own() -> None:
    found = made(Gate, Door)
    names = {kind: [each["name"] for each in manifest["webhooks"]] for kind, manifest in found.items()}
    assert names == {
        "MutatingWebhookConfiguration": ["default.doors.demo.dev", "default.gates.demo.dev"],
        "ValidatingWebhookConfiguration": ["validate-delete.gates.demo.dev", "validate.gates.demo.dev"],
    }
    assert {manifest["metadata"]["name"] for manifest in found.values()} == {"ours"}
    assert set(made(Door)) == {"MutatingWebhookConfiguration"}
    assert made() == {}


def test_every_webhook_is_short_free_of_side_effects_and_away_from_our_own_namespace() -> None:
    for webhook in webhooks(Gate, Door).values():
        assert webhook["timeoutSeconds"] <= 5
        assert webhook["sideEffects"] == "None"
        assert webhook["matchPolicy"] == "Equivalent"
        assert webhook["admissionReviewVersions"] == ["v1"]
        (away,) = webhook["namespaceSelector"]["matchExpressions"]
        assert away == {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["system"]}
        assert "objectSelector" not in webhook  # whoever may set labels could get around it
        assert "caBundle" not in webhook["clientConfig"]


def test_defaulting_fails_open_and_validation_closed_unless_said_otherwise() -> None:
    found = webhooks(Gate, Door)
    assert found["default.gates.demo.dev"]["failurePolicy"] == "Ignore"
    assert found["validate.gates.demo.dev"]["failurePolicy"] == "Fail"
    assert found["validate-delete.gates.demo.dev"]["failurePolicy"] == "Ignore"
    assert found["validate-delete.gates.demo.dev"]["timeoutSeconds"] == 2


def test_a_webhook_is_about_one_resource_and_reaches_its_path() -> None:
    found = webhooks(Gate, Door)
    assert found["validate-delete.gates.demo.dev"]["rules"] == [
        {
            "apiGroups": ["demo.dev"],
            "apiVersions": ["v1"],
            "resources": ["gates"],
            "operations": ["DELETE"],
            "scope": "Cluster",
        }
    ]
    (rule,) = found["default.doors.demo.dev"]["rules"]
    assert (rule["apiVersions"], rule["operations"], rule["scope"]) == (["v2"], ["CREATE", "UPDATE"], "Namespaced")
    service = found["default.doors.demo.dev"]["clientConfig"]["service"]
    assert service == {"namespace": "system", "name": "front", "path": "/default/doors.demo.dev", "port": 443}


def test_writes_that_a_hook_would_wave_through_do_not_reach_it() -> None:
    found = webhooks(Gate, Door)
    conditions = {
        name: [each["name"] for each in webhook.get("matchConditions", ())] for name, webhook in found.items()
    }
    assert conditions == {
        "default.doors.demo.dev": ["not-being-deleted"],
        "default.gates.demo.dev": ["not-being-deleted"],
        "validate.gates.demo.dev": ["not-being-deleted", "changes-the-spec"],
        "validate-delete.gates.demo.dev": ["declared"],
    }
    (declared,) = found["validate-delete.gates.demo.dev"]["matchConditions"]
    assert declared["expression"] == "oldObject.metadata.name != 'x'"
