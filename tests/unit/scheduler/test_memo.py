"""What is kept between attempts changes nothing: after any history a cycle answers as one that starts now."""

import random
from typing import Any, ClassVar

import numpy as np
import pytest

from konverge.errors import PluginFailed
from konverge.scheduler import PluginSet, PluginUse, Point, ProfileConfig, Registry
from konverge.scheduler.columns import IntArray
from konverge.scheduler.cycle import Choice, Cycle
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.framework import SUCCESS, CycleState, Filter, Score, Verdict, unschedulable
from konverge.scheduler.latestused import LatestUsed
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import Profile, compile_profile
from konverge.scheduler.rowlog import RowLog
from konverge.scheduler.snapshot import Snapshot
from tests.unit.scheduler.clusters import node, plugin_handle, pod, registry_with, snapshot_of


def profile_with(*names: str, registry: Registry | None = None, percentage: int = 100, **args: Any) -> Profile:
    """The default profile and these plugins."""
    everywhere = PluginSet(enabled=tuple(PluginUse(name) for name in names))
    config = ProfileConfig("x", {Point.MULTI_POINT: everywhere}, args, percentage_of_nodes_to_score=percentage)
    return compile_profile(config, registry or Registry.default(), plugin_handle())


def answer(cycle: Cycle, profile: Profile, info: PodInfo) -> Any:
    """All that is said of a pod: scores by node and plugin, or why it fits nowhere, or what went wrong."""
    try:
        found = cycle.rank(profile, info)
    except PluginFailed as error:
        return str(error)
    if isinstance(found, Diagnosis):
        return found.message, found.plugins
    return {
        name: {plugin: int(scores[at]) for plugin, scores in found.scores.items()}
        for at, name in enumerate(found.node_names)
    }


ZONE, HOSTNAME = "zone", "kubernetes.io/hostname"
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def near(kind: str, key: str, **more: Any) -> dict[str, Any]:
    return {"affinity": {kind: {REQUIRED: [{"topologyKey": key, **WEB, **more}]}}}


def rather(kind: str, key: str) -> dict[str, Any]:
    return {"affinity": {kind: {PREFERRED: [{"weight": 9, "podAffinityTerm": {"topologyKey": key, **WEB}}]}}}


def even(key: str, when: str) -> dict[str, Any]:
    return {"topologySpreadConstraints": [{"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": when, **WEB}]}


NAMES = ["n0", "n1", "n2", "n3"]
SPECS: list[dict[str, Any]] = [
    {},
    {"tolerations": [{"operator": "Exists"}]},
    {"nodeSelector": {ZONE: "a"}},
    {"containers": [{"name": "c", "image": "app", "ports": [{"hostPort": 80}]}]},
    even(ZONE, "DoNotSchedule"),
    even(HOSTNAME, "ScheduleAnyway"),
    near("podAffinity", ZONE),
    near("podAffinity", ZONE, namespaceSelector={"matchLabels": {"team": "a"}}),
    near("podAntiAffinity", HOSTNAME),
    rather("podAffinity", ZONE),
    rather("podAntiAffinity", HOSTNAME),
]


