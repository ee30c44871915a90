#!/usr/bin/env bash
# Makes a base image for build.sh from Debian's packages, by mmdebstrap and buildah, where no registry of images is reached.
# Needs root. It takes the sources of packages and the proxies of this machine's apt.
#
#   export ROOST_CONTAINER_ENGINE=buildah ROOST_BASE_IMAGE=localhost/debian:12
#   ./deploy/container/base.sh "$ROOST_BASE_IMAGE"
#   ./deploy/container/build.sh router worker-cpu
set -euo pipefail
image=${1:?usage: base.sh IMAGE}
suite=bookworm
engine=${ROOST_CONTAINER_ENGINE:-buildah}

sources=
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
  # A line of one form, or a stanza of the other.
  if [ -z "$sources" ] && grep -qsE "^(deb .* $suite |Suites: $suite( |$))" "$file"; then sources=$file; fi
done
[ -n "$sources" ] || { echo "base.sh: apt has no source of Debian 12 ($suite)" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Essential packages and apt alone. The base is thrown away if the machine stops, so dpkg need not wait for the disk.
mmdebstrap --quiet --variant=apt --mode=root --aptopt='APT::Install-Recommends "false"' --dpkgopt=force-unsafe-io \
  "$suite" "$scratch/root.tar" "$sources"
# shellcheck disable=SC2086
{
  container=$($engine from scratch)
  $engine add --quiet "$container" "$scratch/root.tar" / >/dev/null
  $engine commit --quiet --rm "$container" "$image" >/dev/null
}
echo "$image"
