"""How a policy stands among those for the same schedulerName."""

from typing import Any

import pytest

from konverge.controllers.scheduling_policy.standing import Standing, standing
from konverge.model.selectors import Selector
from konverge.scheduler import ProfileConfig, Registry
from konverge.scheduler.policies import Policy, Rule, order
from konverge.scheduler.variants import Variants
from tests.unit.scheduler.clusters import NAME, plugin_handle

CONFIG = ProfileConfig(NAME)
VARIANTS = Variants(CONFIG, Registry.default(), plugin_handle())


def policy(owner: str, pods: str = "", namespaces: str = "", **rule: Any) -> Policy:
    picks = Rule(pods=Selector.parse(pods), namespaces=Selector.parse(namespaces), **rule)
    return Policy(owner, CONFIG, picks, VARIANTS)


def of(owner: str, *policies: Policy) -> Standing:
    return standing(owner, sorted(policies, key=lambda each: order(each.owner, each.rule)))


def test_alone_there_is_nothing_to_say() -> None:
    assert of("a", policy("a")) == Standing()


def test_who_is_asked_first_and_asks_for_no_more_has_all_the_pods() -> None:
    assert of("b", policy("a"), policy("b")).shadow == "a"
    assert of("a", policy("a", "app=web,tier=front"), policy("b", "app=web", priority=1)).shadow == "b"
    assert of("a", policy("a", "app=web", "team=x"), policy("b", "app=web", priority=1)).shadow == "b"


def test_who_asks_for_more_or_for_a_share_leaves_pods() -> None:
    assert of("a", policy("a"), policy("b", "app=web", priority=1)).shadow == ""
    assert of("a", policy("a"), policy("b", namespaces="team=x", priority=1)).shadow == ""
    assert of("a", policy("a"), policy("b", priority=1, canary_percent=99)).shadow == ""
    assert of("a", policy("a", "app=web"), policy("b", "app=db", priority=1)).shadow == ""


def test_where_only_the_name_decides_both_say_so() -> None:
    several = policy("a", "app=web"), policy("b", "tier=front"), policy("c", "tier=front,app"), policy("d", priority=1)

    assert of("a", *several).ties == ("b",)
    assert of("b", *several).ties == ("a",)
    assert of("c", *several).ties == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("app=web", "app=db"),
        ("app in (a,b)", "app in (c)"),
        ("app=web", "app!=web"),
        ("app notin (a,b)", "app=a"),
        ("app", "!app"),
        ("!app", "app=web"),
    ],
)
def test_no_pod_is_in_two_selectors_that_contradict_each_other(one: str, other: str) -> None:
    assert of("a", policy("a", one), policy("b", other)).ties == ()
    assert of("a", policy("a", namespaces=one), policy("b", namespaces=other)).ties == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("app in (a,b)", "app in (b,c)"),
        ("app in (a,b)", "app!=a"),
        ("app!=a", "app!=b"),
        ("!app", "app!=a"),
        ("app", "x"),
    ],
)
def test_a_pod_may_be_in_both_of_others(one: str, other: str) -> None:
    assert of("a", policy("a", one), policy("b", other)).ties == ("b",)
