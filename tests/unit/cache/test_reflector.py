"""How a reflector gets through what servers and networks do. The numbers are those of the replay cases."""

import logging
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from konverge.cache.backoff import Backoff
from konverge.cache.informer import Informer
from konverge.cache.reflector import ReflectorHealth
from konverge.cache.store import Change
from konverge.errors import ApiError, ConnectionFailed
from konverge.model.meta import Key
from konverge.model.resource import Pod
from konverge.ports import Scope
from konverge.testing.sim import Sim, simulate
from tests.unit.cache.scripted import (
    ScriptedApi,
    Silence,
    Step,
    Widget,
    added,
    bookmark,
    deleted,
    initial_end,
    modified,
    page,
    pod,
)


def api_error(status: int, reason: str = "Because", *, retry_after: float | None = None) -> ApiError:
    return ApiError.of(status, reason, "the server says no", retry_after=retry_after)


class Following:
    """An informer that runs, and the changes that it told, as `TYPE name`."""

    def __init__(self, sim: Sim, api: ScriptedApi, **options: Any) -> None:
        self.api = api
        self.informer = Informer(api, Widget, Scope("ns"), clock=sim.clock, random=sim.random, **options)
        self.changes: list[str] = []
        self.informer.subscribe(self._note)
        sim.spawn(self.informer.run())

    def _note(self, change: Change) -> None:
        self.changes.append(f"{change.type.name} {change.key.name}")

    @property
    def held(self) -> list[str]:
        return sorted(key.name for key in self.informer.store.snapshot())


def follow(sim: Sim, lists: list[Any], *watches: Sequence[Step], **options: Any) -> Following:
    return Following(sim, ScriptedApi(lists, list(watches)), **options)


def resumed(health: ReflectorHealth) -> bool:
    return health.healthy and health.watching and health.last_error is None and health.failures == 0


def waits(calls: list[Any]) -> list[float]:
    """The seconds between the calls."""
    return [later.at - earlier.at for earlier, later in pairwise(calls)]


# The plain course of things


@simulate()
async def test_lists_then_watches_from_the_list_s_version(sim: Sim) -> None:
    case = follow(
        sim, [page(pod("a"), pod("b"), version=10)], [added(pod("c", 11)), deleted(pod("a", 12)), Silence(400)]
    )
    await sim.until(lambda: case.held == ["b", "c"])
    assert [call.version for call in case.api.watched] == ["10"]
    assert case.changes == ["ADDED a", "ADDED b", "ADDED c", "DELETED a"]


@simulate()
async def test_a_long_list_is_read_in_pages_of_500(sim: Sim) -> None:
    pages = [page(pod("a"), version=10, more="t1"), page(pod("b"), version=10, more="t2"), page(pod("c"), version=10)]
    case = follow(sim, pages)
    await sim.until(lambda: case.api.watched)
    assert [(call.token, call.limit) for call in case.api.listed] == [("", 500), ("t1", 500), ("t2", 500)]
    assert case.held == ["a", "b", "c"]


@simulate(seeds=range(5))
async def test_scope_and_a_random_time_limit_are_asked_of_the_server(sim: Sim) -> None:
    case = follow(sim, [page(version=10)])
    await sim.until(lambda: case.api.watched)
    assert {call.scope for call in case.api.calls} == {Scope("ns")}
    assert 300 <= case.api.watched[0].timeout <= 600


@simulate()
async def test_a_stream_that_ends_in_its_time_is_reopened_at_once_from_the_last_version(sim: Sim) -> None:
    """Replay 3 too: the client ends a silent stream, which then looks like this."""
    case = follow(sim, [page(version=10)], [added(pod("a", 11)), Silence(300)], [Silence(300)])
    await sim.until(lambda: len(case.api.watched) == 3, within=1000)
    assert [call.version for call in case.api.watched] == ["10", "11", "11"]
    assert waits(case.api.watched) == pytest.approx([300, 300])
    assert len(case.api.listed) == 1


