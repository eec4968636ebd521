"""What the scripts in a Database's pods do to real PostgreSQL servers: one that takes writes, two that follow it."""

import os
import signal
import subprocess

import pytest

from tests.postgres.servers import WITHIN, Pod, Servers

pytestmark = pytest.mark.usefixtures("servers")


def follows(pod: Pod, count: int, password: str = "first") -> bool:
    """Whether a follower shows so many rows."""
    return pod.becomes(lambda: pod.query("select count(*) from notes", password) == str(count))


def write(pod: Pod, note: str, password: str = "first") -> None:
    said = pod.query(f"insert into notes values ('{note}') returning text", password)
    assert said == note, pod.said()


def with_notes(servers: Servers, pods: int) -> list[Pod]:
    """The first `pods` pods, ready, with a table of one row in the primary."""
    started = [pod.up() for pod in servers.pods[:pods]]
    started[0].query("create table notes (text text)")
    write(started[0], "one")
    return started


def test_two_followers_stream_from_the_primary(servers: Servers) -> None:
    primary, *followers = with_notes(servers, 3)

    for follower in followers:
        assert follows(follower, 1)
        assert follower.query("select pg_is_in_recovery()") == "t"
        assert follower.query("insert into notes values ('no')") == ""
    names = primary.query("select string_agg(application_name, ' ' order by 1) from pg_stat_replication")
    assert names == "orders-1 orders-2"


def test_a_killed_follower_comes_back_and_catches_up(servers: Servers) -> None:
    primary, follower = with_notes(servers, 2)
    assert follows(follower, 1)

    follower.kill()
    assert not follower.is_alive()
    write(primary, "two")
    follower.up()

    assert follows(follower, 2)
    assert follower.said().count("copying the data") == 1, "what it had it kept"


def test_a_killed_primary_comes_back_with_its_data_and_is_followed_again(servers: Servers) -> None:
    primary, follower = with_notes(servers, 2)

    primary.kill()
    primary.up()
    write(primary, "two")

    assert follows(follower, 2)


def test_a_lost_primary_is_replaced_by_a_promoted_follower_and_nothing_is_lost(servers: Servers) -> None:
    primary, follower = with_notes(servers, 2)
    assert follows(follower, 1)

    refused = follower.script("promote.sh")
    assert (refused.returncode, "still answers" in refused.stderr) == (1, True)
    primary.kill()
    primary.lose_volume()
    assert follower.is_ready(), "while the primary is away, a follower serves"

    preparing = primary.preparing()
    assert primary.becomes(lambda: "run promote.sh in that pod" in primary.said()), "no empty database is made"
    promoted = follower.script("promote.sh")
    assert promoted.returncode == 0, promoted.stderr
    assert follower.script("promote.sh").returncode == 0, "it may be run again"
    write(follower, "two")
    assert not follower.is_ready(), "no follower any more, it must not pass for one"
    assert preparing.wait(WITHIN) == 0, primary.said()

    primary.start()
    assert primary.becomes(primary.is_ready), primary.said()
    assert primary.query("select count(*) from notes") == "2"
    follower.stop()
    assert "delete its claim and this pod" in follower.script("prepare.sh").stderr
    follower.lose_volume()
    follower.up()
    write(primary, "three")
    assert follows(follower, 3)


def test_a_new_password_is_taken_on_by_all_without_a_restart(servers: Servers) -> None:
    primary, follower = with_notes(servers, 2)
    started = primary.query("select pg_postmaster_start_time()")
    new = 'it\'s \\ new: "$1" `x`'

    servers.set_password(new)

    assert primary.becomes(lambda: primary.accepts(new)), primary.said()
    assert not primary.accepts("first")
    assert primary.query("select pg_postmaster_start_time()", new) == started
    assert follower.becomes(lambda: follower.accepts(new)), "the role is replicated"
    follower.kill()
    follower.up()
    write(primary, "two", new)
    assert follows(follower, 2, new)
    assert new not in primary.said() + follower.said()


def test_a_connection_that_breaks_after_a_rotation_is_made_with_the_new_password(servers: Servers) -> None:
    primary, follower = with_notes(servers, 2)
    servers.set_password("second")
    assert primary.becomes(lambda: primary.accepts("second"))

    primary.query("select pg_terminate_backend(pid) from pg_stat_replication", "second")
    write(primary, "two", "second")

    assert follows(follower, 2, "second")


def test_a_password_that_changed_while_the_pod_was_down_holds_after_its_start(servers: Servers) -> None:
    (primary,) = with_notes(servers, 1)
    assert primary.stop() == 0

    servers.set_password("second")
    primary.up()

    assert primary.becomes(lambda: primary.accepts("second")), primary.said()


