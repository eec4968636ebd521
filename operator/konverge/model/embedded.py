"""Parts of a spec whose shape is Kubernetes' own: the metadata and the pod template that a user hands down to a child, and
where a secret value stands.

The schema of a pod spec is larger than a whole CRD may be, changes with each release, and is the API server's to know.
So `PodTemplate.spec` is taken as it is (`x-kubernetes-preserve-unknown-fields`), and judged where it is used: the child
that it goes into is applied with strict field validation, whose error names the field and stands in the condition of
the custom resource. What is ours to read, labels and annotations, is typed. A `metadata` of `dict` would do neither: the
server drops what a CRD does not name.
"""

from typing import Annotated, Any, TypeAlias

from pydantic import Field

from konverge.model.custom import Part

_Label: TypeAlias = Annotated[str, Field(max_length=63)]
_Note: TypeAlias = Annotated[str, Field(max_length=4096)]


class EmbeddedMeta(Part):
    """Metadata of a child, as far as a user has a say in it."""

    labels: dict[str, _Label] = Field(default={}, max_length=64, description="Labels beside those of the operator.")
    annotations: dict[str, _Note] = Field(
        default={}, max_length=64, description="Annotations beside those of the operator."
    )


class PodTemplate(Part):
    """What pods are made from; its spec is checked by the API server where it is used."""

    metadata: EmbeddedMeta = Field(default=EmbeddedMeta(), description="Metadata of the pods.")
    spec: dict[str, Any] = Field(description="A PodSpec (see `kubectl explain pod.spec`).")

    def manifest(self) -> dict[str, Any]:
        """The template as a workload's `spec.template`."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class SecretKeyRef(Part):
    """A key of a Secret in the same namespace: a spec names what is secret, and never says it.

    It goes into a child as it is: `{"valueFrom": {"secretKeyRef": self.spec.token}}`.
    """

    name: str = Field(
        max_length=253, pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", description="The Secret, in the same namespace."
    )
    key: str = Field(max_length=253, pattern=r"^[-._a-zA-Z0-9]+$", description="The entry of its data.")
