"""Whose pod it is, of several policies for one schedulerName, and which of a profile's forms it meets."""

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.errors import SchedulingError, UnknownPlugin
from konverge.model.selectors import Selector
from konverge.scheduler import PluginSet, PluginUse, Point, ProfileConfig, Registry
from konverge.scheduler.events import ClusterEvent
from konverge.scheduler.framework import CycleState, PluginArgs, Score
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.priority_sort import PrioritySort
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.policies import Policies, Policy, Rule
from konverge.scheduler.profile import Profile
from konverge.scheduler.variants import Variants, share_of
from tests.unit.scheduler.clusters import NAME, plugin_handle, pod

NAMESPACES = {"prod": {"stage": "prod"}, "default": {}}


def labelled(uid: str = "p", namespace: str = "default", scheduler: str = NAME, **labels: str) -> PodInfo:
    made = pod(uid, scheduler=scheduler)
    made["metadata"] |= {"namespace": namespace, "labels": labels}
    return PodInfo(made)


def policy(owner: str, selector: str = "", *, namespaces: str = "", name: str = NAME, **rule: Any) -> Policy:
    config = ProfileConfig(name)
    picks = Rule(pods=Selector.parse(selector), namespaces=Selector.parse(namespaces), **rule)
    return Policy(owner, config, picks, Variants(config, Registry.default(), plugin_handle()))


def among(*policies: Policy) -> Policies:
    made = Policies(lambda name: NAMESPACES[name])
    for each in policies:
        made.put(each)
    return made


# Whose pod it is


def test_of_those_that_match_the_highest_priority_has_the_pod() -> None:
    policies = among(policy("a", "app=web", priority=1), policy("b", priority=5), policy("c", "app=db", priority=9))

    assert policies.owner_of(labelled(app="web")) == "b"
    assert policies.owner_of(labelled(app="db")) == "c"


def test_ties_go_to_the_one_with_more_conditions_and_then_to_the_first_name() -> None:
    policies = among(policy("a"), policy("c", "app=web"), policy("b", "app=web"), policy("z", "app=web,tier=front"))

    assert policies.owner_of(labelled(app="web", tier="front")) == "z"
    assert policies.owner_of(labelled(app="web")) == "b"
    assert policies.owner_of(labelled()) == "a"


def test_conditions_on_the_namespace_count_as_those_on_the_pod() -> None:
    policies = among(policy("a", "app=web"), policy("b", "app=web", namespaces="stage=prod"))

    assert policies.owner_of(labelled(app="web", namespace="prod")) == "b"
    assert policies.owner_of(labelled(app="web")) == "a"
    assert policies.minds_namespaces == {NAME}


def test_another_scheduler_name_is_another_world() -> None:
    policies = among(policy("a", priority=9), policy("b", name="other"))

    assert policies.owner_of(labelled(scheduler="other")) == "b"
    assert policies.owner_of(labelled(scheduler="nobody")) is None


def test_a_pod_that_none_matches_has_no_profile() -> None:
    policies = among(policy("a", "app=web"))

    assert policies.profile_of(labelled(app="db")) is None
    assert [each.owner for each in policies.serving(NAME)] == ["a"]


def test_a_policy_that_holds_its_pods_keeps_them_from_the_next() -> None:
    policies = among(policy("a"), policy("b", priority=1, hold=True))

    assert policies.owner_of(labelled()) == "b"
    assert policies.profile_of(labelled()) is None


def test_a_pod_outside_the_canary_share_is_the_next_policys() -> None:
    policies = among(policy("stable"), policy("canary", priority=1, canary_percent=25))
    owners = Counter(policies.owner_of(labelled(f"uid-{number}")) for number in range(2000))

    assert owners["stable"] + owners["canary"] == 2000
    assert 400 <= owners["canary"] <= 600
    assert among(policy("none", canary_percent=0)).owner_of(labelled()) is None


