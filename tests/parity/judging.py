"""One decision, made by both schedulers: in, a pod; out, what became of it, or where the two differ.

kube-scheduler breaks ties by chance, so its node must be among those that we score highest, and each of its plugins must
have given each node what ours gives it. Where it finds no node, so must we, with the same message.
"""

from konverge.scheduler.cycle import Ranking
from konverge.scheduler.diagnosis import Diagnosis
from tests.parity.scorelog import TOTAL, Scores
from tests.parity.side import Side, refusal
from tests.parity.tally import Tally
from tests.parity.wire import Json


def judge(side: Side, pod: Json, tally: Tally) -> None:
    """Let both decide on one more pod, and compare."""
    created, ours = side.ask(pod)
    theirs = side.decision(pod["metadata"]["name"])
    about = f"seed {side.seed}, {pod['metadata']['name']}: {created['spec']}"
    if isinstance(ours, Diagnosis):
        assert refusal(theirs) == ours.message, about
        side.delete(pod["metadata"]["name"])
        tally.outcomes["refused"] += 1
        return
    compare(side, theirs, ours, tally, about)
    tally.outcomes["placed"] += 1


def compare(side: Side, theirs: Json, ours: Ranking, tally: Tally, about: str) -> None:
    """Hold kube-scheduler's node and its scores against our ranking."""
    assert theirs["spec"].get("nodeName") in ours.best, f"{ours}; {refusal(theirs)}; {about}"
    given = side.log.of(f"{side.namespace}/{theirs['metadata']['name']}")
    if len(ours.node_names) == 1:
        assert not given, f"kube-scheduler had a choice: {given}; {about}"
        return
    meant = _scores(ours)
    assert {node for node, _ in given} == set(ours.node_names), about
    # A plugin may leave a pod out where the other side's gives each node 0, as ours do when no node has any of the images.
    pairs = {where: (given.get(where, 0), meant.get(where, 0)) for where in given.keys() | meant.keys()}
    different = {where: pair for where, pair in pairs.items() if pair[0] != pair[1]}
    assert not different, f"(theirs, ours): {different}; {about}"
    tally.scores += sum(plugin != TOTAL for _, plugin in given)
    tally.real_choices += len(ours.best) < len(ours.node_names)


def _scores(ranking: Ranking) -> Scores:
    columns = {**ranking.scores, TOTAL: ranking.totals}
    return {
        (node, plugin): int(score)
        for plugin, scores in columns.items()
        for node, score in zip(ranking.node_names, scores, strict=True)
    }
