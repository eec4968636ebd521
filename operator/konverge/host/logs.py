"""Logging of the process: options in, one handler on the root logger out.

Konverge's, kopf's and the user's own loggers all end in that one handler, as text for a person or as JSON for a
collector. The context that a logger carries (`controller`, `object`, `reconcileID`, any `extra`) is kept as fields.
Handlers and loggers of others stay as they are; configuring again replaces only what was configured here.
"""

import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from pythonjsonlogger.json import JsonFormatter

from konverge.errors import ConfigError

logger = logging.getLogger(__name__)

_HANDLER = "konverge"
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# At DEBUG these write whole requests and answers, Secrets included.
_TOO_TALKATIVE = ("kubernetes", "urllib3")
# At INFO they write each probe that succeeded, and each webhook request.
_ROUTINE = ("kopf.activities.probe", "aiohttp.access")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_KOPFS = frozenset({"k8s_ref", "k8s_skip", "settings"})
_FIRST = ("controller", "object", "reconcileID")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """`level` is debug, info, warning or error; `format` is text or json; `file` None is stderr."""

    level: str = "info"
    format: Literal["text", "json"] = "text"
    file: str | None = None


def configure_logging(options: LogOptions, stream: TextIO | None = None) -> None:
    """Send every log record of the process to the file, or to `stream` (default: stderr), in the wanted format.

    Raises: ConfigError for an unknown level or format, or a file that cannot be written.
    """
    level = _LEVELS.get(options.level.lower())
    if level is None:
        raise ConfigError(f"log level {options.level!r} is unknown; use one of {', '.join(_LEVELS)}")
    if options.format not in {"text", "json"}:
        raise ConfigError(f"log format {options.format!r} is unknown; use text or json")
    handler = _handler(options, stream)
    handler.set_name(_HANDLER)
    handler.setFormatter(JsonLines() if options.format == "json" else TextLines())
    root = logging.getLogger()
    for old in [each for each in root.handlers if each.get_name() == _HANDLER]:
        root.removeHandler(old)
        if isinstance(old, logging.FileHandler):
            old.close()
    root.addHandler(handler)
    root.setLevel(level)
    for name in _TOO_TALKATIVE:
        logging.getLogger(name).setLevel(max(level, logging.INFO))
    for name in _ROUTINE:
        logging.getLogger(name).setLevel(logging.WARNING if level == logging.INFO else level)


def reopen_log() -> None:
    """Open the log file anew by its name: whoever rotates logs has moved the old one away. Without a file, do nothing."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, _LogFile):
            handler.reopen()


class _LogFile(logging.FileHandler):
    """A log file that can be moved away."""

    def reopen(self) -> None:
        self.acquire()
        try:
            try:
                stream = self._open()
            except OSError as error:
                logger.error("cannot reopen the log file, going on in the old one: %s", error)  # noqa: TRY400 - enough said
                return
            before = self.setStream(stream)
            if before is not None:
                before.close()
        finally:
            self.release()
        logger.info("reopened the log file")


def _handler(options: LogOptions, stream: TextIO | None) -> logging.Handler:
    if options.file is None:
        return logging.StreamHandler(sys.stderr if stream is None else stream)
    try:
        return _LogFile(options.file, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"log file {options.file}: {error.strerror or error}; name a file in a directory that exists and may be written"
        ) from error


class TextLines(logging.Formatter):
    """`2026-01-31T12:00:00.123Z INFO    konverge.host message key=value`, and a traceback below where there is one."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        pairs = "".join(f" {key}={_quoted(value)}" for key, value in context_of(record).items())
        return f"{_timestamp(record)} {record.levelname:<7} {record.name} {record.message}{pairs}"


class JsonLines(JsonFormatter):
    """One JSON object a line: timestamp, level, logger, message, the context, and exception where there is one."""

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        log_data.update(
            timestamp=_timestamp(record), level=record.levelname.lower(), logger=record.name, message=record.message
        )
        log_data.update(context_of(record))
        fields = dict(message_dict)
        if exception := fields.pop("exc_info", None):
            log_data["exception"] = exception
        log_data.update(fields)


def context_of(record: logging.LogRecord) -> Mapping[str, Any]:
    """The fields that a record carries beside its message: who reconciles what comes first, then the rest as given.

    kopf's reference to an object becomes `kind` and `object` (`namespace/name`).
    """
    skipped = _STANDARD
    fields: dict[str, Any] = {}
    reference = getattr(record, "k8s_ref", None)
    if isinstance(reference, Mapping):
        skipped = _STANDARD | _KOPFS
        fields["object"] = "/".join(filter(None, (reference.get("namespace"), reference.get("name"))))
        fields["kind"] = reference.get("kind")
    fields.update((key, value) for key, value in vars(record).items() if key not in skipped)
    ordered = {key: fields.pop(key) for key in _FIRST if key in fields} | fields
    return {key: value for key, value in ordered.items() if value is not None}


def _timestamp(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _quoted(value: object) -> str:
    """As it is where that is unambiguous, else as a JSON string."""
    text = str(value)
    plain = text and not any(char.isspace() or not char.isprintable() or char in '"=' for char in text)
    return text if plain else json.dumps(text, ensure_ascii=False)
