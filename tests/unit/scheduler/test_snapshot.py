"""The snapshot counts what is there: after any history its columns are what a fresh count of the same cluster gives."""

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from konverge.scheduler.hostports import HostPort
from konverge.scheduler.podgroups import PodGroup
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot
from tests.unit.scheduler.clusters import node, pod, snapshot_of

RESOURCES = ["cpu", "memory", "pods", "example.com/gpu"]


def counted(snapshot: Snapshot) -> dict[str, Any]:
    """All that the columns say, by node."""
    rows = snapshot.rows
    columns: dict[str, list[Any]] = {
        "scored cpu": snapshot.scored_cpu(rows).tolist(),
        "scored memory": snapshot.scored_memory(rows).tolist(),
        "cordoned": snapshot.unschedulable.judge_bool(rows, bool).tolist(),
        "taints": snapshot.taints.judge_int(rows, len).tolist(),
        "label": [snapshot.label("x").values[i] for i in snapshot.label("x").ids(rows).tolist()],
    }
    for resource in RESOURCES:
        columns[f"allocatable {resource}"] = snapshot.allocatable(resource, rows).tolist()
        columns[f"requested {resource}"] = snapshot.requested(resource, rows).tolist()
    holders = snapshot.ports.conflicting(HostPort("TCP", 80, "0.0.0.0"))
    columns["port 80 is taken"] = [row in holders for row in rows.tolist()]
    image = snapshot.images.get("app:1")
    columns["image is held"] = [image is not None and row in image.rows for row in rows.tolist()]
    columns["pods by app"] = [
        sorted((group.labels.get("app", ""), group.rows[row]) for group in snapshot.groups if group.rows[row])
        for row in rows.tolist()
    ]
    web = snapshot.groups.by_domain("x", "web", _is_web).by_id
    columns["web pods in the domain"] = [web[i] for i in snapshot.label("x").ids(rows).tolist()]
    columns["web pods"] = snapshot.groups.by_row("default", "web", _is_web).up_to(snapshot.size)[rows].tolist()
    for name, terms in (("near", snapshot.groups.near), ("apart", snapshot.groups.apart)):
        tally = sum((counts.by_id for _, counts in terms), start=np.zeros(len(snapshot.label("x").values)))
        columns[f"pods with a term: {name}"] = tally[snapshot.label("x").ids(rows)].tolist()
    columns["pods with affinity"] = [
        sum(group.rows[row] for group in snapshot.groups if group.pod.pod_affinity_text) for row in rows.tolist()
    ]
    names = [each.name for each in snapshot.nodes(rows)]
    return {name: {key: values[i] for key, values in columns.items()} for i, name in enumerate(names)}


def _is_web(group: PodGroup) -> bool:
    return group.labels.get("app") == "web"


def cpu_on(snapshot: Snapshot, name: str) -> int:
    row = snapshot.row_of(name)
    assert row is not None
    return int(snapshot.requested("cpu", np.array([row]))[0])


