"""Label selectors select what the API server selects."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.model.selectors import Operator, Requirement, Selector

KEYS = st.sampled_from(["a", "b", "example.dev/c", "in", "notin"])
VALUES = st.sampled_from(["", "x", "y", "in", "z-1.2_3"])
LABELS = st.dictionaries(KEYS, VALUES)
REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(
        Requirement,
        KEYS,
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.frozensets(VALUES, min_size=1, max_size=3),
    ),
)
SELECTORS = st.lists(REQUIREMENTS, max_size=4).map(lambda found: Selector(tuple(found)))


@pytest.mark.parametrize(
    ("text", "labels", "selected"),
    [
        ("", {"a": "x"}, True),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("!a", {"a": "x"}, False),
        ("a=x", {"a": "x"}, True),
        ("a==x", {"a": "y"}, False),
        ("a!=x", {"a": "y"}, True),
        ("a!=x", {}, True),
        ("a in (x,y)", {"a": "y"}, True),
        ("a in (x, y)", {}, False),
        ("a notin (x)", {}, True),
        ("a notin (x)", {"a": "x"}, False),
        ("a=", {"a": ""}, True),
        ("a in (x,)", {"a": ""}, True),
        ("in in (in),notin=x", {"in": "in", "notin": "x"}, True),
        ("a=x,b=y", {"a": "x"}, False),
        (" a = x , ! b ", {"a": "x"}, True),
    ],
)
def test_text_selects(text: str, labels: Mapping[str, str], selected: bool) -> None:
    assert Selector.parse(text).matches(labels) is selected


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a=b,", "expected a key at the end"),
        ("a in b", "expected '(' after in or notin"),
        ("a in (b", "expected ')'"),
        ("=x", "expected a key, not '='"),
        ("a b", "expected an operator after 'a', not 'b'"),
        ("a=b c", "expected ',' before 'c'"),
        ("a>5", "unexpected '>'"),
        ("-a", "cannot be a label's key"),
        ("A_/b", "must be a lower-case DNS name"),
        ("a=" + "x" * 64, "cannot be a label's value"),
    ],
)
def test_a_wrong_text_says_where(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=r"label|selector") as caught:
        Selector.parse(text)
    assert hint in str(caught.value)


def test_the_object_form_joins_labels_and_expressions() -> None:
    selector = Selector.of(
        {
            "matchLabels": {"a": "x"},
            "matchExpressions": [
                {"key": "b", "operator": "In", "values": ["y", "z"]},
                {"key": "c", "operator": "DoesNotExist"},
            ],
        }
    )
    assert selector == Selector.parse("a=x,b in (y,z),!c")
    assert selector.specificity == 3


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"labels": {}}, "unknown fields labels"),
        ({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}, "operator 'Gt' is unknown"),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "In needs at least one value"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}, "Exists takes no values"),
    ],
)
def test_a_wrong_object_form_says_what_to_write(wrong: dict[str, Any], hint: str) -> None:
    with pytest.raises(ValueError, match="selector") as caught:
        Selector.of(wrong)
    assert hint in str(caught.value)


@given(labels=LABELS)
def test_an_empty_selector_matches_everything_and_none_nothing(labels: dict[str, str]) -> None:
    assert Selector.of({}).matches(labels)
    assert Selector.everything().matches(labels)
    assert not Selector.of(None).matches(labels)
    assert not Selector.nothing().matches(labels)


@given(selector=SELECTORS, labels=LABELS)
def test_the_text_of_a_selector_selects_the_same(selector: Selector, labels: dict[str, str]) -> None:
    parsed = Selector.parse(str(selector))
    assert parsed == selector
    assert parsed.matches(labels) is selector.matches(labels)


@given(requirement=REQUIREMENTS, labels=LABELS)
def test_opposites_never_agree(requirement: Requirement, labels: dict[str, str]) -> None:
    opposites = {
        Operator.IN: Operator.NOT_IN,
        Operator.NOT_IN: Operator.IN,
        Operator.EXISTS: Operator.DOES_NOT_EXIST,
        Operator.DOES_NOT_EXIST: Operator.EXISTS,
    }
    opposite = Requirement(requirement.key, opposites[requirement.operator], requirement.values)
    assert requirement.matches(labels) is not opposite.matches(labels)


@given(first=SELECTORS, second=SELECTORS, labels=LABELS)
def test_requirements_are_joined_by_and(first: Selector, second: Selector, labels: dict[str, str]) -> None:
    both = Selector(first.requirements + second.requirements)
    assert both.matches(labels) is (first.matches(labels) and second.matches(labels))
