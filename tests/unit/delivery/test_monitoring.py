"""Metrics, the dashboard, alerts and runbooks tell of one another, and only of what exists."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from konverge.cli import cli
from konverge.cli.dashboard import ROWS, dashboard, dashboard_of
from konverge.errors import ConfigError
from konverge.runtime.families import PROCESS, Family, families
from konverge.runtime.metrics import Metrics

ROOT = Path(__file__).parents[3]
RUNBOOKS = ROOT / "docs" / "runbooks"
SHOWN = ROOT / "config" / "prometheus" / "dashboard.json"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((ROOT / "config/prometheus/rules.yaml").read_text())["spec"]["groups"]
    for rule in group["rules"]
]
BY_ALERT = pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))

SYNTAX = {"absent", "by", "histogram_quantile", "increase", "rate", "sum"}
OF_PROMETHEUS = {"up"}
TARGET_LABELS = {"namespace", "job", "pod"}
UNBOUNDED = {"uid", "object", "object_name", "message", "user", "reason", "path", "node", "key"}
"""Labels whose values come from users or grow with the cluster."""
COUNTS = {"scheduler_pod_scheduling_attempts", "scheduler_preemption_victims"}
"""Histograms of numbers without a unit, under kube-scheduler's names."""


def samples() -> dict[str, Family]:
    """Every series name that can be queried."""
    ends = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}
    return {f"{family.name}{end}": family for family in families() for end in ends[family.kind]}


