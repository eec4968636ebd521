"""The process as a whole: started as a process of its own, against a tiny API server."""

import asyncio
import signal
from pathlib import Path

import aiohttp
import pytest

from tests.certificates import pair, write
from tests.unit.host.conftest import StartHost
from tests.unit.host.running import TinyApi, eventually, free_port, get

KOPF_MODULE = """
import kopf

@kopf.on.startup()
async def begin(**_):
    print("user start-up", flush=True)

@kopf.on.event("v1", "configmaps")
async def seen(name, namespace, **_):
    print(f"seen {namespace}/{name}", flush=True)

@kopf.on.cleanup()
async def end(**_):
    print("user clean-up", flush=True)
"""


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_the_manager_in_order_and_the_exit_code_is_0(
    start_host: StartHost, number: signal.Signals, loop: str
) -> None:
    host = await start_host("orderly", loop=loop)
    await host.until(f"manager started on {loop}")
    host.send(number)
    assert await host.exit_code() == 0, host.output
    assert f"{number.name} received" in host.output
    assert host.before("manager stopping", "worker finished")
    assert host.before("worker finished", "manager stopped")
    assert "worker cancelled" not in host.output


async def test_a_signal_before_the_manager_is_built_is_an_ordered_stop_too(start_host: StartHost) -> None:
    host = await start_host("slow to build")
    await host.until("building")
    await host.until("authentication has finished")
    host.send(signal.SIGTERM)
    assert await host.exit_code() == 0, host.output
    assert "manager started" not in host.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_second_signal_ends_the_process_at_once(start_host: StartHost, number: signal.Signals) -> None:
    host = await start_host("stubborn")
    await host.until("manager ignores the stop")
    host.send(number)
    await host.until(f"stopping: {number.name} received")
    host.send(number)
    assert await host.exit_code() == 128 + number, host.output
    assert f"{number.name} received again: exiting at once" in host.output


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
async def test_two_signals_end_the_process_even_while_its_event_loop_is_blocked(
    start_host: StartHost, loop: str
) -> None:
    host = await start_host("blocking", loop=loop)
    await host.until("manager started")
    host.send(signal.SIGTERM)
    host.send(signal.SIGINT)  # of another kind: two pending signals of one kind are one
    assert await host.exit_code() in {128 + signal.SIGTERM, 128 + signal.SIGINT}, host.output


async def test_a_manager_that_does_not_stop_within_the_budget_is_cancelled_and_the_exit_code_is_1(
    start_host: StartHost,
) -> None:
    host = await start_host("stubborn", budget=0.1)
    await host.until("manager ignores the stop")
    host.send(signal.SIGTERM)
    assert await host.exit_code() == 1, host.output
    assert "the manager did not stop within 0.1 s and is cancelled" in host.output


@pytest.mark.parametrize(
    ("manager", "reason"),
    [
        ("failing", "the manager failed: LeaseLost: another replica leads"),
        ("leaving", "the manager ended without being asked to stop"),
    ],
)
async def test_a_manager_that_ends_by_itself_stops_the_process_with_1_and_the_reason(
    start_host: StartHost, manager: str, reason: str
) -> None:
    host = await start_host(manager)
    assert await host.exit_code() == 1
    assert reason in host.output


@pytest.mark.parametrize(
    ("login", "reason"),
    [
        ("impossible", "no kubeconfig; set KUBECONFIG"),
        ("unreachable", "cannot connect to https://cluster.example: refused"),
    ],
)
async def test_a_first_login_that_fails_ends_the_process_with_one_sentence_before_kopf_starts(
    start_host: StartHost, login: str, reason: str
) -> None:
    host = await start_host("orderly", login=login)
    assert await host.exit_code() == 1
    said = host.lines[host.lines.index("login 1") + 1 :]
    assert len(said) == 2, host.output
    assert said[0].endswith(f"ERROR   konverge.host.process {reason}")
    assert said[1] == "served 1"


async def test_the_first_login_is_the_one_that_kopf_gets(start_host: StartHost) -> None:
    host = await start_host("orderly")
    await host.until("manager started")
    await host.until("authentication has finished")
    host.send(signal.SIGTERM)
    assert await host.exit_code() == 0
    assert host.output.count("login ") == 1


async def test_a_process_that_waits_for_its_login_is_alive_and_stops_at_once(start_host: StartHost) -> None:
    probe = free_port()
    host = await start_host("orderly", login="hanging", probe=f"127.0.0.1:{probe}")
    await host.until("login 1")
    assert (await get(f"http://127.0.0.1:{probe}/healthz"))[0] == 200
    assert (await get(f"http://127.0.0.1:{probe}/readyz"))[0] == 503
    host.send(signal.SIGTERM)
    assert await host.exit_code() == 0, host.output
    assert "manager started" not in host.output


