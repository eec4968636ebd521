"""Log lines as text and as JSON, of Konverge's loggers and of kopf's."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import kopf
import pytest

from konverge.errors import ConfigError
from konverge.host.logs import LogOptions, configure_logging, reopen_log

CONTEXT = {"reconcileID": "f00d", "controller": "database", "object": "team/orders", "replicas": 3}


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    """A stream to log to; afterwards logging is as it was."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    levels = {
        name: logging.getLogger(name).level
        for name in ("", "urllib3", "kubernetes", "kopf.activities.probe", "aiohttp.access")
    }
    yield io.StringIO()
    root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def divide(a: int, b: int) -> float:
    return a / b


def lines(out: io.StringIO) -> list[str]:
    return out.getvalue().splitlines()


def test_text_has_time_level_logger_message_and_the_context_in_order(out: io.StringIO) -> None:
    configure_logging(LogOptions(), out)
    logging.getLogger("konverge.runtime").info("applied %s", "it", extra=CONTEXT | {"why": 'a "b" c', "empty": ""})
    timestamp, rest = out.getvalue().split(" ", 1)
    assert timestamp.endswith("Z")
    assert rest == (
        "INFO    konverge.runtime applied it controller=database object=team/orders reconcileID=f00d replicas=3"
        ' why="a \\"b\\" c" empty=""\n'
    )


def test_a_value_cannot_forge_a_line(out: io.StringIO) -> None:
    configure_logging(LogOptions(), out)
    logging.getLogger("konverge").info("seen", extra={"object": "a\nERROR b"})
    assert len(lines(out)) == 1


def test_text_has_the_traceback_below(out: io.StringIO) -> None:
    configure_logging(LogOptions(), out)
    try:
        divide(1, 0)
    except ZeroDivisionError:
        logging.getLogger("konverge").exception("failed", extra={"object": "a"})
    first, second, *_, last = lines(out)
    assert first.endswith("failed object=a")
    assert second.startswith("Traceback")
    assert last == "ZeroDivisionError: division by zero"


def test_json_has_one_object_a_line_with_the_context_and_the_exception(out: io.StringIO) -> None:
    configure_logging(LogOptions(format="json"), out)
    try:
        divide(1, 0)
    except ZeroDivisionError:
        logging.getLogger("konverge.runtime").exception("failed", extra=CONTEXT)
    (line,) = lines(out)
    record = json.loads(line)
    assert record.pop("timestamp").endswith("Z")
    assert record.pop("exception").endswith("ZeroDivisionError: division by zero")
    assert record == CONTEXT | {"level": "error", "logger": "konverge.runtime", "message": "failed"}


def test_kopfs_object_reference_becomes_the_object(out: io.StringIO) -> None:
    configure_logging(LogOptions(format="json"), out)
    reference = {"kind": "ConfigMap", "namespace": "team", "name": "orders", "uid": "1", "apiVersion": "v1"}
    extra = {"k8s_ref": reference, "k8s_skip": True, "settings": kopf.OperatorSettings()}
    logging.getLogger("kopf.objects").warning("Handler 'seen' failed", extra=extra)
    record = json.loads(out.getvalue())
    assert {key: value for key, value in record.items() if key != "timestamp"} == {
        "level": "warning",
        "logger": "kopf.objects",
        "message": "Handler 'seen' failed",
        "object": "team/orders",
        "kind": "ConfigMap",
    }


def test_the_level_filters_and_requests_with_secrets_stay_out_even_at_debug(out: io.StringIO) -> None:
    configure_logging(LogOptions(level="debug"), out)
    logging.getLogger("konverge").debug("shown")
    logging.getLogger("kubernetes.client.rest").debug("response body: hidden")
    configure_logging(LogOptions(level="warning"), out)
    logging.getLogger("konverge").info("hidden")
    assert [line.split()[-1] for line in lines(out)] == ["shown"]


def test_a_probe_that_succeeded_is_news_at_debug_only_but_one_that_failed_always(out: io.StringIO) -> None:
    probes = logging.getLogger("kopf.activities.probe")
    for level in ("info", "debug"):
        configure_logging(LogOptions(level=level), out)
        probes.info("succeeded at %s", level)
        probes.error("failed at %s", level)
    assert [line.partition("probe ")[2] for line in lines(out)] == [
        "failed at info",
        "succeeded at debug",
        "failed at debug",
    ]


def test_configuring_again_replaces_our_handler_and_no_other(out: io.StringIO) -> None:
    other = logging.NullHandler()
    logging.getLogger().addHandler(other)
    configure_logging(LogOptions(), io.StringIO())
    configure_logging(LogOptions(), out)
    logging.getLogger("konverge").info("once")
    assert len(lines(out)) == 1
    assert other in logging.getLogger().handlers


@pytest.mark.parametrize(("level", "form"), [("loud", "text"), ("info", "xml")])
def test_an_unknown_level_or_format_is_refused_with_the_known_ones(level: str, form: str) -> None:
    with pytest.raises(ConfigError, match=r"is unknown; use (one of debug, info, warning, error|text or json)"):
        configure_logging(LogOptions(level=level, format=form))  # type: ignore[arg-type]


def test_a_log_file_that_was_moved_away_is_opened_anew(out: io.StringIO, tmp_path: Path) -> None:
    log, moved = tmp_path / "log", tmp_path / "log.1"
    configure_logging(LogOptions(file=str(log)))
    logging.getLogger("konverge").info("first")
    log.rename(moved)
    logging.getLogger("konverge").info("second")
    reopen_log()
    logging.getLogger("konverge").info("third")
    assert [line.split()[-1] for line in moved.read_text().splitlines()] == ["first", "second"]
    assert log.read_text().splitlines()[-1].endswith(" third")
    configure_logging(LogOptions(), out)  # closes the file


def test_where_the_file_cannot_be_opened_anew_the_old_one_goes_on(out: io.StringIO, tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    directory.mkdir()
    configure_logging(LogOptions(file=str(directory / "log")))
    directory.rename(tmp_path / "elsewhere")
    reopen_log()
    logging.getLogger("konverge").info("still here")
    kept = (tmp_path / "elsewhere" / "log").read_text()
    assert "cannot reopen the log file, going on in the old one" in kept
    assert "still here" in kept
    configure_logging(LogOptions(), out)


def test_without_a_log_file_there_is_nothing_to_open_anew(out: io.StringIO) -> None:
    configure_logging(LogOptions(), out)
    reopen_log()
    assert lines(out) == []


def test_a_log_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere/log: No such file or directory; name a file in a directory that"):
        configure_logging(LogOptions(file=str(tmp_path / "nowhere" / "log")))
