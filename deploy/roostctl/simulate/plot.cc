#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>

#include "deploy/roostctl/simulate/outcome.h"

namespace roost::simulate {
namespace {

// Sizes in pixels.
constexpr double kWidth = 860;
constexpr double kHeight = 460;
constexpr double kLeft = 60;
constexpr double kRight = 200;  // for the legend
constexpr double kTop = 20;
constexpr double kBottom = 50;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kPlotHeight = kHeight - kTop - kBottom;
constexpr double kLegendLine = 20;
constexpr std::size_t kMostPoints = 400;  // per curve
constexpr double kLeastSeconds = 1e-3;    // shorter times are drawn here

constexpr std::array<std::string_view, 10> kColours = {"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd",
                                                       "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf"};

// The decades of seconds on the horizontal axis.
struct Axis {
  double first = -3;
  double last = 0;

  [[nodiscard]] double X(double seconds) const {
    return kLeft + (std::log10(std::max(seconds, kLeastSeconds)) - first) / (last - first) * kPlotWidth;
  }
};

double Y(double share) { return kTop + (1 - share) * kPlotHeight; }

Axis AxisOf(std::span<const Outcome> outcomes) {
  Axis axis;
  for (const Outcome& outcome : outcomes) {
    axis.last = std::max(axis.last, std::ceil(std::log10(std::max(outcome.ttft_max_seconds, kLeastSeconds))));
  }
  return axis;
}

void DrawAxes(const Axis& axis, std::string& svg) {
  const auto out = std::back_inserter(svg);
  for (double decade = axis.first; decade <= axis.last; ++decade) {
    const double seconds = std::pow(10.0, decade);
    const double x = axis.X(seconds);
    fmt::format_to(out,
                   R"(<line x1="{0:.1f}" y1="{1:.1f}" x2="{0:.1f}" y2="{2:.1f}" stroke="#ddd"/>)"
                   R"(<text x="{0:.1f}" y="{3:.1f}" text-anchor="middle">{4:g} s</text>)"
                   "\n",
                   x, kTop, kTop + kPlotHeight, kTop + kPlotHeight + kLegendLine, seconds);
  }
  for (int percent = 0; percent <= 100; percent += 25) {
    const double y = Y(percent / 100.0);
    fmt::format_to(out,
                   R"(<line x1="{0:.1f}" y1="{1:.1f}" x2="{2:.1f}" y2="{1:.1f}" stroke="#ddd"/>)"
                   R"(<text x="{3:.1f}" y="{4:.1f}" text-anchor="end">{5} %</text>)"
                   "\n",
                   kLeft, y, kLeft + kPlotWidth, kLeft - 6, y + 4, percent);
  }
  fmt::format_to(out,
                 R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">time to first token</text>)"
                 "\n",
                 kLeft + kPlotWidth / 2, kHeight - 10);
}

void DrawCurve(const Axis& axis, const Outcome& outcome, std::string_view colour, std::string& svg) {
  const auto out = std::back_inserter(svg);
  const std::size_t count = outcome.ttft_seconds.size();
  const std::size_t stride = count / kMostPoints + 1;
  fmt::format_to(out, R"(<polyline fill="none" stroke="{}" stroke-width="1.5" points=")", colour);
  for (std::size_t i = 0; i < count; i += stride) {
    const double share = static_cast<double>(i + 1) / static_cast<double>(count);
    fmt::format_to(out, "{:.1f},{:.1f} ", axis.X(outcome.ttft_seconds[i]), Y(share));
  }
  if (count > 0) fmt::format_to(out, "{:.1f},{:.1f}", axis.X(outcome.ttft_seconds.back()), Y(1));
  svg += "\"/>\n";
}

}  // namespace

std::string PlotTtft(std::span<const Outcome> outcomes) {
  std::string svg = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" font-family="sans-serif" font-size="12">)"
      "\n"
      R"(<rect width="100%" height="100%" fill="white"/>)"
      "\n",
      kWidth, kHeight);
  const Axis axis = AxisOf(outcomes);
  DrawAxes(axis, svg);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const std::string_view colour = kColours[i % kColours.size()];
    DrawCurve(axis, outcomes[i], colour, svg);
    fmt::format_to(std::back_inserter(svg),
                   R"(<text x="{:.1f}" y="{:.1f}" fill="{}">{} ({:.2f} s)</text>)"
                   "\n",
                   kLeft + kPlotWidth + kLegendLine, kTop + kLegendLine * static_cast<double>(i + 1), colour,
                   outcomes[i].policy, outcomes[i].ttft_mean_seconds);
  }
  return svg + "</svg>\n";
}

}  // namespace roost::simulate