class History:
    """Nodes, pods and namespaces come, change and go; the same pods are asked about all the time."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.profile = profile_with("NodeLabelPriority", NodeLabelPriority={"label": "disk"})
        self.snapshot = Snapshot()
        self.cycle = Cycle(self.snapshot, random.Random(0))
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.namespaces: dict[str, dict[str, Any]] = {}
        for _ in range(6):
            self.a_node_is_set()
        self.asked = [PodInfo(self.some_pod()) for _ in range(4)]

    def some_pod(self) -> dict[str, Any]:
        choice = self.chance.choice
        raw = pod(choice(["p0", "p1", "p2", "p3"]), cpu=choice(["100m", "800m"]), memory="1Gi", spec=choice(SPECS))
        raw["metadata"] |= {"namespace": choice(["default", "other"]), "labels": {"app": choice(["web", "web", "db"])}}
        return raw

    def a_node_is_set(self) -> None:
        choice = self.chance.choice
        raw = node(
            choice(NAMES),
            cpu=choice(["1", "4"]),
            labels={ZONE: choice("ab"), "disk": choice("12")},
            taints=choice([[], [], [], ["k=v:PreferNoSchedule"], ["k=v:NoSchedule"]]),
        )
        raw["status"]["images"] = choice([[], [{"names": ["app:latest"], "sizeBytes": 10**9}]])
        self.nodes[raw["metadata"]["name"]] = raw
        self.snapshot.set_node(raw)

    def a_node_goes(self) -> None:
        name = self.chance.choice(NAMES)
        self.nodes.pop(name, None)
        self.snapshot.remove_node(name)

    def a_pod_is_put(self) -> None:
        raw, name = self.some_pod(), self.chance.choice(NAMES)
        placed = {**raw, "spec": {**raw["spec"], "nodeName": name}}
        self.pods[raw["metadata"]["uid"]] = placed
        if self.chance.random() < 0.5:
            self.snapshot.assume(PodInfo(raw), name)
        else:
            self.snapshot.place(PodInfo(placed))

    def a_pod_goes(self) -> None:
        uid = self.chance.choice(["p0", "p1", "p2", "p3"])
        self.pods.pop(uid, None)
        self.snapshot.forget(uid)

    def a_namespace_changes(self) -> None:
        team = self.chance.choice(["a", "b", ""])
        if not team:
            self.namespaces.clear()
            self.snapshot.remove_namespace("other")
        else:
            self.namespaces["other"] = {"metadata": {"name": "other", "labels": {"team": team}}}
            self.snapshot.set_namespace(self.namespaces["other"])

    def another_pod_is_asked_about(self) -> None:
        self.asked = [*self.asked[1:], PodInfo(self.some_pod())]

    def go_on(self) -> str:
        """One thing happens: its name."""
        happens = self.chance.choices(
            [
                self.a_node_is_set,
                self.a_node_goes,
                self.a_pod_is_put,
                self.a_pod_goes,
                self.a_namespace_changes,
                self.another_pod_is_asked_about,
            ],
            [4, 1, 4, 2, 1, 2],
        )[0]
        happens()
        return happens.__name__

    def compare(self, about: str) -> None:
        """The answers are those of a scheduler that starts now."""
        fresh = Snapshot()
        for raw in self.namespaces.values():
            fresh.set_namespace(raw)
        for raw in self.nodes.values():
            fresh.set_node(raw)
        for raw in self.pods.values():
            fresh.place(PodInfo(raw))
        for info in self.asked:
            expected = answer(Cycle(fresh, random.Random(0)), self.profile, info)
            assert answer(self.cycle, self.profile, info) == expected, about
            if isinstance(expected, dict):
                totals = {name: sum(scores.values()) for name, scores in expected.items()}
                choice = self.cycle.schedule(self.profile, info)
                assert isinstance(choice, Choice)
                assert totals[choice.node_name] == max(totals.values()), about


@pytest.mark.parametrize("seed", range(6))
def test_the_answers_are_those_of_a_scheduler_that_starts_now(seed: int) -> None:
    history = History(seed)
    for step in range(200):
        happened = history.go_on()
        history.compare(f"seed {seed}, step {step}: {happened}")


@pytest.mark.parametrize("percentage", [100, 10])
def test_a_cluster_that_fills_up_is_filled_as_without_a_memory(percentage: int) -> None:
    chance = random.Random(percentage)
    snapshot = snapshot_of(*(node(f"n{i}", cpu="2", pods=3, labels={"zone": f"z{i % 3}"}) for i in range(150)))
    profile, kept = profile_with(percentage=percentage), Cycle(snapshot, random.Random(0))
    for number in range(480):  # 450 have room
        raw = pod(f"p{number}", cpu=chance.choice(["100m", "700m", "1900m"]), memory="100Mi")
        raw["metadata"]["labels"] = {"app": chance.choice("ab")}
        fresh = Cycle(snapshot, random.Random(number))
        kept._random, fresh._start = random.Random(number), kept._start
        found, expected = kept.schedule(profile, PodInfo(raw)), fresh.schedule(profile, PodInfo(raw))
        if isinstance(found, Choice):
            assert isinstance(expected, Choice)
            assert found.node_name == expected.node_name
            snapshot.assume(PodInfo(raw), found.node_name)
        else:
            assert found == expected
        if number % 20 == 0:
            snapshot.set_node(node(f"n{chance.randrange(150)}", cpu="2", pods=3, taints=["k=v:PreferNoSchedule"]))


class Asked(Filter, Score):
    """Notes the nodes that it is asked about; `signature` is the pod's name, so that pods of one name are alike."""

    name = "Asked"
    nodes: ClassVar[list[str]] = []

    def signature(self, state: CycleState, pod: PodInfo, /) -> str | None:
        return None if pod.name == "special" else pod.name

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> Verdict:
        self.nodes.append(node.name)
        return unschedulable("full") if node.pods else SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> int:
        if node.labels.get("fails"):
            raise RuntimeError("boom")
        return 0


