// The tokens of one choice in one step: usually one, which needs no allocation.
#pragma once

#include "common/base/ids.h"
#include "common/base/inline_vector.h"

namespace roost::wire {

using StepTokens = InlineVector<TokenId, 2>;

}  // namespace roost::wire
