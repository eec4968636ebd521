"""Custom resources as typed models: `class Web(CustomResource[WebSpec, WebStatus], group="demo.dev", version="v1")`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from konverge.errors import ManifestError, ModelError
from konverge.model import meta
from konverge.model.resource import Object, ResourceType
from konverge.model.states import Machine, Phase


class Part(BaseModel):
    """A part of a spec or status: fields in snake_case here are camelCase on the wire; values do not change.

    A string below a field is its description, as in `Field(description=...)`.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore", use_attribute_docstrings=True
    )


class Spec(Part):
    """What a person asks for. Frozen: an operator never writes it."""


class Status(BaseModel):
    """What the operator observed; a draft during a reconcile, of which the framework writes the difference.

    The framework itself keeps `observed_generation`, `conditions` and, for a resource with phases, `phase` and
    `phase_since`; a reconciler reads them and sets its own fields.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        validate_assignment=True,
        use_attribute_docstrings=True,
    )

    observed_generation: int = Field(default=-1, description="The metadata.generation that this status was made for.")
    conditions: list[dict[str, Any]] = Field(
        default_factory=list, description="Ready, Reconciling, Stalled and others."
    )
    phase: str | None = Field(default=None, description="Where the state machine stands; for people, not programs.")
    phase_since: str | None = Field(default=None, description="When the phase was entered.")


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column of `kubectl get`: `path` is a JSONPath such as `.spec.replicas`; priority 1 shows with -o wide."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale subresource: where `kubectl scale` and an autoscaler find the numbers (JSONPaths)."""

    spec: str = ".spec.replicas"
    status: str = ".status.replicas"
    selector: str = ".status.selector"


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule of the CRD, on the whole spec. `message` is what a person reads when it refuses."""

    rule: str
    message: str


@dataclass(frozen=True, slots=True)
class CrdOptions:
    """What the class line of a custom resource says of its CRD, beside group, version, kind, plural and scope."""

    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    scale: Scale | None = None
    rules: tuple[Rule, ...] = ()


S = TypeVar("S", bound=Spec)
T = TypeVar("T", bound=Status)


class CustomResource(Generic[S, T]):
    """One object of a custom resource: its raw JSON, its frozen spec, and its status as a draft.

    Declare one with `class Web(CustomResource[WebSpec, WebStatus], group="demo.dev", version="v1")`; the docstring
    becomes the CRD's description. The class carries `resource`, `spec_type`, `status_type`, `crd` and `phases`.

    Raises: ModelError when the declaration is incomplete.
    """

    resource: ClassVar[ResourceType]
    spec_type: ClassVar[type[Spec]]
    status_type: ClassVar[type[Status]]
    crd: ClassVar[CrdOptions]
    phases: ClassVar[Machine | None] = None

    def __init_subclass__(
        cls,
        *,
        group: str = "",
        version: str = "",
        plural: str = "",
        namespaced: bool = True,
        short_names: Sequence[str] = (),
        categories: Sequence[str] = ("konverge",),
        columns: Sequence[Column] = (),
        scale: Scale | None = None,
        rules: Sequence[Rule] = (),
        phases: Sequence[Phase] = (),
    ) -> None:
        super().__init_subclass__()
        cls.spec_type, cls.status_type = _type_arguments(cls)
        if not group or not version:
            raise ModelError(f'{cls.__name__}: say group and version, as in group="demo.dev", version="v1"')
        if "." not in group or group.endswith(".k8s.io"):
            raise ModelError(f"{cls.__name__}: group {group!r} must be a domain of yours (dotted, not *.k8s.io)")
        kind = cls.__name__
        cls.resource = ResourceType(group, version, kind, plural or plural_of(kind), namespaced)
        cls.crd = CrdOptions(kind.lower(), tuple(short_names), tuple(categories), tuple(columns), scale, tuple(rules))
        cls.phases = Machine(phases) if phases else None

    def __init__(self, raw: Object, spec: S, status: T) -> None:
        self.raw, self.spec, self.status = raw, spec, status
        self.key = meta.key_of(raw)
        """Namespace and name."""

    @classmethod
    def parse(cls, raw: Object) -> Self:
        """Read an object as the server sent it. Raises: ManifestError, one line a field that does not fit."""
        problems: list[str] = []
        spec = _validate(cls.spec_type, raw.get("spec") or {}, "spec", problems)
        status = _validate(cls.status_type, raw.get("status") or {}, "status", problems)
        if spec is None or status is None:
            raise ManifestError(cls.resource.kind, str(meta.key_of(raw)), problems)
        return cls(raw, cast(S, spec), cast(T, status))

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.key.name

    @property
    def namespace(self) -> str:
        """`metadata.namespace`, empty for a cluster-scoped resource."""
        return self.key.namespace

    @property
    def uid(self) -> str:
        """`metadata.uid`."""
        return meta.uid_of(self.raw)

    @property
    def generation(self) -> int:
        """`metadata.generation`: counts the edits of the spec."""
        return meta.generation_of(self.raw)

    @property
    def labels(self) -> Mapping[str, str]:
        """`metadata.labels`."""
        return meta.labels_of(self.raw)

    @property
    def annotations(self) -> Mapping[str, str]:
        """`metadata.annotations`."""
        return meta.annotations_of(self.raw)

    @property
    def deleting(self) -> bool:
        """Whether deletion was asked for."""
        return meta.is_deleting(self.raw)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.key})"


Kind: TypeAlias = ResourceType | type[CustomResource[Any, Any]]
"""How a kind is named in calls: a built-in resource type or a custom resource's class."""


def resource_of(kind: Kind) -> ResourceType:
    """The resource type behind either form."""
    return kind if isinstance(kind, ResourceType) else kind.resource


def plural_of(kind: str) -> str:
    """The plural that kubebuilder would guess: `databases`, `policies`, `ingresses`. Say `plural=` where it is wrong."""
    word = kind.lower()
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    return word + "s"


def _type_arguments(cls: type[Any]) -> tuple[type[Spec], type[Status]]:
    for base in getattr(cls, "__orig_bases__", ()):
        if get_origin(base) is CustomResource:
            spec, status = get_args(base)
            if isinstance(spec, type) and issubclass(spec, Spec) and issubclass(status, Status):
                return spec, status
    raise ModelError(f"{cls.__name__}: derive from CustomResource[YourSpec, YourStatus], a Spec and a Status")


def _validate(model: type[BaseModel], value: Any, where: str, problems: list[str]) -> BaseModel | None:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_input=False):
            path = ".".join([where, *(str(part) for part in problem["loc"])])
            problems.append(f"{path}: {problem['msg']}")
        return None
