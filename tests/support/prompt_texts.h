// Texts of conversations as chat templates write them, for tests of added tokens and written ranges.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/byte_range.h"
#include "common/base/rng.h"
#include "common/text/prompt_text.h"

namespace roost::testing_support {

struct OwnedText {
  std::string bytes;
  std::vector<ByteRange> written;

  [[nodiscard]] PromptText view() const { return {bytes, written}; }

  void Write(const std::string& text) {
    if (text.empty()) return;
    if (!written.empty() && written.back().end == bytes.size()) {
      written.back().end += text.size();
    } else {
      written.push_back({bytes.size(), bytes.size() + text.size()});
    }
    bytes += text;
  }
  void Give(const std::string& text) { bytes += text; }
};

// A text that the template wrote completely.
inline OwnedText AllWritten(std::string text) {
  OwnedText owned;
  owned.Write(std::move(text));
  return owned;
}

}  // namespace roost::testing_support
