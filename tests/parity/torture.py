"""One custom resource that uses every feature of models at once, for the real API server to judge."""

# ruff: noqa: RUF012 - pydantic copies mutable defaults

from datetime import date, timedelta
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, ConfigDict, Field

from konverge.model.conditions import State
from konverge.model.custom import Column, CustomResource, Part, Rule, Scale, Spec, Status
from konverge.model.fields import Cel, Duration, Immutable, ListMap, Quantity
from konverge.model.states import Phase


class Color(Enum):
    """A colour of the rainbow."""

    RED = "Red"
    BLUE = "Blue"


class Disk(Part):
    """Blocks on a node."""

    kind: Literal["Disk"] = "Disk"
    size: Quantity
    label: str | None = Field(default=None, max_length=10)


class Bucket(Part):
    """Objects far away."""

    kind: Literal["Bucket"]
    url: str = Field(pattern="^s3://", max_length=100)
    retries: int = Field(default=3, ge=0, le=9)
    label: str | None = Field(default=None, max_length=10)


class Limits(Part):
    """How much."""

    cpu: Quantity = "500m"
    """Cores."""
    memory: Quantity = "1Gi"


class Storage(Part):
    """Where the data lies."""

    size: Annotated[Quantity, Cel("quantity(self).isGreaterThan(quantity('0'))", "must be more than nothing")] = "1Gi"
    namespace: Annotated[str | None, Immutable()] = None
    limits: Limits = Limits()


class Port(Part):
    """A way in."""

    name: str = Field(min_length=1, max_length=15)
    number: Annotated[int, Field(gt=0, lt=65536)]
    """Where it listens."""
    protocol: Annotated[Literal["TCP", "UDP"], Immutable()] = "TCP"


class Tree(Part):
    """A node with nodes below."""

    name: str = Field(max_length=10)
    children: list["Tree"] = Field(default=[], max_length=3)


class Loose(Part):
    """Takes more than it declares."""

    model_config = ConfigDict(extra="allow")

    known: int = 1


class TortureSpec(Spec):
    """All at once."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field(min_length=1, max_length=20, description="Names it.")
    nickname: str | None = None
    color: Color | None = None
    level: Literal["Low", "High", None] = None  # noqa: PYI061 - the form under test
    only: Literal["one"] = "one"
    numbers: list[Annotated[int, Field(ge=1, le=5)]] = Field(default=[1, 2], max_length=4)
    letters: set[Literal["a", "b", "c"]] = {"b", "a"}
    constants: list[Literal["x"]] = []
    pair: tuple[str, ...] = ("left", "right")
    storage: Storage = Storage()
    spare: Storage = Field(default_factory=lambda: Storage(size="5Gi"))
    source: Annotated[Disk | Bucket, Field(discriminator="kind")] | None = None
    ports: Annotated[list[Port], ListMap("name")] = Field(default=[], max_length=8)
    surge: Annotated[int | str, Field(union_mode="left_to_right")] = 1
    step: int = Field(default=10, multiple_of=5, gt=0, lt=100)
    labels: dict[str, str] = Field(default={}, max_length=3)
    free: dict[str, Any] = {}
    anything: Any = None
    loose: Loose | None = None
    tree: Tree | None = None
    y: bool = True
    pause: Duration = timedelta(minutes=90)
    since: AwareDatetime | None = None
    day: date = date(2026, 1, 31)
    token: UUID | None = None
    fixed: Annotated[str | None, Immutable()] = Field(default=None, max_length=10)
    replicas: int = Field(default=1, ge=0, le=9)


class TortureStatus(Status):
    """What was seen."""

    replicas: int = 0
    selector: str = ""
    load: float | None = Field(default=None, gt=0.25)
    seen: AwareDatetime | None = None


class Torture(
    CustomResource[TortureSpec, TortureStatus],
    group="torture.example.dev",
    version="v1alpha1",
    short_names=["tor"],
    categories=["konverge"],
    columns=[
        Column("Title", ".spec.title"),
        Column("Phase", ".status.phase"),
        Column("y", ".spec.y", "boolean", priority=1),
    ],
    scale=Scale(),
    rules=[Rule("self.replicas <= 5 || self.y", "more than 5 replicas need y")],
    phases=[Phase("Pending", to=("Running",)), Phase("Running", state=State.DONE)],
):
    """A resource that uses all that a model can say."""
