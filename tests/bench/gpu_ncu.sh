#!/usr/bin/env bash
# Hardware counters of one prefill attention kernel and one decode attention kernel, read by Nsight Compute. Clocks stay
# as they are.
#
#   ./tests/bench/gpu_ncu.sh BIN
set -uo pipefail
programs=$1/../programs
export LD_LIBRARY_PATH=$1/../lib:$ROOST_GPU_LIBRARIES
status=0
for figure in gpu_prefill_attention gpu_decode_attention_64x4096; do
  echo "---- $figure ----"
  ncu --clock-control none --launch-skip 2 --launch-count 1 --kernel-name regex:AttentionKernel \
    --section SpeedOfLight --section Occupancy --section MemoryWorkloadAnalysis --section WarpStateStats \
    "$programs/roost_gpu_bench" $figure || status=1
done
exit $status
