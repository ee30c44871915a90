# Sourced by gpu.sh and gpu_lease.sh: programs that check and measure a CUDA device, packed with the libraries they need.
#
# A machine that measures with a pack needs the driver, cuBLASLt from CUDA and Python, and no compiler, CMake or Debian
# package; its C library must be at least as new as where the pack was made.

gpu_programs=(roost_gpu_bench roost-worker roost-router kernels_cuda_gpu_test worker_model_gpu_test)

build_gpu_programs() {
  ./deploy/packages.sh test >&2 || echo "gpu.sh: packages are missing; going on with what is there" >&2
  cmake --preset release -DROOST_BUILD_TESTS=ON -DROOST_CUDA=ON >&2
  cmake --build --preset release --target "${gpu_programs[@]}" roost_cuda >&2
}

# All libraries that the programs load, except those of the C and C++ runtimes, CUDA and the driver.
packed_libraries() {
  local theirs='/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s|cublas[^/]*|cuda[^/]*|nv[^/]*|nccl))\.so'
  ldd "$@" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u | grep -vE "$theirs"
}

# make_gpu_pack FILE [BIN]: programs/ has the programs and the module beside them, lib/ their libraries. Each script in
# bin/ starts a program with these libraries, so that no other program gets them. Debug information stays behind.
make_gpu_pack() {
  local folder built=${2:-build/release/bin} program
  folder=$(mktemp -d)
  mkdir "$folder"/{bin,lib,programs}
  cp "${gpu_programs[@]/#/$built/}" "$built/libroost_cuda.so" "$folder/programs"
  packed_libraries "$folder"/programs/* | xargs cp -L -t "$folder/lib"
  strip --strip-debug "$folder"/programs/* "$folder"/lib/*
  for program in "${gpu_programs[@]}"; do
    cat >"$folder/bin/$program" <<'END'
#!/bin/sh
folder=$(dirname "$(dirname "$(readlink -f "$0")")")
LD_LIBRARY_PATH=$folder/lib${ROOST_GPU_LIBRARIES:+:$ROOST_GPU_LIBRARIES} exec "$folder/programs/$(basename "$0")" "$@"
END
    chmod +x "$folder/bin/$program"
  done
  git describe --always --dirty >"$folder/commit"
  tar -C "$folder" -cf - . | gzip >"$1"
  rm -r "$folder"
  echo "gpu.sh: packed $(du -h "$1" | cut -f1) into $1" >&2
}

# The first of the usual folders that has the library: the toolkit's, or one from a Python package.
folder_of_library() {
  local folder python_folders
  python_folders=$(python3 -c 'import glob, sys
for path in sys.path: print(*glob.glob(path + "/nvidia/*/lib"), sep="\n")')
  for folder in ${CUDA_PATH:+"$CUDA_PATH/lib64"} /usr/local/cuda/lib64 /usr/local/cuda/lib /usr/local/cuda-*/lib64 \
      $python_folders /usr/lib/x86_64-linux-gnu; do
    if [ -e "$folder/$1" ]; then
      echo "$folder"
      return
    fi
  done
  echo "gpu_pack.sh: $1 is not in the usual places; CUDA_PATH may say where" >&2
}

# open_gpu_pack FILE FOLDER: sets ROOST_GPU_LIBRARIES, where the programs look beside their own: cuBLASLt, NCCL, what
# LD_LIBRARY_PATH had, through which some images reach the driver, and a usual place of it. Sets ROOST_COMMIT.
open_gpu_pack() {
  local module=$2/programs/libroost_cuda.so cublas each
  tar -C "$2" -xf "$1"
  cublas=$(grep -aoE 'libcublasLt\.so\.[0-9]+' "$module" | head -1)
  ROOST_GPU_LIBRARIES=
  for each in "$(folder_of_library "$cublas")" "$(folder_of_library libnccl.so.2)" "${LD_LIBRARY_PATH:-}" \
      /usr/local/nvidia/lib64; do
    [ -z "$each" ] || ROOST_GPU_LIBRARIES+=${ROOST_GPU_LIBRARIES:+:}$each
  done
  ROOST_COMMIT=$(cat "$2/commit")
  export ROOST_GPU_LIBRARIES ROOST_COMMIT
}
