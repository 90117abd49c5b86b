#!/usr/bin/env bash
# What builds of 2048 tables cost: every number a ratio of two commands run one after the other, so that it holds on any machine that is
# otherwise idle. Needs a release build (cargo build --release); builds go to a temporary folder and are thrown away.
#
#   tests/bench/2048.sh cores  [TABLE]         wall clock on one core against two, all threads of the process held there
#   tests/bench/2048.sh lanes  [TABLE]         CPU time with portable code and AVX2 against the widest vectors
#   tests/bench/2048.sh memory [TABLE]         peak memory and CPU time under --memory of 256, 384, 512 and 1024 MiB
#   tests/bench/2048.sh sketch FILE.cpp [AGE]  CPU time against a program that computes the same in memory and writes nothing
set -euo pipefail
cd "$(dirname "$0")/../.."
strata=target/release/strata
[ -x "$strata" ] || { echo "no $strata: run cargo build --release first" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Runs a command with its output thrown away; sets wall, cpu (seconds) and root.
timed() {
    local TIMEFORMAT='%R %U %S' times
    times=$({ time "$@" >"$folder/out" 2>"$folder/err"; } 2>&1) || { cat "$folder/err" >&2; exit 1; }
    read -r wall user system <<<"$times"
    cpu=$(awk "BEGIN { print $user + $system }")
}

# Builds a table; sets root too.
build() {
    rm -rf "$folder/table"
    timed ${held:-} "$strata" build "$1" --out "$folder/table" --json "${@:2}"
    root=$(grep -o '"root":"[0-9a-f]*"' "$folder/out" | cut -d'"' -f4)
}

ratio() { awk "BEGIN { printf \"%.2f\", $1 / $2 }"; }

# Peak resident memory in MiB of a build, read from the process while it runs.
peak() {
    rm -rf "$folder/table"
    "$strata" build "$1" --out "$folder/table" --json "${@:2}" >"$folder/out" 2>"$folder/err" &
    local pid=$! most=0 now
    while now=$(awk '/VmHWM/ { print int($2 / 1024) }' "/proc/$pid/status" 2>/dev/null) && [ -n "$now" ]; do
        most=$now
        sleep 0.2
    done
    wait "$pid" || { cat "$folder/err" >&2; exit 1; }
    echo "$most"
}

case "${1:-}" in
cores)
    table=${2:-2048-4x3+horizon=128}
    held="taskset -c 0" build "$table" --threads 1; one=$wall; first=$root
    held="taskset -c 0,1" build "$table" --threads 2; two=$wall
    [ "$root" = "$first" ] || { echo "roots differ: $first and $root" >&2; exit 1; }
    echo "$table: $one s on one core, $two s on two: $(ratio "$one" "$two") times as fast"
    ;;
lanes)
    table=${2:-2048-4x3+horizon=128}
    build "$table" --threads 1; widest=$cpu; first=$root
    for lanes in 4 1; do
        STRATA_LANES=$lanes build "$table" --threads 1
        [ "$root" = "$first" ] || { echo "roots differ: $first and $root" >&2; exit 1; }
        echo "$table: $cpu CPU s with $lanes lanes, $widest with the widest: $(ratio "$cpu" "$widest") times"
    done
    ;;
memory)
    table=${2:-2048-4x3+horizon=160}
    for mib in 256 384 512 1024; do
        most=$(peak "$table" --memory "${mib}MiB")
        allowed=$((mib * 11 / 10 + 64))
        echo "$table --memory ${mib}MiB: peak $most MiB, $([ "$most" -le "$allowed" ] && echo within || echo ABOVE) $allowed"
    done
    ;;
sketch)
    source=${2:?"the path of the program"} age=${3:-160}
    g++ -O3 -march=native -std=c++20 -pthread -DCOLS=4 -DVT=double "$source" -o "$folder/sketch"
    timed "$folder/sketch" "$age" 1 b q; theirs=$cpu
    build "2048-4x3+horizon=$age" --threads 1
    echo "2048-4x3+horizon=$age on one thread: strata $cpu CPU s, files and all; $(basename "$source") $theirs: $(ratio "$cpu" "$theirs") times"
    STRATA_LANES=1 build "2048-4x3+horizon=$age" --threads 1
    echo "  portable code: $cpu CPU s: $(ratio "$cpu" "$theirs") times"
    ;;
*)
    sed -n '2,9p' "$0" | cut -c3-
    exit 2
    ;;
esac
