#!/bin/bash
# Submits the coordinator's job and the array of workers.
set -eu
cd "$(dirname "$0")"
coordinator=$(sbatch --parsable coordinator.sbatch)
coordinator=${coordinator%%;*}
workers=$(sbatch --parsable --dependency="after:$coordinator" --export="ALL,STRATA_JOB=$coordinator" workers.sbatch)
echo "job $coordinator has the coordinator, array ${workers%%;*} the workers"
