"""The files that a Database's pods are started with: the server's settings, who may connect, and the scripts. The spec
flows in, file contents by name flow out.

The pod with ordinal 0 is the primary; the others stream from it. There is no automatic failover: when the primary's node
is lost, its pod and volume come back and the standbys follow again. When its data are lost, a person runs `promote.sh`
in a standby, and the primary is copied from that (`docs/database.md`).
"""

from collections.abc import Mapping
from hashlib import sha256
from importlib import resources
from typing import Final

from konverge.controllers.database.models import Database
from konverge.model.quantity import to_value

DIRECTORY: Final = "/etc/postgresql"
CREDENTIALS_DIRECTORY: Final = "/etc/credentials"
RUN_DIRECTORY: Final = "/var/run/postgresql"
VOLUME_DIRECTORY: Final = "/data"
DATA_DIRECTORY: Final = "/data/pgdata"
"""A directory inside the volume: the root of a fresh volume may hold lost+found, and initdb wants it empty."""

SERVER: Final = "postgresql.conf"
VOLUME: Final = "volume.conf"
ACCESS: Final = "pg_hba.conf"
PREPARE: Final = "prepare.sh"
START: Final = "start.sh"
PROMOTE: Final = "promote.sh"
HEALTH: Final = "health.sh"
COMMON: Final = "common.sh"

_SCRIPTS: Final = {
    name: (resources.files(__package__) / "scripts" / name).read_text(encoding="utf-8")
    for name in (COMMON, PREPARE, START, PROMOTE, HEALTH)
}
_MEBI: Final = 1024 * 1024
_DEFAULT_BUFFERS: Final = 128
_MIN_BUFFERS: Final = 16
_MIN_WAL: Final = 32
_MAX_WAL: Final = 4096


def files(database: Database) -> dict[str, str]:
    """The ConfigMap's data."""
    return {SERVER: _server(database), VOLUME: _volume(database), ACCESS: _ACCESS, **_SCRIPTS}


def checksum(files: Mapping[str, str]) -> str:
    """A digest of what a running pod cannot take in, so that the pods roll when it changes.

    The settings that follow from the volume's size are left out: `start.sh` loads them, and a volume grows at work.
    """
    digest = sha256()
    for name, content in sorted(files.items()):
        if name != VOLUME:
            digest.update(f"{name}\0{content}\0".encode())
    return digest.hexdigest()[:16]


def shared_buffers(database: Database) -> int:
    """Mebibytes of shared memory: a quarter of the memory that the pod may count on, as PostgreSQL's manual advises."""
    asked = database.spec.resources
    for compute in (asked.limits, asked.requests):
        if compute is not None and compute.memory is not None:
            return max(to_value(compute.memory) // 4 // _MEBI, _MIN_BUFFERS)
    return _DEFAULT_BUFFERS


def wal_keep(database: Database) -> int:
    """Mebibytes of write-ahead log kept for standbys that fell behind: an eighth of the volume, within bounds."""
    return min(max(to_value(database.spec.storage.size) // 8 // _MEBI, _MIN_WAL), _MAX_WAL)


def _server(database: Database) -> str:
    """Where to listen and whom to follow is not here: `start.sh` says it."""
    return f"""\
include = '{VOLUME}'
listen_addresses = '*'
unix_socket_permissions = 0700
password_encryption = 'scram-sha-256'
shared_buffers = {shared_buffers(database)}MB
wal_level = replica
max_wal_senders = 12
hot_standby = on
log_destination = 'stderr'
logging_collector = off
"""


def _volume(database: Database) -> str:
    return f"wal_keep_size = {wal_keep(database)}MB\n"


_ACCESS: Final = """\
# The socket lets in none but the server's own user (unix_socket_permissions), by which the scripts speak to it.
# TYPE  DATABASE     USER      ADDRESS  METHOD
local   all          all                trust
host    all          all       all      scram-sha-256
host    replication  postgres  all      scram-sha-256
"""