class Histories(RuleBasedStateMachine):
    """Nodes and pods come, change and go in any order; the model is two plain dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshot = Snapshot()
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}

    names = st.sampled_from([f"n{i}" for i in range(4)])
    uids = st.sampled_from([f"p{i}" for i in range(6)])
    cpus = st.sampled_from([None, "1", "250m", "50E"])
    apps = st.sampled_from(["web", "db"])
    ports = st.sampled_from([0, 80])
    gpus = st.sampled_from([{}, {"example_com__gpu": 2}])

    @rule(name=names, cpu=st.sampled_from(["1", "4"]), x=st.sampled_from(["", "a"]), cordon=st.booleans(), gpu=gpus)
    def node_is_set(self, name: str, cpu: str, x: str, cordon: bool, gpu: Any) -> None:
        taints = ["k=v:NoSchedule"] if cordon else []
        self.nodes[name] = node(name, cpu=cpu, labels={"x": x} if x else {}, taints=taints, unschedulable=cordon, **gpu)
        self.nodes[name]["status"]["images"] = [{"names": ["app:1"], "sizeBytes": 7}] if cordon else []
        self.snapshot.set_node(self.nodes[name])

    @rule(name=names)
    def node_goes(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.snapshot.remove_node(name)

    @rule(uid=uids, name=names, cpu=cpus, gpu=gpus, app=apps, near=apps, port=ports, assumed=st.booleans())
    def pod_is_put(
        self, uid: str, name: str, cpu: str | None, gpu: Any, app: str, near: str, port: int, assumed: bool
    ) -> None:
        raw = pod(uid, cpu=cpu, **gpu)
        raw["metadata"]["labels"] = {"app": app}
        raw["spec"]["containers"][0]["ports"] = [{"hostPort": port}] if port else []
        if near != app:
            term = {"topologyKey": "x", "labelSelector": {"matchLabels": {"app": near}}}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            raw["spec"]["affinity"] = {"podAffinity": required, "podAntiAffinity": required}
        self.pods[uid] = {**raw, "spec": {**raw["spec"], "nodeName": name}}
        if assumed:
            self.snapshot.assume(PodInfo(raw), name)
        else:
            self.snapshot.place(PodInfo(self.pods[uid]))
        assert self.snapshot.is_assumed(uid) is assumed
        assert self.snapshot.node_of(uid) == name

    @rule(uid=uids)
    def pod_goes(self, uid: str) -> None:
        assert self.snapshot.forget(uid) is (self.pods.pop(uid, None) is not None)
        assert self.snapshot.pod(uid) is None

    @invariant()
    def columns_are_what_a_fresh_count_gives(self) -> None:
        self.snapshot.label("x")
        assert counted(self.snapshot) == counted(snapshot_of(*self.nodes.values(), pods=list(self.pods.values())))
        assert len(self.snapshot) == len(self.nodes)


TestHistories = Histories.TestCase


def test_an_assumed_pod_is_counted_until_it_is_confirmed_and_then_once() -> None:
    snapshot = snapshot_of(node("n1"), node("n2"))
    snapshot.assume(PodInfo(pod("a", cpu="1")), "n1")
    assert cpu_on(snapshot, "n1") == 1000
    snapshot.place(PodInfo(pod("a", cpu="1", on="n1")))
    assert cpu_on(snapshot, "n1") == 1000
    assert not snapshot.is_assumed("a")


def test_a_pod_that_turns_up_elsewhere_is_counted_there() -> None:
    snapshot = snapshot_of(node("n1"), node("n2"))
    snapshot.assume(PodInfo(pod("a", cpu="1")), "n1")
    snapshot.place(PodInfo(pod("a", cpu="1", on="n2")))
    assert (cpu_on(snapshot, "n1"), cpu_on(snapshot, "n2")) == (0, 1000)


def test_only_an_assumption_with_a_deadline_is_overdue() -> None:
    snapshot = snapshot_of(node("n1"))
    for name in ("bound", "binding", "placed"):
        snapshot.assume(PodInfo(pod(name, cpu="1")), "n1")
    snapshot.expire_after("bound", 10.0)
    snapshot.place(PodInfo(pod("placed", cpu="1", on="n1")))
    snapshot.expire_after("placed", 10.0)
    snapshot.expire_after("unknown", 10.0)
    assert snapshot.overdue(9.9) == []
    assert [info.name for info in snapshot.overdue(10.0)] == ["bound"]
    assert cpu_on(snapshot, "n1") == 3000


def test_a_pod_whose_requests_make_no_sense_leaves_the_count_as_it_was() -> None:
    snapshot = snapshot_of(node("n1"), pods=[pod("a", cpu="1", on="n1")])
    before = counted(snapshot)
    with pytest.raises(ValueError, match="'much' is no quantity"):
        snapshot.place(PodInfo(pod("b", cpu="much", on="n1")))
    assert counted(snapshot) == before
    assert snapshot.node_of("b") is None


def test_hundreds_of_nodes_and_of_distinct_labels() -> None:
    snapshot = snapshot_of(*(node(f"n{i}", labels={"x": str(i)}) for i in range(300)))
    found = snapshot.label("x").judge_bool(snapshot.rows, lambda value: value == "250")
    assert [each.name for each in snapshot.nodes(snapshot.rows[found])] == ["n250"]
    assert snapshot.allocatable("example.com/none-has-it", snapshot.rows).tolist() == [0] * 300


def test_a_row_that_is_not_in_use_is_no_node() -> None:
    snapshot = snapshot_of(node("n1"))
    snapshot.remove_node("n1")
    with pytest.raises(KeyError):
        snapshot.node(0)
