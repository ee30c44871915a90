#!/usr/bin/env bash
# Says what a machine has for its CUDA device to be measured, and why there is none; OUT/device gets the device's name.
#
#   ./tests/bench/gpu_probe.sh BIN OUT
#
# Exits with 77 without a device, and with 1 if a library that every stage needs is missing.
set -uo pipefail
bin=$1 out=$2
status=0
echo "libraries are looked for in $ROOST_GPU_LIBRARIES"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || echo "nvidia-smi does not answer"
df -h /dev/shm /tmp
nproc
python3 --version
for name in nvcc ncu compute-sanitizer; do command -v $name || echo "$name is not there"; done
for program in "$bin"/../programs/*; do
  missing=$(LD_LIBRARY_PATH=$bin/../lib:$ROOST_GPU_LIBRARIES ldd "$program" 2>&1 | grep 'not found')
  if [ -n "$missing" ]; then
    echo "gpu_probe.sh: $(basename "$program") lacks: $missing"
    status=1
  fi
done
found=
for folder in ${ROOST_GPU_LIBRARIES//:/ }; do [ -e "$folder/libnccl.so.2" ] && found=$folder; done
echo "NCCL: ${found:-none}"
worker=$("$bin/roost-worker" --backend cuda --model /nowhere --metrics-address '' 2>&1)
code=$?
echo "$worker"
if [ $code -eq 69 ]; then
  echo "gpu_probe.sh: the worker finds no device: $worker"
  exit 77
fi
if [ $code -ne 66 ]; then
  echo "gpu_probe.sh: the worker ends with $code, where it should find a device and no model"
  status=1
fi
nvidia-smi --query-gpu=name --format=csv,noheader | head -1 >"$out/device"
exit $status
