#!/usr/bin/env bash
# Ends what up.sh has started. usage: down.sh FOLDER
set -uo pipefail
for file in "$1"/run/*.pid; do
    pid=$(cat "$file" 2>/dev/null) || continue
    # Its data goes with the folder, so there is nothing to be tidied up.
    kill -KILL "$pid" 2>/dev/null
done
exit 0
