# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For scripts that have a function `say`: a sign of life of what takes long.

# Runs a command that takes long, its output in LOG; says at least twice a minute how long it takes and what it does.
telling() { # WHAT LOG COMMAND...
  local what=$1 log=$2 began=$SECONDS every=${TELL_SECONDS:-20} teller code=0
  shift 2
  (
    exec {never}<> <(:)
    while ! read -rt "$every" -u "$never" && kill -0 $$ 2>/dev/null; do
      say "  ... $what $((SECONDS - began)) s: $(tail -n 1 "$log" 2>/dev/null | cut -c1-100)"
    done
  ) &
  teller=$!
  "$@" >"$log" 2>&1 || code=$?
  kill "$teller" && wait "$teller" 2>/dev/null || true
  return $code
}
