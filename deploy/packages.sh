#!/usr/bin/env bash
# Lists and installs the Debian 12 packages that Roost needs. Safe to run again: it asks apt only for what is missing.
#
#   ./deploy/packages.sh build   compilers and libraries to build the daemons (default)
#   ./deploy/packages.sh test    the above, and what the tests and checks need
#   ./deploy/packages.sh runtime shared libraries that the built daemons load
#   ./deploy/packages.sh train   Python packages that train the demo model
#   ./deploy/packages.sh list build|test|runtime|train   prints the names and installs nothing
set -euo pipefail

build=(
  build-essential ccache cmake git ninja-build pkg-config
  capnproto cppzmq-dev libboost1.81-dev libcapnp-dev libcli11-dev libcurl4-openssl-dev libdnnl-dev libfmt-dev libhwy-dev
  libjemalloc-dev libpcre2-dev libsimdjson-dev libspdlog-dev libssl-dev libutf8proc-dev libxxhash-dev libzmq3-dev
  prometheus-cpp-dev zlib1g-dev
  ca-certificates curl
)
test=(
  clang clang-format-14 clang-tidy-14 libbenchmark-dev libclang-rt-14-dev libgmock-dev libgtest-dev libomp-dev
  libonig-dev lld prometheus python3 python3-jinja2 python3-venv python3-yaml
)
runtime=(
  libcapnp-0.9.2 libcurl4 libdnnl2 libfmt9 libgomp1 libjemalloc2 libpcre2-8-0 libprometheus-cpp-core1.0
  libprometheus-cpp-pull1.0 libsimdjson14 libspdlog1.10 libssl3 libutf8proc2 libxxhash0 libzmq5
)
# python3-torch is content with any BLAS; the reference one that it pulls in by itself is 30 times slower.
train=(libopenblas0-openmp python3 python3-numpy python3-torch)

wanted() {
  case "$1" in
    build) printf '%s\n' "${build[@]}" ;;
    test) printf '%s\n' "${build[@]}" "${test[@]}" ;;
    runtime) printf '%s\n' "${runtime[@]}" ;;
    train) printf '%s\n' "${train[@]}" ;;
    *) echo "packages.sh: unknown set '$1' (build, test, runtime or train)" >&2; return 2 ;;
  esac
}

if [ "${1:-}" = list ]; then
  wanted "${2:-build}"
  exit
fi

names=$(wanted "${1:-build}")
missing=()
for name in $names; do
  # The field is 'install ok installed' for a package that is wholly there.
  status=$(dpkg-query -W -f='${Status}' "$name" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$name")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "packages.sh: run as root, or install sudo; missing: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "packages.sh: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
