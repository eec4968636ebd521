"""PostFilter plugins: who is asked, whose answer counts, and what the pod is told of it."""

import random
from collections.abc import Mapping

import pytest

from konverge.scheduler import PluginSet, PluginUse, Point, ProfileConfig
from konverge.scheduler.cycle import Cycle
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.framework import (
    SKIP,
    SUCCESS,
    CycleState,
    PostFilter,
    PostFilterResult,
    Trials,
    unresolvable,
    unschedulable,
)
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import compile_profile
from tests.unit.scheduler.clusters import NAME, node, plugin_handle, pod, registry_with, snapshot_of

REFUSAL = "0/1 nodes are available: 1 Insufficient cpu."


class _Scripted(PostFilter):
    """Answers what a test says, and notes that it was asked."""

    answers: Mapping[str, PostFilterResult | Exception] = {}
    asked: list[str] = []  # noqa: RUF012 - emptied by each test

    def post_filter(self, state: CycleState, pod: PodInfo, trials: Trials, diagnosis: Diagnosis, /) -> PostFilterResult:
        self.asked.append(self.name)
        answer = self.answers[self.name]
        if isinstance(answer, Exception):
            raise answer
        return answer


class First(_Scripted):
    name = "First"


class Second(_Scripted):
    name = "Second"


def refused(first: PostFilterResult | Exception, second: PostFilterResult | Exception) -> tuple[Diagnosis, list[str]]:
    """What becomes of a pod that fits nowhere when the two plugins answer so, and who was asked."""
    _Scripted.answers, _Scripted.asked = {"First": first, "Second": second}, []
    uses = PluginSet(enabled=(PluginUse("First"), PluginUse("Second")), disabled=frozenset({"DefaultPreemption"}))
    profile = ProfileConfig(NAME, plugins={Point.MULTI_POINT: uses})
    compiled = compile_profile(profile, registry_with(First, Second), plugin_handle())
    busy = snapshot_of(node("n1", cpu="2"), pods=[pod("busy", "2", on="n1")])
    result = Cycle(busy, random.Random(0)).schedule(compiled, PodInfo(pod("p", "2")))
    assert isinstance(result, Diagnosis)
    return result, _Scripted.asked


NO = PostFilterResult(unschedulable("no idea"))
VICTIM = PodInfo(pod("busy", "2", on="n1"))


def test_the_first_that_finds_a_way_ends_the_search() -> None:
    diagnosis, asked = refused(PostFilterResult(SUCCESS, "n1", (VICTIM,)), NO)
    assert asked == ["First"]
    assert (diagnosis.nominated, diagnosis.victims, diagnosis.message) == ("n1", (VICTIM,), REFUSAL)


def test_without_a_way_the_pod_is_told_what_all_say_and_keeps_its_nomination() -> None:
    diagnosis, asked = refused(NO, PostFilterResult(unschedulable("neither have I")))
    assert asked == ["First", "Second"]
    assert (diagnosis.nominated, diagnosis.message) == (None, f"{REFUSAL} no idea, neither have I")


def test_one_may_take_the_nomination_away_and_the_others_are_asked_still() -> None:
    diagnosis, asked = refused(PostFilterResult(unschedulable("hopeless"), node_name=""), NO)
    assert asked == ["First", "Second"]
    assert diagnosis.nominated == ""


def test_one_that_is_sure_ends_the_search() -> None:
    diagnosis, asked = refused(PostFilterResult(unresolvable("never")), NO)
    assert (asked, diagnosis.message) == (["First"], f"{REFUSAL} never")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (RuntimeError("boom"), "RuntimeError: boom"),
        (PostFilterResult(SKIP), "skip: no reason given"),
    ],
)
def test_one_that_fails_is_named_after_why_the_pod_fits_nowhere(
    answer: PostFilterResult | Exception, said: str
) -> None:
    diagnosis, asked = refused(answer, NO)
    assert asked == ["First"]
    assert diagnosis.message == f"{REFUSAL} running 'First' postFilter plugin: {said}"
    assert diagnosis.reasons == {"Insufficient cpu": 1}


def test_a_pod_that_fits_is_no_matter_for_them() -> None:
    _Scripted.asked = []
    uses = PluginSet(enabled=(PluginUse("First"),))
    profile = compile_profile(
        ProfileConfig(NAME, plugins={Point.MULTI_POINT: uses}), registry_with(First), plugin_handle()
    )
    Cycle(snapshot_of(node("n1")), random.Random(0)).schedule(profile, PodInfo(pod("p")))
    assert _Scripted.asked == []
