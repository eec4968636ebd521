"""Konverge's scheduler decides as kube-scheduler does: random pods, placed one at a time by the real one, judged by both.

The profiles of kube-scheduler's that the pods name run the plugins that we have, with various arguments.
"""

import os
from collections.abc import Iterator

import pytest

from konverge.testing import LocalCluster
from tests.parity.judging import judge
from tests.parity.side import Side
from tests.parity.tally import Tally, seeds

pytestmark = pytest.mark.e2e

PODS = 150
SEEDS = seeds(14)
"""Each seed is a cluster and so many decisions; by hand, take more."""
LEAVING = 0.35
"""How likely a pod goes before the next comes, so that the nodes do not stay full."""


@pytest.fixture(scope="module")
def empty() -> Iterator[LocalCluster]:
    """A cluster of our own, whose nodes are the test's alone and whose kube-scheduler has the profiles."""
    with LocalCluster(f"pytest-parity-{os.getpid()}", nodes=0, parity=True) as started:
        yield started


@pytest.mark.parametrize("seed", SEEDS)
def test_decisions_and_scores_are_those_of_kube_scheduler(empty: LocalCluster, seed: int, tally: Tally) -> None:
    with Side.furnished(empty, seed) as side:
        chance = side.workload.random
        for number in range(PODS):
            judge(side, side.workload.pod(f"p{number}", side.workload.profile()), tally)
            there = sorted(side.ours.where())
            if there and chance.random() < LEAVING:
                side.delete(chance.choice(there))
    assert tally.real_choices > PODS // 4, tally
    assert tally.outcomes["refused"] > PODS // 20, tally
