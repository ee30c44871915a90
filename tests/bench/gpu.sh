#!/usr/bin/env bash
# Checks and measures a CUDA device: first the gpu tests, then one line per figure, figure <name> <value> <unit>, and a
# table of all figures with their targets, the limits measured in the same run, and the results of PyTorch and
# transformers. A JSON file gets the same after every figure. A failure is named on stderr, does not stop the rest, and
# makes the exit code 1; without a device it is 77.
#
#   ./tests/bench/gpu.sh [--skip-tests] [gpu_figures.json]    builds first
#   ./tests/bench/gpu.sh --pack roost-gpu.tar.gz              builds, and packs the programs with the libraries they need
#   ./tests/bench/gpu.sh --packed roost-gpu.tar.gz [--skip-tests] [gpu_figures.json]
#                                                             measures with these and builds nothing
#
# A machine that measures with a pack needs the driver and cuBLASLt from CUDA, and no compiler, CMake or Debian
# package; its C library must be at least as new as where the pack was made. Most of the time goes to the random
# weights of 8 billion parameters, which the host makes, and to the 16 GB file of the start figure.
set -euo pipefail
cd "$(dirname "$0")/../.."

tests=yes
pack=
packed=
json=gpu_figures.json
while [ $# -gt 0 ]; do
  case "$1" in
    --skip-tests) tests=no ;;
    --pack) pack=${2:?"--pack FILE"}; shift ;;
    --packed) packed=${2:?"--packed FILE"}; shift ;;
    -*) echo "gpu.sh: unknown flag $1" >&2; exit 64 ;;
    *) json=$1 ;;
  esac
  shift
done

programs=(roost_gpu_bench roost-worker roost-router kernels_cuda_gpu_test worker_model_gpu_test)

build() {
  ./deploy/packages.sh test >&2 || echo "gpu.sh: packages are missing; going on with what is there" >&2
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  cmake --preset release -DROOST_BUILD_TESTS=ON -DROOST_CUDA=ON >&2
  cmake --build --preset release --target "${programs[@]}" roost_cuda >&2
}

# All libraries that the programs load, except those of the C and C++ runtimes, CUDA and the driver.
libraries() {
  local theirs='/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s|cublas[^/]*|cuda[^/]*|nv[^/]*))\.so'
  ldd "$@" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u | grep -vE "$theirs"
}

# programs/ has the programs and the module beside them, lib/ their libraries. Each script in bin/ starts a program
# with these libraries, so that no other program gets them.
make_pack() {
  local folder
  folder=$(mktemp -d)
  mkdir "$folder"/{bin,lib,programs}
  cp "${programs[@]/#/build/release/bin/}" build/release/bin/libroost_cuda.so "$folder/programs"
  libraries "$folder"/programs/* | xargs cp -L -t "$folder/lib"
  for program in "${programs[@]}"; do
    cat >"$folder/bin/$program" <<'END'
#!/bin/sh
folder=$(dirname "$(dirname "$(readlink -f "$0")")")
LD_LIBRARY_PATH=$folder/lib:$ROOST_CUBLAS exec "$folder/programs/$(basename "$0")" "$@"
END
    chmod +x "$folder/bin/$program"
  done
  git rev-parse --short HEAD >"$folder/commit"
  tar -C "$folder" -czf "$1" .
  rm -r "$folder"
  echo "gpu.sh: packed $(du -h "$1" | cut -f1) into $1" >&2
}

# The folder of the cuBLASLt that a module needs: the toolkit's, or one from a Python package.
find_cublas() {
  local wanted folder python_folders
  wanted=$(ldd "$1" | grep -oE 'libcublasLt\.so\.[0-9]+' | head -1)
  python_folders=$(python3 -c 'import glob, sys
for path in sys.path: print(*glob.glob(path + "/nvidia/*/lib"), sep="\n")')
  for folder in ${CUDA_PATH:+"$CUDA_PATH/lib64"} /usr/local/cuda/lib64 /usr/local/cuda/lib /usr/local/cuda-*/lib64 $python_folders; do
    if [ -e "$folder/$wanted" ]; then
      echo "$folder"
      return
    fi
  done
  echo "gpu.sh: $wanted is not in the usual places; CUDA_PATH may say where" >&2
}

if [ -n "$packed" ]; then
  folder=$(mktemp -d)
  trap 'rm -r "$folder"' EXIT
  tar -C "$folder" -xzf "$packed"
  bin=$folder/bin
  ROOST_CUBLAS=$(find_cublas "$folder/programs/libroost_cuda.so")
  ROOST_COMMIT=$(cat "$folder/commit")
  export ROOST_CUBLAS ROOST_COMMIT
else
  build
  bin=build/release/bin
fi
if [ -n "$pack" ]; then
  make_pack "$pack"
  exit
fi

failed=0
if [ "$tests" = yes ]; then
  export ROOST_SOURCE_DIR=$PWD
  for test in "$bin"/*_gpu_test; do
    timeout 300 "$test" --gtest_brief=1 >&2 || { echo "gpu.sh: $(basename "$test") failed" >&2; failed=1; }
  done
fi
status=0
python3 tests/bench/gpu_figures.py "$json" --silence 150 -- "$bin/roost_gpu_bench" \
  -- python3 tests/bench/start_figure.py --bin "$bin" \
  -- python3 tests/bench/torch_figures.py || status=$?
[ $status -eq 0 ] || exit $status
exit $failed
