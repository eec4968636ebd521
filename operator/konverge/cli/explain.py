"""`konverge explain`: all about one object, for a person: what the API server has, and what the operator knows beside.

Either source alone will do: without a debug endpoint the operator's part is left out, without a cluster the server's.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import click
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from konverge.cli.candidates import targets
from konverge.cli.endpoint import DEFAULT_ADDRESS, DebugEndpoint, EndpointUnreachable, NotThere, endpoint_options
from konverge.cli.scheduling import told_of_scheduling
from konverge.cli.story import Told, tell
from konverge.cli.text import Once, console, duration, field, table
from konverge.errors import ConfigError, ConnectionFailed, CredentialsError

STYLES = {"Current": "green", "InProgress": "yellow", "Failed": "red", "Terminating": "magenta"}


@click.command()
@click.argument("target", metavar="KIND/NAME", shell_complete=targets)
@click.option("--namespace", "-n", default="", help="The object's namespace; default: the context's.")
@click.option("--kubeconfig", type=click.Path(), help="As for `konverge run`.")
@click.option("--context", help="The context of the kubeconfig.")
@endpoint_options
@click.pass_context
def explain(
    ctx: click.Context, /, target: str, namespace: str, kubeconfig: str | None, context: str | None, **endpoint: Any
) -> None:
    """Tell all about KIND/NAME: health, conditions, children, events, and what the operator does with it.

    Of a pod, what its scheduler does with it: its policy, its place in the queue, and what each plugin says of each node.

    KIND is any name of a resource, as for kubectl. The operator is asked at its debug endpoint, where it serves one.
    """
    kind, slash, name = target.partition("/")
    if not (kind and slash and name):
        raise ConfigError(f"{target!r} does not name an object; write KIND/NAME, for example database/orders")
    told: Told | None = None
    unreachable: Exception | None = None
    try:
        told = asyncio.run(tell(kind, name, namespace, kubeconfig=kubeconfig, context=context))
    except (CredentialsError, ConnectionFailed) as error:
        unreachable = error
    known: Mapping[str, Any] | None = None
    path = "/".join(quote(part, safe="") for part in _path(told, kind, namespace or "default", name))
    try:
        known, operator = DebugEndpoint(**endpoint).json(f"explain/{path}"), ""
    except NotThere as error:
        operator = str(error)
    except EndpointUnreachable as error:
        given = endpoint["debug_address"] != DEFAULT_ADDRESS or _was_given(ctx, "debug_address")
        if unreachable is not None or given:
            raise
        operator = str(error)
    if unreachable is not None and (known is None or known["object"] is None):
        raise unreachable
    out = console()
    for part in rendered(told, known, name):
        out.print(part)
    if unreachable is not None:
        out.print(Text(f"\nThe API server was not asked: {unreachable}"))
    if known is None:
        out.print(Text(f"\nThe operator was not asked: {operator}"))


def _was_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def _path(told: Told | None, kind: str, namespace: str, name: str) -> tuple[str, ...]:
    if told is None:
        return kind, namespace, name
    return (told.resource.name, *([told.namespace] if told.namespace else []), name)


def rendered(told: Told | None, known: Mapping[str, Any] | None, name: str) -> Iterator[RenderableType]:
    """The sections. What the server says of the object goes before what the operator has cached."""
    once = Once()
    resource = told.resource.name if told else known["resource"] if known else ""
    kind = told.resource.kind if told else known["kind"] if known else ""
    namespace = told.namespace if told else known["namespace"] if known else ""
    obj = told.object if told else known["object"] if known else None
    yield Text(f"{kind} {f'{namespace}/{name}' if namespace else name} ({resource})", style="bold")
    if obj is not None:
        yield from _object(obj, once)
    children = told.children if told else known["children"] if known else []
    if children:
        rows = [_child(child, namespace, once) for child in children]
        yield from _section("Children", ("KIND", "NAME", "HEALTH", "WHY"), rows)
    if told and told.hidden:
        yield Text(f"  not allowed to list: {', '.join(told.hidden)}")
    events = told.events if told else known["events"][::-1] if known else []
    if events:
        lines = [(_ago(e["ago"]), e["type"], e["reason"], e["times"], once(e["message"])) for e in events]
        yield from _section("Events", ("LAST", "TYPE", "REASON", "TIMES", "MESSAGE"), lines)
    if known is None:
        return
    if known["queue"] is not None:
        yield Text("\nOperator", style="bold")
        yield from (field(*line) for line in _operator(known, obj, once))
    if known.get("scheduling") is not None:
        yield from told_of_scheduling(known["scheduling"])


def _object(obj: Mapping[str, Any], once: Once) -> Iterator[RenderableType]:
    health = once(f"{obj['health']}: {obj['why']}" if obj["why"] else obj["health"])
    yield field("Health", health, STYLES.get(obj["health"], ""))
    if obj["phase"]:
        since = f", since {_ago(_age(obj['phaseSince']))}" if obj["phaseSince"] else ""
        yield field("Phase", f"{obj['phase']}{since}")
    observed = obj["observedGeneration"]
    seen = "" if observed is None else f" (observed: {observed})"
    yield field("Generation", f"{obj['generation']}{seen}")
    yield field("Created", _ago(_age(obj["created"])))
    if obj["deleting"]:
        yield field("Deleting", f"asked for {_ago(_age(obj['deleting']))}")
    for label, value in (("Finalizers", ", ".join(obj["finalizers"])), ("Owner", obj["owner"])):
        if value:
            yield field(label, value)
    if obj["conditions"]:
        rows = [
            (c.get("type"), c.get("status"), c.get("reason", ""), _since(c), once(c.get("message", "")))
            for c in obj["conditions"]
        ]
        yield from _section("Conditions", ("TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"), rows)


def _section(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[RenderableType]:
    yield Text(f"\n{title}", style="bold")
    yield Padding(table(columns, rows), (0, 0, 0, 2), expand=False)


def _child(child: Mapping[str, Any], home: str, once: Once) -> tuple[str, str, str, str]:
    """A row. The namespace is said where it is not `home`, that of the owner."""
    namespace = child.get("namespace", "")
    name = child["name"] if namespace in {"", home} else f"{namespace}/{child['name']}"
    return "  " * child.get("depth", 0) + child["kind"], name, child["health"], once(child["why"])


def _operator(known: Mapping[str, Any], obj: Mapping[str, Any] | None, once: Once) -> Iterator[tuple[str, str]]:
    """Labels and values."""
    queue, last, cached = known["queue"], known["last"], known["object"]
    state = {
        "idle": "not queued: nothing to do until something changes",
        "ready": "ready, waits for a free worker",
        "processing": f"is being reconciled for {duration(queue.get('seconds'))}",
        "delayed": f"will be reconciled in {duration(queue.get('dueIn'))}",
    }[queue["state"]]
    failures = f", after {queue['failures']} failures in a row" if queue["failures"] else ""
    yield "Queue", f"{state}{failures} (controller {queue['controller']})"
    if last is None:
        yield "Last", "no reconcile that it remembers"
    else:
        verdict = once(": ".join(filter(None, (last["reason"], last["message"]))))
        took = f"{last['result']} {_ago(_age(last['at']))} after {duration(last['seconds'])}"
        yield "Last", f"{took}{f'; {verdict}' if verdict else ''} (reconcileID {last['reconcileID']})"
    if cached is None:
        yield "Cache", "the object is not in it"
    elif obj is not None and obj["resourceVersion"] != cached["resourceVersion"]:
        yield "Cache", f"has version {cached['resourceVersion']}, the server had {obj['resourceVersion']}"
    else:
        yield "Cache", f"up to date (version {cached['resourceVersion']})"


def _since(condition: Mapping[str, Any]) -> str:
    stamp = condition.get("lastTransitionTime")
    return _ago(_age(stamp)) if stamp else ""


def _age(stamp: str | None) -> float:
    """Seconds since an RFC 3339 time; 0 where there is none, as for one in the future."""
    if not stamp:
        return 0.0
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(stamp)).total_seconds())


def _ago(seconds: float) -> str:
    return f"{duration(seconds)} ago"
