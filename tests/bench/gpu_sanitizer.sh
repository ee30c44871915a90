#!/usr/bin/env bash
# Small tests of the kernels that share memory between threads, under compute-sanitizer: memory errors, then races.
#
#   ./tests/bench/gpu_sanitizer.sh BIN
set -uo pipefail
filter=AttentionCudaTest.DecodesOf*:AttentionCudaTest.LongContexts*:LogprobsCudaTest.*:CudaRmsNormTest.AgreesWithThePlainOne
filter=$filter:SampleCudaTest.EqualLogits*:SampleCudaTest.DrawsWhatTheCpuDraws
programs=$1/../programs
export LD_LIBRARY_PATH=$1/../lib:$ROOST_GPU_LIBRARIES
status=0
for tool in memcheck racecheck; do
  echo "---- $tool ----"
  timeout 24 compute-sanitizer --tool $tool --error-exitcode 9 --print-limit 5 \
    "$programs/kernels_cuda_gpu_test" --gtest_filter="$filter" --gtest_brief=1
  code=$?
  echo "gpu_sanitizer.sh: $tool ended with $code"
  # Cut at its time it has found nothing so far.
  [ $code -eq 0 ] || [ $code -eq 124 ] || status=1
done
exit $status