def test_two_canaries_take_shares_of_their_own() -> None:
    """Of one share for all the second would get none, for the first has it already."""
    policies = among(policy("a", canary_percent=50, priority=2), policy("b", canary_percent=50, priority=1))
    owners = Counter(policies.owner_of(labelled(f"uid-{number}")) for number in range(2000))

    assert all(owners[owner] > low for owner, low in (("a", 850), ("b", 400), (None, 400)))


@given(
    rules=st.lists(
        st.tuples(
            st.sampled_from("abcdef"),
            st.sampled_from(["", "app=web", "app in (web,db)", "tier", "!tier", "app=web,tier"]),
            st.integers(-1, 1),
            st.sampled_from([0, 40, 100]),
        ),
        unique_by=lambda rule: rule[0],
    ),
    labels=st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["web", "db"])),
    seed=st.integers(),
)
def test_the_choice_is_the_first_match_whatever_the_order_in_which_policies_come(
    rules: list[tuple[str, str, int, int]], labels: dict[str, str], seed: int
) -> None:
    made = [policy(owner, text, priority=rank, canary_percent=share) for owner, text, rank, share in rules]
    wanted = labelled("some-uid", **labels)
    matching = [
        each
        for each in made
        if each.rule.pods.matches(labels) and share_of("some-uid", f"policy/{each.owner}") < each.rule.canary_percent
    ]
    first = min(matching, key=lambda each: (-each.rule.priority, -each.rule.specificity, each.owner), default=None)
    shuffled = among(*random.Random(seed).sample(made, len(made)))

    assert shuffled.owner_of(wanted) == (first.owner if first else None)


def test_all_policies_sort_the_queue_alike() -> None:
    class Fifo(PrioritySort):
        name = "Fifo"

    registry = Registry.default()
    registry.register(Fifo)
    fifo = PluginSet(enabled=(PluginUse("Fifo"),), disabled=frozenset({"PrioritySort"}))
    config = ProfileConfig("second", plugins={Point.MULTI_POINT: fifo})
    with pytest.raises(SchedulingError, match="a sorts it with PrioritySort, so this profile cannot use Fifo"):
        among(policy("a")).put(Policy("b", config, Rule(), Variants(config, registry, plugin_handle())))


# Lazy activation


def test_a_lazy_change_leaves_waiting_pods_the_profile_that_they_met() -> None:
    policies = among(policy("a", lazy=True))
    waits, comes = labelled("waits"), labelled("comes")
    met = policies.profile_of(waits)
    config = ProfileConfig(NAME, percentage_of_nodes_to_score=50)
    changed = Policy("a", config, Rule(lazy=True), Variants(config, Registry.default(), plugin_handle()))
    policies.put(changed, [waits])

    assert policies.profile_of(waits) is met
    assert percentage(policies.profile_of(comes)) == 50

    policies.put(Policy("a", config, Rule(), changed.variants), [waits])
    assert percentage(policies.profile_of(waits)) == 50


def test_a_pod_that_is_gone_is_not_remembered() -> None:
    policies = among(policy("a", lazy=True))
    config = ProfileConfig(NAME, percentage_of_nodes_to_score=50)
    changed = Policy("a", config, Rule(lazy=True), Variants(config, Registry.default(), plugin_handle()))
    policies.put(changed, [labelled("waits")])
    policies.forget("waits")

    assert percentage(policies.profile_of(labelled("waits"))) == 50


def percentage(profile: Profile | None) -> int:
    assert profile is not None
    return profile.percentage_of_nodes_to_score


# Versions of plugins


class Old(Score):
    """Scores nothing."""

    name = "Taste"

    def score(self, _state: CycleState, _pod: PodInfo, _node: NodeInfo, /) -> int:
        return 0


class New(Old):
    """The same with an argument."""

    class Args(PluginArgs):
        sweet: int = 1

    version = "v2"
    events = frozenset({ClusterEvent.POD_GONE})


