#include "deploy/roostctl/curve_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <string_view>

namespace roost::roostctl {
namespace {

// Sizes in pixels.
constexpr double kWidth = 860;
constexpr double kHeight = 460;  // of a panel
constexpr double kLeft = 60;
constexpr double kRight = 200;  // for the legend
constexpr double kTop = 20;
constexpr double kBottom = 50;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kPlotHeight = kHeight - kTop - kBottom;
constexpr double kLegendLine = 20;
constexpr std::size_t kMaxPoints = 400;  // per curve

constexpr std::array<std::string_view, 10> kColours = {"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd",
                                                       "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf"};

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<' || c == '&' || c == '>') {
      escaped += fmt::format("&#{};", static_cast<int>(c));
    } else {
      escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return escaped;
}

// The decades of seconds on the horizontal axis.
struct Axis {
  double least_seconds;
  double first;
  double last;

  [[nodiscard]] double X(double seconds) const {
    return kLeft + (std::log10(std::max(seconds, least_seconds)) - first) / (last - first) * kPlotWidth;
  }
};

double Y(double share) { return kTop + (1 - share) * kPlotHeight; }

Axis AxisOf(const CurvePanel& panel) {
  const double first = std::floor(std::log10(panel.least_seconds));
  Axis axis{.least_seconds = panel.least_seconds, .first = first, .last = std::max(0.0, first + 1)};
  for (const Curve& curve : panel.curves) {
    const double most = curve.seconds.empty() ? 0 : curve.seconds.back();
    axis.last = std::max(axis.last, std::ceil(std::log10(std::max(most, panel.least_seconds))));
  }
  return axis;
}

void DrawAxes(const Axis& axis, std::string_view title, std::string& svg) {
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
                 R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)"
                 "\n",
                 kLeft + kPlotWidth / 2, kHeight - 10, Escaped(title));
}

void DrawCurve(const Axis& axis, const Curve& curve, std::string_view colour, std::string& svg) {
  const auto out = std::back_inserter(svg);
  const std::size_t count = curve.seconds.size();
  const std::size_t stride = count / kMaxPoints + 1;
  fmt::format_to(out, R"(<polyline fill="none" stroke="{}" stroke-width="1.5" points=")", colour);
  for (std::size_t i = 0; i < count; i += stride) {
    const double share = static_cast<double>(i + 1) / static_cast<double>(count);
    fmt::format_to(out, "{:.1f},{:.1f} ", axis.X(curve.seconds[i]), Y(share));
  }
  if (count > 0) fmt::format_to(out, "{:.1f},{:.1f}", axis.X(curve.seconds.back()), Y(1));
  svg += "\"/>\n";
}

void DrawPanel(const CurvePanel& panel, double top, std::string& svg) {
  fmt::format_to(std::back_inserter(svg), "<g transform=\"translate(0 {:.0f})\">\n", top);
  const Axis axis = AxisOf(panel);
  DrawAxes(axis, panel.title, svg);
  for (std::size_t i = 0; i < panel.curves.size(); ++i) {
    const std::string_view colour = kColours[i % kColours.size()];
    DrawCurve(axis, panel.curves[i], colour, svg);
    fmt::format_to(std::back_inserter(svg),
                   R"(<text x="{:.1f}" y="{:.1f}" fill="{}">{}</text>)"
                   "\n",
                   kLeft + kPlotWidth + kLegendLine, kTop + kLegendLine * static_cast<double>(i + 1), colour,
                   Escaped(panel.curves[i].label));
  }
  svg += "</g>\n";
}

}  // namespace

std::string PlotCurves(std::span<const CurvePanel> panels) {
  std::string svg = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" font-family="sans-serif" font-size="12">)"
      "\n"
      R"(<rect width="100%" height="100%" fill="white"/>)"
      "\n",
      kWidth, kHeight * static_cast<double>(panels.size()));
  for (std::size_t i = 0; i < panels.size(); ++i) DrawPanel(panels[i], kHeight * static_cast<double>(i), svg);
  return svg + "</svg>\n";
}

}  // namespace roost::roostctl
