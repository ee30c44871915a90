# Sourced: decides which backend this machine can build and run.

# find_nvcc: prints the path of the CUDA compiler; searches where CMakeLists.txt searches.
find_nvcc() {
  local candidate
  for candidate in "${CUDACXX:-}" "$(command -v nvcc || true)" "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc"; do
    if [ -x "$candidate" ]; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

# count_devices: prints how many GPUs the driver lists.
count_devices() { nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true; }

# choose_backend auto|cpu|cuda: sets backend to cpu or cuda, device_count, and backend_reason to a sentence.
choose_backend() {
  local nvcc
  nvcc=$(find_nvcc || true)
  device_count=$(count_devices)
  backend=cpu
  if [ "$1" = cpu ]; then
    backend_reason='--backend cpu was given'
  elif [ -n "$nvcc" ] && [ "$device_count" -gt 0 ]; then
    backend=cuda
    backend_reason="nvcc is $nvcc, and nvidia-smi lists $device_count GPU(s)"
  elif [ -n "$nvcc" ]; then
    backend_reason="nvcc is $nvcc, but nvidia-smi lists no GPU"
  elif [ "$device_count" -gt 0 ]; then
    backend_reason="nvidia-smi lists $device_count GPU(s), but there is no nvcc in PATH, CUDACXX or CUDA_PATH"
  else
    backend_reason='there is neither nvcc nor a GPU'
  fi
  if [ "$1" = cuda ] && [ "$backend" = cpu ]; then
    echo "quickstart: --backend cuda: $backend_reason" >&2
    return 69
  fi
}

# build_programs: configures build/release for $backend and builds the programs.
build_programs() {
  local flags=() targets=(roost-router roost-worker roostctl)
  ./deploy/packages.sh build
  # Tests are configured only if their packages are installed; the programs need none of them.
  [ -f build/release/build.ninja ] || flags+=(-DROOST_BUILD_TESTS=OFF)
  if [ "$backend" = cuda ]; then
    flags+=(-DROOST_CUDA=ON)
    targets+=(roost_cuda)
  fi
  [ ${#flags[@]} -eq 0 ] || cmake --preset release "${flags[@]}" >/dev/null
  cmake --build --preset release --target "${targets[@]}"
}
