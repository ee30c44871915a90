#include <algorithm>

#include "common/text/tokenizer.h"
#include "worker/grammar/grammar_library.h"

namespace roost::worker {

TokenTexts TokenTextsOf(const Tokenizer& tokenizer, std::uint32_t vocab_size, const std::vector<TokenId>& stop_tokens) {
  TokenTexts texts(vocab_size);
  const auto known = static_cast<TokenId>(std::min<std::size_t>(vocab_size, tokenizer.vocab_size()));
  for (TokenId id = 0; id < known; ++id) {
    if (!tokenizer.IsSpecial(id)) texts[id] = tokenizer.BytesOf(id);
  }
  for (const TokenId stop : stop_tokens) {
    if (stop < vocab_size) texts[stop].clear();
  }
  return texts;
}

}  // namespace roost::worker
