#!/usr/bin/env bash
# Lists and installs the Debian 12 packages that Roost needs. Safe to run again: it asks apt only for what is missing.
#
#   ./deploy/packages.sh build   compilers and libraries to build the daemons (default), and xgrammar's source
#   ./deploy/packages.sh test    the above, and what the tests and checks need
#   ./deploy/packages.sh runtime [router] [worker] [roostctl]   shared libraries that these built programs load (default: all)
#   ./deploy/packages.sh download FOLDER [router] [worker] [roostctl]   these as files, with all that they depend on
#   ./deploy/packages.sh train   Python packages that train the demo model
#   ./deploy/packages.sh list build|test|runtime|train …   prints the names and installs nothing
#
# xgrammar (Apache-2.0), which constrains outputs, is not a Debian package. pip downloads its source, by version and
# SHA-256, to ROOST_XGRAMMAR (default ~/.cache/roost/xgrammar-VERSION), where CMake finds it. Without a network the
# worker is built without it; with ROOST_REQUIRE_GRAMMAR=1 the script fails.
#
# Behind a proxy: http_proxy and https_proxy, as apt and pip know them. BUILD_CA is the text (PEM) of an authority that apt and
# pip trust beside the system's, PIP_INDEX_URL another index.
set -euo pipefail

xgrammar_version=0.2.8
xgrammar_sha256=8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80

build=(
  build-essential ccache cmake git ninja-build pkg-config
  capnproto cppzmq-dev libboost1.81-dev libcapnp-dev libcli11-dev libcurl4-openssl-dev libdnnl-dev libfmt-dev libhwy-dev
  libjemalloc-dev libpcre2-dev libsimdjson-dev libspdlog-dev libssl-dev libutf8proc-dev libxxhash-dev libzmq3-dev
  nlohmann-json3-dev prometheus-cpp-dev zlib1g-dev
  ca-certificates curl python3 python3-pip
)
test=(
  buildah chromium-headless-shell clang clang-format-14 clang-tidy-14 docker-compose fish
  golang-github-masterminds-sprig-dev golang-go golang-k8s-sigs-yaml-dev iproute2 libbenchmark-dev libclang-rt-14-dev
  libgmock-dev libgtest-dev libomp-dev libonig-dev lintian lld mmdebstrap nftables openssl podman prometheus
  python3-jinja2 python3-jsonschema python3-lark python3-msgpack python3-venv python3-yaml python3-zmq runc zsh
)
# Packages that each program loads itself. A test compares these with the built files.
runtime_router=(
  libc6 libcapnp-0.9.2 libcurl4 libfmt9 libgcc-s1 libjemalloc2 libpcre2-8-0 libprometheus-cpp-core1.0 libsimdjson14
  libspdlog1.10 libssl3 libstdc++6 libutf8proc2 libxxhash0 libzmq5
)
runtime_worker=(
  libc6 libcapnp-0.9.2 libcurl4 libdnnl2 libfmt9 libgcc-s1 libgomp1 libhwy1 libjemalloc2 libpcre2-8-0
  libprometheus-cpp-core1.0 libsimdjson14 libspdlog1.10 libssl3 libstdc++6 libutf8proc2 libxxhash0 libzmq5
)
runtime_roostctl=(
  libc6 libcapnp-0.9.2 libcurl4 libdnnl2 libfmt9 libgcc-s1 libgomp1 libhwy1 libjemalloc2 libpcre2-8-0
  libprometheus-cpp-core1.0 libsimdjson14 libspdlog1.10 libssl3 libstdc++6 libutf8proc2 libxxhash0 libzmq5
)
# python3-torch accepts any BLAS; the reference BLAS that it installs by default is 30 times slower.
# For the lists of parts of the images.
sbom=(libpython3-stdlib python3-minimal)
train=(libopenblas0-openmp python3 python3-numpy python3-torch)

runtime_of() {
  [ $# -gt 0 ] || set -- router worker roostctl
  local program
  for program in "$@"; do
    case "$program" in
      router) printf '%s\n' "${runtime_router[@]}" ;;
      worker) printf '%s\n' "${runtime_worker[@]}" ;;
      roostctl) printf '%s\n' "${runtime_roostctl[@]}" ;;
      *) echo "packages.sh: unknown program '$program' (router, worker or roostctl)" >&2; return 2 ;;
    esac
  done
}

wanted() {
  local set=$1
  shift
  if [ "$set" = runtime ]; then
    runtime_of "$@"
    return
  fi
  [ $# -eq 0 ] || { echo "packages.sh: only 'runtime' takes names of programs" >&2; return 2; }
  case "$set" in
    build) printf '%s\n' "${build[@]}" ;;
    test) printf '%s\n' "${build[@]}" "${test[@]}" ;;
    train) printf '%s\n' "${train[@]}" ;;
    sbom) printf '%s\n' "${sbom[@]}" ;;
    *) echo "packages.sh: unknown set '$set' (build, test, runtime, train or sbom)" >&2; return 2 ;;
  esac
}

