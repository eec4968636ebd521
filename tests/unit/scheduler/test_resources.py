"""What a pod asks for, worked out by hand."""

from typing import Any

import pytest

from konverge.scheduler.resources import LIMIT, capacity_of, is_scalar, requests_of
from tests.unit.scheduler.clusters import container, pod

Mi = 1024**2


def cpu_of(raw: dict[str, Any]) -> int:
    return requests_of(raw).amounts.get("cpu", 0)


def with_containers(*containers: Any, init: Any = (), **spec: Any) -> dict[str, Any]:
    return pod(spec={"containers": list(containers), "initContainers": list(init), **spec})


def test_containers_add_up() -> None:
    raw = with_containers(container("a", cpu="250m", memory="64Mi"), container("b", cpu="1"))
    assert requests_of(raw).amounts == {"cpu": 1250, "memory": 64 * Mi}


def test_an_init_container_counts_where_it_asks_for_more_than_all_containers_together() -> None:
    raw = with_containers(
        container("a", cpu="2", memory="1Gi"),
        container("b", cpu="1", memory="1Gi"),
        init=[container("i", cpu="2", memory="1Gi"), container("j", cpu="2", memory="3Gi")],
    )
    assert requests_of(raw).amounts == {"cpu": 3000, "memory": 3 * 1024 * Mi}


def test_a_sidecar_counts_beside_the_containers() -> None:
    raw = with_containers(container("main", cpu="4"), init=[container("s", sidecar=True, cpu="250m")])
    assert cpu_of(raw) == 4250


def test_an_init_container_runs_beside_the_sidecars_before_it_only() -> None:
    early, late = container("s", sidecar=True, cpu="1"), container("t", sidecar=True, cpu="8")
    assert cpu_of(with_containers(container("a"), init=[early, container("i", cpu="2")])) == 3000
    assert cpu_of(with_containers(container("a"), init=[container("i", cpu="2"), early])) == 2000
    assert cpu_of(with_containers(container("a"), init=[early, container("i", cpu="20"), late])) == 21000


def test_overhead_is_added_and_pod_level_requests_override_the_containers() -> None:
    gpu: dict[str, Any] = {"example.com/gpu": "1"}
    raw = with_containers(
        container("a", cpu="1", memory="1Gi", **gpu),
        resources={"requests": {"cpu": "3", "example.com/gpu": "5"}},
        overhead={"cpu": "100m"},
    )
    assert requests_of(raw).amounts == {"cpu": 3100, "memory": 1024 * Mi, "example.com/gpu": 1}


def test_fractions_are_added_exactly_and_rounded_up_once() -> None:
    assert cpu_of(with_containers(container("a", cpu="0.5m"), container("b", cpu="0.5m"))) == 1
    assert cpu_of(with_containers(container("a", cpu="1n"))) == 1


def test_only_scoring_counts_a_missing_request_and_not_an_explicit_zero() -> None:
    raw = with_containers(container("a"), container("b", cpu="0", memory="0"), container("c", cpu="1"))
    asked = requests_of(raw)
    assert asked.amounts == {"cpu": 1000, "memory": 0}
    assert (asked.scored_cpu, asked.scored_memory) == (100 + 0 + 1000, 400 * Mi)


def test_with_pod_level_requests_scoring_counts_only_what_no_level_asks_for() -> None:
    asked = requests_of(with_containers(container("a"), resources={"requests": {"cpu": "2"}}))
    assert (asked.scored_cpu, asked.scored_memory) == (2000, 200 * Mi)


def test_what_containers_ask_for_is_kept_apart_where_the_pod_asks_as_a_whole() -> None:
    raw = with_containers(
        container("a", cpu="1"), container("b"), resources={"requests": {"cpu": "3"}}, overhead={"cpu": "10m"}
    )
    assert requests_of(raw).of_containers == {"cpu": 1000 + 100 + 10, "memory": 400 * Mi}
    assert requests_of(with_containers(container("a", cpu="1"))).of_containers is None


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], 3000),
        ([{"type": "PodResizePending", "reason": "Deferred"}], 3000),
        ([{"type": "PodResizePending", "reason": "Infeasible"}], 2000),
    ],
    ids=["resizing", "deferred", "infeasible"],
)
def test_during_a_resize_the_largest_of_asked_in_force_and_set_aside_counts(conditions: Any, expected: int) -> None:
    status = {
        "containerStatuses": [
            {"name": "main", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "2"}}
        ],
        "conditions": conditions,
    }
    assert cpu_of(pod(cpu="3", status=status)) == expected


def test_a_resize_of_the_whole_pod_counts_alike() -> None:
    status = {"resources": {"requests": {"cpu": "4"}}, "allocatedResources": {"cpu": "5"}}
    assert cpu_of(pod(spec={"resources": {"requests": {"cpu": "3"}}}, status=status)) == 5000


def test_case_33_a_request_beyond_64_bits_is_capped_not_wrapped() -> None:
    assert requests_of(pod(memory="50E")).amounts["memory"] == LIMIT


def test_resources_that_the_scheduler_does_not_know_are_left_out() -> None:
    odd: dict[str, Any] = {"requests.example.com/x": "1", "hugepages-2Mi": "4Mi"}
    raw = with_containers(container("a", cpu="1", storage="1Gi", **odd))
    assert requests_of(raw).amounts == {"cpu": 1000, "hugepages-2Mi": 4 * Mi}


def test_a_nodes_capacity_counts_pods_and_nothing_below_zero() -> None:
    quantities = {"cpu": "1.5", "pods": "110", "memory": "-1", "example.com/gpu": "2", "bogus": "1"}
    assert capacity_of(quantities) == {"cpu": 1500, "pods": 110, "memory": 0, "example.com/gpu": 2}


@pytest.mark.parametrize(
    ("name", "scalar"),
    [
        ("cpu", False),
        ("example.com/gpu", True),
        ("hugepages-1Gi", True),
        ("attachable-volumes-csi", True),
        ("scheduling.kubernetes.io/foo", True),
        ("requests.example.com/x", False),
    ],
)
def test_scalar_resources(name: str, scalar: bool) -> None:
    assert is_scalar(name) is scalar
