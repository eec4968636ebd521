"""A resource in three versions, none of which can hold all that another one can."""

from typing import Annotated, Any

from pydantic import Field

from konverge.model.custom import CustomResource, Part, Spec, Status
from konverge.model.fields import Duration, ListMap


class Port(Part):
    name: str = Field(max_length=63)
    number: int = Field(ge=1, le=65535)
    tls: bool = False


class SiteSpec(Spec):
    image: str = Field(max_length=255)
    replicas: int = Field(default=1, ge=0, le=10)
    ports: Annotated[list[Port], ListMap("name")] = Field(default=[], max_length=8)
    patience: Duration | None = None
    tags: list[str] = Field(default=[], max_length=8)


class SiteStatus(Status):
    ready_replicas: int = 0


class Site(CustomResource[SiteSpec, SiteStatus], group="conversion.example.dev", version="v1"):
    """A web site."""


class OldPort(Part):
    name: str = Field(max_length=63)
    port: int = Field(ge=1, le=65535)


class OldSiteSpec(Spec):
    """Knows nothing of patience, tags and TLS; has a colour, and more replicas."""

    image: str = Field(max_length=255)
    count: int = Field(default=1, ge=0, le=1000)
    colour: str = Field(default="", max_length=32)
    ports: Annotated[list[OldPort], ListMap("name")] = Field(default=[], max_length=8)


class SiteV1Alpha1(
    CustomResource[OldSiteSpec, SiteStatus],
    hub=Site,
    version="v1alpha1",
    deprecated="use conversion.example.dev/v1",
):
    """A web site, as it was at first."""

    @staticmethod
    def to_hub(spec: OldSiteSpec) -> dict[str, Any]:
        ports = [{"name": port.name, "number": port.port} for port in spec.ports]
        return {"image": spec.image, "replicas": spec.count} | ({"ports": ports} if ports else {})

    @staticmethod
    def from_hub(spec: SiteSpec) -> dict[str, Any]:
        ports = [{"name": port.name, "port": port.number} for port in spec.ports]
        return {"image": spec.image, "count": spec.replicas} | ({"ports": ports} if ports else {})


class FlatSpec(Spec):
    """Has one port only."""

    image: str = Field(max_length=255)
    port: int = Field(default=80, ge=1, le=65535)
    patience_seconds: int | None = Field(default=None, ge=0)


class FlatStatus(Status):
    ready: bool = False


class SiteV1Beta1(CustomResource[FlatSpec, FlatStatus], hub=Site, version="v1beta1", served=False):
    """A web site, as it was for a while."""

    @staticmethod
    def to_hub(spec: FlatSpec) -> dict[str, Any]:
        patience = {} if spec.patience_seconds is None else {"patience": f"{spec.patience_seconds}s"}
        return {"image": spec.image, "ports": [{"name": "http", "number": spec.port}], **patience}

    @staticmethod
    def from_hub(spec: SiteSpec) -> dict[str, Any]:
        patience = {} if spec.patience is None else {"patience_seconds": int(spec.patience.total_seconds())}
        return {"image": spec.image, "port": spec.ports[0].number if spec.ports else 80, **patience}

    @staticmethod
    def status_to_hub(status: FlatStatus) -> dict[str, Any]:
        return {"ready_replicas": int(status.ready)}

    @staticmethod
    def status_from_hub(status: SiteStatus) -> FlatStatus:
        return FlatStatus(ready=status.ready_replicas > 0)


def site(spec: dict[str, Any], version: str = "v1", status: dict[str, Any] | None = None, **metadata: Any) -> Any:
    """A Site as the API server hands it to a webhook."""
    head = {"apiVersion": f"conversion.example.dev/{version}", "kind": "Site"}
    meta = {"name": "shop", "namespace": "team", "uid": "u1", "resourceVersion": "7", **metadata}
    return {**head, "metadata": meta, "spec": spec} | ({} if status is None else {"status": status})
