#!/usr/bin/env bash
# Run by a person in a follower's pod when the primary's data are lost: makes this follower take writes.
# Two primaries would part for ever, so it refuses while the old one answers.
set -euo pipefail
# shellcheck source=common.sh
. "${BASH_SOURCE[0]%/*}/common.sh"

if ! is_following; then
  tell "this server takes writes already"
  exit 0
fi
! answers "$PRIMARY_HOST" "$PRIMARY_PORT" || fail "the primary $PRIMARY_HOST still answers: nothing is to be promoted"
pg_ctl promote --pgdata="$PGDATA" --wait --timeout=60
