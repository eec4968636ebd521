"""Testing operators against a real API server and against simulated trouble.

The names are imported when they are first used: the pytest plugin lives in this package, and every
pytest run imports it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from konverge.testing.access import Cluster, ExistingCluster
    from konverge.testing.cluster import LocalCluster
    from konverge.testing.harness import SimulatedOperator
    from konverge.testing.operator_process import OperatorProcess

__all__ = ["Cluster", "ExistingCluster", "LocalCluster", "OperatorProcess", "SimulatedOperator"]

_HOMES = {
    "Cluster": "access",
    "ExistingCluster": "access",
    "LocalCluster": "cluster",
    "OperatorProcess": "operator_process",
    "SimulatedOperator": "harness",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module  # noqa: PLC0415 - only for the rare first use

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
