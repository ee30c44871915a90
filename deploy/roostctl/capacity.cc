#include "deploy/roostctl/capacity.h"

#include <cmath>

namespace roost::roostctl {

Result<double> HighestGoodSpeed(const GoodShareAt& at, double precision) {
  double good = 1;
  ROOST_ASSIGN_OR_RETURN(double share, at(good));
  while (share < kGoodShare) {
    good /= 2;
    if (good < 1 / kMaxSpeed) return 0.0;
    ROOST_ASSIGN_OR_RETURN(share, at(good));
  }
  double bad = 2 * good;
  while (bad <= kMaxSpeed) {
    ROOST_ASSIGN_OR_RETURN(share, at(bad));
    if (share < kGoodShare) break;
    good = bad;
    bad *= 2;
  }
  if (bad > kMaxSpeed) return good;
  while (bad > good * precision) {
    const double middle = std::sqrt(good * bad);
    ROOST_ASSIGN_OR_RETURN(share, at(middle));
    (share < kGoodShare ? bad : good) = middle;
  }
  return good;
}

}  // namespace roost::roostctl
