"""Where the settings of `konverge run` come from: flags, environment, file, defaults, in this order."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from konverge.app import Settings
from konverge.cli.config import ConfiguredCommand
from konverge.cli.run import run, settings_of
from konverge.errors import ConfigError
from konverge.runtime.limits import RetryLimits

Parse = Callable[..., Settings]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "konverge.yaml"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOG_LEVEL", "CONFIG", "NAMESPACES", "LEASE_NAME", "LEADER_ELECT"):
        monkeypatch.delenv(f"KONVERGE_{name}", raising=False)


def parsed(*arguments: str) -> click.Context:
    return run.make_context("run", list(arguments))


def settings(*arguments: str) -> Settings:
    return settings_of(parsed(*arguments).params)


def test_without_anything_the_settings_are_their_defaults() -> None:
    assert settings() == Settings()


def test_a_flag_goes_before_the_environment_and_that_before_the_file(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text("log-level: error\nlease-name: from-file\nretry-burst: 7\n")
    monkeypatch.setenv("KONVERGE_LOG_LEVEL", "warning")
    monkeypatch.setenv("KONVERGE_LEASE_NAME", "from-environment")
    found = settings("--config", str(config), "--log-level", "debug")
    assert found.logs.level == "debug"
    assert found.lease_name == "from-environment"
    assert found.retries == RetryLimits(burst=7)


def test_every_option_has_a_variable_and_a_key(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text(
        "namespace: [a, b]\nleader-elect: true\ndebug-address: 0\nmetrics-cert-dir: /certs\nworkers: 3\n"
        "resync: 60\nwatch-list: false\n"
    )
    monkeypatch.setenv("KONVERGE_CONFIG", str(config))
    found = settings()
    assert (found.namespaces, found.leader_elect, found.debug_address) == (("a", "b"), True, "0")
    assert (found.metrics_cert_dir, found.workers) == (Path("/certs"), 3)
    assert (found.resync, found.watch_list) == (60, False)
    monkeypatch.setenv("KONVERGE_NAMESPACES", "c d")
    monkeypatch.setenv("KONVERGE_LEADER_ELECT", "false")
    found = settings()
    assert (found.namespaces, found.leader_elect) == (("c", "d"), False)


def test_modules_may_stand_in_the_file(config: Path) -> None:
    config.write_text("modules: [one.py, two.py]\n")
    assert parsed("--config", str(config)).params["modules"] == ("one.py", "two.py")
    assert parsed("--config", str(config), "three.py").params["modules"] == ("three.py",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("log-levle: debug\n", "unknown key 'log-levle'; did you mean 'log-level'?"),
        ("logLevel: debug\n", "unknown key 'logLevel'; did you mean 'log-level'?"),
        ("log_level: debug\n", "unknown key 'log_level'; did you mean 'log-level'?"),
        ("xyzzy: 1\n", "unknown key 'xyzzy'; known: context, "),
        ("log-level: loud\n", "'loud' is not one of 'debug', 'info', 'warning', 'error'"),
        ("sync-timeout: soon\n", "'soon' is not a valid float"),
        ("workers: 0\n", "0 is not in the range x>=1"),
        ("namespace: team\n", "namespace must be a list, not 'team'"),
        ("lease-name: [a]\n", "lease-name must be one value, not ['a']"),
        ("lease-name:\n", "lease-name must be one value, not None"),
        ("- log-level\n", "must hold `key: value` lines, not a list"),
        ("log-level: [\n", "is not YAML: "),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_what_to_change(content: str, said: str, config: Path) -> None:
    config.write_text(content)
    result = CliRunner().invoke(run, ["--config", str(config)])
    assert result.exit_code != 0
    assert said in " ".join(result.output.split())


def test_a_file_that_is_not_there_is_refused(config: Path) -> None:
    result = CliRunner().invoke(run, ["--config", str(config)])
    assert "No such file or directory" in result.output


def test_an_empty_file_changes_nothing(config: Path) -> None:
    config.write_text("# nothing yet\n")
    assert settings("--config", str(config)) == Settings()


def test_parsing_anew_reads_the_file_again_under_the_same_flags_and_environment(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text("log-level: error\nlog-format: json\nlease-name: one\n")
    monkeypatch.setenv("KONVERGE_LEASE_NAME", "fixed")
    ctx = parsed("--config", str(config), "--log-format", "text")
    config.write_text("log-level: debug\nlog-format: json\nlease-name: two\nretry-rate: 3\n")
    command = ctx.command
    assert isinstance(command, ConfiguredCommand)
    found = settings_of(command.reparse(ctx))
    assert (found.logs.level, found.logs.format, found.lease_name) == ("debug", "text", "fixed")
    assert found.retries.rate == 3
    config.write_text("log-level: loud\n")
    with pytest.raises(ConfigError, match="'loud' is not one of"):
        command.reparse(ctx)
    config.write_text("retry-min-delay: 5\nretry-max-delay: 1\n")
    with pytest.raises(ConfigError, match="retry-min-delay must be above 0 and at most retry-max-delay"):
        settings_of(command.reparse(ctx))


def test_run_hands_its_settings_to_the_app(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class App:
        def __init__(self, settings: Settings, reconcilers: Any, loaded: Any, **reloading: Any) -> None:
            made.extend((settings, reloading))

        def run(self) -> int:
            return 7

    module = tmp_path / "handlers.py"
    module.write_text("import kopf\n")
    config.write_text("log-level: error\n")
    monkeypatch.setattr(sys.modules[run.callback.__module__], "App", App)
    result = CliRunner().invoke(run, ["--config", str(config), str(module)])
    assert result.exit_code == 7
    given, reloading = made
    assert given.logs.level == "error"
    assert reloading["config"] == config
    config.write_text("log-level: debug\n")
    assert reloading["reread"]().logs.level == "debug"
