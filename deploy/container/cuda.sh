#!/usr/bin/env bash
# Installs the CUDA toolkit that cuda.txt lists into a folder, laid out as NVIDIA's own installer does it, so that
# CUDACXX=FOLDER/bin/nvcc builds the backend. Needs no GPU and no driver.
#
#   ./deploy/container/cuda.sh /usr/local/cuda
set -euo pipefail
target=${1:?usage: cuda.sh FOLDER}
list=$(cd "$(dirname "$0")" && pwd)/cuda.txt

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
[ -n "${PIP_INDEX_URL:-}" ] || unset PIP_INDEX_URL
if [ -n "${BUILD_CA:-}" ]; then
  { cat /etc/ssl/certs/ca-certificates.crt; printf '%s\n' "$BUILD_CA"; } >"$scratch/authorities.pem"
  export PIP_CERT=$scratch/authorities.pem
fi
/usr/bin/python3 -m pip --quiet install --disable-pip-version-check --root-user-action=ignore --no-cache-dir --no-deps \
  --only-binary :all: --require-hashes --target "$scratch" --requirement "$list"

mkdir -p "$target"
cp -a "$scratch"/nvidia/cu13/. "$target"
cp -a "$scratch"/nvidia/nccl/include/. "$target/include"
cp -a "$scratch"/nvidia/nccl/lib/. "$target/lib"
mkdir -p "$target/licenses"
for licenses in "$scratch"/*.dist-info/licenses; do
  cp -a "$licenses" "$target/licenses/$(basename "$(dirname "$licenses")" .dist-info)"
done
# Names that linkers and nvcc look for, and wheels can not hold.
ln -sfn lib "$target/lib64"
ln -sfn libcublasLt.so.13 "$target/lib/libcublasLt.so"
ln -sfn libcudart.so.13 "$target/lib/libcudart.so"
ln -sfn libnccl.so.2 "$target/lib/libnccl.so"
chmod -R u=rwX,go=rX "$target"