@simulate()
async def test_bookmarks_move_the_version_on_and_change_nothing(sim: Sim) -> None:
    case = follow(sim, [page(version=10)], [bookmark(50), Silence(300)])
    await sim.until(lambda: len(case.api.watched) == 2, within=1000)
    assert case.api.watched[1].version == "50"
    assert case.changes == []


@simulate()
async def test_streams_that_end_at_once_do_not_make_a_hot_loop(sim: Sim) -> None:
    case = follow(sim, [page(version=10)], *([bookmark(11)] for _ in range(1000)))
    await sim.clock.sleep(600)
    assert 10 < len(case.api.watched) < 60
    assert len(case.api.listed) == 1


@simulate()
async def test_each_stream_is_closed_when_it_is_left(sim: Sim) -> None:
    case = follow(sim, [page(version=10)], [Silence(300)], [api_error(500)])
    await sim.until(lambda: len(case.api.watched) == 3, within=1000)
    assert case.api.closed_streams == 2


# Case 1: the version is too old


@simulate()
async def test_a_410_drops_the_version_and_lists_once_after_a_wait(sim: Sim) -> None:
    """Replay 1."""
    case = follow(
        sim,
        [page(pod("a", 1), pod("gone", 2), version=5), page(pod("a", 1), pod("new", 8), version=9)],
        [api_error(410, "Expired")],
    )
    await sim.until(lambda: len(case.api.watched) == 2)
    assert [call.version for call in case.api.watched] == ["5", "9"]
    assert 0.8 <= case.api.listed[1].at - case.api.watched[0].at <= 1.6
    assert case.changes == ["ADDED a", "ADDED gone", "ADDED new", "DELETED gone"]


@simulate()
async def test_a_410_in_the_middle_of_a_stream_after_events(sim: Sim) -> None:
    """Replay 1."""
    case = follow(sim, [page(version=5), page(version=9)], [added(pod("a", 6)), Silence(30), api_error(410, "Expired")])
    await sim.until(lambda: len(case.api.watched) == 2)
    assert [call.version for call in case.api.watched] == ["5", "9"]
    assert case.changes == ["ADDED a", "DELETED a"]


@simulate()
async def test_a_continue_token_that_expired_starts_the_list_over(sim: Sim) -> None:
    """Replay 1."""
    lists = [
        page(pod("a"), version=5, more="t1"),
        api_error(410, "Expired"),
        page(pod("a"), version=9, more="t2"),
        page(pod("b", 7), version=9),
    ]
    case = follow(sim, lists)
    await sim.until(lambda: case.api.watched)
    assert [call.token for call in case.api.listed] == ["", "t1", "", "t2"]
    assert [call.version for call in case.api.watched] == ["9"]
    assert case.changes == ["ADDED a", "ADDED b"]


@simulate()
async def test_410_again_and_again_backs_off(sim: Sim) -> None:
    """Replay 1."""
    case = follow(sim, [page(version=5)], *([api_error(410, "Expired")] for _ in range(1000)))
    await sim.clock.sleep(600)
    assert 10 < len(case.api.listed) < 60


@simulate()
async def test_a_list_that_is_always_too_slow_for_its_tokens_is_asked_for_in_one_piece(sim: Sim) -> None:
    halves: list[Any] = [page(pod("a"), version=5, more="t"), api_error(410, "Expired")]
    case = follow(sim, [*halves * 2, page(pod("a"), pod("b", 8), version=9)])
    await sim.until(lambda: case.api.watched)
    assert [(call.token, call.limit) for call in case.api.listed] == [
        ("", 500),
        ("t", 500),
        ("", 500),
        ("t", 500),
        ("", 0),
    ]
    assert case.held == ["a", "b"]


# A list that comes as the beginning of the watch


