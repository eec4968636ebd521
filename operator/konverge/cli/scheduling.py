"""What the scheduler knows of a pod, for a person: the data of `/debug/explain/pod/...` flows in, sections flow out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from konverge.cli.text import duration, table

NAMED: Final = 3
"""So many nodes of a group are named."""


def told_of_scheduling(told: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The sections: who places the pod, where it waits, what the plugins say of the nodes, the best nodes."""
    yield Text("\nScheduling", style="bold")
    yield from (Text(f"  {line}") for line in _standing(told))
    attempt = told["attempt"]
    if attempt is None:
        return
    if attempt["groups"]:
        yield Text("\nNodes", style="bold")
        yield _indented(("COUNT", "ANSWER", "NODES"), [_group(group) for group in attempt["groups"]])
    if attempt["best"]:
        plugins = list(attempt["weights"])
        weighted = [f"{plugin} x{attempt['weights'][plugin]}" for plugin in plugins]
        yield Text("\nBest nodes, with the weighted scores", style="bold")
        rows = [
            (each["node"], each["total"], *(each["scores"][plugin] for plugin in plugins)) for each in attempt["best"]
        ]
        yield _indented(("NODE", "TOTAL", *weighted), rows)


def _indented(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Padding:
    return Padding(table(columns, rows), (0, 0, 0, 2), expand=False)


def _standing(told: Mapping[str, Any]) -> Iterator[str]:
    names = "; ".join(f"{each['name']}: {each['answer']}" for each in told["policies"])
    yield f"Policy:      {told['policy'] or 'none'} (schedulerName {told['schedulerName']}{f'; {names}' if names else ''})"
    yield f"Queue:       {_queue(told['queue'])}"
    if events := told["queue"].get("events"):
        yield f"Could help:  {'; '.join(events)}"
    if told["nominated"]:
        yield f"Nominated:   {told['nominated']}, which is being cleared for it"
    if gang := told["gang"]:
        yield (
            f"Gang:        {gang['name']}: {gang['pods']} of at least {gang['minCount']} pods, {gang['bound']} bound, "
            f"{gang['holding']} holding a node for the others"
        )
    if told["plugins"]:
        yield f"Plugins:     {_plugins(told)}"
    if versions := told.get("versions"):
        met = [
            f"{each['plugin']}@{each['meets']} ({each['canary']} for {each['percent']} % of the pods)"
            for each in versions
        ]
        yield f"Versions:    {'; '.join(met)}"
    attempt = told["attempt"]
    if attempt is None:
        return
    now = "If it waited: " if told["queue"]["place"] in {"placed", "binding", "permit"} else "Now:         "
    yield f"{now}{_outcome(attempt)}"
    if (preemption := attempt["preemption"]) and preemption["victims"]:
        victims = ", ".join(f"{victim['pod']} (priority {victim['priority']})" for victim in preemption["victims"])
        yield f"Preemption:  would evict from {preemption['node']}: {victims}"


def _plugins(told: Mapping[str, Any]) -> str:
    added = "".join(f" and {plugin}" for plugin in told["added"])
    left_out = f", without {', '.join(told['leftOut'])}" if told["leftOut"] else ""
    return f"the default ones{added}{left_out}"


def _outcome(attempt: Mapping[str, Any]) -> str:
    if attempt["error"]:
        return f"the attempt fails: {attempt['error']}"
    if attempt["message"]:
        return str(attempt["message"])
    best = attempt["best"]
    fitting = sum(group["count"] for group in attempt["groups"] if group["fits"])
    equals = [each["node"] for each in best if each["total"] == best[0]["total"]]
    among = f"one of {', '.join(equals)}" if len(equals) > 1 else equals[0]
    return f"fits {fitting} of {attempt['nodes']} nodes and would go to {among}"


def _queue(queue: Mapping[str, Any]) -> str:
    match queue["place"]:
        case "placed":
            return f"on node {queue['node']}, waits no longer"
        case "binding":
            return f"has node {queue['node']} and is being bound"
        case "permit":
            return f"has node {queue['node']} and waits for leave of {', '.join(queue['heldBy'])}{_held(queue)}"
        case "none":
            return f"not in the queue: {queue['why']}"
        case _:
            return _waiting(queue)


def _waiting(queue: Mapping[str, Any]) -> str:
    attempts = f"{queue['attempts']} failed attempt{'' if queue['attempts'] == 1 else 's'}"
    since = duration(queue["seconds"])
    if queue["place"] == "active":
        return f"to be tried next, for {since}, after {attempts}{_ahead(queue)}"
    if queue["place"] == "backoff":
        early = ", or as soon as no other pod is to be tried" if queue.get("early") else ""
        return f"backs off after {attempts}, tried again in {duration(queue['earliest'])}{early}{_ahead(queue)}"
    if queue["place"] == "out":
        return f"being tried, after {attempts}"
    by = f", turned away by {', '.join(queue['rejectedBy'])}" if queue["rejectedBy"] else ""
    if queue["why"]:
        return f"fits nowhere for {since} after {attempts}{by}; {queue['why']}"
    helps = "one of these happens" if queue["events"] else "anything changes in the cluster"
    return f"fits nowhere for {since} after {attempts}{by}; tried again in {duration(queue['latest'])}, or when {helps}"


def _ahead(queue: Mapping[str, Any]) -> str:
    """Its place in the line, where that is known."""
    count = queue.get("ahead")
    if count is None:
        return ""
    return f"; {count or 'no'} other pod{'' if count == 1 else 's'} before it"


def _held(queue: Mapping[str, Any]) -> str:
    """Until when, and with whom."""
    others: Sequence[str] = queue.get("with") or ()
    more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
    beside = f" together with {', '.join(others[:NAMED])}{more}" if others else ""
    until = f", for {duration(queue['latest'])} more at most" if queue.get("latest") is not None else ""
    return f"{beside}{until}"


def _group(group: Mapping[str, Any]) -> tuple[object, str, str]:
    answers = "; ".join(", ".join(answer["reasons"]) + _by(answer) for answer in group["answers"])
    more = group["count"] - NAMED
    names = ", ".join(group["nodes"][:NAMED]) + (f" and {more} more" if more > 0 else "")
    return group["count"], "fits" if group["fits"] else answers, names


def _by(answer: Mapping[str, Any]) -> str:
    """Who said it; `final` means that pods which leave would not help."""
    if not answer["plugin"]:
        return ""
    return f" ({answer['plugin']}, final)" if answer["final"] else f" ({answer['plugin']})"
