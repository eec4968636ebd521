"""The operator in a process of its own, which `konverge.testing` gives to users too."""

from konverge.testing import OperatorProcess

__all__ = ["OperatorProcess"]
