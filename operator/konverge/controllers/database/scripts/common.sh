# What the other scripts share. Sourced, never run. They are given by the environment:
#   PGDATA                      the data directory
#   POD_NAME, PRIMARY_POD       this pod, and the one that takes writes
#   PRIMARY_HOST, PORT          where the primary listens, and where this server does
#   PRIMARY_PORT                where the primary does, if not on PORT
#   PEERS                       host:port of each pod that may follow, separated by spaces
#   CONFIG_DIR, CREDENTIALS_DIR the mounted ConfigMap and Secret
#   RUN_DIR                     a directory in memory, for the socket and the password file
# shellcheck shell=bash

PRIMARY_PORT=${PRIMARY_PORT:-$PORT}
# libpq reads the password there at each connection, so that a new one needs no restart; and no environment shows it.
export PGPASSFILE="$RUN_DIR/pgpass"
export PGCONNECT_TIMEOUT=3

tell() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
}

fail() {
  tell "$@"
  exit 1
}

is_primary_pod() {
  [ "$POD_NAME" = "$PRIMARY_POD" ]
}

has_data() {
  [ -s "$PGDATA/PG_VERSION" ]
}

# Whether the server on these data follows another one. The server itself takes the file away when it is promoted.
is_following() {
  [ -e "$PGDATA/standby.signal" ]
}

password() {
  cat "$CREDENTIALS_DIR/password"
}

write_passfile() {
  local escaped
  escaped=$(password | sed 's/[\\:]/\\&/g')
  (umask 077 && printf '*:*:*:postgres:%s\n' "$escaped" >"$PGPASSFILE.new")
  mv "$PGPASSFILE.new" "$PGPASSFILE"
}

answers() { # HOST PORT
  pg_isready --quiet --timeout=3 --host="$1" --port="$2"
}

# Ask this pod's own server, over its socket: only its own user can reach that.
ask() {
  psql --host="$RUN_DIR" --port="$PORT" --username=postgres --dbname=postgres \
    --no-psqlrc --quiet --tuples-only --no-align --set=ON_ERROR_STOP=1 "$@"
}