@simulate()
async def test_initial_events_are_a_list_and_the_stream_goes_on_as_its_watch(sim: Sim) -> None:
    changes: list[Step] = [modified(pod("a", 11)), Silence(1000)]
    case = follow(sim, [], [added(pod("a", 2)), added(pod("b", 3)), initial_end(10), *changes], watch_list=True)
    initial: list[tuple[str, bool]] = []
    case.informer.subscribe(lambda change: initial.append((change.key.name, change.initial)))
    await sim.until(lambda: case.informer.store.get(Key("ns", "a")) == pod("a", 11))
    await case.informer.wait_for_sync(1)
    assert [(call.version, call.initial_events) for call in case.api.watched] == [("", True)]
    assert initial == [("a", True), ("b", True), ("a", False)]
    assert resumed(case.informer.health)
    assert not case.api.listed


@simulate()
async def test_nothing_is_synced_before_the_end_of_the_initial_events(sim: Sim) -> None:
    case = follow(sim, [], [added(pod("a", 2)), Silence(9), initial_end(10), Silence(1000)], watch_list=True)
    await sim.clock.sleep(8)
    assert not case.informer.health.synced
    assert not case.informer.synced.is_set()
    await sim.until(lambda: case.informer.health.healthy)


@simulate()
async def test_initial_events_after_a_410_deliver_the_deletions_that_were_missed(sim: Sim) -> None:
    case = follow(
        sim,
        [],
        [added(pod("a", 2)), added(pod("gone", 3)), initial_end(10), Silence(60), api_error(410)],
        [added(pod("a", 2)), added(pod("new", 20)), initial_end(30), Silence(1000)],
        watch_list=True,
    )
    await sim.until(lambda: case.held == ["a", "new"])
    assert [(call.version, call.initial_events) for call in case.api.watched] == [("", True), ("", True)]
    assert case.changes == ["ADDED a", "ADDED gone", "ADDED new", "DELETED gone"]


@simulate()
async def test_what_changes_among_the_initial_events_counts(sim: Sim) -> None:
    stream = [added(pod("a", 2)), added(pod("b", 3)), deleted(pod("a", 11)), modified(pod("b", 12)), initial_end(12)]
    case = follow(sim, [], [*stream, Silence(1000)], watch_list=True)
    await sim.until(lambda: case.informer.health.healthy)
    assert case.held == ["b"]
    assert case.informer.store.get(Key("ns", "b")) == pod("b", 12)


@simulate()
async def test_a_stream_cut_among_its_initial_events_begins_again(sim: Sim) -> None:
    case = follow(
        sim,
        [],
        [added(pod("a", 2))],
        [added(pod("a", 2)), ConnectionFailed("reset")],
        [added(pod("a", 2)), initial_end(10), Silence(1000)],
        watch_list=True,
    )
    await sim.until(lambda: case.informer.health.healthy)
    assert [(call.version, call.initial_events) for call in case.api.watched] == [("", True)] * 3
    assert min(waits(case.api.watched)) >= 0.8
    assert case.changes == ["ADDED a"]


@pytest.mark.parametrize(
    "refusal", [[api_error(422, "Invalid")], [api_error(400, "BadRequest")], [added(pod("a")), bookmark(5)]]
)
@simulate()
async def test_a_server_without_initial_events_is_listed_for_good(
    sim: Sim, caplog: pytest.LogCaptureFixture, refusal: Sequence[Step]
) -> None:
    caplog.set_level(logging.DEBUG)
    case = follow(
        sim, [page(pod("a"), version=10)], refusal, [Silence(60), api_error(410)], [Silence(1000)], watch_list=True
    )
    await sim.until(lambda: len(case.api.watched) == 3)
    assert [(call.version, call.initial_events) for call in case.api.watched] == [
        ("", True),
        ("10", False),
        ("10", False),
    ]
    assert case.api.listed[0].at == case.api.watched[0].at  # at once: it is no fault
    assert case.held == ["a"]
    told = [record for record in caplog.records if "no initial events" in record.getMessage()]
    assert [record.levelname for record in told] == ["DEBUG"]


