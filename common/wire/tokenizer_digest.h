// What names a tokenizer bundle: workers put it into their hello, and routers prove with it what they are sent.
#pragma once

#include <string>

#include "common/wire/messages.h"

namespace roost::wire {

// SHA-256 of the bundle's texts, each with its length in front, in hexadecimal. Its `digest` has no part in it.
// O(bytes): about a millisecond per megabyte.
[[nodiscard]] std::string DigestOf(const Tokenizer& bundle);

}  // namespace roost::wire