def taste(version: str = "", percent: int = 100, **more: Any) -> Variants:
    use = PluginUse("Taste", None, version, percent)
    config = ProfileConfig(NAME, plugins={Point.SCORE: PluginSet((use,))}, **more)
    registry = Registry.default()
    registry.register(Old)
    registry.register(New)
    return Variants(config, registry, plugin_handle())


def met(variants: Variants, uid: str) -> str:
    (plugin,) = [plugin for plugin, _ in variants.of(uid).scores if plugin.name == "Taste"]
    return plugin.version


def test_the_version_that_came_first_is_the_default() -> None:
    assert met(taste(), "p") == "v1"
    assert met(taste("v2"), "p") == "v2"


def test_a_canary_version_runs_for_its_share_and_the_default_for_the_rest() -> None:
    variants = taste("v2", 20)
    versions = Counter(met(variants, f"uid-{number}") for number in range(2000))

    assert versions["v1"] + versions["v2"] == 2000
    assert 300 <= versions["v2"] <= 500
    assert all(met(variants, f"uid-{number}") == met(variants, f"uid-{number}") for number in range(20))


def test_both_forms_share_what_they_have_in_common() -> None:
    forms = {id(taste_form): taste_form for taste_form in map(taste("v2", 50).of, map(str, range(50)))}

    assert len(forms) == 2
    one, other = forms.values()
    assert one.filters == other.filters
    assert one.binds == other.binds


@pytest.mark.parametrize(
    ("version", "percent", "problem"),
    [
        ("v9", 100, "unknown plugin 'Taste@v9'; known: Taste@v1, Taste@v2"),
        ("", 10, "canaryPercent of plugin Taste is the share of pods that meet its `version`; say which"),
        ("v2", 101, "canaryPercent of plugin Taste must be from 0 to 100, not 101"),
    ],
)
def test_a_canary_that_cannot_be_is_refused(version: str, percent: int, problem: str) -> None:
    with pytest.raises(SchedulingError, match=problem):
        taste(version, percent)


def test_arguments_must_suit_every_version_that_a_pod_can_meet() -> None:
    args = {"Taste": {"sweet": 2}}

    assert met(taste("v2", args=args), "p") == "v2"
    with pytest.raises(SchedulingError, match=r"plugin Taste: sweet: Extra inputs are not permitted"):
        taste("v2", 50, args=args)


def test_one_pod_meets_one_version_at_all_points() -> None:
    registry = Registry.default()
    registry.register(Old)
    registry.register(New)
    plugins = {
        Point.SCORE: PluginSet((PluginUse("Taste", None, "v2", 10),)),
        Point.MULTI_POINT: PluginSet((PluginUse("Taste", None, "v2", 20),)),
    }
    with pytest.raises(SchedulingError, match="a pod meets one version at all points, keep one"):
        Variants(ProfileConfig(NAME, plugins=plugins), registry, plugin_handle())


def test_the_plugin_that_sorts_the_queue_has_no_canary() -> None:
    class Sort(PrioritySort):
        version = "v2"

    registry = Registry.default()
    registry.register(Sort)
    plugins = {Point.QUEUE_SORT: PluginSet((PluginUse("PrioritySort", None, "v2", 10),))}
    with pytest.raises(SchedulingError, match="PrioritySort sorts the queue for all pods"):
        Variants(ProfileConfig(NAME, plugins=plugins), registry, plugin_handle())


def test_the_registry_knows_versions_apart() -> None:
    registry = Registry([Old, New])

    assert (registry.get("Taste"), registry.get("Taste", "v2")) == (Old, New)
    assert registry.names == ("Taste",)
    assert registry.events("Taste") == Old.events | New.events
    with pytest.raises(UnknownPlugin):
        registry.events("Nope")
    with pytest.raises(SchedulingError, match="'Taste' is registered already with version v2"):
        registry.register(New)
