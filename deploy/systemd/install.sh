#!/bin/sh
# Installs a coordinator and workers on this machine, starts them, and asks for the table. As root; again after a change.
set -eu
cd "$(dirname "$0")"
STRATA=strata
STORE=/var/lib/strata
WORKERS=2
TABLE=2048-3x3

if [ "$(id -u)" != 0 ]; then
    echo "installing units takes root: sudo sh install.sh" >&2
    exit 1
fi
id strata >/dev/null 2>&1 || useradd --system --home-dir /var/lib/strata --create-home strata
[ -d "$STORE" ] || install -d -o strata -g strata -m 750 "$STORE"
program=$(command -v "$STRATA")
[ "$program" -ef /usr/local/bin/strata ] || install -m 755 "$program" /usr/local/bin/strata
units=/etc/systemd/system
install -m 644 strata-coordinator.service strata-worker@.service "$units"
install -D -m 644 store.conf "$units/strata-coordinator.service.d/store.conf"
install -D -m 644 store.conf "$units/strata-worker@.service.d/store.conf"
install -D -m 644 memory.conf "$units/strata-worker@.service.d/memory.conf"
# What was set there before stays beside it, as NAME~.
install -D -b -m 640 -g strata coordinator.conf /etc/strata/coordinator.conf
install -D -b -m 640 -g strata worker.conf /etc/strata/worker.conf
systemctl daemon-reload
services="strata-coordinator.service $(seq -f 'strata-worker@%g.service' "$WORKERS" | tr '\n' ' ')"
systemctl enable $services
systemctl restart $services
# The coordinator may have much to look at first.
for _ in $(seq 300); do
    if /usr/local/bin/strata jobs >/dev/null 2>&1; then break; fi
    sleep 2
done
/usr/local/bin/strata submit "$TABLE"
