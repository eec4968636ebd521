"""Custom resources as typed models: `class Web(CustomResource[WebSpec, WebStatus], group="demo.dev", version="v1")`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from konverge.errors import ManifestError, ModelError
from konverge.model import meta
from konverge.model.admission import Problem, Request
from konverge.model.resource import Object, ResourceType
from konverge.model.states import Machine, Phase


class _Model(BaseModel):
    """What a part, a spec and a status have in common: nothing is said on their class line."""

    def __init_subclass__(cls, **options: Any) -> None:
        if options:
            names = ", ".join(f"{name}=" for name in options)
            raise ModelError(
                f"{cls.__name__}: {names} cannot stand on the class line of a Spec, Status or Part; put it on that of "
                "the CustomResource, behind CustomResource[YourSpec, YourStatus]"
            )
        super().__init_subclass__()


class Part(_Model):
    """A part of a spec or status: fields in snake_case here are camelCase on the wire; values do not change.

    A string below a field is its description, as in `Field(description=...)`.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore", use_attribute_docstrings=True
    )


class Spec(Part):
    """What a person asks for. Frozen: an operator never writes it."""


class Status(_Model):
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
    """What the class line of a custom resource says of its CRD, beside group, version, kind, plural and scope.

    Names are the hub's where there are several versions. `deprecated` is the warning that clients of the version get.
    """

    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    scale: Scale | None = None
    rules: tuple[Rule, ...] = ()
    selectable: tuple[str, ...] = ()
    served: bool = True
    stored: bool = False
    deprecated: str = ""


S = TypeVar("S", bound=Spec)
T = TypeVar("T", bound=Status)


class CustomResource(Generic[S, T]):
    """One object of a custom resource: its raw JSON, its frozen spec, and its status as a draft.

    Declare one with `class Web(CustomResource[WebSpec, WebStatus], group="demo.dev", version="v1")`; the docstring
    becomes the CRD's description. The class carries `resource`, `spec_type`, `status_type`, `crd` and `phases`.

    Another version of the same kind names its hub: `class WebV1Alpha1(CustomResource[OldSpec, Status], hub=Web,
    version="v1alpha1")`, and has the static methods `to_hub` and `from_hub` that `model/conversion` describes. It may
    be `deprecated="a warning"`, not `served`, or `stored` in the hub's place.

    Raises: ModelError when the declaration is incomplete.
    """

    resource: ClassVar[ResourceType]
    spec_type: ClassVar[type[Spec]]
    status_type: ClassVar[type[Status]]
    crd: ClassVar[CrdOptions]
    phases: ClassVar[Machine | None] = None
    hub: ClassVar["type[CustomResource[Any, Any]] | None"] = None
    spokes: ClassVar["tuple[type[CustomResource[Any, Any]], ...]"] = ()

    def __init_subclass__(
        cls,
        *,
        hub: "type[CustomResource[Any, Any]] | None" = None,
        group: str = "",
        version: str = "",
        plural: str = "",
        namespaced: bool = True,
        short_names: Sequence[str] = (),
        categories: Sequence[str] = ("konverge",),
        columns: Sequence[Column] = (),
        scale: Scale | None = None,
        rules: Sequence[Rule] = (),
        selectable: Sequence[str] = (),
        phases: Sequence[Phase] = (),
        served: bool = True,
        stored: bool = False,
        deprecated: str = "",
    ) -> None:
        super().__init_subclass__()
        cls.spec_type, cls.status_type = _type_arguments(cls)
        if hub is not None:
            _check_spoke(cls, hub, version, named=bool(group or plural or short_names) or not namespaced)
            group, plural, namespaced = hub.resource.group, hub.resource.plural, hub.resource.namespaced
        if not group or not version:
            raise ModelError(f'{cls.__name__}: say group and version, as in group="demo.dev", version="v1"')
        if "." not in group or group.endswith(".k8s.io"):
            raise ModelError(f"{cls.__name__}: group {group!r} must be a domain of yours (dotted, not *.k8s.io)")
        kind = hub.resource.kind if hub is not None else cls.__name__
        cls.resource = ResourceType(group, version, kind, plural or plural_of(kind), namespaced)
        cls.crd = CrdOptions(
            kind.lower(),
            short_names=tuple(short_names),
            categories=tuple(categories),
            columns=tuple(columns),
            scale=scale,
            rules=tuple(rules),
            selectable=tuple(selectable),
            served=served,
            stored=stored,
            deprecated=deprecated,
        )
        cls.phases = Machine(phases) if phases else hub.phases if hub is not None else None
        cls.hub, cls.spokes = hub, ()
        if hub is None:
            if not served or stored:
                raise ModelError(
                    f"{kind}: served= and stored= are said of another version, which names {kind} as its hub"
                )
        else:
            hub.spokes = (*hub.spokes, cls)

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

    def validate(self, old: Self | None, request: Request, /) -> Iterable[Problem]:  # noqa: ARG002 - for overriding
        """Override to refuse what neither the schema nor a CEL rule can: the problems of this object; none lets it pass.

        Called by the API server's admission for a new object (`old` None), and for one whose spec changes. What `old`
        had wrong already, with `old` None in its turn, is not held against the change. `Problem.warning` lets it pass
        and tells its author. See `hook` for the options.
        """
        return ()

    def validate_delete(self, request: Request, /) -> Iterable[Problem]:  # noqa: ARG002 - for overriding
        """Override to refuse the deletion of this object, which no schema can: the problems with it; none lets it go.

        A refusal also holds up the deletion of its namespace.
        """
        return ()

    def default(self, request: Request, /) -> Mapping[str, Any]:  # noqa: ARG002 - for overriding
        """Override to fill in what a schema's constant defaults cannot: a sparse manifest of this object, as on the wire.

        Of `spec`, `metadata.labels` and `metadata.annotations` what the object does not say is filled in; what it says
        stays. A value that was filled in stays too when what it was derived from is edited later.
        """
        return {}

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


def _check_spoke(
    cls: type[CustomResource[Any, Any]], hub: type[CustomResource[Any, Any]], version: str, *, named: bool
) -> None:
    name = cls.__name__
    if hub.hub is not None:
        raise ModelError(f"{name}: {hub.__name__} is no hub itself; name its hub, {hub.hub.__name__}")
    if named:
        raise ModelError(
            f"{name}: group, plural, scope and short names are those of its hub; say version= and hub= only"
        )
    if version in {each.resource.version for each in (hub, *hub.spokes)}:
        raise ModelError(f"{name}: {hub.__name__} has a version {version} already; give this one another")
    for method in ("to_hub", "from_hub"):
        if not callable(getattr(cls, method, None)):
            raise ModelError(f"{name}: define a static method {method}, a function from one spec to the other")


def _validate(model: type[BaseModel], value: Any, where: str, problems: list[str]) -> BaseModel | None:
    try:
        # On the wire a field has one name; the server drops, or keeps as unknown, what is called as it is in Python.
        return model.model_validate(value, by_alias=True, by_name=False)
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_input=False):
            path = ".".join([where, *(str(part) for part in problem["loc"])])
            problems.append(f"{path}: {problem['msg']}")
        return None
