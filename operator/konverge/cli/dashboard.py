"""`konverge dashboard`: the metrics that exist flow in, a Grafana dashboard with a panel for each flows out."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from konverge.errors import ConfigError
from konverge.runtime.families import Family, families

ROWS: Final = (
    ("Leader election", "leader_election_"),
    ("Webhooks", "controller_runtime_webhook_"),
    ("Reconciles", "controller_runtime_"),
    ("Queues", "workqueue_"),
    ("Phases", "konverge_phase_"),
    ("Caches and events", "konverge_"),
    ("Requests to the API server", "rest_client_"),
    ("Scheduler", "scheduler_"),
    ("Process", "process_"),
)
"""Titles and the beginnings of names; a metric goes to the first that fits."""

WIDTH: Final = 24
COLUMNS: Final = 3
HEIGHT: Final = 8
SELECTOR: Final = '{namespace=~"$namespace",job=~"$job"}'
QUANTILES: Final = (0.5, 0.99)


@click.command()
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file instead of printing."
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 when the --output file is not up to date.")
def dashboard(output: Path | None, *, check: bool) -> None:
    """Print a Grafana dashboard with every metric of an operator."""
    text = json.dumps(dashboard_of(families()), indent=2) + "\n"
    if output is None:
        click.echo(text, nl=False)
    elif not check:
        output.write_text(text)
    elif not output.is_file() or output.read_text() != text:
        raise ConfigError(f"{output} does not show the metrics that exist; run the same without --check and commit it")


def dashboard_of(metrics: list[Family]) -> dict[str, Any]:
    """The dashboard as Grafana imports it, with a row for each part of an operator."""
    return {
        "uid": "konverge",
        "title": "Konverge",
        "tags": ["konverge", "kubernetes"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                _variable("namespace", "label_values(leader_election_master_status, namespace)"),
                _variable("job", 'label_values(leader_election_master_status{namespace=~"$namespace"}, job)'),
            ]
        },
        "panels": list(_panels(metrics)),
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "$datasource"},
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
    }


def _panels(metrics: list[Family]) -> Iterator[dict[str, Any]]:
    number, top = 1, 0
    for title, _ in ROWS:
        inside = [metric for metric in metrics if _row_of(metric) == title]
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": _place(top, 0, WIDTH, 1)}
        number, top = number + 1, top + 1
        for index, metric in enumerate(inside):
            line, column = divmod(index, COLUMNS)
            place = _place(top + line * HEIGHT, column * WIDTH // COLUMNS, WIDTH // COLUMNS, HEIGHT)
            yield {"id": number, "gridPos": place, **_panel(metric)}
            number += 1
        top += -(-len(inside) // COLUMNS) * HEIGHT


def _row_of(metric: Family) -> str:
    """Raises: ConfigError for a metric that no row wants."""
    for title, beginning in ROWS:
        if metric.name.startswith(beginning):
            return title
    raise ConfigError(f"no row of the dashboard shows {metric.name}; add the beginning of its name to ROWS")


def _place(top: int, left: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}


def _panel(metric: Family) -> dict[str, Any]:
    # `name` of the queues' metrics says the same as `controller`; `namespace` is the scraped pod's to Prometheus
    labels = [label for label in metric.labels if not (label == "name" and "controller" in metric.labels)]
    labels = ["exported_namespace" if label == "namespace" else label for label in labels]
    legend = " ".join(f"{{{{{label}}}}}" for label in labels)
    rate = f"rate({metric.name}{SELECTOR}[$__rate_interval])"
    unit = next((unit for end, unit in (("_seconds", "s"), ("_bytes", "bytes")) if metric.name.endswith(end)), "short")
    if metric.kind == "histogram":
        buckets = f"rate({metric.name}_bucket{SELECTOR}[$__rate_interval])"
        by = ", ".join(["le", *labels])
        queries = [
            (f"histogram_quantile({part}, sum by ({by}) ({buckets}))", f"p{part * 100:.0f} {legend}".strip())
            for part in QUANTILES
        ]
    elif metric.kind == "counter":
        queries = [(f"sum by ({', '.join(labels)}) ({rate})" if labels else f"sum({rate})", legend)]
        unit = "short" if metric.name.endswith("_seconds_total") else "ops"
    else:
        queries = [(f"{metric.name}{SELECTOR}", f"{{{{pod}}}} {legend}".strip())]
    return {
        "type": "timeseries",
        "title": metric.name,
        "description": metric.text,
        "datasource": {"type": "prometheus", "uid": "$datasource"},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": expression, "legendFormat": shown}
            for index, (expression, shown) in enumerate(queries)
        ],
    }
