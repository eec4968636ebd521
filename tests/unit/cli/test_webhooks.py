"""`konverge webhooks`: configurations from a user's file, and the committed ones."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from konverge.app import App
from konverge.cli.run import run as run_command
from konverge.cli.run import settings_of
from konverge.cli.webhooks import webhooks
from konverge.controllers.database.reconciler import DatabaseReconciler
from konverge.errors import ConfigError
from konverge.host.modules import LoadedModules

COMMITTED = Path(__file__).parents[3] / "config" / "webhook" / "manifests.yaml"
OPERATOR = """
from konverge import CustomResource, Reconciler, Spec, Status


class Hooked(CustomResource[Spec, Status], group="demo.example.dev", version="v1"):
    def default(self, request): ...


class HookedReconciler(Reconciler[Hooked]):
    async def reconcile(self, obj, ctx, /): ...
"""


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "hooked.py"
    path.write_text(OPERATOR)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield path
    sys.modules.pop("hooked", None)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(webhooks, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_users_hooks_become_configurations(operator: Path) -> None:
    printed = run(str(operator), "--name", "mine", "--namespace", "here", "--service", "front")
    (manifest,) = yaml.safe_load_all(printed)
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("MutatingWebhookConfiguration", "mine")
    assert manifest["webhooks"][0]["clientConfig"]["service"]["namespace"] == "here"
    assert manifest["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "here/front"}


def test_the_committed_file_is_what_the_models_declare() -> None:
    run("--output", str(COMMITTED), "--check")


def test_a_file_that_is_not_up_to_date_is_an_error_that_says_what_to_do(operator: Path, tmp_path: Path) -> None:
    target = tmp_path / "manifests.yaml"
    with pytest.raises(ConfigError, match="run the same without --check"):
        run(str(operator), "--output", str(target), "--check")
    run(str(operator), "--output", str(target))
    run(str(operator), "--output", str(target), "--check")


def test_an_operator_without_hooks_is_told_how_to_have_one(operator: Path) -> None:
    operator.write_text(OPERATOR.replace("def default(self, request): ...", "pass"))
    with pytest.raises(ConfigError, match="define validate, validate_delete or default"):
        run(str(operator))


def test_serving_webhooks_needs_a_certificate() -> None:
    options = run_command.make_context("run", ["--webhook-address", ":9443"]).params
    app = App(settings_of(options), [DatabaseReconciler], LoadedModules())
    with pytest.raises(ConfigError, match="--webhook-cert-dir"):
        app.run()
