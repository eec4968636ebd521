"""Admission reviews answered by hooks: what is refused, with which words, what is filled in, and what passes unasked."""

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from konverge.errors import ModelError
from konverge.model.admission import Problem, Request, hook
from konverge.model.custom import CustomResource, Spec, Status
from konverge.model.review import BadReview, Hook, _fill, hooks_of


class GateSpec(Spec):
    size: int = 1
    owner: str = "nobody"
    password: str = ""
    tags: dict[str, str] = Field(default_factory=dict)


class GateStatus(Status):
    opened: int = 0


class Gate(CustomResource[GateSpec, GateStatus], group="demo.dev", version="v1"):
    """A gate with every kind of hook."""

    def validate(self, old: "Gate | None", request: Request, /) -> Iterable[Problem]:
        if self.spec.size % 2:
            yield Problem("spec.size", self.spec.size, "must be even")
        if self.spec.owner != "nobody" and request.user != "root":
            yield Problem.forbidden("spec.owner", "only root gives gates away")
        if self.spec.password == "secret":
            yield Problem.required("spec.password", "say one that is not the default")
        if old is not None and old.status.opened and self.spec.size < old.spec.size:
            yield Problem("spec.size", self.spec.size, "an opened gate cannot shrink")
        if self.spec.size > 100:
            yield Problem.warning("spec.size", "so large a gate\nlets in " + "a draught " * 40)

    @hook(on_failure="Ignore", timeout=2, when="true")
    def validate_delete(self, request: Request, /) -> Iterable[Problem]:
        if self.labels.get("locked"):
            yield Problem.forbidden("metadata.labels[locked]", "unlock it first")
        if self.spec.size > 100:
            yield Problem.warning("spec", "the way stays open")

    def default(self, request: Request, /) -> Mapping[str, Any]:
        return {"spec": {"owner": request.user, "tags": {"a/b": self.name}}, "metadata": {"labels": {"made": "yes"}}}


class Plain(CustomResource[GateSpec, Status], group="demo.dev", version="v1"):
    """Without hooks."""


class Grabbing(CustomResource[GateSpec, Status], group="demo.dev", version="v1"):
    def default(self, request: Request, /) -> Mapping[str, Any]:
        return {"status": {"phase": "Mine"}, "metadata": {"name": "other"}}


HOOKS: dict[str, Hook] = {each.kind: each for each in hooks_of(Gate)}


