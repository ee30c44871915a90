// A thread per place.
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_primitives.cuh"
#include "kernels/place_sampled.h"

namespace roost::kernels {
namespace {

constexpr std::uint32_t kThreads = 256;

__global__ void PlaceKernel(PlaceSampledArgs args) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= args.place_count) return;
  args.tokens[args.places[i].index] = args.sampled[args.places[i].draw].token;
}

}  // namespace

void PlaceSampledCuda(Device& device, const PlaceSampledArgs& args) {
  if (args.place_count == 0) return;
  const std::uint32_t blocks = (args.place_count + kThreads - 1) / kThreads;
  Launch(device, {.grid_x = blocks, .threads = kThreads}, PlaceKernel, args);
}

void LoadPlaceSampledKernels(Device& device) { Load(device, PlaceKernel); }

}  // namespace roost::kernels
