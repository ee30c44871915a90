// Plots of distributions as SVG: for each curve, the share of values (vertical) that are at most a time (horizontal,
// logarithmic).
#pragma once

#include <span>
#include <string>
#include <vector>

namespace roost::roostctl {

struct Curve {
  std::string label;
  std::vector<double> seconds;  // ascending
};

// One plot; its curves have the colours of the same places in other panels.
struct CurvePanel {
  std::string title;            // of the horizontal axis
  double least_seconds = 1e-3;  // its left end; shorter times are drawn there
  std::vector<Curve> curves;
};

// The panels, one below the other. Labels and titles may hold any text.
[[nodiscard]] std::string PlotCurves(std::span<const CurvePanel> panels);

}  // namespace roost::roostctl
