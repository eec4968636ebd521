#!/usr/bin/env bash
# Runs the server, and keeps it to the mounted files: a new password is set in the primary and used by the followers, new
# settings are loaded, both without a restart. What was missed while the pod was down is done after its start.
set -euo pipefail
# shellcheck source=common.sh
. "${BASH_SOURCE[0]%/*}/common.sh"

INTERVAL=${INTERVAL:-2}

settings() {
  cat "$CONFIG_DIR"/*.conf
}

# The statement holds the password: no log may show it, not even if it fails. psql reads it itself, so that no command
# line does.
set_password() {
  ask <<'SQL'
set log_min_error_statement = panic;
set log_statement = none;
set log_min_duration_statement = -1;
\set password `cat "$CREDENTIALS_DIR/password"`
alter role postgres with password :'password';
SQL
}

# Compare with the files once. `used`: the password in use; `applied`: the one that the server holds; `loaded`: its settings.
follow_files() {
  local now
  now=$(password) || return 0
  if [ -n "$now" ] && [ "$now" != "$used" ]; then
    write_passfile
    used=$now
  fi
  if [ -n "$now" ] && [ "$now" != "$applied" ] && ! is_following && answers "$RUN_DIR" "$PORT"; then
    if set_password >/dev/null; then
      applied=$now
      tell "the password is the one of the Secret"
    fi
  fi
  now=$(settings) || return 0
  if [ "$now" != "$loaded" ]; then
    tell "loading the new settings"
    kill -HUP "$server"
    loaded=$now
  fi
}

write_passfile
used=$(password)
applied=
loaded=$(settings)

postgres -D "$PGDATA" \
  -c config_file="$CONFIG_DIR/postgresql.conf" \
  -c hba_file="$CONFIG_DIR/pg_hba.conf" \
  -c port="$PORT" \
  -c unix_socket_directories="$RUN_DIR" \
  -c primary_conninfo="host=$PRIMARY_HOST port=$PRIMARY_PORT user=postgres passfile=$PGPASSFILE application_name=$POD_NAME" &
server=$!
# Fast shutdown: what runs is rolled back. The server's own answer to SIGTERM would wait for the last client.
trap 'kill -INT "$server"' INT TERM

while kill -0 "$server" 2>/dev/null; do
  follow_files
  sleep "$INTERVAL" &
  pause=$!
  wait -n "$server" "$pause" || true
  kill "$pause" 2>/dev/null || true
done
status=0
wait "$server" || status=$?
exit "$status"
