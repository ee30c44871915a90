#!/usr/bin/env bash
# Runs the rendered manifests as processes in network namespaces, without Kubernetes, and scales, rolls and breaks them
# under load (tests/kube/README.md):
#
#   tests/kube/pods.sh          the short form, about three minutes
#   tests/kube/pods.sh --long   with keys, TLS, slower endpoints and more clients, three times
#
# It needs root, nft and the built programs; where something is missing it says so and exits with 77. All that it starts
# is in namespaces of its own, and ends with it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export ROOST_BIN=${ROOST_BIN:-$here/../../build/release/bin}

skip() { echo "pods.sh: SKIPPED: $*" >&2; exit 77; }

[ "$(id -u)" -eq 0 ] || skip "it needs root"
for program in ip nft nsenter unshare curl openssl; do
  command -v "$program" >/dev/null || skip "$program is not installed"
done
isolated=(unshare --net --mount --pid --fork --kill-child --mount-proc)
"${isolated[@]}" sh -c 'ip link add pod0 type veth peer name eth0 && nft add table inet kube && mount -t tmpfs tmpfs /mnt' \
  2>/dev/null || skip "this machine allows no network namespaces, filters or mounts"
for program in roost-router roost-worker roostctl; do
  [ -x "$ROOST_BIN/$program" ] || { echo "pods.sh: $ROOST_BIN/$program is not built" >&2; exit 1; }
done
exec "${isolated[@]}" /usr/bin/python3 "$here/pods/scenario.py" "$@"
