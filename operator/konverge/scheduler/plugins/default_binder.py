"""DefaultBinder: bind a pod by creating its `binding` subresource."""

from typing import ClassVar

from konverge.model.resource import Pod
from konverge.scheduler.framework import SUCCESS, Bind, CycleState, PluginArgs, Verdict
from konverge.scheduler.handle import Handle
from konverge.scheduler.podinfo import PodInfo


class DefaultBinder(Bind):
    """See the module."""

    name: ClassVar[str] = "DefaultBinder"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._writer = handle.writer

    async def bind(self, _state: CycleState, pod: PodInfo, node_name: str, /) -> Verdict:
        """Bind this very pod: the uid makes the server refuse one that was made anew under its name.

        Raises: Conflict when it is bound already; any other ApiError; ConnectionFailed.
        """
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
        await self._writer.create(Pod, binding, pod.namespace, name=pod.name, subresource="binding")
        return SUCCESS
