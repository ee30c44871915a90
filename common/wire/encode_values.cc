#include "common/wire/encode_values.h"

#include "common/base/utf8.h"
#include "common/wire/messages.h"

namespace roost::wire {

// A third of the limit, because a replaced byte becomes three.
std::string BoundedText(const std::string& text) {
  std::string front = text.substr(0, WireLimits::kMaxTextBytes / 3);
  front.resize(front.size() - IncompleteUtf8Suffix(front));
  return ReplaceInvalidUtf8(front);
}

}  // namespace roost::wire
