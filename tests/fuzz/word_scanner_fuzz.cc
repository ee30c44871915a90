// Any text through each word scanner: its words are the matches of the pattern that it implements.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/base/utf8.h"
#include "common/text/regex/regex.h"
#include "common/text/word_scanner.h"
#include "tests/support/word_oracle.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roost;
  static const std::vector<testing_support::WordOracle> oracles = testing_support::WordOracles();
  static text::RegexScratch scratch;
  const std::string text = ReplaceInvalidUtf8(std::string_view(reinterpret_cast<const char*>(data), size));
  for (const testing_support::WordOracle& oracle : oracles) {
    ROOST_CHECK(oracle.Scanned(text) == oracle.Matched(text, scratch), "{}: {}", oracle.name(), text);
  }
  return 0;
}