def asking() -> tuple[Snapshot, Cycle, Profile]:
    Asked.nodes.clear()
    snapshot = snapshot_of(*(node(f"n{i}") for i in range(5)))
    return snapshot, Cycle(snapshot, random.Random(0)), profile_with("Asked", registry=registry_with(Asked))


def asked(cycle: Cycle, profile: Profile, name: str) -> list[str]:
    """The nodes that the plugin is asked about in the next attempt."""
    Asked.nodes.clear()
    cycle.schedule(profile, PodInfo(pod(name)))
    return sorted(Asked.nodes)


def test_only_nodes_that_changed_are_judged_again() -> None:
    snapshot, cycle, profile = asking()
    assert asked(cycle, profile, "a") == ["n0", "n1", "n2", "n3", "n4"]
    assert asked(cycle, profile, "a") == []
    snapshot.assume(PodInfo(pod("x")), "n2")
    assert asked(cycle, profile, "a") == ["n2"]
    snapshot.forget("x")
    snapshot.set_node(node("n9"))
    assert asked(cycle, profile, "a") == ["n2", "n9"]
    assert asked(cycle, profile, "b") == ["n0", "n1", "n2", "n3", "n4", "n9"]


def test_a_pod_without_a_signature_is_judged_each_time() -> None:
    _, cycle, profile = asking()
    assert asked(cycle, profile, "special") == asked(cycle, profile, "special") == ["n0", "n1", "n2", "n3", "n4"]


def test_a_plugin_that_ignores_pods_is_not_asked_again_because_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Asked, "node_only", True)
    snapshot, cycle, profile = asking()
    asked(cycle, profile, "a")
    snapshot.assume(PodInfo(pod("x")), "n2")
    assert asked(cycle, profile, "a") == []
    snapshot.set_node(node("n2", labels={"a": "b"}))
    assert asked(cycle, profile, "a") == ["n2"]


def test_what_raised_is_asked_again() -> None:
    snapshot, cycle, profile = asking()
    asked(cycle, profile, "a")
    snapshot.set_node(node("n1", labels={"fails": "yes"}))
    for _ in range(2):
        with pytest.raises(PluginFailed, match="running 'Asked' score plugin: RuntimeError: boom"):
            cycle.schedule(profile, PodInfo(pod("a")))
    snapshot.set_node(node("n1"))
    assert isinstance(cycle.schedule(profile, PodInfo(pod("a"))), Choice)


def test_rows_that_are_used_again_are_judged_again() -> None:
    snapshot = snapshot_of(node("n0", cpu="1"), node("n1", cpu="1"))
    cycle, profile = Cycle(snapshot, random.Random(0)), profile_with()
    big = PodInfo(pod(cpu="2"))
    assert isinstance(cycle.schedule(profile, big), Diagnosis)
    snapshot.remove_node("n0")
    assert isinstance(cycle.schedule(profile, big), Diagnosis)
    snapshot.set_node(node("n2", cpu="4"))
    assert answer(cycle, profile, big).keys() == {"n2"}


