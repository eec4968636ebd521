"""The finalizer: put on before anything is made that outlives the object, taken off when `finalize` is done.

Others' finalizers are never touched: adding is guarded by the resourceVersion, removing by a test of the very entry, and
what moved meanwhile is read again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from konverge.errors import ApiError, Conflict, Invalid, NotFound
from konverge.model import meta
from konverge.model.custom import CustomResource
from konverge.model.resource import Object
from konverge.ports import PatchType, Reader, Writer

ATTEMPTS: Final = 5

Patch: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class Finalizer:
    """Adds and removes one finalizer by name, such as `data.konverge.dev/database`."""

    def __init__(self, name: str, reader: Reader, writer: Writer) -> None:
        self.name, self._reader, self._writer = name, reader, writer

    def on(self, obj: Object) -> bool:
        """Whether the object carries it."""
        return self.name in meta.finalizers_of(obj)

    async def add(self, obj: CustomResource[Any, Any]) -> Object | None:
        """Put it on; return the object as it is then, or None when it is gone or already being deleted.

        Raises: Conflict when others kept writing; any other ApiError; ConnectionFailed.
        """

        def change(live: Object) -> Patch | None:
            if meta.is_deleting(live) or self.on(live):
                return None
            finalizers = [*meta.finalizers_of(live), self.name]
            return {"metadata": {"resourceVersion": meta.resource_version(live), "finalizers": finalizers}}

        held = await self._settle(obj, change, PatchType.MERGE, moved=(Conflict,))
        return None if held is None or meta.is_deleting(held) else held

    async def remove(self, obj: CustomResource[Any, Any]) -> Object | None:
        """Take it off; return the object as it is then, or None when it is gone.

        Raises: Invalid or Conflict when others kept writing; any other ApiError; ConnectionFailed.
        """

        def change(live: Object) -> Patch | None:
            if not self.on(live):
                return None
            path = f"/metadata/finalizers/{meta.finalizers_of(live).index(self.name)}"
            return [
                {"op": "test", "path": "/metadata/uid", "value": obj.uid},
                {"op": "test", "path": path, "value": self.name},
                {"op": "remove", "path": path},
            ]

        return await self._settle(obj, change, PatchType.JSON, moved=(Conflict, Invalid))

    async def _settle(
        self,
        obj: CustomResource[Any, Any],
        change: Callable[[Object], Patch | None],
        patch_type: PatchType,
        *,
        moved: tuple[type[ApiError], ...],
    ) -> Object | None:
        """Send what `change` asks for of the object, reread and again where an error of `moved` says that it moved.

        Returns the object as it is when nothing is left to change, or None when it is gone.
        """
        live = obj.raw
        for attempt in range(1, ATTEMPTS + 1):
            patch = change(live)
            if patch is None:
                return live
            try:
                return await self._writer.patch(
                    obj.resource, obj.name, patch, obj.namespace or None, patch_type=patch_type
                )
            except NotFound:
                return None
            except moved:
                if attempt == ATTEMPTS:
                    raise
            reread = await self._reread(obj)
            if reread is None:
                return None
            live = reread
        raise AssertionError("unreachable")

    async def _reread(self, obj: CustomResource[Any, Any]) -> Object | None:
        """The object now, or None when that very object is gone."""
        try:
            live = await self._reader.get(obj.resource, obj.name, obj.namespace or None)
        except NotFound:
            return None
        return live if meta.uid_of(live) == obj.uid else None
