"""The files that a Database's pods are started with: the server's settings, who may connect, and the preparation of a
replica's data directory. The spec flows in, file contents by name flow out.

The pod with ordinal 0 is the primary; the others stream from it. There is no failover: when the primary's node is lost,
its pod and volume come back and the standbys follow again.
"""

from typing import Final

from konverge.controllers.database.models import Database
from konverge.controllers.database.names import PORT, Names
from konverge.model.quantity import to_value

DIRECTORY: Final = "/etc/postgresql"
VOLUME_DIRECTORY: Final = "/data"
DATA_DIRECTORY: Final = "/data/pgdata"
"""A directory inside the volume: the root of a fresh volume may hold lost+found, and initdb wants it empty."""

SERVER: Final = "postgresql.conf"
ACCESS: Final = "pg_hba.conf"
PREPARE: Final = "prepare.sh"

_MEBI: Final = 1024 * 1024
_DEFAULT_BUFFERS: Final = 128
_MIN_BUFFERS: Final = 16
_MIN_WAL: Final = 32
_MAX_WAL: Final = 4096


def files(database: Database) -> dict[str, str]:
    """The ConfigMap's data."""
    return {SERVER: _server(database), ACCESS: _ACCESS, PREPARE: _prepare(database)}


def shared_buffers(database: Database) -> int:
    """Mebibytes of shared memory: a quarter of the memory that the pod may count on, as PostgreSQL's manual advises."""
    resources = database.spec.resources
    for compute in (resources.limits, resources.requests):
        if compute is not None and compute.memory is not None:
            return max(to_value(compute.memory) // 4 // _MEBI, _MIN_BUFFERS)
    return _DEFAULT_BUFFERS


def wal_keep(database: Database) -> int:
    """Mebibytes of write-ahead log kept for standbys that fell behind: an eighth of the volume, within bounds."""
    return min(max(to_value(database.spec.storage.size) // 8 // _MEBI, _MIN_WAL), _MAX_WAL)


def _server(database: Database) -> str:
    return f"""\
listen_addresses = '*'
port = {PORT}
password_encryption = 'scram-sha-256'
shared_buffers = {shared_buffers(database)}MB
wal_level = replica
max_wal_senders = 12
wal_keep_size = {wal_keep(database)}MB
hot_standby = on
primary_conninfo = 'host={_primary_host(database)} port={PORT} user=postgres'
log_destination = 'stderr'
logging_collector = off
"""


_ACCESS: Final = """\
# TYPE  DATABASE     USER      ADDRESS  METHOD
local   all          all                scram-sha-256
host    all          all       all      scram-sha-256
host    replication  postgres  all      scram-sha-256
"""


def _prepare(database: Database) -> str:
    """Runs before the server on every start of a pod, and may be cut off at any point."""
    return f"""\
set -euo pipefail
if [ "$POD_NAME" = "{Names(database.name).primary_pod}" ]; then
  # A volume that outlived an earlier Database of this name, or a Secret made anew: the Secret holds.
  if [ -s "$PGDATA/PG_VERSION" ]; then
    printf "ALTER ROLE postgres WITH PASSWORD '%s'\\n" "$POSTGRES_PASSWORD" | postgres --single -D "$PGDATA" postgres >/dev/null
  fi
  exit 0
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  until pg_isready --quiet --host={_primary_host(database)} --port={PORT}; do sleep 2; done
  rm -rf "$PGDATA.new"
  pg_basebackup --host={_primary_host(database)} --port={PORT} --username=postgres --no-password \\
    --pgdata="$PGDATA.new" --wal-method=stream --checkpoint=fast
  touch "$PGDATA.new/standby.signal"
  mv "$PGDATA.new" "$PGDATA"
fi
"""


def _primary_host(database: Database) -> str:
    names = Names(database.name)
    return f"{names.primary_pod}.{names.headless}"
