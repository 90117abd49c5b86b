#!/bin/bash
# The worker of a node, for one-allocation.sbatch.
set -u
. ./strata.sh

# A job that loses its first node has no coordinator and no script any more, and Slurm lets it be, as --no-kill asks. The second node notices.
watch_first_node() {
    local first nodes
    while sleep 20; do
        read -r first nodes <<<"$(squeue --noheader --jobs="$SLURM_JOB_ID" --format="%B %N")"
        [ -n "$nodes" ] || continue
        scontrol show hostnames "$nodes" | grep --quiet --line-regexp --fixed-strings -e "$first" || scontrol requeue "$SLURM_JOB_ID"
    done
}
WATCH=
if [ "$SLURM_PROCID" = 1 ]; then
    watch_first_node </dev/null &>/dev/null &
    WATCH=$!
fi

work
CODE=$?
[ -z "$WATCH" ] || kill "$WATCH"
exit "$CODE"
