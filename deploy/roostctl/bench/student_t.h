// Student's t distribution, for intervals of the mean of few values.
#pragma once

namespace roost::roostctl {

// The share of the distribution with `freedom` degrees of freedom (above 0) that lies below `t`.
[[nodiscard]] double StudentShareBelow(double t, double freedom);

// The t that `share` (inside (0, 1)) of the distribution lies below. By bisection; exact to about 1e-9.
[[nodiscard]] double StudentQuantile(double share, double freedom);

}  // namespace roost::roostctl
