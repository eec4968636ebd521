"""A pod scheduler with kube-scheduler's semantics and a plugin framework.

The flow: `intake` (caches) -> `queue` -> `cycle` on the `snapshot` -> `reserve` -> `bind`. Plugin authors need
`konverge.scheduler.framework`, owners of profiles the names below.
"""

from konverge.scheduler.framework import Point
from konverge.scheduler.policies import Rule
from konverge.scheduler.profile import ALL_PLUGINS, PluginSet, PluginUse, ProfileConfig
from konverge.scheduler.registry import Registry
from konverge.scheduler.scheduler import Scheduler
from konverge.scheduler.stats import ProfileStats, SchedulingObserver

__all__ = [
    "ALL_PLUGINS",
    "PluginSet",
    "PluginUse",
    "Point",
    "ProfileConfig",
    "ProfileStats",
    "Registry",
    "Rule",
    "Scheduler",
    "SchedulingObserver",
]
