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

Unsubscribe = Callable[[], None]
"""Ends a subscription; may be called twice."""

_log = logging.getLogger(__name__)


class _Subscription:
    """One call of `subscribe`, until it is ended."""

    __slots__ = ("active", "fn")

    def __init__(self, fn: Subscriber) -> None:
        self.fn = fn
        self.active = True


class Delivery:
    """A store and those who want to know of its changes: the sink of a reflector.

    `synced` is set once a list was delivered completely.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.synced = asyncio.Event()
        self._subscriptions: tuple[_Subscription, ...] = ()
        # Each change with those who were subscribed when it happened: who comes later has it in the replay.
        self._pending: deque[tuple[Change, tuple[_Subscription, ...]]] = deque()
        self._delivering = False

    def subscribe(self, subscriber: Subscriber) -> Unsubscribe:
        """Tell `subscriber` of every object held, as ADDED and `initial`, and of every change from now on.

        Call what is returned to be told nothing more, not even what has happened already.
        """
        subscription = _Subscription(subscriber)
        self._replay((subscription,))
        self._subscriptions += (subscription,)
        self._deliver()

        def unsubscribe() -> None:
            subscription.active = False
            self._subscriptions = tuple(each for each in self._subscriptions if each is not subscription)

        return unsubscribe

    def replay(self) -> None:
        """Tell everybody of every object held, as if they had just subscribed."""
        self._replay(self._subscriptions)
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

    def removed(self, obj: Object) -> None:
        """`obj` turned out to be gone."""
        self._send(self._store.gone(obj))

    def _replay(self, subscriptions: tuple[_Subscription, ...]) -> None:
        for key, obj in self._store.snapshot().items():
            self._pending.append((Change(ChangeType.ADDED, key, None, obj, initial=True), subscriptions))

    def _send(self, change: Change | None) -> None:
        """Tell everybody; from within a subscriber, as soon as all have been told of the change at hand."""
        if change is not None and self._subscriptions:
            self._pending.extend((part, self._subscriptions) for part in split(change))
            self._deliver()

    def _deliver(self) -> None:
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._pending:
                change, subscriptions = self._pending.popleft()
                for subscription in subscriptions:
                    if subscription.active:
                        self._tell(subscription.fn, change)
        finally:
            self._delivering = False

    def _tell(self, subscriber: Subscriber, change: Change) -> None:
        try:
            subscriber(change)
        except Exception:  # noqa: BLE001 - one subscriber's fault is not the others'
            _log.exception("%s: a subscriber failed on %s of %s", self._store.resource, change.type.name, change.key)
