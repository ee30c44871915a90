#include "deploy/roostctl/simulate/capacity.h"

#include <cmath>

namespace roost::simulate {

Result<double> HighestGoodSpeed(const GoodShareAt& at, double good_share) {
  double good = 1;
  ROOST_ASSIGN_OR_RETURN(double share, at(good));
  while (share < good_share) {
    good /= 2;
    if (good < 1 / kMostSpeed) return 0.0;
    ROOST_ASSIGN_OR_RETURN(share, at(good));
  }
  double bad = 2 * good;
  while (bad <= kMostSpeed) {
    ROOST_ASSIGN_OR_RETURN(share, at(bad));
    if (share < good_share) break;
    good = bad;
    bad *= 2;
  }
  if (bad > kMostSpeed) return good;
  while (bad > good * kCapacityStep) {
    const double middle = std::sqrt(good * bad);
    ROOST_ASSIGN_OR_RETURN(share, at(middle));
    (share < good_share ? bad : good) = middle;
  }
  return good;
}

}  // namespace roost::simulate
