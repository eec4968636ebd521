"""Preemption reckoned for many nodes at once says what trying node by node says: same node, same victims, same words."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from konverge.model.resource import Object, PodDisruptionBudget
from konverge.scheduler import PluginSet, PluginUse, Point, ProfileConfig
from konverge.scheduler.cycle import Cycle
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.framework import Filter
from konverge.scheduler.limits import Weight
from konverge.scheduler.nominations import Nominations
from konverge.scheduler.occupants import Occupants
from konverge.scheduler.plugins import default_preemption
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.profile import compile_profile
from konverge.scheduler.snapshot import Snapshot
from tests.unit.scheduler.clusters import NAME, node, plugin_handle, pod, registry_with, snapshot_of
from tests.unit.scheduler.storage import ZONE as VOLUME_ZONE
from tests.unit.scheduler.storage import Storage, claim, csi_node, storage_class, volume
from tests.unit.scheduler.test_preemption import Elsewhere, budget, runs, victims, wants

ZONE, HOST = "zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def term(app: str, key: str, **more: Any) -> Mapping[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def near(*terms: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def apart(*terms: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def even(key: str, skew: int = 1, app: str = "web", **more: Any) -> Mapping[str, Any]:
    selector = {"matchLabels": {"app": app}}
    entry = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {**entry, **more}


def listening(port: int, address: str = "") -> Mapping[str, Any]:
    return {"containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": port, "hostIP": address}]}]}


OWN: Sequence[Mapping[str, Any]] = [
    {},
    {},
    apart(term("web", HOST)),
    apart(term("db", ZONE)),
    apart(term("web", "rack"), term("db", HOST)),
    listening(80),
    listening(80, "10.0.0.1"),
]
"""What pods on nodes have in their spec."""
WANTED: Sequence[Mapping[str, Any]] = [
    *OWN,
    near(term("web", ZONE)),
    near(term("web", HOST), term("web", HOST)),
    near(term("db", ZONE), term("db", "rack")),
    near(term("web", ZONE, namespaceSelector={"matchLabels": {"team": "a"}})),
    {"topologySpreadConstraints": [even(ZONE)]},
    {"topologySpreadConstraints": [even(HOST), even(ZONE, 2)]},
    {"topologySpreadConstraints": [even(ZONE, 1, minDomains=4)]},
    {"topologySpreadConstraints": [even("rack", 2, nodeTaintsPolicy="Honor")]},
    {"nodeSelector": {ZONE: "a"}, "topologySpreadConstraints": [even(ZONE), even("rack", app="db")]},
]


class World:
    """Pods of every priority come to nodes and go; the same scheduler is asked all the time."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.tight = seed % 2 == 0
        """Whether nodes are full soon; where they are not, what pods want of each other decides."""
        self.snapshot, self.nominations = Snapshot(), Nominations()
        self.handle = plugin_handle()
        self.limits = self.chance.choice(
            [{}, {"minCandidateNodesPercentage": 1, "minCandidateNodesAbsolute": self.chance.randint(1, 4)}]
        )
        self.fast = Cycle(self.snapshot, random.Random(0), nominations=self.nominations)
        self.fast_profile, self.slow_profile = self.profile(), self.profile(Elsewhere)
        self.number = 0
        for index in range(8 if self.tight else self.chance.randint(2, 6)):
            self.set_node(f"n{index}")

    def profile(self, *more: type[Filter]) -> Any:
        everywhere = PluginSet(enabled=tuple(PluginUse(plugin.name) for plugin in more))
        config = ProfileConfig(NAME, {Point.MULTI_POINT: everywhere}, {"DefaultPreemption": self.limits})
        return compile_profile(config, registry_with(*more), self.handle)

    def some(self, spec: Mapping[str, Any], cpus: Sequence[str], on: str = "") -> dict[str, Any]:
        choice, self.number = self.chance.choice, self.number + 1
        raw: dict[str, Any] = pod(f"p{self.number}", choice(cpus), on=on, priority=choice([0, 0, 1, 3, 5]), spec=spec)
        if "ports" in str(spec):
            raw["spec"]["containers"][0]["resources"] = {"requests": {"cpu": choice(cpus)}}
        raw["metadata"] |= {
            "namespace": choice(["default", "default", "other"]),
            "labels": {"app": choice(["web", "db"])},
        }
        raw["status"] = {"startTime": f"2026-01-01T00:00:{choice(range(60)):02}Z"} if choice([0, 1, 1]) else {}
        if self.chance.random() < 0.1:
            raw["metadata"] |= {"deletionTimestamp": "2026-01-01T00:01:00Z"}
        return raw

    def set_node(self, name: str) -> None:
        choice = self.chance.choice
        labels = {key: choice(values) for key, values in ((ZONE, "aab"), ("rack", "xyz")) if choice([0, 1, 1, 1])}
        taints = choice([[], [], [], ["k=v:NoSchedule"]])
        cpu, pods = (choice(["2", "3"]), choice([3, 110])) if self.tight else ("64", 110)
        self.snapshot.set_node(node(name, cpu=cpu, pods=pods, labels=labels, taints=taints))

    def go_on(self) -> None:
        chance, names = self.chance, [each.name for each in self.snapshot.nodes(self.snapshot.rows)]
        happens = {"come": 30, "go": 8, "node": 3, "budget": 2, "nominate": 2, "namespace": 1}
        match chance.choices(list(happens), list(happens.values()))[0]:
            case "come":
                self.snapshot.place(PodInfo(self.some(chance.choice(OWN), ["200m", "500m", "1"], chance.choice(names))))
            case "go":
                there = [other.uid for each in self.snapshot.nodes(self.snapshot.rows) for other in each.pods.values()]
                self.snapshot.forget(chance.choice([*there, "nobody"]))
            case "node":
                self.set_node(chance.choice(names))
            case "budget":
                selector = {"matchLabels": {"app": chance.choice(["web", "db"])}}
                disrupted = [f"p{chance.randint(1, self.number + 1)}"]
                raw = budget(chance.randint(0, 2), selector, disrupted=disrupted)
                version = {"name": f"b{self.number}", "resourceVersion": str(self.number + 1)}
                named = {**raw, "metadata": {**raw["metadata"], **version}}
                self.handle.lister.wrote(PodDisruptionBudget, named)
            case "nominate":
                nominee = PodInfo(self.some(chance.choice(OWN), ["500m", "1"]))
                self.nominations.put(nominee, chance.choice(["", *names]))
            case "namespace":
                labels = {"team": chance.choice("ab")}
                self.snapshot.set_namespace({"metadata": {"name": "other", "labels": labels}})

    def compare(self, about: str) -> str:
        """Let both decide on one pod that wants much; what became of it."""
        raw = self.some(self.chance.choice(WANTED if self.tight else WANTED[len(OWN) :]), ["1", "2"])
        raw["spec"]["priority"] = self.chance.choice([1, 3, 5, 9, 9])
        info, seed = PodInfo(raw), self.chance.random()
        slow = Cycle(self.snapshot, random.Random(seed), nominations=self.nominations)
        slow._start, self.fast._sieves.random = self.fast._start, random.Random(seed)
        expected, found = slow.schedule(self.slow_profile, info), self.fast.schedule(self.fast_profile, info)
        assert type(found) is type(expected), about
        if not (isinstance(found, Diagnosis) and isinstance(expected, Diagnosis)):
            return "placed"
        words = f"{about}: {raw}"
        assert (found.nominated, found.victims) == (expected.nominated, expected.victims), words
        assert found.message == expected.message, words
        return "preempts" if found.victims else "refused"


