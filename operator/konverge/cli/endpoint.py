"""The debug endpoint of a running operator, as the commands that look into it ask it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

import click

from konverge.cli.config import PREFIX
from konverge.errors import ConfigError, KonvergeError
from konverge.host.endpoints import parse_address

DEFAULT_ADDRESS: Final = "127.0.0.1:8082"
TIMEOUT: Final = 10.0

F = TypeVar("F", bound=Callable[..., Any])


class EndpointUnreachable(KonvergeError):
    """Nothing answers there, or not to us; the message says what to do."""


class NotThere(KonvergeError):
    """The operator answered that it knows no such thing."""


@dataclass(frozen=True, slots=True)
class DebugEndpoint:
    """`/debug` at `debug_address`. With a token file its content goes with every request."""

    debug_address: str
    debug_token_file: Path | None = None

    def json(self, path: str) -> Any:
        """The answer to `/debug/` + `path`. Raises: EndpointUnreachable; NotThere; ConfigError."""
        return json.loads(self.text(path))

    def text(self, path: str) -> str:
        """The same as text."""
        request = Request(f"{self._base()}/debug/{path}")  # noqa: S310 - the scheme is ours
        if self.debug_token_file is not None:
            request.add_header("Authorization", f"Bearer {_read(self.debug_token_file)}")
        try:
            # No proxy of the environment: it is this machine that is asked, or one that a person named.
            with build_opener(ProxyHandler({})).open(request, timeout=TIMEOUT) as answer:
                return str(answer.read().decode())
        except HTTPError as error:
            said = error.read().decode(errors="replace").strip()
            if error.code == 404 and said and not said.startswith("404"):
                raise NotThere(said) from error
            raise EndpointUnreachable(f"the operator at {self.debug_address} answered {error.code}: {said}") from error
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise EndpointUnreachable(
                f"no debug endpoint answers at {self.debug_address} ({reason}); start the operator with"
                f" `konverge run --debug-address {self.debug_address}`, or say where it is with --debug-address"
                " (for a pod: kubectl port-forward)"
            ) from error

    def _base(self) -> str:
        if self.debug_address.startswith(("http://", "https://")):
            return self.debug_address.rstrip("/")
        parsed = parse_address("debug", self.debug_address)
        if parsed is None:
            raise ConfigError("the debug address is 0, which turns the endpoint off; say where it is: --debug-address")
        host = parsed.host or "127.0.0.1"
        return f"http://{f'[{host}]' if ':' in host else host}:{parsed.port}"


def endpoint_options(command: F) -> F:
    """The options that say where the debug endpoint is."""
    for option in (
        click.option(
            "--debug-token-file",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar=f"{PREFIX}_DEBUG_TOKEN_FILE",
            help="The token that the operator asks for.",
        ),
        click.option(
            "--debug-address",
            default=DEFAULT_ADDRESS,
            show_default=True,
            envvar=f"{PREFIX}_DEBUG_ADDRESS",
            help="Where the operator serves /debug (its own --debug-address).",
        ),
    ):
        command = option(command)
    return command


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise ConfigError(f"debug token file {path}: {error.strerror or error}") from error
