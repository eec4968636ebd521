"""State machines: the phases of a resource, the edges between them, and how long each may last.

Conditions are the truth and a phase is for people, yet operators are state machines: a declared one refuses a step that
nobody thought of, says when a phase has lasted too long, and can be drawn.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from konverge.errors import ModelError, UndeclaredTransition
from konverge.model.conditions import State


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase. `to` names the phases that may follow; staying in a phase needs no edge.

    `state` is what the status contract shows while the phase lasts (DONE for a phase in which the object serves).
    `timeout` is the seconds after which the phase counts as stalled; None for as long as it likes.
    """

    name: str
    to: tuple[str, ...] = ()
    state: State = State.WORKING
    timeout: float | None = None


class Machine:
    """The phases of one resource. The first one is where an object without a phase starts.

    Raises: ModelError when a name is not CamelCase or stands twice, an edge leads nowhere, or a phase cannot be reached.
    """

    def __init__(self, phases: Sequence[Phase]) -> None:
        if not phases:
            raise ModelError("a state machine needs at least one phase")
        self.phases: Mapping[str, Phase] = {phase.name: phase for phase in phases}
        self.initial = phases[0].name
        if len(self.phases) != len(phases):
            raise ModelError("a phase stands twice; names are " + ", ".join(phase.name for phase in phases))
        for phase in phases:
            if not (phase.name.isalnum() and phase.name[0].isupper()):
                raise ModelError(f"phase {phase.name!r} must be CamelCase")
            for target in phase.to:
                if target not in self.phases:
                    raise ModelError(f"phase {phase.name} has an edge to {target}, which is not declared")
        unreached = set(self.phases) - self._reachable()
        if unreached:
            raise ModelError(f"no edge leads from {self.initial} to {', '.join(sorted(unreached))}")

    def _reachable(self) -> set[str]:
        seen: set[str] = set()
        open_ends = [self.initial]
        while open_ends:
            name = open_ends.pop()
            if name not in seen:
                seen.add(name)
                open_ends.extend(self.phases[name].to)
        return seen

    @property
    def names(self) -> tuple[str, ...]:
        """The phases' names in declared order: the enum of `status.phase`."""
        return tuple(self.phases)

    def edges(self) -> Iterator[tuple[str, str]]:
        """Every declared edge."""
        for phase in self.phases.values():
            for target in phase.to:
                yield phase.name, target

    def check(self, kind: str, current: str | None, wanted: str) -> Phase:
        """Return the phase `wanted` if it may follow `current`.

        A status that shows no phase, or one that is no longer declared, starts from the observed world: any phase may
        follow. Raises: UndeclaredTransition.
        """
        if wanted not in self.phases:
            raise UndeclaredTransition(kind, current, wanted, self.names)
        if current is None or current not in self.phases or current == wanted:
            return self.phases[wanted]
        allowed = self.phases[current].to
        if wanted not in allowed:
            raise UndeclaredTransition(kind, current, wanted, allowed)
        return self.phases[wanted]

    def mermaid(self) -> str:
        """The machine as a Mermaid state diagram."""
        lines = ["stateDiagram-v2", f"    [*] --> {self.initial}"]
        lines += [f"    {source} --> {target}" for source, target in self.edges()]
        return "\n".join(lines) + "\n"
