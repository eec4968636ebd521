"""A whole operator on any API: reconcilers flow in, a manager to run flows out. For simulations and for tests in process."""

import random as chance
from collections.abc import Sequence
from typing import Any

from konverge.cache.informer import Caches
from konverge.ports import Api, Clock, Random
from konverge.runtime.clock import SystemClock
from konverge.runtime.controller import Controller
from konverge.runtime.events import EventRecorder
from konverge.runtime.manager import Manager
from konverge.runtime.metrics import Metrics
from konverge.runtime.reconciler import Reconciler


def operator_on(
    api: Api,
    reconcilers: Sequence[Reconciler[Any]],
    *,
    clock: Clock | None = None,
    random: Random | None = None,
    metrics: Metrics | None = None,
) -> Manager:
    """Make the manager of an operator without election; `await manager.run(stop)` runs it.

    In a simulation pass its clock and chance. `manager.caches` can be looked into.
    """
    clock, random = clock or SystemClock(), random or chance.Random()  # noqa: S311 - jitter, not a secret
    metrics = metrics or Metrics()
    caches = Caches(api, clock=clock, random=random)
    recorder = EventRecorder(api, clock, component="konverge", instance="test")
    controllers = [
        Controller(
            reconciler,
            api=api,
            caches=caches,
            recorder=recorder,
            clock=clock,
            random=random,
            metrics=metrics.controller(reconciler.resource().resource.kind.lower(), workers=type(reconciler).workers),
        )
        for reconciler in reconcilers
    ]
    return Manager(caches=caches, controllers=controllers, recorder=recorder, block_writes=lambda _: None)
