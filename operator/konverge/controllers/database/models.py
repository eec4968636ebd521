"""The Database resource: what a person asks for, what the operator reports, and how kubectl shows it."""

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import Field

from konverge.controllers.database.names import MAX_REPLICAS
from konverge.controllers.database.phases import PHASES
from konverge.model.admission import Problem, Request, hook
from konverge.model.custom import Column, CustomResource, Part, Rule, Scale, Spec, Status
from konverge.model.fields import Cel, Immutable, Quantity

MIN_STORAGE: Final = "256Mi"
PROTECTION: Final = "data.konverge.dev/deletion-protection"
"""The annotation that keeps a Database from being deleted while it is "true"."""
ROTATE_PASSWORD: Final = "data.konverge.dev/rotate-password"  # noqa: S105 - an annotation's name
"""On a Database: any new value asks for a new password."""


class Storage(Part):
    """The volume of each replica. `deletionPolicy` says what becomes of it with the Database."""

    size: Annotated[
        Quantity,
        Cel(
            f"quantity(string(self)).compareTo(quantity('{MIN_STORAGE}')) >= 0",
            f"storage.size must be at least {MIN_STORAGE}, such as 10Gi",
        ),
        Cel(
            "quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",
            "storage.size cannot shrink: a volume only grows; for a smaller one make a new Database and restore a dump",
        ),
    ] = Field(
        description="Size of each replica's volume, such as 10Gi. It can grow, where the StorageClass allows it, "
        "and never shrink."
    )
    storage_class_name: Annotated[str, Immutable()] | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        description="StorageClass of the volumes; without it the cluster's default one. Immutable.",
    )


class Compute(Part):
    """Amounts of CPU and memory."""

    cpu: Quantity | None = Field(default=None, description="CPU in cores, such as 500m or 2.")
    memory: Quantity | None = Field(default=None, description="Memory in bytes, such as 512Mi or 2Gi.")


class Resources(Part):
    """What each replica may use, as for any container."""

    requests: Compute | None = Field(default=None, description="What is set aside for each replica.")
    limits: Compute | None = Field(
        default=None, description="What each replica may use at most. A quarter of the memory becomes shared buffers."
    )


def _within_limit(name: str) -> Cel:
    """Quantities may be integers in a manifest, hence `string()`."""
    given = " || ".join(
        f"!has({path})" for path in ("self.requests", "self.limits", f"self.requests.{name}", f"self.limits.{name}")
    )
    request, limit = (f"quantity(string(self.{kind}.{name}))" for kind in ("requests", "limits"))
    return Cel(
        f"{given} || {request}.compareTo({limit}) <= 0", f"resources.requests.{name} must not exceed limits.{name}"
    )


class DatabaseSpec(Spec):
    """What a person asks for."""

    engine: Literal["PostgreSQL"] = Field(default="PostgreSQL", description="The database engine.")
    version: str = Field(
        min_length=2,
        max_length=5,
        pattern=r"^1[4-9](\.[0-9]{1,2})?$",
        description='Version of the engine, such as "17" (its newest release) or "17.2". The major version is immutable.',
    )
    replicas: int = Field(
        default=1,
        ge=1,
        le=MAX_REPLICAS,
        description="Number of pods: one primary, which takes writes, and its hot standbys.",
    )
    storage: Annotated[
        Storage,
        Cel(
            "has(self.storageClassName) == has(oldSelf.storageClassName)",
            "storage.storageClassName cannot be added or removed later",
        ),
    ] = Field(description="The volume of each replica.")
    resources: Annotated[Resources, _within_limit("cpu"), _within_limit("memory")] = Field(
        default_factory=Resources, description="CPU and memory of each replica."
    )
    suspend: bool = Field(default=False, description="Stop all pods and keep the data.")
    deletion_policy: Literal["Retain", "Delete"] = Field(
        default="Retain",
        description="What becomes of the volumes when the Database is deleted: Retain keeps them, and a new Database of "
        "the same name takes them up; Delete deletes the data.",
    )


class Binding(Part):
    """Where an application finds how to connect, as the Service Binding specification wants it."""

    name: str = Field(description="Secret of type servicebinding.io/postgresql, in the namespace of the Database.")


class DatabaseStatus(Status):
    """What the operator observed."""

    replicas: int | None = Field(default=None, description="Number of pods that exist.")
    ready_replicas: int | None = Field(default=None, description="Number of pods that accept connections.")
    selector: str | None = Field(default=None, description="Label selector of the pods, for the scale subresource.")
    version: str | None = Field(default=None, description="The version that all replicas run.")
    endpoint: str | None = Field(default=None, description="Where clients connect: host:port of the primary.")
    secret_name: str | None = Field(
        default=None, description="Secret with username and password, in the namespace of the Database."
    )
    binding: Binding | None = Field(default=None, description="How applications connect.")
    storage: str | None = Field(default=None, description="The size that every volume has by now.")
    password_rotation: str | None = Field(
        default=None, description=f"The last value of the annotation {ROTATE_PASSWORD} for which a password was made."
    )


class Database(
    CustomResource[DatabaseSpec, DatabaseStatus],
    group="data.konverge.dev",
    version="v1alpha1",
    short_names=["db"],
    columns=[
        Column("Version", ".spec.version", description="The version asked for."),
        Column("Replicas", ".spec.replicas", type="integer", description="The number of pods asked for."),
        Column("Phase", ".status.phase", description="Where the Database stands."),
    ],
    scale=Scale(),
    rules=[
        Rule(
            "self.version.split('.')[0] == oldSelf.version.split('.')[0]",
            "the major version cannot be changed in place: make a new Database and restore a dump of this one into it",
        )
    ],
    phases=PHASES,
):
    """A PostgreSQL database: one primary and its hot standbys, with credentials, configuration and storage."""

    @hook(when=f"oldObject.metadata.?annotations[?'{PROTECTION}'].orValue('') == 'true'")
    def validate_delete(self, request: Request, /) -> Iterable[Problem]:  # noqa: ARG002 - the hook's signature
        """A protected Database is not deleted, by nobody: no schema sees deletions."""
        if self.annotations.get(PROTECTION) == "true":
            yield Problem.forbidden(
                f"metadata.annotations[{PROTECTION}]", "the Database is protected; remove the annotation to delete it"
            )
