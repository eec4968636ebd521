"""A configuration file for a command: YAML flows in, values for its options flow out.

Flags go before environment variables, these before the file, and that before the defaults. The file's keys are the long
flags without their dashes (`log-level: debug`), and `modules`, a list, for the arguments. The command can be parsed anew
later, with the same flags and environment, when the file has changed.
"""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from konverge.errors import ConfigError

PREFIX = "KONVERGE"


class ConfiguredCommand(click.Command):
    """A command whose options also come from `KONVERGE_...` variables and from the file of `--config`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options["context_settings"] = {"auto_envvar_prefix": PREFIX, **(options.get("context_settings") or {})}
        super().__init__(*args, **options)
        self.params.insert(0, _config_option())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj = list(args)
        return super().parse_args(ctx, args)

    def reparse(self, ctx: click.Context) -> Mapping[str, Any]:
        """The parameters as they are with the file's content of now. Raises: ConfigError."""
        try:
            with self.make_context(ctx.info_name, list(ctx.obj), parent=ctx.parent) as again:
                return again.params
        except click.ClickException as error:
            raise ConfigError(error.format_message()) from error


def load(path: Path, known: Mapping[str, click.Parameter]) -> dict[str, Any]:
    """The values in the file, by parameter name; `known` maps the file's keys to the parameters.

    Raises: ConfigError for a file that cannot be read or is no mapping, for unknown keys, with the nearest known one,
    and for a value in place of a list or the other way round.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold `key: value` lines, not a {type(content).__name__}")
    unknown = [_unknown(str(key), list(known)) for key in content if key not in known]
    if unknown:
        raise ConfigError(f"{path}: {'; '.join(unknown)}")
    return {str(known[key].name): _value(path, key, value, known[key]) for key, value in content.items()}


def _value(path: Path, key: str, value: Any, param: click.Parameter) -> Any:
    several = getattr(param, "multiple", False) or param.nargs == -1
    if several != isinstance(value, list) or isinstance(value, dict) or value is None:
        raise ConfigError(f"{path}: {key} must be {'a list' if several else 'one value'}, not {value!r}")
    return value


def _unknown(key: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(key.lower().replace("_", "-"), known, n=1)
    return f"unknown key {key!r}; " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}")


def _config_option() -> click.Option:
    return click.Option(
        ["--config"],
        type=click.Path(path_type=Path, dir_okay=False),
        is_eager=True,
        callback=_read,
        show_envvar=True,
        help="A YAML file whose keys are the flags below without their dashes. It is read again when it changes and on"
        " SIGHUP; what takes effect without a restart: log-level, log-format, log-file, retry-*.",
    )


def _read(ctx: click.Context, _: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and not ctx.resilient_parsing:
        try:
            ctx.default_map = load(path, _keys(ctx.command))
        except ConfigError as error:
            raise click.ClickException(str(error)) from error
    return path


def _keys(command: click.Command) -> dict[str, click.Parameter]:
    keys: dict[str, click.Parameter] = {}
    for param in command.params:
        if param.name != "config":
            long = [option.lstrip("-") for option in param.opts if option.startswith("--")]
            keys[long[0] if long else str(param.name)] = param
    return keys
