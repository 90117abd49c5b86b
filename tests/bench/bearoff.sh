#!/usr/bin/env bash
# What the files of GNU Backgammon cost, and the tables that they are of, beside `makebearoff`, one after the other, so that the ratios
# hold on any machine that is otherwise idle. Needs a release build (cargo build --release) and makebearoff (Debian: apt-get install
# gnubg). Files go to a temporary folder and are thrown away.
#
#   tests/bench/bearoff.sh [POINTS|POINTSxCHECKERS ...]     6 7 8 6x6 when none are given; makebearoff takes two minutes for 9, one and a half
#                                                           for 6x7 and five for 6x8
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

# Says what a command took beside makebearoff.
beside() { echo "  $1: $2 CPU s and $3 s of wall clock, $(ratio "$cpu" "$2") times fewer CPU seconds, $(ratio "$wall" "$3") times less wall clock"; }

for size in ${*:-6 7 8 6x6}; do
    case $size in
        *x*) table="bearoff-${size}v${size#*x}" kind=-t ;;
        *) table="bearoff-${size}x15" kind=-o ;;
    esac
    timed "$strata" build "$table" --out "$folder/table"; table_cpu=$cpu table_wall=$wall
    timed "$strata" export "$folder/table" --format gnubg --out "$folder/ours.bd"; ours_cpu=$cpu ours_wall=$wall
    timed "$makebearoff" "$kind" "$size" -f "$folder/theirs.bd"
    cmp "$folder/ours.bd" "$folder/theirs.bd"
    echo "makebearoff $kind $size: $cpu CPU s and $wall s of wall clock; the exported file is the same"
    beside "build $table" "$table_cpu" "$table_wall"
    beside "export $table" "$ours_cpu" "$ours_wall"
    rm -rf "$folder/table" "$folder"/*.bd
done
