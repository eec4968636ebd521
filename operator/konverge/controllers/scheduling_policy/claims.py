"""Which of several policies holds a schedulerName: the policies flow in, the holder's name flows out. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from konverge.model import meta
from konverge.model.resource import Object


def claimants(policies: Iterable[Object], scheduler_name: str) -> list[str]:
    """The policies for `scheduler_name`, the one that holds it first: highest priority, then name.

    A policy that is suspended or being deleted gives way.
    """
    claims = [
        (-int(spec.get("priority") or 0), meta.key_of(policy).name)
        for policy in policies
        if not meta.is_deleting(policy)
        and _scheduler_name(spec := policy.get("spec") or {}) == scheduler_name
        and not spec.get("suspend")
    ]
    return [name for _, name in sorted(claims)]


def sharing(policies: Iterable[Object], scheduler_name: str) -> list[str]:
    """All policies for `scheduler_name`, whether they claim it now or not."""
    return [
        meta.key_of(policy).name for policy in policies if _scheduler_name(policy.get("spec") or {}) == scheduler_name
    ]


def _scheduler_name(spec: Mapping[str, Any]) -> str:
    return str((spec.get("profile") or {}).get("schedulerName", ""))