async def test_the_manager_stops_in_order_when_kopf_is_the_one_that_fails(start_host: StartHost, api: TinyApi) -> None:
    api.revoked.add("token-1")
    host = await start_host("orderly", login="lost")
    assert await host.exit_code() == 1
    assert "cannot log in: the kubeconfig is gone" in host.output
    assert host.before("kopf stopped without being asked to", "worker finished")
    assert host.before("worker finished", "manager stopped")


async def test_kopf_handlers_of_a_user_run_between_their_start_up_and_clean_up_around_the_manager(
    start_host: StartHost, api: TinyApi, tmp_path: Path
) -> None:
    module = tmp_path / "handlers.py"
    module.write_text(KOPF_MODULE)
    host = await start_host("orderly", modules=[str(module)])
    await host.until("seen default/settings")
    await host.until("manager started")
    host.send(signal.SIGTERM)
    assert await host.exit_code() == 0, host.output
    assert host.before("user start-up", "manager started")
    assert host.before("manager stopped", "user clean-up")


async def test_a_users_start_up_that_fails_keeps_the_manager_from_starting(
    start_host: StartHost, tmp_path: Path
) -> None:
    module = tmp_path / "start.py"
    module.write_text("import kopf\n@kopf.on.startup()\ndef bad(**_):\n    raise kopf.PermanentError('no licence')\n")
    host = await start_host("orderly", modules=[str(module)])
    assert await host.exit_code() == 1
    assert "no licence" in host.output
    assert "kopf failed: ActivityError" in host.output
    assert "manager started" not in host.output


@pytest.mark.parametrize("namespaces", [[], ["default"]])
async def test_without_kopf_handlers_kopf_reads_only_the_api_discovery(
    start_host: StartHost, api: TinyApi, namespaces: list[str]
) -> None:
    probe = free_port()
    host = await start_host("orderly", probe=f"127.0.0.1:{probe}", namespaces=namespaces)
    await host.until("manager started")
    await eventually(f"http://127.0.0.1:{probe}/healthz", lambda status, _: status == 200 and "/api/v1" in api.paths)
    host.send(signal.SIGTERM)
    assert await host.exit_code() == 0, host.output
    assert set(api.paths) == {"/api", "/apis", "/api/v1"}


async def test_a_refused_token_makes_kopf_log_in_again(start_host: StartHost, api: TinyApi, tmp_path: Path) -> None:
    module = tmp_path / "handlers.py"
    module.write_text(KOPF_MODULE)
    api.revoked.add("token-1")
    host = await start_host("orderly", modules=[str(module)])
    await host.until("login 1")
    await host.until("login 2")
    await host.until("seen default/settings")


async def test_both_endpoints_answer_while_the_manager_runs(start_host: StartHost) -> None:
    probe, metrics = free_port(), free_port()
    host = await start_host("orderly", probe=f"127.0.0.1:{probe}", metrics=f"127.0.0.1:{metrics}")
    assert host.process.returncode is None
    assert await eventually(f"http://127.0.0.1:{probe}/readyz", lambda status, _: status == 200) == "ok"
    await eventually(f"http://127.0.0.1:{probe}/healthz", lambda status, _: status == 200)
    assert await get(f"http://127.0.0.1:{probe}/healthz?verbose") == (
        200,
        "[+]manager ok\n[+]kopf ok\nhealthz check passed\n",
    )
    assert await get(f"http://127.0.0.1:{metrics}/metrics") == (200, "answer 42\n")


async def test_a_failed_check_is_named_by_the_probe_it_belongs_to(start_host: StartHost) -> None:
    probe = free_port()
    await start_host(
        "orderly",
        probe=f"127.0.0.1:{probe}",
        readiness={"widgets": "not listed yet"},
        liveness={"queue": "stuck for 90 s"},
    )
    url = f"http://127.0.0.1:{probe}"
    ready = await eventually(f"{url}/readyz", lambda _, body: "[+]manager ok" in body)
    assert ready == "[+]manager ok\n[-]widgets failed: not listed yet\nreadyz check failed\n"
    alive = await eventually(f"{url}/healthz", lambda _, body: "HTTP 500" in body)
    assert "[-]queue failed: stuck for 90 s" in alive
    assert (await get(f"{url}/healthz"))[0] == 503


async def test_a_failing_kopf_probe_of_a_user_makes_the_liveness_fail(start_host: StartHost, tmp_path: Path) -> None:
    module = tmp_path / "probes.py"
    module.write_text("import kopf\n@kopf.on.probe()\ndef broken(**_):\n    raise kopf.PermanentError('broken pipe')\n")
    probe = free_port()
    host = await start_host("orderly", probe=f"127.0.0.1:{probe}", modules=[str(module)])
    body = await eventually(f"http://127.0.0.1:{probe}/healthz", lambda _, body: "HTTP 500" in body)
    assert "[-]kopf failed: a probe failed (HTTP 500)" in body
    await host.until("broken pipe")


