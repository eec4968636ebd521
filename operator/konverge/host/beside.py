"""The user's kopf handlers in a process with an election: they act on the leader only.

kopf runs twice then. The first one hosts the process on every replica: start-up, clean-up, login, probes and admission.
The second one has the handlers for resources; it is what the manager runs, beside the reconcilers, while it leads, and
has ended when the lease is given back. Both share the settings and the memo that the user's start-up has prepared.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import kopf

from konverge.host.modules import LoadedModules

logger = logging.getLogger(__name__)


class Beside:
    """The handlers of `modules`, split from what every replica runs. `namespaces` empty means the whole cluster.

    `spawned` is called each time that kopf has started its tasks: it takes the signals then.
    """

    def __init__(self, modules: LoadedModules, namespaces: Sequence[str] = ()) -> None:
        self._registry, self._namespaces = modules.registry, tuple(namespaces)
        self.settings, self.memo = kopf.OperatorSettings(), kopf.Memo()
        self.spawned: Callable[[], None] = lambda: None

    def everywhere(self) -> kopf.OperatorRegistry:
        """What every replica runs: activities and admission, no handlers for resources."""
        base = kopf.OperatorRegistry()
        base._activities, base._webhooks = self._registry._activities, self._registry._webhooks  # noqa: SLF001 - kopf has no public way to split a registry
        return base

    async def run(self) -> None:
        """Run the handlers until cancelled, then end them as kopf does.

        Raises: RuntimeError when kopf ends by itself; whatever it failed with.
        """
        ended = asyncio.Event()
        tasks = await kopf.spawn_tasks(
            registry=self._leading(),
            # Admission is the other one's: two servers on one port would each get some of the requests.
            settings=replace(self.settings, admission=kopf.OperatorSettings().admission),
            memo=self.memo,
            standalone=True,
            clusterwide=not self._namespaces,
            namespaces=self._namespaces,
            stop_flag=ended,
        )
        self.spawned()
        logger.info("the kopf handlers are active: this replica leads")
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Not kopf.run_tasks: it would take every task that came later for its own, the reconciles among them.
            ended.set()
            await _stop(tasks)
            logger.info("the kopf handlers have ended")
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
        raise RuntimeError("kopf ended without being asked to")

    def _leading(self) -> kopf.OperatorRegistry:
        """The handlers for resources, and the logins that they need."""
        ours, all_of_them = kopf.OperatorRegistry(), self._registry
        for part in ("_indexing", "_watching", "_spawning", "_changing"):
            setattr(ours, part, getattr(all_of_them, part))
        for handler in all_of_them._activities.get_all_handlers():  # noqa: SLF001 - as above
            if handler.activity is not None and handler.activity.name == "AUTHENTICATION":
                ours._activities.append(handler)  # noqa: SLF001 - as above
        return ours


async def _stop(tasks: Collection["asyncio.Task[Any]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
