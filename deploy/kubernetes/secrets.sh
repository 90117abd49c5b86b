#!/bin/sh
# Makes the namespace, certificates for the three roles, and their secrets; from AWS_* variables also the secret of the store. Again: renews them.
set -eu
cd "$(dirname "$0")"
STRATA=strata
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

apply() {
    kubectl create "$@" --dry-run=client --output=yaml | kubectl apply --filename=-
}

apply namespace strata
# The authority stays here: keep this folder to yourself.
[ -d authority ] || "$STRATA" certs ca --out authority
for role in coordinator worker client; do
    "$STRATA" certs "$role" --ca authority --out "$made/$role"
    apply secret generic "strata-tls-$role" --namespace=strata --from-file="$made/$role"
done
if [ -n "${AWS_ACCESS_KEY_ID:-}" ]; then
    (umask 077 && env | grep '^AWS_' >"$made/store")
    apply secret generic strata-store --namespace=strata --from-env-file="$made/store"
fi