@pytest.mark.parametrize("seed", range(20))
def test_random_clusters(seed: int) -> None:
    world = World(seed)
    outcomes: Counter[str] = Counter()
    for step in range(80):
        world.go_on()
        if step > 10:
            outcomes[world.compare(f"seed {seed}, step {step}")] += 1
    assert outcomes["preempts"] >= 2, outcomes
    assert outcomes["refused"], outcomes


def labelled(raw: Mapping[str, Any], app: str) -> dict[str, Any]:
    return {**raw, "metadata": {**raw["metadata"], "labels": {"app": app}}}


@pytest.mark.parametrize("in_place", [False, True], ids=["over columns", "node by node"])
class TestBesideANominatedPod:
    """The pods that stay must leave room for one that is nominated to the node, and must not need it."""

    def test_it_counts_for_a_spread_but_the_next_emptiest_domain_does_as_well(self, *, in_place: bool) -> None:
        nodes = [node("n1", cpu="3", labels={ZONE: "a"}), node("n2", cpu="3", labels={ZONE: "b"})]
        there = [runs(f"web{i}", "1", 50, on="n2", labels={"app": "web"}) for i in range(3)]
        there += [runs("web", "500m", 2, labels={"app": "web"}), runs("batch", "2", 1)]
        nominee = labelled(pod("nominee", "500m", priority=20), "web")
        raw = labelled(wants("1", topologySpreadConstraints=[even(ZONE)]), "web")
        snapshot = snapshot_of(*nodes, pods=there)
        assert victims(snapshot, raw, nominated={"n1": [nominee]}, in_place=in_place) == ("n1", ["batch"])

    def test_it_is_in_nobodys_way_in_a_domain_that_the_node_is_not_in(self, *, in_place: bool) -> None:
        there = [runs("web", "500m", 2, labels={"app": "web"}), runs("batch", "2", 1)]
        nominee = labelled(pod("nominee", "500m", priority=20), "web")
        snapshot, raw = snapshot_of(node("n1", cpu="3"), pods=there), wants("1", **apart(term("web", ZONE)))
        assert victims(snapshot, raw, nominated={"n1": [nominee]}, in_place=in_place) == ("n1", ["batch"])

    def test_the_pod_does_not_count_on_its_coming(self, *, in_place: bool) -> None:
        nominee = labelled(pod("nominee", "1", priority=20), "db")
        snapshot, raw = (
            snapshot_of(node("n1", cpu="3"), pods=[runs("batch", "3")]),
            wants("1", **near(term("db", HOST))),
        )
        assert victims(snapshot, raw, nominated={"n1": [nominee]}, in_place=in_place) == ("", [])


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"topologySpreadConstraints": [even(ZONE)]},
        apart(term("web", HOST)),
        near(term("db", ZONE)),
        listening(80),
    ],
    ids=["plain", "spread", "anti-affinity", "affinity", "host port"],
)
def test_no_node_is_tried_by_itself_where_sums_tell(monkeypatch: pytest.MonkeyPatch, spec: Mapping[str, Any]) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a node was tried by itself")

    monkeypatch.setattr(default_preemption, "select_victims", refuse)
    pods = [
        runs(
            f"{app}{i}", "1", i % 3, on=f"n{i}", labels={"app": app}, **({"spec": listening(80)} if app == "db" else {})
        )
        for i in range(4)
        for app in ("web", "db")
    ]
    pods += [runs(f"full{i}", "2", 0, on=f"n{i}") for i in range(4)]
    snapshot = snapshot_of(*(node(f"n{i}", cpu="3", labels={ZONE: "ab"[i % 2]}) for i in range(4)), pods=pods)
    raw = wants("2", **spec)
    raw["metadata"]["labels"] = {"app": "web"}
    compiled = compile_profile(ProfileConfig(NAME), registry_with(), plugin_handle())
    result = Cycle(snapshot, random.Random(0)).schedule(compiled, PodInfo(raw))
    assert isinstance(result, Diagnosis)
    assert result.victims


