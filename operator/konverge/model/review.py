"""Admission reviews: the API server's question flows in, a custom resource's hook is called, the answer flows out.

What keeps a hook from being in the way stands here: an update that leaves the spec alone, and any of an object that is
being deleted, passes; a problem that the stored object has already is no reason to refuse a change of something else,
nor to warn once more.
A hook that raises is not answered for: the declared failure policy holds then, as it does when nobody listens.
"""

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from konverge.errors import ManifestError, ModelError
from konverge.model import meta
from konverge.model.admission import FailurePolicy, HookOptions, Operation, Problem, Request, options_of
from konverge.model.custom import CustomResource
from konverge.model.resource import Object

HookKind = Literal["validate", "validate-delete", "default"]
Resource = type[CustomResource[Any, Any]]

_METHODS: Final[Mapping[HookKind, str]] = {
    "default": "default",
    "validate": "validate",
    "validate-delete": "validate_delete",
}
_OPERATIONS: Final[Mapping[HookKind, tuple[Operation, ...]]] = {
    "default": ("CREATE", "UPDATE"),
    "validate": ("CREATE", "UPDATE"),
    "validate-delete": ("DELETE",),
}
_MAX_WARNING: Final = 256
"""Characters; Kubernetes asks for no more."""
_FILLED: Final = frozenset({"labels", "annotations"})


class BadReview(ValueError):
    """What came is no admission review of this hook."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook of one custom resource."""

    kind: HookKind
    resource: Resource
    options: HookOptions

    @property
    def path(self) -> str:
        """Where it is served, without the leading slash: `validate/databases.data.konverge.dev`."""
        return f"{self.kind}/{self.resource.resource.name}"

    @property
    def name(self) -> str:
        """What messages of the API server call it: `validate.databases.data.konverge.dev`."""
        return f"{self.kind}.{self.resource.resource.name}"

    @property
    def mutating(self) -> bool:
        """Whether it may change the object."""
        return self.kind == "default"

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What it is asked about."""
        return _OPERATIONS[self.kind]

    @property
    def on_failure(self) -> FailurePolicy:
        """What holds when no answer comes. A default that is missing is no reason to refuse a write."""
        return self.options.on_failure or ("Ignore" if self.mutating else "Fail")

    def answer(self, review: Object) -> dict[str, Any]:
        """The AdmissionReview with the response to that of a request. Raises: BadReview; what the hook raises."""
        asked = review.get("request")
        if not isinstance(asked, dict):
            raise BadReview("there is no request in the review")
        wanted, own = asked.get("resource") or {}, self.resource.resource
        if (wanted.get("group"), wanted.get("version"), wanted.get("resource")) != (own.group, own.version, own.plural):
            raise BadReview(f"{self.name} is about {own.plural} of {own.api_version}, not about {wanted}")
        if asked.get("operation") not in self.operations:
            raise BadReview(f"{self.name} is not asked about {asked.get('operation')}")
        response = {"uid": asked.get("uid", ""), "allowed": True, **self._decide(asked)}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}

    def _decide(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        user = asked.get("userInfo") or {}
        request = Request(
            asked["operation"], user.get("username", ""), tuple(user.get("groups") or ()), bool(asked.get("dryRun"))
        )
        match self.kind:
            case "validate":
                problems = _judge(self.resource, asked["object"], asked.get("oldObject"), request)
                return _verdict(_invalid, self.resource, asked, problems)
            case "validate-delete":
                problems = list(_read(self.resource, asked["oldObject"]).validate_delete(request))
                return _verdict(_forbidden, self.resource, asked, problems)
            case "default":
                return _patch(_default(self.resource, asked["object"], request))


def hooks_of(resource: Resource) -> list[Hook]:
    """The hooks that a custom resource overrides."""
    return [
        Hook(kind, resource, options_of(getattr(resource, method)))
        for kind, method in _METHODS.items()
        if getattr(resource, method) is not getattr(CustomResource, method)
    ]


def _read(resource: Resource, raw: Object) -> CustomResource[Any, Any]:
    """Parse; a status that does not fit is left out, for it is no part of what is asked for. Raises: ManifestError."""
    named = {**raw, "metadata": {"name": "", **raw["metadata"]}}  # before defaulting, a generated name is not there yet
    try:
        return resource.parse(named)
    except ManifestError:
        return resource.parse({**named, "status": {}})


def _judge(resource: Resource, new: Object, stored: Object | None, request: Request) -> list[Problem]:
    if meta.is_deleting(new) or (stored is not None and stored.get("spec") == new.get("spec")):
        return []
    if stored is None:
        return _problems(resource, new, None, request)
    try:
        old = _read(resource, stored)
    except ManifestError:
        old = None  # written before the model was as it is
    known = _problems(resource, stored, None, request)
    return [problem for problem in _problems(resource, new, old, request) if problem not in known]


def _problems(resource: Resource, raw: Object, old: CustomResource[Any, Any] | None, request: Request) -> list[Problem]:
    try:
        return list(_read(resource, raw).validate(old, request))
    except ManifestError as error:
        split = (line.partition(": ") for line in error.problems)
        return [Problem(field, _value_at(raw, field), rule) for field, _, rule in split]


def _value_at(raw: Any, field: str) -> Any:
    for part in field.split("."):
        if isinstance(raw, Mapping):
            raw = raw.get(part)
        elif isinstance(raw, list) and part.isdecimal() and int(part) < len(raw):
            raw = raw[int(part)]
        else:
            return None
    return raw


def _default(resource: Resource, raw: Object, request: Request) -> list[dict[str, Any]]:
    """A JSON patch that fills in what the object does not say. One that does not parse is the schema's to refuse."""
    if meta.is_deleting(raw):
        return []
    try:
        obj = _read(resource, raw)
    except ManifestError:
        return []
    defaults = obj.default(request)
    beyond = {*defaults} - {"spec", "metadata"} | {*defaults.get("metadata", {})} - _FILLED
    if beyond:
        raise ModelError(
            f"{resource.__name__}.default gives {', '.join(sorted(beyond))}; it can fill spec, metadata.labels and"
            " metadata.annotations"
        )
    return list(_fill(raw, defaults, ""))