def expression_names(expression: str) -> set[str]:
    """What is neither function nor label in a query."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|by \([^)]*\)", " ", expression)
    return set(re.findall(r"[a-z_][a-z0-9_]*", bare)) - SYNTAX


def expression_labels(expression: str) -> set[str]:
    matched = re.findall(r"(\w+)=~?\"", expression)
    grouped = [label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")]
    return {*matched, *grouped} - {"le"}


class TestMetrics:
    def test_all_that_are_registered_are_known(self) -> None:
        exposed = {family.name for family in Metrics().registry.collect()}
        libraries = {name for name in exposed if name.startswith(("process_", "python_"))}
        known = {family.name.removesuffix("_total") for family in families()}
        assert exposed - libraries <= known

    def test_those_of_the_process_are_what_the_library_has(self) -> None:
        text = Metrics().exposition()[0].decode()
        assert [family.name for family in PROCESS if f"\n{family.name} " not in text] == []

    @pytest.mark.parametrize("family", families(), ids=lambda family: family.name)
    def test_each_has_a_prefix_a_unit_a_text_and_bounded_labels(self, family: Family) -> None:
        assert family.name.startswith(tuple(beginning for _, beginning in ROWS))
        assert (family.kind == "counter") == family.name.endswith("_total")
        if family.name not in COUNTS and (
            family.kind == "histogram" or re.search(r"duration|latency|_time_", family.name)
        ):
            assert family.name.removesuffix("_total").endswith("_seconds")
        assert family.text.endswith(".")
        assert set(family.labels) & UNBOUNDED == set()


class TestTheDashboard:
    def test_shows_every_metric_that_exists_and_is_up_to_date(self) -> None:
        shown = json.loads(SHOWN.read_text())
        assert shown == dashboard_of(families()), "run `make crds` and commit what it writes"
        titles = [panel["title"] for panel in shown["panels"] if panel["type"] == "timeseries"]
        assert sorted(titles) == [family.name for family in families()]

    def test_asks_for_nothing_else(self) -> None:
        targets = [target for panel in json.loads(SHOWN.read_text())["panels"] for target in panel.get("targets", [])]
        assert targets
        for target in targets:
            assert expression_names(target["expr"]) <= samples().keys()

    def test_lies_on_a_grid_without_overlaps(self) -> None:
        taken: set[tuple[int, int]] = set()
        for panel in json.loads(SHOWN.read_text())["panels"]:
            place = panel["gridPos"]
            cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
            assert max(x for x, _ in cells) < 24
            assert not cells & taken
            taken |= cells

    def test_has_no_place_for_a_metric_of_an_unknown_kind(self) -> None:
        with pytest.raises(ConfigError, match="no row of the dashboard shows odd_metric"):
            dashboard_of([Family("odd_metric", "gauge", "Odd.")])

    def test_is_written_and_checked_by_the_command(self, tmp_path: Path) -> None:
        path = tmp_path / "dashboard.json"
        run = CliRunner().invoke
        with pytest.raises(ConfigError, match="does not show the metrics that exist"):
            run(dashboard, ["--output", str(path), "--check"], catch_exceptions=False)
        assert run(dashboard, ["--output", str(path)]).exit_code == 0
        assert run(dashboard, ["--output", str(path), "--check"]).exit_code == 0
        assert run(dashboard, []).stdout == path.read_text()


class TestAlerts:
    @BY_ALERT
    def test_ask_for_metrics_and_labels_that_exist(self, rule: dict[str, Any]) -> None:
        names = expression_names(rule["expr"]) - OF_PROMETHEUS
        assert names <= samples().keys()
        labels = {label for name in names for label in samples()[name].labels}
        assert expression_labels(rule["expr"]) <= labels | TARGET_LABELS

    @BY_ALERT
    def test_are_about_the_operator_that_is_scraped(self, rule: dict[str, Any]) -> None:
        """The Service names the job; without it the rules would also speak of other operators."""
        service = yaml.safe_load((ROOT / "config/metrics/service.yaml").read_text())["metadata"]["name"]
        selectors = re.findall(r"\{[^}]*\}", rule["expr"])
        assert selectors
        assert [each for each in selectors if f'job="{service}"' not in each] == []

    @BY_ALERT
    def test_say_how_bad_what_it_means_and_what_to_do(self, rule: dict[str, Any]) -> None:
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        notes = rule["annotations"]
        assert notes["summary"].endswith(".")
        assert notes["description"].endswith(".")
        assert notes["runbook_url"].rsplit("/", 1)[1] == rule["alert"]

    @BY_ALERT
    def test_show_only_labels_that_their_result_has(self, rule: dict[str, Any]) -> None:
        shown = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
        grouped = re.findall(r"by \(([^)]*)\)", rule["expr"])
        if grouped:
            kept = {label.strip() for label in grouped[0].split(",")} - {"le"}
        else:
            [name] = expression_names(rule["expr"])
            kept = {*TARGET_LABELS, *(() if name in OF_PROMETHEUS else samples()[name].labels)}
        assert shown <= kept

    def test_have_a_runbook_each_and_no_runbook_is_left_over(self) -> None:
        pages = {page.stem for page in RUNBOOKS.glob("*.md")} - {"index"}
        assert pages == {rule["alert"] for rule in RULES}
        assert len(pages) == len(RULES)
        index = (RUNBOOKS / "index.md").read_text()
        assert set(re.findall(r"\((Konverge\w+)\.md\)", index)) == pages


class TestRunbooks:
    @BY_ALERT
    def test_say_what_it_means_how_to_find_out_and_what_to_do(self, rule: dict[str, Any]) -> None:
        text = (RUNBOOKS / f"{rule['alert']}.md").read_text()
        assert re.findall(r"^#+ (.+)$", text, re.MULTILINE) == [rule["alert"], "Find out", "What to do"]
        assert "```console\n$ " in text

    @BY_ALERT
    def test_name_commands_and_flags_that_exist(self, rule: dict[str, Any]) -> None:
        text = (RUNBOOKS / f"{rule['alert']}.md").read_text()
        for command in re.findall(r"(?:\$ |`)konverge (\w+)", text):
            assert CliRunner().invoke(cli, [command, "--help"]).exit_code == 0, command
        help_text = CliRunner().invoke(cli, ["run", "--help"]).output
        for flag in re.findall(r"`(--[a-z-]+)`", text):
            assert flag in help_text