if [ "${1:-}" = list ]; then
  shift
  [ $# -gt 0 ] || set -- build
  listed=$(wanted "$@")
  sort -u <<<"$listed"
  exit
fi

# Lets apt and pip trust BUILD_CA too, for this run alone.
apt_options=()
trust_own_authority() {
  [ -n "${PIP_INDEX_URL:-}" ] || unset PIP_INDEX_URL
  [ -n "${BUILD_CA:-}" ] || return 0
  case "$BUILD_CA" in
    *"-----BEGIN CERTIFICATE-----"*) ;;
    *) echo "packages.sh: BUILD_CA is no certificate in PEM: give its text, not the name of a file" >&2; exit 2 ;;
  esac
  authorities=$(mktemp)
  trap 'rm -f "$authorities"' EXIT
  cat /etc/ssl/certs/ca-certificates.crt >"$authorities" 2>/dev/null || true
  printf '%s\n' "$BUILD_CA" >>"$authorities"
  chmod 0644 "$authorities"  # apt reads it as a user of its own
  export PIP_CERT=$authorities
  apt_options=(-o "Acquire::https::CAInfo=$authorities")
}

# Downloads and unpacks xgrammar's source if it is not there yet.
fetch_xgrammar() {
  local target="${ROOST_XGRAMMAR:-${XDG_CACHE_HOME:-$HOME/.cache}/roost/xgrammar-$xgrammar_version}"
  [ ! -e "$target/include/xgrammar/xgrammar.h" ] || return 0
  local scratch
  scratch=$(mktemp -d)
  echo "xgrammar==$xgrammar_version --hash=sha256:$xgrammar_sha256" >"$scratch/requirements.txt"
  if ! /usr/bin/python3 -m pip --quiet download --no-deps --no-binary xgrammar --require-hashes \
      --disable-pip-version-check --dest "$scratch" --requirement "$scratch/requirements.txt" >&2; then
    rm -r "$scratch"
    if [ "${ROOST_REQUIRE_GRAMMAR:-0}" = 1 ]; then
      echo "packages.sh: xgrammar $xgrammar_version could not be downloaded. Behind a proxy set https_proxy, BUILD_CA and" \
        "PIP_INDEX_URL" >&2
      exit 1
    fi
    echo "packages.sh: xgrammar $xgrammar_version could not be downloaded: the worker is built without constrained output" >&2
    return 0
  fi
  echo "$xgrammar_sha256  $scratch/xgrammar-$xgrammar_version.tar.gz" | sha256sum --check --quiet
  tar -xzf "$scratch/xgrammar-$xgrammar_version.tar.gz" -C "$scratch"
  mkdir -p "$(dirname "$target")"
  # Another process may have put it there in the meantime.
  mv -T "$scratch/xgrammar-$xgrammar_version" "$target" 2>/dev/null || [ -e "$target/include/xgrammar/xgrammar.h" ]
  rm -r "$scratch"
}

install_packages() {
  local missing=() as_root=() name status
  for name in $names; do
    # The field is 'install ok installed' for a package that is completely installed.
    status=$(dpkg-query -W -f='${Status}' "$name" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "packages.sh: run as root, or install sudo; missing: ${missing[*]}" >&2; exit 1; }
    as_root=(sudo)
  fi
  echo "packages.sh: installing ${missing[*]}" >&2
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get "${apt_options[@]}" update -qq
  "${as_root[@]}" apt-get "${apt_options[@]}" install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Downloads packages into $1 as if this system had none, so all that they depend on comes too.
download_packages() {
  mkdir -p "$1/partial"
  : >"$1/status"
  apt-get "${apt_options[@]}" update -qq
  # shellcheck disable=SC2086
  apt-get "${apt_options[@]}" -o "Dir::State::status=$1/status" -o "Dir::Cache::archives=$1" -o APT::Sandbox::User=root \
    install --download-only -y -qq --no-install-recommends $names >/dev/null
  rm -r "$1/partial" "$1/status"
}

if [ "${1:-}" = download ]; then
  folder=${2:?usage: packages.sh download FOLDER [PROGRAM...]}
  shift 2
  names=$(runtime_of "$@")
  names=$(sort -u <<<"$names")
  trust_own_authority
  download_packages "$folder"
  exit
fi

[ $# -gt 0 ] || set -- build
names=$(wanted "$@")
names=$(sort -u <<<"$names")
trust_own_authority
install_packages
case "$1" in
  build | test) fetch_xgrammar ;;
esac
