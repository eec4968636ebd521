"""State machines walked in tests: a resource class flows in, one path for each declared edge flows out.

    @pytest.mark.parametrize("path", walk(Lamp), ids=" to ".join)
    def test_the_lamp_can_go(path: Path) -> None: ...

Each path begins where an object without a phase does, takes declared edges only, and ends with the edge that it is for. So
a test that drives its object along each has taken every edge, and a new edge is a new test.
"""

from collections import deque
from typing import Any, TypeAlias

from konverge.errors import ModelError
from konverge.model.custom import CustomResource

Path: TypeAlias = tuple[str, ...]
"""Names of phases, each of which may follow the one before."""


def walk(resource_class: type[CustomResource[Any, Any]]) -> list[Path]:
    """The shortest path from the initial phase over each declared edge, in declared order.

    Raises: ModelError where the resource declares no phases.
    """
    machine = resource_class.phases
    if machine is None:
        raise ModelError(f"{resource_class.resource.kind} declares no phases: there is nothing to walk")
    ways: dict[str, Path] = {machine.initial: (machine.initial,)}
    waiting = deque([machine.initial])
    while waiting:
        source = waiting.popleft()
        for target in machine.phases[source].to:
            if target not in ways:
                ways[target] = (*ways[source], target)
                waiting.append(target)
    return [(*ways[source], target) for source, target in machine.edges()]
