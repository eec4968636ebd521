"""One profile in several forms: pods of a canary share meet other versions of some plugins.

In flow a profile's configuration and the uid of a pod; out flows the profile that this pod meets. The share is a hash of
the uid, so it stays the same for a pod at each attempt, in each replica and after a restart. All canaries of a profile
count the same shares: a profile with 10 % here and 30 % there has three forms and not four.
"""

from bisect import bisect_right
from hashlib import blake2b
from typing import Final

from konverge.errors import SchedulingError
from konverge.scheduler.framework import Plugin, QueueSort
from konverge.scheduler.handle import Handle
from konverge.scheduler.profile import Profile, ProfileConfig, compile_profile
from konverge.scheduler.registry import Registry

SHARES: Final = 100


def share_of(uid: str, salt: str) -> int:
    """A number from 0 to 99 that the uid decides, an independent one for each `salt`."""
    return int.from_bytes(blake2b(uid.encode(), digest_size=8, salt=_salt(salt)).digest()) % SHARES


class Variants:
    """The forms of one profile. Raises: what `compile_profile` raises."""

    def __init__(self, config: ProfileConfig, registry: Registry, handle: Handle) -> None:
        self.config = config
        percents = {
            use.canary_percent
            for plugins in config.plugins.values()
            for use in plugins.enabled
            if 0 < use.canary_percent < SHARES
        }
        self._starts = (0, *sorted(percents))
        self._salt = f"plugins/{config.scheduler_name}"
        made: dict[type[Plugin], Plugin] = {}
        self._profiles = tuple(
            compile_profile(config, registry, handle, share=start, made=made) for start in self._starts
        )
        if any(profile.queue_sort is not self.queue_sort for profile in self._profiles):
            raise SchedulingError(f"{self.queue_sort.name} sorts the queue for all pods: it can have no canaryPercent")

    @property
    def queue_sort(self) -> QueueSort:
        """The plugin that sorts the queue, in all forms."""
        return self._profiles[0].queue_sort

    def of(self, uid: str) -> Profile:
        """The profile that the pod with that uid meets."""
        if len(self._profiles) == 1:
            return self._profiles[0]
        return self._profiles[bisect_right(self._starts, share_of(uid, self._salt)) - 1]


def _salt(text: str) -> bytes:
    """Sixteen bytes, as many as the hash takes."""
    return blake2b(text.encode(), digest_size=16).digest()