@simulate()
async def test_a_server_that_never_tells_the_end_of_its_initial_events_is_listed(sim: Sim) -> None:
    case = follow(sim, [page(pod("a"), version=10)], [added(pod("a")), Silence(100_000)], watch_list=True)
    await case.informer.wait_for_sync(11)
    assert case.api.closed_streams == 1
    await sim.until(lambda: len(case.api.watched) == 2)
    assert [(call.version, call.initial_events) for call in case.api.watched] == [("", True), ("10", False)]


@simulate()
async def test_initial_events_of_a_server_that_went_back_are_left_to_a_list(sim: Sim) -> None:
    case = follow(
        sim,
        [page(pod("a", 40), version=50)],
        [added(pod("a", 100)), added(pod("new", 150)), initial_end(200), Silence(60), api_error(410)],
        [added(pod("a", 40)), initial_end(50), Silence(1000)],
        watch_list=True,
    )
    await sim.until(lambda: case.held == ["a"] and case.informer.store.get(Key("ns", "a")) == pod("a", 40))
    assert case.api.watched[-1].version in {"", "50"}


# Cases 2, 12, 13: errors that pass


@pytest.mark.parametrize("status", [401, 403, 500, 503])
@simulate()
async def test_any_other_error_resumes_from_the_last_version_and_shows_meanwhile(sim: Sim, status: int) -> None:
    """Replay 2."""
    case = follow(
        sim,
        [page(version=10)],
        [added(pod("a", 11)), Silence(60), api_error(status)],
        *([api_error(status)] for _ in range(6)),
        [modified(pod("a", 12)), Silence(100_000)],
    )
    health = case.informer.health
    await sim.until(lambda: health.failures == 6)
    assert not health.healthy
    assert not health.watching
    assert health.last_error == f"{status} Because: the server says no"
    await sim.until(lambda: health.healthy)
    assert resumed(health)
    assert [call.version for call in case.api.watched] == ["10"] + ["11"] * 7
    assert len(case.api.listed) == 1
    assert case.changes == ["ADDED a", "UPDATED a"]


@simulate()
async def test_the_server_s_wish_to_wait_is_respected(sim: Sim) -> None:
    """Replay 12."""
    lists = [*(api_error(429, retry_after=3) for _ in range(5)), page(version=10)]
    case = follow(sim, lists, [api_error(429, retry_after=45)])
    await sim.until(lambda: len(case.api.watched) == 2)
    assert min(waits(case.api.listed)) >= 3 - 1e-6
    assert waits(case.api.watched)[0] >= 45


@simulate()
async def test_refused_connections_then_403_then_all_is_well(sim: Sim) -> None:
    """Replay 13."""
    lists = [*(ConnectionFailed("refused") for _ in range(5)), *(api_error(403) for _ in range(3)), page(pod("a"))]
    case = follow(sim, lists)
    await sim.until(lambda: case.informer.health.healthy)
    assert case.held == ["a"]
    assert waits(case.api.listed)[0] >= 0.8
    assert all(later > earlier for earlier, later in pairwise(waits(case.api.listed)[::2]))
    assert max(waits(case.api.listed)) <= 60


@simulate()
async def test_a_fault_of_our_own_does_not_end_the_watch(sim: Sim, caplog: pytest.LogCaptureFixture) -> None:
    case = follow(sim, [page(version=10)], [ZeroDivisionError("oops")], [added(pod("a", 11)), Silence(1000)])
    await sim.until(lambda: case.held == ["a"])
    assert "ZeroDivisionError: oops" in caplog.text  # with its traceback


@simulate(seeds=range(5))
async def test_waits_double_to_the_cap_and_start_afresh_after_a_quiet_time(sim: Sim) -> None:
    backoff = Backoff(clock=sim.clock, random=sim.random)
    for base in (0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30):
        delay = backoff.next()
        assert base <= delay <= 2 * base
        await sim.clock.sleep(delay)
    await sim.clock.sleep(121)
    assert backoff.next() <= 1.6
    assert backoff.next(at_least=99) == 99


