#!/usr/bin/env bash
# health.sh live: the server runs; it may be recovering, which may take its time.
# health.sh ready: it also answers, and does what its pod is for: the primary takes writes, a follower follows.
# A follower whose primary is away is ready all the same: it is not the one to be replaced.
set -euo pipefail
# shellcheck source=common.sh
. "${BASH_SOURCE[0]%/*}/common.sh"

state=0
pg_isready --quiet --timeout=3 --host="$RUN_DIR" --port="$PORT" || state=$?
case ${1:-} in
live) # 1: it refuses connections, because it starts, recovers or stops
  [ "$state" -le 1 ] || fail "the server does not answer"
  ;;
ready)
  [ "$state" -eq 0 ] || fail "the server does not accept connections"
  role=$(ask --command="select pg_is_in_recovery(), exists (select from pg_stat_wal_receiver where status = 'streaming')")
  if is_primary_pod; then
    [ "$role" = 'f|f' ] || fail "the server of the primary pod does not take writes"
  else
    case $role in
    't|t') ;;
    't|f') ! answers "$PRIMARY_HOST" "$PRIMARY_PORT" || fail "the primary answers, but this server does not follow it" ;;
    *) fail "this server was promoted and does not follow any more" ;;
    esac
  fi
  ;;
*) fail "say which: live or ready" ;;
esac
