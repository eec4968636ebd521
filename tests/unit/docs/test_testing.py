"""The page about testing names all that the test kit offers; tests/e2e/test_examples.py runs its part on a real cluster."""

import re
from typing import Any

import pytest

from konverge.testing import Cluster, OperatorProcess, SimulatedOperator
from konverge.testing.sim import Sim, simulate
from tests.gadgets import GadgetReconciler
from tests.unit.docs.test_pages import DOCS

NAMED = set(
    re.findall(r"`(?:await )?(\w+)[`(]", re.sub(r"```.*?```", "", (DOCS / "testing.md").read_text(), flags=re.DOTALL))
)


def public(*namespaces: Any) -> set[str]:
    return {name for namespace in namespaces for name in vars(namespace) if not name.startswith("_")}


@simulate()
async def test_a_simulated_operator(sim: Sim) -> None:
    operator = SimulatedOperator(sim, GadgetReconciler())
    assert public(SimulatedOperator, operator) - NAMED == set()


@pytest.mark.parametrize("offered", [OperatorProcess, Cluster])
def test_what_is_there_on_a_real_control_plane(offered: type[Any]) -> None:
    assert public(offered)
    assert public(offered) - NAMED == set()
