"""Who may act: leases flow in and out, the right to act alone (a leader) or beside others (members) flows out."""

from konverge.election.elector import (
    JITTER,
    LEASE_DURATION,
    RENEW_DEADLINE,
    RETRY_PERIOD,
    LeaderElector,
    default_identity,
)
from konverge.election.members import Members

__all__ = [
    "JITTER",
    "LEASE_DURATION",
    "RENEW_DEADLINE",
    "RETRY_PERIOD",
    "LeaderElector",
    "Members",
    "default_identity",
]
