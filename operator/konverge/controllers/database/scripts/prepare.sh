#!/usr/bin/env bash
# Runs before the server on every start of a pod, and may be cut off at any point: makes the data directory where there is
# none. The primary's is new; a follower's is a copy of the primary's.
set -euo pipefail
# shellcheck source=common.sh
. "${BASH_SOURCE[0]%/*}/common.sh"

check_version() {
  local data server
  data=$(cat "$PGDATA/PG_VERSION")
  server=$(postgres --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/')
  [ "$data" = "$server" ] ||
    fail "the volume holds data of PostgreSQL $data, which version $server cannot read: use version $data, or restore a dump into a new Database"
}

# Put a finished directory in place. Before that a start that was cut off leaves nothing but rubbish.
adopt() {
  mv "$PGDATA.new" "$PGDATA"
}

copy_from() { # HOST PORT
  tell "copying the data of $1:$2"
  pg_basebackup --host="$1" --port="$2" --username=postgres --no-password \
    --pgdata="$PGDATA.new" --wal-method=stream --checkpoint=fast
}

make_new() {
  tell "making a new database"
  initdb --pgdata="$PGDATA.new" --username=postgres --pwfile=<(password) --auth=scram-sha-256 \
    --encoding=UTF8 --locale=C.UTF-8 --data-checksums >/dev/null
}

# The primary's volume is empty: it is the first start, or the volume was lost. While a follower answers, it has the data,
# and an empty database in their place would be a loss. So a person is asked to promote one, and that one is copied.
restore_or_make() {
  local peer found following
  while true; do
    found=
    for peer in ${PEERS:-}; do
      answers "${peer%:*}" "${peer##*:}" || continue
      found=$peer
      following=$(psql --host="${peer%:*}" --port="${peer##*:}" --username=postgres --dbname=postgres --no-password \
        --no-psqlrc --tuples-only --no-align --command='select pg_is_in_recovery()') || continue
      if [ "$following" = f ]; then
        copy_from "${peer%:*}" "${peer##*:}"
        return
      fi
    done
    if [ -z "$found" ]; then
      make_new
      return
    fi
    tell "this volume is empty, but $found has data: run promote.sh in that pod, and it will be copied from there"
    sleep 5
  done
}

rm -rf "$PGDATA.new"
write_passfile
if has_data; then
  check_version
  is_primary_pod || is_following ||
    fail "this volume was promoted and does not follow any more; delete its claim and this pod to have it copied anew"
elif is_primary_pod; then
  restore_or_make
  adopt
else
  until answers "$PRIMARY_HOST" "$PRIMARY_PORT"; do
    tell "waiting for the primary $PRIMARY_HOST"
    sleep 2
  done
  copy_from "$PRIMARY_HOST" "$PRIMARY_PORT"
  touch "$PGDATA.new/standby.signal"
  adopt
fi
