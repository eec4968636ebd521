"""Between the reflector and the subscribers: objects flow into the store, and what they change there flows out to each
subscriber in the order in which it happened, whatever a subscriber does meanwhile.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet

from konverge.cache.store import Change, ChangeType, Store, key_or_none, split
from konverge.model.meta import Key
from konverge.model.resource import Object

Subscriber = Callable[[Change], None]
"""Told of each change, synchronously: must be quick. What it raises is logged and stops nobody else."""

_log = logging.getLogger(__name__)


class Delivery:
    """A store and those who want to know of its changes: the sink of a reflector.

    `synced` is set once a list was delivered completely.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.synced = asyncio.Event()
        self._subscribers: tuple[Subscriber, ...] = ()
        # Each change with those who were subscribed when it happened: who comes later has it in the replay.
        self._pending: deque[tuple[Change, tuple[Subscriber, ...]]] = deque()
        self._delivering = False

    def subscribe(self, subscriber: Subscriber) -> None:
        """Tell `subscriber` of every object held, as ADDED and `initial`, and of every change from now on."""
        for key, obj in self._store.snapshot().items():
            self._pending.append((Change(ChangeType.ADDED, key, None, obj, initial=True), (subscriber,)))
        self._subscribers += (subscriber,)
        self._deliver()

    def listed(self, objects: Iterable[Object], *, rewound: bool) -> list[Key]:
        """One page of a list."""
        keys = []
        for obj in objects:
            self._send(self._store.put(obj, initial=True, force=rewound))
            key = key_or_none(obj)
            if key is not None:  # also of a bad object: it is there, so what is held of it is not gone
                keys.append(key)
        return keys

    def list_complete(self, keys: AbstractSet[Key], version: str) -> None:
        """The end of a list at `version`: what is not among `keys` is gone."""
        for change in self._store.retain(keys, version):
            self._send(change)
        self.synced.set()

    def changed(self, obj: Object) -> None:
        """An object was added or modified."""
        self._send(self._store.put(obj))

    def deleted(self, obj: Object) -> None:
        """An object was deleted; this is its last state."""
        self._send(self._store.remove(obj))

    def wrote(self, obj: Object) -> None:
        """A write of ours returned `obj`."""
        self._send(self._store.wrote(obj))

    def _send(self, change: Change | None) -> None:
        """Tell everybody; from within a subscriber, as soon as all have been told of the change at hand."""
        if change is not None and self._subscribers:
            self._pending.extend((part, self._subscribers) for part in split(change))
            self._deliver()

    def _deliver(self) -> None:
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._pending:
                change, subscribers = self._pending.popleft()
                for subscriber in subscribers:
                    self._tell(subscriber, change)
        finally:
            self._delivering = False

    def _tell(self, subscriber: Subscriber, change: Change) -> None:
        try:
            subscriber(change)
        except Exception:  # noqa: BLE001 - one subscriber's fault is not the others'
            _log.exception("%s: a subscriber failed on %s of %s", self._store.resource, change.type.name, change.key)