# Case 10: one bad object


@simulate()
async def test_a_bad_object_is_reported_once_and_the_rest_goes_on(sim: Sim) -> None:
    """Replay 10."""
    reported: list[Any] = []
    nameless: Any = {"kind": "Pod", "metadata": {"uid": "x", "resourceVersion": "12"}}
    case = follow(
        sim,
        [page(pod("a"), nameless, "no object", pod("b"), version=10)],
        [added(nameless), Silence(300)],
        [added(pod("c", 13)), Silence(300)],
        on_bad_object=lambda obj, error: reported.append((obj, str(error))),
    )
    await sim.until(lambda: case.held == ["a", "b", "c"], within=1000)
    assert [call.version for call in case.api.watched] == ["10", "12"]  # the bad event moved the version on
    assert reported == [
        (nameless, "metadata.name is missing or no text"),
        ("no object", "not an object but str"),
    ]


@simulate()
async def test_events_that_are_no_objects_at_all_are_survived(sim: Sim) -> None:
    """Replay 10."""
    events: list[Step] = [added("text"), added({"metadata": 5}), added({"metadata": {"resourceVersion": 5}})]
    case = follow(
        sim, [page(version=10)], [*events, added(pod("a", 11)), Silence(300)], on_bad_object=lambda obj, error: None
    )
    await sim.until(lambda: case.held == ["a"])
    assert len(case.api.watched) == 1


# Case 11: the resource itself goes and comes back


@simulate()
async def test_a_deleted_crd_empties_the_store_and_its_return_fills_it(
    sim: Sim, caplog: pytest.LogCaptureFixture
) -> None:
    """Replay 11."""
    caplog.set_level(logging.INFO)
    lists = [page(pod("a"), version=10), *(api_error(404) for _ in range(8)), page(pod("b", 90), version=100)]
    case = follow(sim, lists, [bookmark(11), Silence(300)], [api_error(404)], [bookmark(101), Silence(10_000)])
    await sim.until(lambda: case.changes == ["ADDED a", "DELETED a"], within=400)
    await sim.until(lambda: case.held == ["b"])
    await sim.until(lambda: case.informer.health.healthy)
    assert max(waits(case.api.listed)[1:]) <= 60
    assert case.api.watched[-1].version == "100"
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "Install its CustomResourceDefinition" in caplog.text
    assert caplog.records[-1].getMessage() == "widgets.demo.dev in ns: watching again"


@simulate()
async def test_a_crd_that_was_never_there_is_waited_for_quietly(sim: Sim, caplog: pytest.LogCaptureFixture) -> None:
    """Replay 11."""
    case = follow(sim, [*(api_error(404) for _ in range(20)), page(pod("a"))])
    await sim.until(lambda: case.held == ["a"], within=3600)
    assert len(caplog.records) == 1
    assert case.changes == ["ADDED a"]


@simulate()
async def test_a_single_404_empties_nothing(sim: Sim) -> None:
    """Replay 11: a server that is just starting may say so."""
    case = follow(sim, [page(pod("a"), version=10)], [api_error(404)], [Silence(1000)])
    await sim.until(lambda: len(case.api.watched) == 2)
    assert case.changes == ["ADDED a"]


# Logs and odd servers


@simulate()
async def test_a_new_kind_of_failure_is_logged_and_a_repeated_one_is_not(
    sim: Sim, caplog: pytest.LogCaptureFixture
) -> None:
    lists = [*(ConnectionFailed("refused") for _ in range(3)), *(api_error(403) for _ in range(3)), page()]
    case = follow(sim, lists)
    await sim.until(lambda: case.api.watched)
    assert ["refused" in record.getMessage() for record in caplog.records] == [True, False]