def test_a_cluster_whose_scores_all_change_at_once_is_summed_anew() -> None:
    snapshot = snapshot_of(*(node(f"n{i}", cpu="4" if i == 7 else "2") for i in range(300)))
    kept, profile = Cycle(snapshot, random.Random(0)), profile_with()
    for cpu in ("4", "8", "4"):
        for index in range(300):
            snapshot.set_node(node(f"n{index}", cpu=cpu if index != 7 else "6"))
        fresh = Cycle(snapshot, random.Random(0))
        info = PodInfo(pod("x", cpu="1", memory="1Gi"))
        found = kept.schedule(profile, info)
        assert isinstance(found, Choice)
        assert answer(kept, profile, info) == answer(fresh, profile, info)
        assert (found.node_name == "n7") is (cpu == "4")


class Short(Score):
    """Forgets a node where it is asked about many."""

    name = "Short"

    def signature(self, state: CycleState, pod: PodInfo, /) -> str:
        return ""

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo, /) -> int:
        return 0

    def score_batch(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> IntArray:
        return np.zeros(len(rows) - 1, dtype=np.int64)


def test_scores_that_are_not_one_a_node_are_the_plugins_fault() -> None:
    snapshot = snapshot_of(*(node(f"n{i}") for i in range(20)))
    profile = profile_with("Short", registry=registry_with(Short))
    with pytest.raises(PluginFailed, match="running 'Short' score plugin: ValueError: 19 scores for 20 nodes"):
        Cycle(snapshot, random.Random(0)).schedule(profile, PodInfo(pod()))


# The log of rows


def test_after_a_change_of_everything_all_readers_come_too_late() -> None:
    log = RowLog()
    log.note(1)
    log.note_all()
    assert log.since(0) is None
    mark = log.end
    log.note(2)
    assert log.since(mark) == [2]


def test_a_reader_of_the_log_gets_each_row_once_since_its_mark() -> None:
    log = RowLog()
    log.note(1)
    mark = log.end
    for row in (2, 3, 2):
        log.note(row)
    assert sorted(log.since(mark) or []) == [2, 3]
    assert log.since(log.end) == []


def test_a_reader_that_comes_too_late_is_told_so() -> None:
    log = RowLog()
    assert log.since(-1) is None
    mark = log.end
    for row in range(10_000):
        log.note(row)
    assert log.since(mark) is None
    assert sorted(log.since(log.end - 4096) or []) == list(range(10_000 - 4096, 10_000))


def test_a_column_that_missed_too_much_is_filled_anew() -> None:
    snapshot, cycle, profile = asking()
    asked(cycle, profile, "a")
    for _ in range(5000):
        snapshot.assume(PodInfo(pod("x")), "n2")
        snapshot.forget("x")
    assert asked(cycle, profile, "a") == ["n0", "n1", "n2", "n3", "n4"]


# What is kept is bounded


def test_what_was_not_used_for_longest_makes_room() -> None:
    dropped: list[int] = []
    kept: LatestUsed[str, int] = LatestUsed(2, dropped.append)
    for key, value in [("a", 1), ("b", 2), ("a", 9), ("c", 3)]:
        kept.get(key, lambda value=value: value)  # type: ignore[misc]
    assert list(kept) == [1, 3]
    assert dropped == [2]


def test_counts_that_had_to_make_room_are_counted_anew() -> None:
    snapshot = snapshot_of(node("n0", labels={"zone": "a"}), node("n1", labels={"zone": "b"}))

    def web(zone: str) -> int:
        counts = snapshot.groups.by_domain("zone", "web", lambda group: group.labels.get("app") == "web")
        return int(counts.by_id[snapshot.label("zone").values.index(zone)])

    raw = pod("x")
    raw["metadata"]["labels"] = {"app": "web"}
    assert web("a") == 0
    snapshot.assume(PodInfo(raw), "n0")
    assert web("a") == 1
    for number in range(200):
        snapshot.groups.by_row("default", number, lambda group: True).up_to(snapshot.size)
    snapshot.forget("x")
    snapshot.assume(PodInfo(raw), "n1")
    assert (web("a"), web("b")) == (0, 1)
    rows = snapshot.groups.by_row("default", 199, lambda group: True).up_to(snapshot.size)
    assert np.array_equal(rows, [0, 1])