async def test_the_liveness_fails_once_the_manager_has_died(start_host: StartHost, tmp_path: Path) -> None:
    module, release = tmp_path / "slow_end.py", tmp_path / "release"
    module.write_text(
        "import asyncio, pathlib, kopf\n@kopf.on.cleanup()\nasync def wait(**_):\n"
        f"    while not pathlib.Path({str(release)!r}).exists():\n        await asyncio.sleep(0.02)\n"
    )
    probe = free_port()
    host = await start_host("failing", probe=f"127.0.0.1:{probe}", modules=[str(module)])
    await host.until("the manager failed")
    status, body = await get(f"http://127.0.0.1:{probe}/healthz")
    assert (status, "[-]manager failed: the manager failed: LeaseLost" in body) == (503, True)
    release.touch()
    assert await host.exit_code() == 1


async def test_an_address_in_use_is_a_failure_that_says_so(start_host: StartHost, api: TinyApi) -> None:
    host = await start_host("orderly", metrics=f"127.0.0.1:{api.port}")
    assert await host.exit_code() == 1
    assert f"cannot listen on metrics address 127.0.0.1:{api.port}" in host.output
    assert "manager started" not in host.output


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
async def test_a_hangup_asks_for_a_reload_and_does_not_end_the_process(start_host: StartHost, loop: str) -> None:
    host = await start_host("orderly", loop=loop, hangup=True)
    await host.until("manager started")
    host.send(signal.SIGHUP)
    await host.until("reloading")
    host.send(signal.SIGTERM)
    assert await host.exit_code() == 0, host.output


async def test_a_hangup_ends_a_process_that_has_nothing_to_reload(start_host: StartHost) -> None:
    host = await start_host("orderly")
    await host.until("manager started")
    host.send(signal.SIGHUP)
    assert await host.exit_code() == -signal.SIGHUP


async def test_usr1_opens_the_log_file_anew(start_host: StartHost, tmp_path: Path) -> None:
    log = tmp_path / "log"
    host = await start_host("orderly", log=str(log))
    await host.until("manager started")
    log.rename(tmp_path / "log.1")
    host.send(signal.SIGUSR1)
    while not log.exists() or "reopened the log file" not in log.read_text():  # noqa: ASYNC110 - another process's
        await asyncio.sleep(0.01)
    host.send(signal.SIGTERM)
    assert await host.exit_code() == 0
    assert "the manager has stopped" in log.read_text()


async def test_a_watched_file_is_looked_at_while_the_process_runs(start_host: StartHost, tmp_path: Path) -> None:
    watched = tmp_path / "config"
    host = await start_host("orderly", watched=[str(watched)])
    await host.until("manager started")
    watched.write_text("new")
    await host.until("changed")
    host.send(signal.SIGTERM)
    assert await host.exit_code() == 0, host.output


async def test_with_an_election_the_handlers_wait_for_the_manager_to_run_them(
    start_host: StartHost, api: TinyApi, tmp_path: Path
) -> None:
    module = tmp_path / "handlers.py"
    module.write_text(KOPF_MODULE)
    standby = await start_host("standby", modules=[str(module)])
    leader = await start_host("leading", modules=[str(module)])
    await standby.until("user start-up")
    await leader.until("seen default/settings")
    leader.send(signal.SIGTERM)
    standby.send(signal.SIGTERM)
    assert await leader.exit_code() == await standby.exit_code() == 0, leader.output + standby.output
    assert "seen" not in standby.output
    assert leader.output.count("user start-up") == leader.output.count("user clean-up") == 1
    assert leader.before("user start-up", "seen default/settings")
    assert leader.before("the kopf handlers have ended", "lease released")
    assert leader.before("lease released", "user clean-up")


async def test_metrics_are_served_over_tls_where_there_is_a_certificate(start_host: StartHost, tmp_path: Path) -> None:
    write(tmp_path, *pair("operator"))
    port = free_port()
    host = await start_host("orderly", metrics=f"127.0.0.1:{port}", certificates=str(tmp_path))
    await host.until("serving metrics on 127.0.0.1:" + f"{port} with TLS")
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://127.0.0.1:{port}/metrics", ssl=False) as response,
    ):
        assert await response.text() == "answer 42\n"


async def test_a_certificate_that_is_not_there_is_a_failure_that_says_so(start_host: StartHost, tmp_path: Path) -> None:
    host = await start_host("orderly", certificates=str(tmp_path / "nowhere"))
    assert await host.exit_code() == 1
    assert "it must hold tls.crt and tls.key" in host.output
