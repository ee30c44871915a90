#include <fmt/format.h>

#include "deploy/roostctl/curve_plot.h"
#include "deploy/roostctl/simulate/outcome.h"

namespace roost::simulate {

std::string PlotTtft(std::span<const Outcome> outcomes) {
  roostctl::CurvePanel panel{.title = "time to first token", .curves = {}};
  for (const Outcome& outcome : outcomes) {
    panel.curves.push_back({fmt::format("{} ({:.2f} s)", outcome.policy, outcome.ttft.mean), outcome.ttft_seconds});
  }
  return roostctl::PlotCurves({&panel, 1});
}

}  // namespace roost::simulate