def gate(spec: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    metadata = {"name": "north", "namespace": "default", **more.pop("metadata", {})}
    return {"apiVersion": "demo.dev/v1", "kind": "Gate", "metadata": metadata, "spec": spec or {}, **more}


def review(operation: str, new: Any = None, old: Any = None, *, plural: str = "gates", **more: Any) -> dict[str, Any]:
    request = {
        "uid": "7",
        "resource": {"group": "demo.dev", "version": "v1", "resource": plural},
        "operation": operation,
        "name": ((new or old or {}).get("metadata") or {}).get("name", ""),
        "userInfo": {"username": "ann", "groups": ["people"]},
        "object": new,
        "oldObject": old,
        **more,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def answer(kind: str, asked: dict[str, Any]) -> Any:
    """The response of a hook of Gate."""
    given = HOOKS[kind].answer(asked)
    assert (given["apiVersion"], given["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert given["response"]["uid"] == "7"
    return given["response"]


def fields(response: Any) -> list[str]:
    """The fields that a refusal names; none where it is none."""
    return [cause["field"] for cause in response["status"]["details"]["causes"]] if not response["allowed"] else []


def patch(response: Any) -> Any:
    assert response["allowed"]
    assert response.get("patchType", "JSONPatch") == "JSONPatch"
    return json.loads(base64.b64decode(response["patch"])) if "patch" in response else []


def test_only_what_is_overridden_is_a_hook() -> None:
    assert hooks_of(Plain) == []
    assert [(each.name, each.path, each.on_failure, each.options.timeout) for each in hooks_of(Gate)] == [
        ("default.gates.demo.dev", "default/gates.demo.dev", "Ignore", 5),
        ("validate.gates.demo.dev", "validate/gates.demo.dev", "Fail", 5),
        ("validate-delete.gates.demo.dev", "validate-delete/gates.demo.dev", "Ignore", 2),
    ]


def test_a_new_object_without_problems_passes() -> None:
    assert answer("validate", review("CREATE", gate({"size": 2}))) == {"uid": "7", "allowed": True}


def test_a_refusal_has_the_form_of_the_api_servers_own() -> None:
    response = answer("validate", review("CREATE", gate({"size": 3})))
    assert not response["allowed"]
    assert response["status"] == {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": 'Gate.demo.dev "north" is invalid: spec.size: Invalid value: 3: must be even',
        "details": {
            "name": "north",
            "group": "demo.dev",
            "kind": "Gate",
            "causes": [
                {"reason": "FieldValueInvalid", "message": "Invalid value: 3: must be even", "field": "spec.size"}
            ],
        },
    }


def test_all_problems_are_named_and_a_value_only_where_it_may_be_shown() -> None:
    response = answer("validate", review("CREATE", gate({"size": 3, "owner": "eve", "password": "secret"})))
    assert response["status"]["message"].endswith(
        "is invalid: [spec.size: Invalid value: 3: must be even,"
        " spec.owner: Forbidden: only root gives gates away,"
        " spec.password: Required value: say one that is not the default]"
    )
    assert "secret" not in json.dumps(response)


def test_a_hook_sees_who_asks() -> None:
    given = gate({"size": 2, "owner": "eve"})
    assert fields(answer("validate", review("CREATE", given))) == ["spec.owner"]
    assert fields(answer("validate", review("CREATE", given, userInfo={"username": "root"}))) == []


def test_what_the_schema_let_through_and_the_model_does_not_read_is_a_problem_too() -> None:
    response = answer("validate", review("CREATE", gate({"size": 2, "tags": {"a": 7}})))
    assert fields(response) == ["spec.tags.a"]
    assert "spec.tags.a: Invalid value: 7: Input should be a valid string" in response["status"]["message"]


@pytest.mark.parametrize(
    ("old", "new", "problems"),
    [
        ({"size": 3}, {"size": 3}, []),  # only metadata or status changed
        ({"size": 3}, {"size": 3, "owner": "nobody"}, []),  # wrong before, and not made worse
        ({"size": 3}, {"size": 5}, ["spec.size"]),  # wrong in another way
        ({"size": 2}, {"size": 3}, ["spec.size"]),
        ({"tags": {"a": 7}}, {"size": 2, "tags": {"a": 7}}, []),  # not read before either
        ({"tags": {"a": 7}}, {"size": 3}, ["spec.size"]),
    ],
)
def test_an_update_is_judged_by_what_it_makes_worse(
    old: dict[str, Any], new: dict[str, Any], problems: list[str]
) -> None:
    assert fields(answer("validate", review("UPDATE", gate(new), gate(old)))) == problems


def test_rules_on_the_change_see_the_stored_object_with_its_status() -> None:
    old = gate({"size": 4}, status={"opened": 1})
    assert fields(answer("validate", review("UPDATE", gate({"size": 2}), old))) == ["spec.size"]
    old["status"] = {"opened": "often"}  # a status that does not fit is no reason to refuse a spec
    assert fields(answer("validate", review("UPDATE", gate({"size": 2}), old))) == []


def test_an_object_that_is_being_deleted_is_left_to_go() -> None:
    going = gate({"size": 3}, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert answer("validate", review("UPDATE", going, gate({"size": 2})))["allowed"]
    assert patch(answer("default", review("UPDATE", going, gate()))) == []


def test_a_warning_lets_the_object_pass_in_one_line_that_a_header_takes() -> None:
    response = answer("validate", review("CREATE", gate({"size": 102})))
    assert response["allowed"]
    [warning] = response["warnings"]
    assert warning.startswith("spec.size: so large a gate lets in a draught a draught")
    assert len(warning) == 256
    assert answer("validate-delete", review("DELETE", old=gate({"size": 102}))) == {
        "uid": "7",
        "allowed": True,
        "warnings": ["spec: the way stays open"],
    }


def test_a_warning_stands_beside_a_refusal_and_is_not_repeated() -> None:
    refused = answer("validate", review("CREATE", gate({"size": 101})))
    assert fields(refused) == ["spec.size"]
    assert "lets in" not in refused["status"]["message"]
    assert len(refused["warnings"]) == 1
    edited = answer("validate", review("UPDATE", gate({"size": 102, "tags": {"a": "b"}}), gate({"size": 102})))
    assert edited == {"uid": "7", "allowed": True}


def test_a_deletion_is_refused_as_forbidden() -> None:
    response = answer("validate-delete", review("DELETE", old=gate(metadata={"labels": {"locked": "yes"}})))
    assert (response["status"]["code"], response["status"]["reason"]) == (403, "Forbidden")
    assert response["status"]["message"] == (
        'gates.demo.dev "north" is forbidden: metadata.labels[locked]: Forbidden: unlock it first'
    )
    assert answer("validate-delete", review("DELETE", old=gate()))["allowed"]


def test_defaults_fill_in_only_what_is_not_said() -> None:
    given = gate({"owner": "eve", "tags": {"x": "y"}}, metadata={"labels": {"made": "no"}})
    assert patch(answer("default", review("CREATE", given))) == [
        {"op": "add", "path": "/spec/tags/a~1b", "value": "north"}
    ]
    assert patch(answer("default", review("CREATE", gate(metadata={"labels": None})))) == [
        {"op": "add", "path": "/spec/owner", "value": "ann"},
        {"op": "add", "path": "/spec/tags", "value": {"a/b": "north"}},
        {"op": "add", "path": "/metadata/labels", "value": {"made": "yes"}},
    ]


def test_defaults_come_before_a_generated_name_and_before_the_schema() -> None:
    unnamed = gate()
    unnamed["metadata"] = {"generateName": "gate-"}
    assert {"op": "add", "path": "/spec/tags", "value": {"a/b": ""}} in patch(
        answer("default", review("CREATE", unnamed))
    )
    assert patch(answer("default", review("CREATE", gate({"size": "huge"})))) == []  # the schema will say so


def test_defaults_for_anything_else_are_an_error_of_the_model() -> None:
    (grabbing,) = hooks_of(Grabbing)
    with pytest.raises(ModelError, match=r"Grabbing\.default gives name, status; it can fill spec"):
        grabbing.answer(review("CREATE", gate(), plural="grabbings"))


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({}, "no request"),
        (review("CREATE", gate(), plural="doors"), "is about gates of demo.dev/v1"),
        (review("DELETE", old=gate()), "is not asked about DELETE"),
    ],
)
def test_what_is_not_for_this_hook_is_no_review_of_it(asked: dict[str, Any], why: str) -> None:
    with pytest.raises(BadReview, match=why):
        HOOKS["validate"].answer(asked)


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": 6}, {"timeout": 1.5}, {"on_failure": "Maybe"}])
def test_options_that_cannot_be_are_refused_where_they_stand(options: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        hook(**options)


JSON = st.recursive(
    st.integers() | st.text(max_size=3),
    lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
MAPS = st.dictionaries(st.text(max_size=3), JSON, max_size=3)


def applied(operations: Iterable[Mapping[str, Any]], target: dict[str, Any]) -> dict[str, Any]:
    """RFC 6902, for `add` to objects."""
    result: dict[str, Any] = json.loads(json.dumps(target))
    for each in operations:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in each["path"].split("/")[1:]]
        at = result
        for part in way:
            at = at[part]
        at[last] = each["value"]
    return result


def kept(before: Any, after: Any) -> bool:
    """Whether all that `before` says stands in `after`."""
    if isinstance(before, dict) and isinstance(after, dict):
        return all(key in after and kept(value, after[key]) for key, value in before.items())
    return bool(before == after)


@given(MAPS, MAPS)
def test_filling_in_keeps_what_is_there_and_twice_is_once(raw: dict[str, Any], defaults: dict[str, Any]) -> None:
    once = applied(_fill(raw, defaults, ""), raw)
    assert kept(raw, once)
    assert set(once) == {*raw, *defaults}
    assert list(_fill(once, defaults, "")) == []
