// Writes outputs under random schemas, one JSON line each: {"schema": …, "ended": …, "token_count": …, "output": "…"},
// which schema_outputs_test.py checks.
//
//   schema_outputs COUNT [SEED [TOKENIZER_JSON]]
//
// Each token is drawn from all that may come next with equal chances, as a model with equal logits draws at temperature
// 1. The vocabulary has 131,072 tokens: a tokenizer's come first, then made ones.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/json_writer.h"
#include "common/base/rng.h"
#include "common/text/tokenizer.h"
#include "tests/grammar/made_vocabulary.h"
#include "tests/grammar/random_schema.h"
#include "worker/grammar/grammar_library.h"

namespace roost::worker {
namespace {

constexpr std::uint32_t kVocab = 131'072;
constexpr std::uint32_t kMaxTokens = 20'000;
constexpr int kSkip = 77;

TokenTexts VocabularyOf(const char* tokenizer_json) {
  TokenTexts texts = testing_support::MadeVocabulary(kVocab);
  if (tokenizer_json == nullptr) return texts;
  const auto tokenizer = Tokenizer::FromFile(tokenizer_json);
  if (!tokenizer.ok()) {
    std::fputs((tokenizer.error().ToString() + "\n").c_str(), stderr);
    std::exit(1);
  }
  const TokenTexts real = TokenTextsOf(**tokenizer, kVocab, {});
  for (TokenId id = 0; id < (*tokenizer)->vocab_size() && id < kVocab; ++id) texts[id] = real[id];
  return texts;
}

// Draws one of the tokens, or nothing for the end.
std::optional<TokenId> Draw(const std::vector<std::uint32_t>& mask, bool may_end, Rng& rng) {
  std::uint64_t count = may_end ? 1 : 0;
  for (const std::uint32_t word : mask) count += static_cast<std::uint64_t>(std::popcount(word));
  if (count == 0) return std::nullopt;
  std::uint64_t left = rng.Below(count);
  for (std::size_t i = 0; i < mask.size(); ++i) {
    const auto here = static_cast<std::uint64_t>(std::popcount(mask[i]));
    if (left >= here) {
      left -= here;
      continue;
    }
    std::uint32_t word = mask[i];
    for (; left > 0; --left) word &= word - 1;
    return static_cast<TokenId>(i * 32 + static_cast<std::size_t>(std::countr_zero(word)));
  }
  return std::nullopt;
}

struct Times {
  double compile_seconds = 0;
  double mask_seconds = 0;
  double accept_seconds = 0;
  std::uint64_t token_count = 0;
};

void Write(const GrammarLibrary& library, const TokenTexts& texts, std::uint64_t seed, Times& times) {
  const SteadyClock clock;
  const std::string schema = testing_support::RandomSchema(seed).Make();
  Instant begin = clock.Now();
  const auto compiled = library.Compile({.kind = wire::ConstraintKind::kJsonSchema, .text = schema, .field = "schema"});
  times.compile_seconds += ToSeconds(clock.Now() - begin);
  JsonWriter line;
  line.BeginObject().Key("schema").Raw(schema);
  if (!compiled.ok()) {
    line.Key("refused").String(compiled.error().message).EndObject();
    std::puts(line.Take().c_str());
    return;
  }
  const std::unique_ptr<Automaton> automaton = (*compiled)->Start();
  std::vector<std::uint32_t> mask(MaskWords(kVocab));
  Rng rng(seed ^ 0x5eed);
  std::string output;
  std::uint64_t token_count = 0;
  bool ended = false;
  for (; token_count < kMaxTokens; ++token_count) {
    begin = clock.Now();
    automaton->FillMask(mask);
    times.mask_seconds += ToSeconds(clock.Now() - begin);
    const std::optional<TokenId> token = Draw(mask, automaton->MayEnd(), rng);
    ended = !token;
    if (ended) break;
    begin = clock.Now();
    if (!automaton->Accept(*token)) {
      std::fputs("a token of the mask is not accepted\n", stderr);
      std::exit(1);
    }
    times.accept_seconds += ToSeconds(clock.Now() - begin);
    output += texts[*token];
  }
  ended = ended && automaton->MayEnd();
  times.token_count += token_count;
  line.Key("ended").Bool(ended).Key("token_count").Number(token_count).Key("output").String(output).EndObject();
  std::puts(line.Take().c_str());
}

int Run(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("schema_outputs COUNT [SEED [TOKENIZER_JSON]]\n", stderr);
    return 2;
  }
  if (!HasGrammarLibrary()) {
    std::fputs("skipped: built without xgrammar\n", stderr);
    return kSkip;
  }
  const TokenTexts texts = VocabularyOf(argc > 3 ? argv[3] : nullptr);
  const std::unique_ptr<GrammarLibrary> library = OpenGrammarLibrary(texts);
  if (library == nullptr) return 1;
  const std::uint64_t count = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  Times times;
  for (std::uint64_t seed = first; seed < first + count; ++seed) Write(*library, texts, seed, times);
  const auto tokens = static_cast<double>(std::max<std::uint64_t>(1, times.token_count));
  std::fputs(fmt::format("compile {:.1f} ms each, mask {:.2f} us, accept {:.2f} us, {} tokens\n",
                         1e3 * times.compile_seconds / static_cast<double>(std::max<std::uint64_t>(1, count)),
                         1e6 * times.mask_seconds / tokens, 1e6 * times.accept_seconds / tokens, times.token_count)
                 .c_str(),
             stderr);
  return 0;
}

}  // namespace
}  // namespace roost::worker

int main(int argc, char** argv) { return roost::worker::Run(argc, argv); }
