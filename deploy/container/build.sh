#!/usr/bin/env bash
# Builds container images from this tree, with the version of CMakeLists.txt as their tag.
#
#   ./deploy/container/build.sh                    router, worker-cpu and worker-cuda
#   ./deploy/container/build.sh router worker-cpu  these
#   ./deploy/container/build.sh --version          prints the version and builds nothing
#
# ROOST_CONTAINER_ENGINE names the program: podman, docker or buildah; by default the first of them that is there.
# ROOST_IMAGE_PREFIX stands before each name: example.org/team/ makes example.org/team/roost-router.
# Behind a proxy: http_proxy and https_proxy go along, PIP_INDEX_URL names another Python index, and ROOST_BUILD_CA a file with
# the authority (PEM) that proxy or index stand behind. No image keeps them. ROOST_BASE_IMAGE takes the place of debian:12-slim;
# base.sh makes one from this machine's sources of packages. CMAKE_BUILD_PARALLEL_LEVEL bounds how many compilers run at a time.
# SOURCE_DATE_EPOCH: the time of the images and their files; by default that of the last commit.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=$(sed -n 's/^project(roost VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
if [ "${1:-}" = --version ]; then
  echo "$version"
  exit
fi
targets=("$@")
[ $# -gt 0 ] || targets=(router worker-cpu worker-cuda)
for target in "${targets[@]}"; do
  case "$target" in
    router | worker-cpu | worker-cuda) ;;
    *) echo "build.sh: there is no image '$target' (router, worker-cpu, worker-cuda)" >&2; exit 2 ;;
  esac
done

engine=${ROOST_CONTAINER_ENGINE:-}
for candidate in podman docker buildah; do
  [ -n "$engine" ] || ! command -v "$candidate" >/dev/null || engine=$candidate
done
[ -n "$engine" ] || { echo "build.sh: install podman, docker or buildah" >&2; exit 1; }

# The time of the tree's last change, so that the same tree makes the same labels.
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
seconds=$(git log -1 --format=%ct 2>/dev/null) || seconds=0
seconds=${SOURCE_DATE_EPOCH:-$seconds}
created=$(date --utc --date="@$seconds" +%Y-%m-%dT%H:%M:%SZ)
# All files of an image have this time, so that the same tree and packages make the same image.
case "${engine%% *}" in
  *docker) times=(--build-arg "SOURCE_DATE_EPOCH=$seconds") ;;
  *) times=(--timestamp "$seconds") ;;
esac
# buildah would compile again for each image.
export BUILDAH_LAYERS=${BUILDAH_LAYERS:-true}
network=()
if [ -n "${ROOST_BUILD_CA:-}" ]; then
  authority=$(cat "$ROOST_BUILD_CA") || { echo "build.sh: ROOST_BUILD_CA: $ROOST_BUILD_CA can not be read" >&2; exit 2; }
  network+=(--build-arg "BUILD_CA=$authority")
fi
[ -z "${PIP_INDEX_URL:-}" ] || network+=(--build-arg "PIP_INDEX_URL=$PIP_INDEX_URL")
[ -z "${ROOST_BASE_IMAGE:-}" ] || network+=(--build-arg "DEBIAN=$ROOST_BASE_IMAGE")
for name in http_proxy https_proxy no_proxy CMAKE_BUILD_PARALLEL_LEVEL; do
  [ -z "${!name:-}" ] || network+=(--build-arg "$name=${!name}")
done
for target in "${targets[@]}"; do
  # ROOST_BUILD_FLAGS: more flags for the engine, of the tests.
  # shellcheck disable=SC2086
  $engine build ${ROOST_BUILD_FLAGS:-} "${times[@]}" "${network[@]}" -f deploy/container/Containerfile --target "$target" \
    --build-arg "VERSION=$version" --build-arg "REVISION=$revision" --build-arg "CREATED=$created" \
    -t "${ROOST_IMAGE_PREFIX:-}roost-$target:$version" .
done