@simulate()
async def test_streams_that_keep_ending_at_once_are_logged_one_is_not(
    sim: Sim, caplog: pytest.LogCaptureFixture
) -> None:
    case = follow(sim, [page(version=10)], [], [Silence(300)], [], [], [], [], [Silence(10_000)])
    await sim.until(lambda: len(case.api.watched) == 3, within=1000)
    assert not caplog.records
    await sim.until(lambda: len(case.api.watched) == 7, within=1000)
    assert ["the watch ended after 0.0 s" in record.getMessage() for record in caplog.records] == [True]


@simulate()
async def test_a_server_restored_from_a_backup_is_believed(sim: Sim, caplog: pytest.LogCaptureFixture) -> None:
    case = follow(
        sim,
        [
            page(pod("a", 100), pod("new", 150), version=200),
            page(pod("a", 40), version=50, more="t"),
            page(pod("old", 30), version=50),
        ],
        [api_error(410)],
        [modified(pod("a", 51)), Silence(1000)],
    )
    await sim.until(lambda: "DELETED new" in case.changes and case.api.watched[-1].version == "50")
    await sim.until(lambda: case.informer.store.get(Key("ns", "a")) == pod("a", 51))
    assert case.held == ["a", "old"]
    assert "went back to an earlier state" in caplog.text


@simulate()
async def test_a_stream_that_is_no_generator_needs_no_close(sim: Sim) -> None:
    class Plain(ScriptedApi):
        def watch(self, *args: Any, **options: Any) -> Any:
            generator = super().watch(*args, **options)

            class Iterator:
                def __aiter__(self) -> "Iterator":
                    return self

                async def __anext__(self) -> Any:
                    return await anext(generator)

            return Iterator()

    case = Following(sim, Plain([page(version=10)], [[added(pod("a", 11)), Silence(300)]]))
    await sim.until(lambda: len(case.api.watched) == 2, within=1000)
    assert case.held == ["a"]


# Health


@simulate()
async def test_health_before_and_after_the_first_list(sim: Sim) -> None:
    case = follow(sim, [ConnectionFailed("refused"), page()])
    health = case.informer.health
    assert (health.synced, health.watching, health.healthy, health.since) == (False, False, False, None)
    await sim.until(lambda: health.failures == 1)
    assert health.last_error == "refused"
    await sim.until(lambda: health.watching)
    assert health.synced
    assert resumed(health)
    assert (health.resource, health.scope) == (Widget, Scope("ns"))


@simulate()
async def test_a_short_break_is_healthy_a_long_one_is_not(sim: Sim) -> None:
    case = follow(sim, [page(version=10)], [Silence(100), ConnectionFailed()], [Silence(3), ConnectionFailed()])
    health = case.informer.health
    await sim.until(lambda: health.error is not None)
    lost = health.since
    assert (health.watching, health.healthy, health.last_error) == (False, True, "ConnectionFailed")
    await sim.until(lambda: not health.healthy)
    assert health.since == lost
    # A silent stream counts again once it was open for longer than a connection attempt can take.
    await sim.until(lambda: health.healthy)
    assert sim.time - case.api.watched[-1].at >= 30


@simulate()
async def test_watching_without_the_right_to_watch_is_not_healthy(sim: Sim) -> None:
    case = follow(sim, [page(pod("a"))], *([api_error(403)] for _ in range(50)))
    await sim.clock.sleep(30)
    seen = []
    for _ in range(100):
        seen.append(case.informer.health.healthy)
        await sim.clock.sleep(1)
    assert not any(seen)


@simulate()
async def test_the_resource_may_be_of_the_core_group(sim: Sim) -> None:
    informer = Informer(ScriptedApi([page(pod("a"))]), Pod, clock=sim.clock, random=sim.random)
    sim.spawn(informer.run())
    await informer.wait_for_sync(5)
    assert informer.store.get(Key("ns", "a")) == pod("a")