def preempting(storage: Storage, snapshot: Snapshot, raw: Object, *more: type[Filter]) -> Diagnosis:
    """What becomes of a pod whose claims are in storage."""
    everywhere = PluginSet(enabled=tuple(PluginUse(plugin.name) for plugin in more))
    config = ProfileConfig(NAME, plugins={Point.MULTI_POINT: everywhere})
    compiled = compile_profile(config, registry_with(*more), storage.handle)
    result = Cycle(snapshot, random.Random(0)).schedule(compiled, PodInfo(raw))
    assert isinstance(result, Diagnosis)
    return result


def using(claim_name: str, cpu: str = "1", **rest: Any) -> dict[str, Any]:
    used = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]
    return pod(rest.pop("name", "p"), cpu, spec={"volumes": used}, **rest)


@pytest.mark.parametrize("more", [(), (Elsewhere,)], ids=["over columns", "node by node"])
class TestAPodWithVolumes:
    """What leaves a node changes nothing about which volumes it reaches; but volumes that leave make room for others."""

    def test_only_nodes_that_reach_its_volume_are_cleared(self, more: tuple[type[Filter], ...]) -> None:
        storage = Storage(claim(volume="v"), volume("v", on={VOLUME_ZONE: ["a"]}, labels={VOLUME_ZONE: "a"}))
        nodes = [node(f"n-{zone}", cpu="1", labels={VOLUME_ZONE: zone}) for zone in "ab"]
        there = [runs("a", priority=5, on="n-a"), runs("b", priority=1, on="n-b")]
        found = preempting(storage, snapshot_of(*nodes, pods=there), using("data", priority=10), *more)
        assert (found.nominated, [victim.name for victim in found.victims]) == ("n-a", ["a"])
        there[0]["spec"]["priority"] = 99
        found = preempting(storage, snapshot_of(*nodes, pods=there), using("data", priority=10), *more)
        assert found.message == (
            "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: "
            "1 No preemption victims found for incoming pod, 1 node(s) didn't match PersistentVolume's node affinity."
        )

    def test_it_waits_for_a_volume_of_a_node_that_is_cleared(self, more: tuple[type[Filter], ...]) -> None:
        local = storage_class("local", provisioner="kubernetes.io/no-provisioner")
        storage = Storage(local, claim(storage="local"), volume("v", on={HOST: ["n1"]}, storage="local"))
        nodes, there = [node(f"n{i}", cpu="1") for i in range(2)], [runs(f"on-n{i}", on=f"n{i}") for i in range(2)]
        found = preempting(storage, snapshot_of(*nodes, pods=there), using("data", priority=10), *more)
        assert (found.nominated, [victim.name for victim in found.victims]) == ("n1", ["on-n1"])

    def test_whose_volume_takes_the_last_place_goes(self, more: tuple[type[Filter], ...]) -> None:
        volumes = [volume(f"v{i}", csi={"driver": "csi.example.com", "volumeHandle": f"v{i}"}) for i in range(3)]
        claims = [claim(f"c{i}", volume=f"v{i}") for i in range(3)]
        storage = Storage(*volumes, *claims, csi_node("n1", csi_example_com=2))
        there = [using("c0", on="n1", name="first", priority=2), using("c1", on="n1", name="second", priority=1)]
        found = preempting(storage, snapshot_of(node("n1"), pods=there), using("c2", priority=10), *more)
        assert (found.nominated, [victim.name for victim in found.victims]) == ("n1", ["second"])


