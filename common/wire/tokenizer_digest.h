// The name of a tokenizer bundle. Workers send it in their Hello; routers check with it the bundle that they receive.
#pragma once

#include <string>

#include "common/wire/messages.h"

namespace roost::wire {

// SHA-256 of the bundle's texts, each behind its length, in hexadecimal. Does not cover its field `digest`. O(bytes):
// about a millisecond per megabyte.
[[nodiscard]] std::string DigestOf(const Tokenizer& bundle);

}  // namespace roost::wire
