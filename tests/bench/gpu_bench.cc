// roost_gpu_bench: the performance of a CUDA device, one line per figure.
//
//   roost_gpu_bench --list        the figures' names
//   roost_gpu_bench [NAME …]      measures these, or all, in order; prints each line as soon as it is known
//   roost_gpu_bench --quick       runs everything once, tiny, behind the SIMT shim, so that it is tested without a
//                                 device
//
// Without a device it says so and exits with 77. A figure that fails ends the program; gpu_figures.py continues with
// the next one.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/bench/device_copy.h"
#include "tests/bench/gpu_bench.h"
#include "tests/support/late_ops.h"
#include "tests/support/simt/simt_ops.h"
#include "worker/backend/choose_backend.h"

namespace roost::bench {

void Figure(std::string_view name, double value, std::string_view unit) {
  fmt::print("figure {} {:.4g} {}\n", name, value, unit);
  std::fflush(stdout);
}

GpuSizes TinyGpuSizes() {
  return {.copy_bytes = 1U << 20U,
          .peak_product = 32,
          .product_tokens = 2,
          .divide_widths = 128,
          .kv_heads = 1,
          .group = 2,
          .decode_batches = {2},
          .decode_contexts = {40},
          .decode_kv_bytes = 1,
          .sharing_requests = 2,
          .prompt_tokens = 64,
          .calls = 1,
          .large_preset = "tiny",
          .prefill_prompts = 2,
          .prefill_prompt_tokens = 20,
          .max_batch_tokens = 32,
          .small_preset = "tiny",
          .sequences = 3,
          .least_tokens = 2,
          .most_tokens = 9,
          .context = 5,
          .decode_steps = 3,
          .repeats = 1,
          .travel_blocks = 3,
          .travel_sequences = 2,
          .travel_context = 20};
}

namespace {

constexpr int kSkipped = 77;
constexpr int kUsage = 64;

std::vector<GpuFigure> AllFigures(const GpuUnderTest& gpu) {
  std::vector<GpuFigure> figures = GpuKernelFigures(gpu);
  for (GpuFigure& figure : GpuModelFigures(gpu)) figures.push_back(std::move(figure));
  for (GpuFigure& figure : GpuTravelFigures(gpu)) figures.push_back(std::move(figure));
  return figures;
}

// The shim alone runs kernels for one thread.
int RunQuick() {
  const GpuUnderTest gpu{testing_support::LateOps<simt::SimtOps>(), HostCopySeconds, TinyGpuSizes(), Effort::kQuick};
  for (const GpuFigure& figure : AllFigures(gpu)) {
    const bool sound = figure.measure() > 0;  // a shim has no figures
    fmt::print("{} {}\n", sound ? "ran" : "nothing was measured by", figure.name);
    if (!sound) return 1;
  }
  return 0;
}

bool IsFigure(const std::vector<GpuFigure>& figures, std::string_view name) {
  return std::any_of(figures.begin(), figures.end(), [name](const GpuFigure& figure) { return figure.name == name; });
}

int Measure(const std::vector<GpuFigure>& figures, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (IsFigure(figures, name)) continue;
    fmt::print(stderr, "roost_gpu_bench: there is no figure '{}'\n", name);
    return kUsage;
  }
  for (const GpuFigure& figure : figures) {
    const bool wanted = names.empty() || std::find(names.begin(), names.end(), figure.name) != names.end();
    if (wanted) Figure(figure.name, figure.measure(), figure.unit);
  }
  return 0;
}

int Main(const std::vector<std::string>& arguments) {
  if (arguments == std::vector<std::string>{"--quick"}) return RunQuick();
  const auto choice = worker::ChooseBackend({.kind = worker::BackendKind::kCuda});
  if (!choice.ok()) {
    fmt::print(stderr, "roost_gpu_bench: skipped: {}\n", choice.error().ToString());
    return kSkipped;
  }
  const GpuUnderTest gpu{*choice->ops, CudaCopySeconds, GpuSizes{}, Effort::kFull};
  const std::vector<GpuFigure> figures = AllFigures(gpu);
  if (arguments == std::vector<std::string>{"--list"}) {
    for (const GpuFigure& figure : figures) fmt::print("{}\n", figure.name);
    return 0;
  }
  fmt::print("device {}\n", choice->device);
  std::fflush(stdout);
  return Measure(figures, arguments);
}

}  // namespace
}  // namespace roost::bench

int main(int argc, char** argv) { return roost::bench::Main({argv + 1, argv + argc}); }
