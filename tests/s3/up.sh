#!/usr/bin/env bash
# Starts Ceph's RADOS gateway, a real S3 server, on loopback: one monitor, one store daemon on a sparse file, one gateway.
# usage: up.sh FOLDER PORT KEY SECRET BUCKET. Needs ceph-mon, ceph-osd, radosgw and ceph-common, and root. down.sh FOLDER ends it.
set -euo pipefail
folder=$(realpath -m "$1") port=$2 key=$3 secret=$4 bucket=$5
mkdir -p "$folder"/{run,log,osd.0}
cd "$folder"
export CEPH_CONF=$folder/ceph.conf
id=$(cat /proc/sys/kernel/random/uuid)
monitors="[v2:127.0.0.1:$((port + 1))/0,v1:127.0.0.1:$((port + 2))/0]"
cat > ceph.conf <<END
[global]
fsid = $id
mon host = $monitors
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth allow insecure global id reclaim = false
run dir = $folder/run
log file = $folder/log/\$name.log
admin socket = $folder/run/\$name.asok
pid file = $folder/run/\$name.pid
keyring = $folder/keyring
mon data avail crit = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd crush chooseleaf type = 0
ms bind ipv6 = false
[mon.a]
mon data = $folder/mon.a
mon initial members = a
[osd]
osd data = $folder/osd.\$id
bluestore block create = true
bluestore block size = 4294967296
bluestore fsck on mount = false
osd memory target = 939524096
[client.rgw.x]
rgw frontends = beast endpoint=127.0.0.1:$port
rgw dns name = localhost
END

# Repeats a command until it succeeds, for a minute.
patiently() {
    for _ in $(seq 300); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.2
    done
    echo "this does not succeed: $*" >&2
    return 1
}

monmaptool --create --clobber --fsid "$id" --addv a "${monitors//\/0/}" monmap >/dev/null
ceph-authtool --create-keyring keyring --gen-key -n mon. --cap mon 'allow *' >/dev/null
ceph-authtool keyring --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *' >/dev/null
ceph-mon --mkfs -i a --monmap monmap --keyring keyring
ceph-mon -i a
patiently timeout 5 ceph -s
osd=$(cat /proc/sys/kernel/random/uuid)
ceph osd new "$osd" >/dev/null
ceph auth get-or-create osd.0 mon 'allow profile osd' osd 'allow *' mgr 'allow profile osd' >> keyring 2>/dev/null
ceph auth get-or-create client.rgw.x mon 'allow rw' osd 'allow rwx' >> keyring 2>/dev/null
ceph-osd -i 0 --mkfs --osd-uuid "$osd" >/dev/null 2>&1
ceph osd crush add osd.0 1.0 root=default host=localhost >/dev/null 2>&1
ceph-osd -i 0 >/dev/null
is_up() { ceph osd stat | grep -q '1 up'; }
patiently is_up
timeout 120 radosgw -n client.rgw.x >/dev/null 2>&1
patiently curl -s -o /dev/null "http://127.0.0.1:$port/"
radosgw-admin user create --uid tests --display-name tests --access-key "$key" --secret-key "$secret" >/dev/null 2>&1
make_bucket() {
    curl -s -f -o /dev/null --aws-sigv4 "aws:amz:default:s3" --user "$key:$secret" -H "x-amz-content-sha256: UNSIGNED-PAYLOAD" \
        -X PUT "http://127.0.0.1:$port/$bucket"
}
patiently make_bucket
