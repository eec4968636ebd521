"""The operator in a process of its own, which `konverge.testing` gives to users too, and what its log must not say."""

from konverge.testing import OperatorProcess

__all__ = ["OperatorProcess", "refusals"]


def refusals(operator: OperatorProcess) -> list[str]:
    """What RBAC refused the operator. Admission refuses too, such as a child in a namespace that goes: that is no lack."""
    return [line for line in operator.log.read_text().splitlines() if " cannot " in line and " resource " in line]
