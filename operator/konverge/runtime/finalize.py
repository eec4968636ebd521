"""The finalizer: put on before anything is made that outlives the object, taken off when `finalize` is done.

Others' finalizers are never touched: adding is guarded by the resourceVersion, removing by a test of the very entry, and
what moved meanwhile is read again.
"""

from typing import Any, Final

from konverge.errors import Conflict, Invalid, NotFound
from konverge.model import meta
from konverge.model.custom import CustomResource
from konverge.model.resource import Object
from konverge.ports import PatchType, Reader, Writer

ATTEMPTS: Final = 5


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
        live = obj.raw
        for attempt in range(1, ATTEMPTS + 1):
            if meta.is_deleting(live):
                return None
            if self.on(live):
                return live
            body = {
                "metadata": {
                    "resourceVersion": meta.resource_version(live),
                    "finalizers": [*meta.finalizers_of(live), self.name],
                }
            }
            try:
                return await self._writer.patch(obj.resource, obj.name, body, obj.namespace or None)
            except NotFound:
                return None
            except Conflict:
                if attempt == ATTEMPTS:
                    raise
            reread = await self._reread(obj)
            if reread is None:
                return None
            live = reread
        raise AssertionError("unreachable")

    async def remove(self, obj: CustomResource[Any, Any]) -> Object | None:
        """Take it off; return the object as it is then, or None when it is gone.

        Raises: Invalid or Conflict when others kept writing; any other ApiError; ConnectionFailed.
        """
        live = obj.raw
        for attempt in range(1, ATTEMPTS + 1):
            if not self.on(live):
                return live
            path = f"/metadata/finalizers/{meta.finalizers_of(live).index(self.name)}"
            steps: list[dict[str, Any]] = [
                {"op": "test", "path": "/metadata/uid", "value": obj.uid},
                {"op": "test", "path": path, "value": self.name},
                {"op": "remove", "path": path},
            ]
            try:
                return await self._writer.patch(
                    obj.resource, obj.name, steps, obj.namespace or None, patch_type=PatchType.JSON
                )
            except NotFound:
                return None
            except (Conflict, Invalid):
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
