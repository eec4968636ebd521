"""What `konverge explain pod/NAME` prints, for tests that have what the scheduler tells but no operator to ask."""

import io
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from konverge.cli.explain import rendered


def lines(namespace: str, name: str, scheduling: Mapping[str, Any] | None) -> list[str]:
    """The lines that are printed of a pod of which the scheduler tells `scheduling`."""
    known: dict[str, Any] = {
        "kind": "Pod",
        "resource": "pods",
        "namespace": namespace,
        "name": name,
        "object": None,
        "queue": None,
        "last": None,
        "children": [],
        "events": [],
        "scheduling": scheduling,
    }
    out = io.StringIO()
    console = Console(file=out, width=240, highlight=False)
    for part in rendered(None, known, name):
        console.print(part)
    return out.getvalue().splitlines()
