// Any bytes as a sequence of prompts: what the prompt memo reads is what tokenizing and hashing the whole text gives.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/text/tokenizer.h"
#include "tests/support/memo_driver.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roost;
  static const std::vector<std::shared_ptr<const Tokenizer>> tokenizers = testing_support::MemoTokenizers();
  testing_support::MemoDriver driver(tokenizers);
  driver.Run({data, size});
  return 0;
}
