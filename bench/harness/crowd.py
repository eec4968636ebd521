"""Many requests, a bounded number of them at once."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

_AT_ONCE: Final = 32


async def each(items: Iterable[T], action: Callable[[T], Awaitable[None]]) -> None:
    """Do `action` with every item. Raises: ExceptionGroup of what an action raised, after the others were cancelled."""
    left = iter(items)

    async def take() -> None:
        for item in left:
            await action(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(take())
