#!/usr/bin/env bash
# What the one-sided files of GNU Backgammon cost: `strata export` beside `makebearoff`, one after the other, so that the ratios hold on any
# machine that is otherwise idle. Needs a release build (cargo build --release) and makebearoff (Debian: apt-get install gnubg). The
# table that is exported is built first and not counted; files go to a temporary folder and are thrown away.
#
#   tests/bench/bearoff.sh [POINTS ...]        6 7 8 when none are given; 9 takes makebearoff two minutes, 10 seven
set -euo pipefail
cd "$(dirname "$0")/../.."
strata=target/release/strata
[ -x "$strata" ] || { echo "no $strata: run cargo build --release first" >&2; exit 2; }
makebearoff=$(command -v makebearoff || echo /usr/games/makebearoff)
[ -x "$makebearoff" ] || { echo "no makebearoff: on Debian, apt-get install gnubg" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Runs a command with its output thrown away; sets wall and cpu (seconds).
timed() {
    local TIMEFORMAT='%R %U %S' times user system
    times=$({ time "$@" >"$folder/out" 2>"$folder/err"; } 2>&1) || { cat "$folder/err" >&2; exit 1; }
    read -r wall user system <<<"$times"
    cpu=$(awk "BEGIN { print $user + $system }")
}

ratio() { awk "BEGIN { printf \"%.1f\", $1 / $2 }"; }

for points in "${@:-6 7 8}"; do
    for p in $points; do
        "$strata" build "bearoff-${p}x15" --out "$folder/$p" >/dev/null 2>&1
        timed "$strata" export "$folder/$p" --format gnubg --out "$folder/ours.bd"; ours_cpu=$cpu; ours=$wall
        timed "$makebearoff" -o "$p" -f "$folder/theirs.bd"
        cmp "$folder/ours.bd" "$folder/theirs.bd"
        echo "$p points: $ours_cpu CPU s and $ours s of wall clock, makebearoff $cpu and $wall:" \
            "$(ratio "$cpu" "$ours_cpu") times fewer CPU seconds, $(ratio "$wall" "$ours") times less wall clock; the files are the same"
        rm -rf "${folder:?}/$p" "$folder"/*.bd
    done
done
