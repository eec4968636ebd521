"""An outcome in, at most one status write out: observedGeneration, conditions, phase and the reconciler's own fields in
one merge patch, guarded by the resourceVersion that was read; nothing is sent when nothing changed.
"""

from collections.abc import Mapping
from typing import Any, Final

from konverge.errors import Conflict, NotFound
from konverge.model import meta
from konverge.model.conditions import Verdict, summarize
from konverge.model.custom import CustomResource, Status
from konverge.model.resource import Object
from konverge.model.sets import in_order
from konverge.ports import Clock, PatchType, Random, Reader, Writer
from konverge.runtime.draft import ConditionsDraft, PhaseDraft

CONFLICT_STEPS: Final = 4
CONFLICT_BASE: Final = 0.010
CONFLICT_FACTOR: Final = 5.0
CONFLICT_JITTER: Final = 0.1
_FRAMEWORK_FIELDS: Final = {"observed_generation", "conditions", "phase", "phase_since"}


def own_fields(status: Status) -> dict[str, Any]:
    """The reconciler's fields of a status as JSON under their wire names, with null for what is unset."""
    return in_order(status, status.model_dump(mode="json", by_alias=True, exclude=_FRAMEWORK_FIELDS))


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7386) that takes `before` to `after`, over the keys of `after` only.

    A None in `after` takes the key away; a mapping is patched key by key, and what it no longer has is taken away.
    """
    patch: dict[str, Any] = {}
    for key, value in after.items():
        have = before.get(key)
        if value is None:
            if key in before:
                patch[key] = None
        elif isinstance(value, Mapping) and isinstance(have, Mapping):
            gone = {old: None for old in have if old not in value}
            inner = merge_patch(have, {**value, **gone})
            if inner:
                patch[key] = inner
        elif have != value or key not in before:
            patch[key] = value
    return patch


class StatusWriter:
    """Writes the status of one resource's objects."""

    def __init__(self, reader: Reader, writer: Writer, clock: Clock, random: Random) -> None:
        self._reader, self._writer, self._clock, self._random = reader, writer, clock, random

    async def write(
        self,
        obj: CustomResource[Any, Any],
        verdict: Verdict,
        conditions: ConditionsDraft | None = None,
        phase: PhaseDraft | None = None,
    ) -> Object | None:
        """Write what changed; return the object as the server holds it then, or None when nothing had to be sent.

        A conflict rereads and tries again, four times in all with growing delays. Raises: Conflict after those;
        any other ApiError but NotFound (gone: nothing to write to); ConnectionFailed.
        """
        live = obj.raw
        own = _own_changes(obj)
        delay = CONFLICT_BASE
        for step in range(1, CONFLICT_STEPS + 1):
            patch = self._patch(obj, live, own, verdict, conditions, phase)
            if not patch:
                return None
            try:
                return await self._send(obj, live, patch)
            except NotFound:
                return None
            except Conflict:
                if step == CONFLICT_STEPS:
                    raise
            await self._clock.sleep(delay * (1 + CONFLICT_JITTER * self._random.random()))
            delay *= CONFLICT_FACTOR
            try:
                live = await self._reader.get(obj.resource, obj.name, obj.namespace or None)
            except NotFound:
                return None
            if meta.uid_of(live) != obj.uid:
                return None
        raise AssertionError("unreachable")

    def _patch(
        self,
        obj: CustomResource[Any, Any],
        live: Object,
        own: Mapping[str, Any],
        verdict: Verdict,
        conditions: ConditionsDraft | None,
        phase: PhaseDraft | None,
    ) -> dict[str, Any]:
        now = self._clock.now()
        before: Mapping[str, Any] = live.get("status") or {}
        listed = before.get("conditions") or []
        if conditions is not None:
            listed = conditions.on(listed, now)
        after: dict[str, Any] = dict(own)
        after["observedGeneration"] = obj.generation
        after["conditions"] = summarize(listed, verdict, generation=obj.generation, now=now)
        if obj.phases is not None and phase is not None:
            after["phase"], after["phaseSince"] = phase.current, phase.entered(now)
        return merge_patch(before, after)

    async def _send(self, obj: CustomResource[Any, Any], live: Object, patch: Mapping[str, Any]) -> Object:
        body = {"metadata": {"resourceVersion": meta.resource_version(live)}, "status": patch}
        return await self._writer.patch(
            obj.resource, obj.name, body, obj.namespace or None, patch_type=PatchType.MERGE, subresource="status"
        )


def _own_changes(obj: CustomResource[Any, Any]) -> dict[str, Any]:
    """The reconciler's own fields: those that are set, and those that it unset."""
    before = obj.raw.get("status") or {}
    return {
        name: value
        for name, value in own_fields(obj.status).items()
        if value is not None or before.get(name) is not None
    }
