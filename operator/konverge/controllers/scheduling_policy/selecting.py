"""Label selectors in a policy's spec, in the form that they have everywhere in Kubernetes."""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from konverge.model.custom import Part
from konverge.model.fields import Cel

LABEL_KEY: Final = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
_LABEL_VALUE: Final = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
_Value: TypeAlias = Annotated[str, Field(max_length=63, pattern=_LABEL_VALUE)]


class LabelRequirement(Part):
    """One condition on one label."""

    key: str = Field(min_length=1, max_length=317, pattern=LABEL_KEY, description="The label.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(
        description="In and NotIn compare with values; NotIn also holds without the label."
    )
    values: list[_Value] = Field(default_factory=list, max_length=64, description="For In and NotIn.")


class LabelSelector(Part):
    """Conditions on labels that must all hold; without any, every object matches."""

    match_labels: dict[str, _Value] = Field(
        default_factory=dict, max_length=64, description="Labels with the values that they must have."
    )
    match_expressions: list[
        Annotated[
            LabelRequirement,
            Cel(
                "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
                "In and NotIn need values, Exists and DoesNotExist take none",
            ),
        ]
    ] = Field(default_factory=list, max_length=32, description="Further conditions.")