class Fickle(Elsewhere):
    """Puts what it says as sums, but fails at it."""

    name = "Fickle"

    def limits(self, *_: Any) -> Any:
        raise RuntimeError("boom")


def test_a_plugin_that_fails_to_put_it_as_sums_is_asked_node_by_node() -> None:
    everywhere = PluginSet(enabled=(PluginUse("Fickle"),))
    config = ProfileConfig(NAME, plugins={Point.MULTI_POINT: everywhere})
    compiled = compile_profile(config, registry_with(Fickle), plugin_handle())
    snapshot = snapshot_of(node("n1", cpu="2"), pods=[runs("a", "2")])
    result = Cycle(snapshot, random.Random(0)).schedule(compiled, PodInfo(wants("2")))
    assert isinstance(result, Diagnosis)
    assert [victim.name for victim in result.victims] == ["a"]


# The pods by importance


def names(occupants: Occupants, row: int) -> list[str]:
    return [info.name for info in occupants.on(row)]


def test_pods_stand_by_importance_and_follow_what_changes() -> None:
    snapshot = snapshot_of(node("n1"), node("n2"), pods=[runs("a", priority=1), runs("b", priority=5)])
    occupants, rows = Occupants(snapshot), snapshot.rows
    lineup = occupants.lineup(rows, 5)
    assert names(occupants, 0) == ["b", "a"]
    assert (lineup.there.tolist(), lineup.places[0].tolist()) == ([[True], [False]], [1])
    for index in range(70):  # more than there was room for
        snapshot.place(PodInfo(runs(f"c{index:02}", priority=3, on="n2", started=index % 60)))
    snapshot.forget("b")
    lineup = occupants.lineup(rows, 4)
    assert names(occupants, 0) == ["a"]
    assert lineup.there.sum(axis=1).tolist() == [1, 70]
    cpu = Weight("cpu", lambda info: info.requests.amounts["cpu"])
    assert occupants.weights(rows, cpu).sum(axis=1).tolist() == [1000, 70_000]


def test_kinds_of_pods_that_are_long_gone_are_forgotten() -> None:
    snapshot = snapshot_of(node("n1"))
    occupants, asked = Occupants(snapshot), Counter[str]()

    def of(info: PodInfo) -> int:
        asked[info.name] += 1
        return int(info.labels["n"])

    for number in range(4200):
        snapshot.place(PodInfo(runs("p", labels={"n": str(number)})))
        occupants.lineup(snapshot.rows, 10)
        assert occupants.weights(snapshot.rows, Weight("n", of, alike=True)).tolist() == [[number]]
    assert len(occupants._examples) < 4200
    assert asked["p"] == 4200
