// Any bytes through a byte-level tokenizer and back: decoding gives the input, with ill-formed UTF-8 replaced, and a
// stream of the tokens gives the same. The bytes are also read as a tokenizer file, which may fail but must not crash.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/byte_range.h"
#include "common/base/check.h"
#include "common/base/utf8.h"
#include "common/text/tokenizer.h"
#include "tests/support/byte_vocabulary.h"

namespace roost {
namespace {

std::shared_ptr<const Tokenizer> MakeTokenizer() {
  const std::string json = fmt::format(
      R"({{"version":"1.0","normalizer":null,"pre_tokenizer":{{"type":"ByteLevel","add_prefix_space":false}},)"
      R"("added_tokens":[{{"id":260,"content":"<|x|>","single_word":false,"lstrip":false,"rstrip":false,)"
      R"("normalized":false,"special":true}}],"decoder":{{"type":"ByteLevel"}},"model":{}}})",
      testing_support::ByteLevelModelJson());
  return std::move(Tokenizer::FromJson(json, "fuzz")).value();
}

}  // namespace
}  // namespace roost

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roost;
  static const std::shared_ptr<const Tokenizer> tokenizer = MakeTokenizer();
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);

  const std::vector<ByteRange> all{{0, bytes.size()}};
  std::size_t middle = bytes.size() / 2;
  while (middle > 0 && (data[middle] & 0xC0U) == 0x80U) --middle;
  const std::vector<ByteRange> second_half{{middle, bytes.size()}};
  for (const auto& written : {all, second_half, std::vector<ByteRange>()}) {
    const PromptText text{bytes, bytes.empty() ? std::span<const ByteRange>() : written};
    const Result<std::vector<TokenId>> ids = tokenizer->Encode(text, SpecialTokens::kAdd);
    ROOST_CHECK(ids.ok());
    const std::string decoded = tokenizer->Decode(*ids);
    ROOST_CHECK(decoded == ReplaceInvalidUtf8(bytes));
    TokenStream stream(tokenizer, SpecialTokenOutput::kShow);
    std::string streamed;
    for (const TokenId id : *ids) {
      const std::string piece = stream.Push(id);
      ROOST_CHECK(IsValidUtf8(piece));
      streamed += piece;
    }
    streamed += stream.Finish();
    ROOST_CHECK(streamed == decoded);
  }

  const auto loaded = Tokenizer::FromJson(bytes, "fuzz");
  if (loaded.ok()) (void)(*loaded)->Encode("Hello <|x|> 你好", SpecialTokens::kAdd);
  return 0;
}
