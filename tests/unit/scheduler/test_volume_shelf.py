"""The volumes in order of what claims ask give each claim what looking through all volumes gives it, whatever happened."""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from konverge.model import meta
from konverge.model.resource import Object, PersistentVolume
from konverge.scheduler.framework import CycleState
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.plugins.volume_binding import VolumeBinding
from konverge.scheduler.plugins.volume_candidates import matcher_of
from konverge.scheduler.plugins.volume_matching import Plan
from konverge.scheduler.plugins.volume_shelf import Shelf
from konverge.scheduler.podinfo import PodInfo
from tests.unit.scheduler.clusters import node, snapshot_of
from tests.unit.scheduler.storage import HOST, ZONE, Storage, claim, reasons, storage_class, user, volume

NODES = [f"n{index}" for index in range(6)]
PLACES: list[Mapping[str, list[str]] | None] = [
    None,
    {ZONE: ["a"]},
    {ZONE: ["a", "b"]},
    {ZONE: ["c"], HOST: NODES[:3]},
    *({HOST: [name]} for name in NODES),
]
SIZES = ["1Gi", "2Gi", "1500m", "3Gi"]
CLAIMS = ["c0", "c1", "c2"]


class World:
    """Volumes come, change, are assumed and go."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        made_by_hand = storage_class("static", provisioner="kubernetes.io/no-provisioner")
        self.storage = Storage(storage_class("late"), made_by_hand)
        self.lister, self.cache = self.storage.lister, self.storage.caches[PersistentVolume]
        self.shelf = Shelf(self.lister)
        labels = [{ZONE: zone} if zone else {} for zone in ["a", "a", "b", "c", "c", ""]]
        self.snapshot = snapshot_of(*(node(name, labels=own) for name, own in zip(NODES, labels, strict=True)))

    def some_volume(self) -> Object:
        choice = self.chance.choice
        more: dict[str, Any] = choice([{}, {}, {}, {"volumeMode": "Block"}, {"volumeAttributesClassName": "gold"}])
        raw = volume(
            f"v{choice(range(20))}",
            choice(SIZES),
            on=choice(PLACES),
            storage=choice(["late", "static"]),
            meant_for=choice(["", "", "", *CLAIMS]),
            phase=choice(["Available", "Available", "Available", "Bound"]),
            modes=choice([("ReadWriteOnce",), ("ReadWriteOnce", "ReadOnlyMany")]),
            labels=choice([{}, {"tier": "fast"}]),
            **more,
        )
        if raw["spec"].get("claimRef") and choice([True, False]):
            raw["spec"]["claimRef"]["uid"] = choice(["", "uid-of-another", f"uid-{raw['spec']['claimRef']['name']}"])
        return raw

    def some_claim(self, name: str) -> Object:
        choice = self.chance.choice
        more: dict[str, Any] = choice(
            [{}, {}, {}, {"volumeMode": "Block"}, {"selector": {"matchLabels": {"tier": "fast"}}}]
        )
        modes = choice([("ReadWriteOnce",), ("ReadOnlyMany",), ()])
        return claim(name, choice(SIZES), storage=choice(["late", "static"]), modes=modes, spec=more)

    def go_on(self) -> None:
        there = list(self.lister.list(PersistentVolume))
        some = self.chance.choice(there) if there else None
        match self.chance.choices(["show", "assume", "forget", "go"], [5, 2, 1, 1])[0]:
            case "assume" if some is not None:
                ref = {"claimRef": {"namespace": "default", "name": self.chance.choice(CLAIMS), "uid": "x"}}
                self.lister.assume(PersistentVolume, {**some, "spec": {**some["spec"], **ref}})
            case "forget" if some is not None:
                self.lister.forget(PersistentVolume, some)
            case "go" if some is not None:
                self.cache.removed({**some, "metadata": {**some["metadata"], "finalizers": []}})
            case _:
                self.storage.show(self.some_volume())

    def compare(self, about: str) -> int:
        """Let both judge some claims on all nodes; how many claims could be bound."""
        waiting = [self.some_claim(name) for name in self.chance.sample(CLAIMS, self.chance.choice([1, 1, 2, 3]))]
        quick = matcher_of([], waiting, self.lister, self.shelf)
        plain = matcher_of([], waiting, self.lister)
        bound = 0
        for each in self.snapshot.nodes(self.snapshot.rows):
            found, expected = quick.judge(each), plain.judge(each)
            assert names(found) == names(expected), f"{about}, node {each.name}: {waiting}"
            bound += len(found.bindings)
        by_rows, plainly = (each.judge_rows(self.snapshot, self.snapshot.rows) for each in (quick, plain))
        assert (by_rows is None) == (plainly is None), about
        for reason, mask in (by_rows or {}).items():
            assert plainly is not None
            assert mask.tolist() == plainly[reason].tolist(), f"{about}: {reason}"
        return bound


def names(plan: Plan) -> Any:
    bindings = [(meta.key_of(one).name, meta.key_of(other).name) for one, other in plan.bindings]
    return plan.reasons, bindings, [meta.key_of(one).name for one in plan.provisions]


@pytest.mark.parametrize("seed", range(10))
def test_whatever_happened(seed: int) -> None:
    world, bound = World(seed), 0
    for step in range(100):
        world.go_on()
        bound += world.compare(f"seed {seed}, step {step}")
    assert bound > 20


def test_it_catches_up_however_late(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1)
    for _ in range(30):
        world.go_on()
    world.compare("at first")
    monkeypatch.setattr(world.lister, "changed", lambda *_: None)
    for _ in range(30):
        world.go_on()
    world.compare("without a log")


def test_a_node_is_given_its_own_volume_among_many_and_the_smallest_that_will_do() -> None:
    local = [
        volume(f"{size}-{index}", size, on={HOST: [f"n{index}"]}, storage="static")
        for index in range(50)
        for size in SIZES
    ]
    storage = Storage(storage_class("static", provisioner="kubernetes.io/no-provisioner"), *local)
    wanted = claim("data", "1900Mi", storage="static")
    plan = matcher_of([], [wanted], storage.lister, Shelf(storage.lister)).judge(NodeInfo(node("n7")))
    assert names(plan) == ((), [("data", "2Gi-7")], [])


def test_a_volume_that_another_pod_was_promised_is_not_offered_again() -> None:
    """Two pods and two nodes with a local volume each: the second pod cannot have the first one's."""
    static = storage_class("static", provisioner="kubernetes.io/no-provisioner")
    claims = [claim(name, storage="static") for name in ("one", "two")]
    volumes = [volume(f"v{index}", on={HOST: [f"n{index}"]}, storage="static") for index in range(2)]
    storage, snapshot = Storage(static, *claims, *volumes), snapshot_of(node("n0"), node("n1"))
    plugin = storage.plugin(VolumeBinding)
    state, first = CycleState(), PodInfo(user("one", name="first"))
    plugin.pre_filter(state, first, snapshot)
    plugin.reserve(state, first, "n0")
    assert [bool(why) for why in reasons(plugin, user("two", name="second"), snapshot).values()] == [True, False]
    plugin.unreserve(state, first, "n0")
    assert [bool(why) for why in reasons(plugin, user("two", name="second"), snapshot).values()] == [False, False]
