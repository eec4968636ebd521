"""A random model with one field that no structural schema can hold fails when it is generated, and says where and why."""

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import AnyUrl, AwareDatetime, Field, FilePath, Json, PastDate, SecretStr, StringConstraints, create_model

from konverge.errors import ModelError
from konverge.model.crd import crd_of
from konverge.model.custom import Part, Spec
from konverge.model.fields import Cel, Duration, Immutable, ListMap, Quantity
from konverge.model.schema import structural
from tests.parity.models import Model, models
from tests.parity.shapes import bounded, of


class Half(Enum):
    """No plain value."""

    HALF = 0.5


class Cat(Part):
    kind: Literal["Cat"]
    name: str


class Dog(Part):
    kind: Literal["Dog"]
    name: int


BROKEN: Final[list[Any]] = [
    tuple[str, int], Decimal, float, complex, datetime, timedelta, time, AnyUrl, SecretStr, bytes, FilePath, IPv4Network, Json,
    PastDate, Half, Cat | Dog, Annotated[Cat | Dog, Field(discriminator="kind")], int | bool, list[int] | str, date | int,
    dict[int, str], set[Any], set[Cat], list[str | None], Literal["a", 1], type,
    Annotated[list[Cat], ListMap("age")], Annotated[str, ListMap("name")], Annotated[Any, Cel("self > 1", "more")],
    Annotated[Any, Immutable()], Annotated[list[Any], Immutable()], list[Annotated[str, Immutable()]],
    list[Annotated[str, Cel("self != ''", "some")]],
    Annotated[str, Field(pattern=r"\D")], Annotated[str, Field(pattern=r"[a[b]]")], Annotated[int, Field(ge=2**53 + 1)],
    Annotated[Duration, Field(gt=timedelta(0))], Annotated[Quantity, Field(max_length=3)],
    Annotated[int | str, Field(pattern="^a")], Annotated[date, Field(ge=date(2026, 1, 1))],
    Annotated[AwareDatetime, Field(strict=True)], Annotated[set[Duration], Field(min_length=2)],
    Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)], Annotated[int, Field(exclude=True)],
]  # fmt: skip


def holder(broken: Any, **more: Any) -> Any:
    fields: dict[str, Any] = {"inner": (broken, ...), **more}
    return create_model("Holder", __base__=Part, **fields)


def branch(broken: Any) -> Any:
    union: Any = Union[holder(broken, kind=(Literal["Ape"], ...)), Cat]  # noqa: UP007 - of what is known at run time only
    return Annotated[union, Field(discriminator="kind")]


PLACES: Final[list[Callable[[Any], Any]]] = [
    lambda broken: broken,
    lambda broken: of(list, broken),
    lambda broken: bounded(of(dict, str, broken), None, 3),
    holder,
    lambda broken: of(list, holder(broken)),
    branch,
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: re.sub(r" at 0x[0-9a-f]+", "", str(broken)))
def test_names_field_rule_and_way_out(broken: Any) -> None:
    """Wherever the field stands."""
    for place in PLACES:
        annotation = place(broken)
        if "exclude=True" in repr(annotation) and not isinstance(annotation, type) and annotation is not broken:
            continue  # what is left out is a field, not an item
        spec = create_model("Sample", __base__=Spec, good=(int, 1), broken=(annotation, ...))
        with pytest.raises(ModelError, match=r"^Sample: spec\.broken[^ ]*: [^;]+; .") as caught:
            structural(spec, "spec")
        assert "\n" not in str(caught.value)


@settings(max_examples=15, phases=[Phase.generate], derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(model=models(), broken=st.sampled_from(BROKEN[:20]), place=st.sampled_from(PLACES[:4]))
def test_spoils_any_model(model: Model, broken: Any, place: Callable[[Any], Any]) -> None:
    crd_of(model.cls)
    spec = create_model("Spoiled", __base__=model.cls.spec_type, broken=(place(broken), ...))
    with pytest.raises(ModelError, match=r"spec\.broken"):
        structural(spec, "spec")


def test_a_path_is_any_text() -> None:
    spec = create_model("Sample", __base__=Spec, field=(Path, ...))
    assert structural(spec, "spec")["properties"]["field"] == {"type": "string"}
