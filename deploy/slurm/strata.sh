# What the jobs of this folder share. They source it; the first lines are the settings.
STRATA=strata
STORE=/shared/tables
TABLE=2048-3x3
MEMORY=2048MiB
LISTEN=0.0.0.0:0
CACHE=()

# Coordinator and workers meet in a folder named by the job that has the coordinator. Each of its starts writes files of its own, and a link names the
# newest: a start that is late in ending takes nothing away from the next one.
RUN=$PWD/run/${STRATA_JOB:-$SLURM_JOB_ID}
START=${SLURM_RESTART_COUNT:-0}

# Points a link elsewhere; nobody ever finds none.
point() {
    ln -sfn "$2" "$RUN/$1.new" && mv -T "$RUN/$1.new" "$RUN/$1"
}

# New certificates for each start: they are for 90 days.
certificates() {
    local role
    (umask 077 && mkdir -p "$RUN") || return
    [ -d "$RUN/authority" ] || "$STRATA" certs ca --out "$RUN/authority" || return
    rm -rf "$RUN/tls.$START"
    for role in coordinator worker client; do
        "$STRATA" certs "$role" --ca "$RUN/authority" --out "$RUN/tls.$START/$role" || return
    done
    point tls "tls.$START"
}

# Starts the coordinator, and asks it for the table.
lead() {
    certificates || exit 1
    rm -f "$RUN/address.$START"
    point address "address.$START"
    coordinate &
    COORDINATOR=$!
    while kill -0 "$COORDINATOR" 2>/dev/null; do
        if [ -s "$RUN/address" ]; then
            "$STRATA" submit "$TABLE" --coordinator "@$RUN/address" --tls "$RUN/tls/client" && break
            # An answer that is no for good: a coordinator without a job would wait for ever.
            if "$STRATA" jobs --coordinator "@$RUN/address" --tls "$RUN/tls/client" >/dev/null 2>&1; then
                echo "the coordinator does not take $TABLE; the job ends" >&2
                kill -TERM "$COORDINATOR"
                break
            fi
        fi
        sleep 1
    done &
}

# Runs the coordinator, again if it ends before its time: it was killed, or could not reach its store for a while (75).
coordinate() {
    local code tries=0 up= child=
    trap 'up=1; [ -z "$child" ] || kill -TERM "$child"' TERM
    while :; do
        "$STRATA" coordinator --store "$STORE" --listen "$LISTEN" --address-file "$RUN/address.$START" --tls "$RUN/tls/coordinator" --idle-exit &
        child=$!
        while :; do
            wait "$child"
            code=$?
            kill -0 "$child" 2>/dev/null || break
        done
        tries=$((tries + 1))
        [ "$code" = 75 ] || [ "$code" -gt 128 ] || return "$code"
        [ -z "$up" ] && [ "$tries" -lt 20 ] || return "$code"
        sleep 5
    done
}

# Waits for a process, whatever signals come meanwhile.
await() {
    local code
    while :; do
        SIGNALLED=
        wait "$1"
        code=$?
        [ -n "$SIGNALLED" ] || return "$code"
    done
}

# Puts this job into the queue again, unless somebody ends it: then it is not running any more.
again() {
    local job=$SLURM_JOB_ID
    [ -z "${SLURM_ARRAY_JOB_ID:-}" ] || job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
    if [ "$(squeue --noheader --jobs="$job" --format=%T)" = RUNNING ]; then
        echo "time is up: job $job goes on when it is its turn again"
        scontrol requeue "$job"
        sleep 60 # Slurm ends this script
    fi
}

# Tells the worker once: a second signal would cut short how it leaves.
pass_on() {
    [ -n "$UP" ] || [ -z "$WORKER" ] || kill -TERM "$WORKER"
    UP=1 SIGNALLED=1
}

# Works until there is nothing left to do. A worker that is killed is started again: 2, 78 and 79 say that it would be of no use.
work() {
    local code
    UP= WORKER=
    trap pass_on TERM
    while [ -z "$UP" ]; do
        # In a session of its own: Slurm signals all of a group.
        setsid "$STRATA" worker --coordinator "@$RUN/address" --tls "$RUN/tls/worker" --threads "$SLURM_CPUS_PER_TASK" \
            --memory "$MEMORY" "${CACHE[@]}" &
        WORKER=$!
        await "$WORKER"
        code=$?
        case $code in 0 | 2 | 78 | 79) break ;; esac
        [ -n "$UP" ] || sleep 5
    done
    [ "${#CACHE[@]}" = 0 ] || rm -rf "${CACHE[1]}"
    return "$code"
}