def test_no_password_is_shown_where_others_may_look(servers: Servers) -> None:
    canary = "canary-4711"
    servers.set_password(canary)
    primary, follower = (pod.up() for pod in servers.pods[:2])
    assert primary.becomes(lambda: primary.accepts(canary))
    servers.set_password(f"{canary}-new")
    assert primary.becomes(lambda: primary.accepts(f"{canary}-new"))

    commands = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    environments = subprocess.run(["ps", "-eww", "e", "-o", "args"], capture_output=True, text=True, check=True).stdout
    logs = primary.said() + follower.said()
    assert canary not in commands + environments + logs
    shown = primary.query("select current_setting('primary_conninfo')", f"{canary}-new")
    assert (canary in shown, "passfile=" in shown) == (False, True)
    assert (primary.run / "pgpass").stat().st_mode & 0o077 == 0


def test_new_settings_of_a_larger_volume_are_loaded_without_a_restart(servers: Servers) -> None:
    (primary,) = with_notes(servers, 1)
    started = primary.query("select pg_postmaster_start_time()")

    servers.write(primary.configuration / "volume.conf", "wal_keep_size = 96MB\n")

    assert primary.becomes(lambda: primary.query("show wal_keep_size") == "96MB"), primary.said()
    assert primary.query("select pg_postmaster_start_time()") == started


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_server_shuts_down_cleanly_though_clients_are_connected(
    servers: Servers, how: signal.Signals
) -> None:
    (primary,) = with_notes(servers, 1)
    client = subprocess.Popen(
        ["psql", "-h", str(primary.run), "-p", str(primary.port), "-U", "postgres", "-qc", "select pg_sleep(600)"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    count = "select count(*) from pg_stat_activity where query like 'select pg_sleep%'"
    assert primary.becomes(lambda: primary.query(count) == "1")

    assert primary.stop(how) == 0

    client.wait(WITHIN)
    assert "database system is shut down" in primary.said()


def test_a_server_that_dies_ends_its_container_with_its_exit_code(servers: Servers) -> None:
    (primary,) = with_notes(servers, 1)

    os.kill(primary.server()[0], signal.SIGKILL)

    assert primary.becomes(lambda: primary.exit_code() is not None), "the kubelet starts it again"
    assert primary.exit_code() == 128 + signal.SIGKILL


def test_the_probes_tell_a_running_server_from_one_that_is_not(servers: Servers) -> None:
    primary, follower = with_notes(servers, 2)
    assert primary.is_alive()
    assert follower.is_alive()

    assert primary.stop() == 0

    assert not primary.is_alive()
    assert not primary.is_ready()
    assert follower.is_ready()
    follower.stop()
    assert not follower.is_ready()


def test_a_follower_that_cannot_follow_a_primary_that_answers_is_not_ready(servers: Servers) -> None:
    primary, follower = with_notes(servers, 2)
    access = primary.configuration / "pg_hba.conf"
    servers.write(
        access,
        access.read_text().replace("replication  postgres  all      scram-sha-256", "replication all all reject"),
    )
    assert primary.becomes(lambda: "loading the new settings" in primary.said())

    primary.query("select pg_terminate_backend(pid) from pg_stat_replication")

    assert follower.becomes(lambda: not follower.is_ready())
    assert "does not follow" in follower.script("health.sh", "ready").stderr
    assert follower.is_alive(), "a restart would not help it"


def test_a_preparation_that_was_cut_off_is_begun_anew(servers: Servers) -> None:
    primary, follower = servers.pods[:2]
    for pod in (primary, follower):
        rubbish = pod.volume / "pgdata.new"
        pod.own(rubbish)
        (rubbish / "PG_VERSION").write_text("half")

    primary.up()
    follower.up()

    assert not (primary.volume / "pgdata.new").exists()
    assert not (follower.volume / "pgdata.new").exists()


def test_data_of_another_major_version_are_not_touched(servers: Servers) -> None:
    primary = servers.pods[0]
    primary.prepare()
    version = primary.volume / "pgdata" / "PG_VERSION"
    real = version.read_text()
    version.write_text("9\n")

    refused = primary.script("prepare.sh")

    assert refused.returncode == 1
    assert f"data of PostgreSQL 9, which version {real.strip()} cannot read" in refused.stderr


def test_a_second_start_changes_no_data(servers: Servers) -> None:
    (primary,) = with_notes(servers, 1)
    identifier = primary.query("select system_identifier from pg_control_system()")
    assert primary.stop() == 0

    primary.up()

    assert primary.query("select system_identifier from pg_control_system()") == identifier
    assert primary.query("select count(*) from notes") == "1"


def test_health_wants_to_know_what_is_asked(servers: Servers) -> None:
    assert "say which" in servers.pods[0].script("health.sh").stderr