def _fill(raw: Mapping[str, Any], defaults: Mapping[str, Any], where: str) -> Iterator[dict[str, Any]]:
    for key, value in defaults.items():
        path = f"{where}/{key.replace('~', '~0').replace('/', '~1')}"
        if raw.get(key) is None:
            yield {"op": "add", "path": path, "value": value}
        elif isinstance(value, Mapping) and isinstance(raw[key], Mapping):
            yield from _fill(raw[key], value, path)


def _patch(operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not operations:
        return {}
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


def _verdict(
    refusal: Callable[[Resource, Mapping[str, Any], Sequence[Problem]], dict[str, Any]],
    resource: Resource,
    asked: Mapping[str, Any],
    problems: Sequence[Problem],
) -> dict[str, Any]:
    """The refusal for the problems that call for one, and the warnings for the others."""
    refusing = [problem for problem in problems if problem.refuses]
    warnings = [_one_line(str(problem)) for problem in problems if not problem.refuses]
    answer = refusal(resource, asked, refusing) if refusing else {}
    return answer | ({"warnings": warnings} if warnings else {})


def _one_line(text: str) -> str:
    """As an HTTP header takes it: the API server drops a warning with a line break, and cuts a long one."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_WARNING else line[: _MAX_WARNING - 3] + "..."


def _invalid(resource: Resource, asked: Mapping[str, Any], problems: Sequence[Problem]) -> dict[str, Any]:
    kind = f"{resource.resource.kind}.{resource.resource.group}"
    return _refusal(resource, asked, problems, 422, "Invalid", f"{kind} {json.dumps(_name(asked))} is invalid")


def _forbidden(resource: Resource, asked: Mapping[str, Any], problems: Sequence[Problem]) -> dict[str, Any]:
    what = f"{resource.resource.name} {json.dumps(_name(asked))} is forbidden"
    return _refusal(resource, asked, problems, 403, "Forbidden", what)


def _refusal(
    resource: Resource, asked: Mapping[str, Any], problems: Sequence[Problem], code: int, reason: str, what: str
) -> dict[str, Any]:
    """In the form of the API server's own refusals, so that clients show it as they show those."""
    texts = [str(problem) for problem in problems]
    causes = [{"reason": each.reason, "message": each.body, "field": each.field} for each in problems]
    details = {"name": _name(asked), "group": resource.resource.group, "kind": resource.resource.kind, "causes": causes}
    message = f"{what}: {texts[0] if len(texts) == 1 else '[' + ', '.join(texts) + ']'}"
    status = {"status": "Failure", "code": code, "reason": reason, "message": message, "details": details}
    return {"allowed": False, "status": status}


def _name(asked: Mapping[str, Any]) -> str:
    obj = asked.get("object") or asked.get("oldObject") or {}
    return str(asked.get("name") or (obj.get("metadata") or {}).get("name") or "")
