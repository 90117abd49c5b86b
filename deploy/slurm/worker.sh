#!/bin/bash
# The worker of a node, for one-allocation.sbatch.
set -u
. ./strata.sh
work
