// The next turn of a long conversation: tokens and block hashes of a history that the prompt memo knows, and of the new
// part; and the memo's cost for texts that it does not know.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "router/text/prompt_memo.h"
#include "tests/bench/bench.h"
#include "tests/support/memo_tokenizers.h"
#include "tests/support/prompt_texts.h"
#include "tests/support/shared_data.h"

namespace roost::bench {
namespace {

constexpr std::size_t kTurnBytes = 1500;
constexpr std::size_t kNewBytes = 400;  // some 100 tokens

struct Talk {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string end_of_turn;
  std::string words;
};

// cl100k and English if they are there; otherwise just enough text to run.
Talk MakeTalk() {
  const std::filesystem::path shared = testing_support::SharedDir();
  const std::filesystem::path file = shared / "tokenizers/cl100k.tokenizer.json";
  std::ifstream corpus(shared / "corpus/tinyshakespeare.txt");
  if (!std::filesystem::exists(file) || !corpus) {
    std::string words;
    while (words.size() < 400'000) words += "abab a b " + std::to_string(words.size());
    return {testing_support::MemoTokenizers().front(), "<e>", words};
  }
  return {Tokenizer::FromFile(file).value(), "<|endoftext|>",
          std::string(std::istreambuf_iterator<char>(corpus), std::istreambuf_iterator<char>())};
}

std::string History(const Talk& talk, std::size_t tokens) {
  std::string text;
  std::size_t count = 0;
  for (std::size_t at = 0; count < tokens && at + kTurnBytes < talk.words.size(); at += kTurnBytes) {
    const std::string turn = talk.words.substr(at, kTurnBytes) + talk.end_of_turn;
    count += talk.tokenizer->Encode(turn, SpecialTokens::kOmit)->size();
    text += turn;
  }
  return text;
}

}  // namespace

void BenchPromptMemo(Effort effort) {
  const Talk talk = MakeTalk();
  const std::string history = History(talk, effort == Effort::kQuick ? 1000 : 32'768);
  const router::PromptMemo::Scope scope{talk.tokenizer, SpecialTokens::kOmit, {1, 2}, 16};
  const auto read = [&](router::PromptMemo& memo, const std::string& text) {
    ROOST_CHECK(memo.Read(scope, WrittenText(text).prompt(), Tokenizer::kAllTokens).ok());
  };

  router::PromptMemo memo(std::size_t{64} << 20U);
  read(memo, history);
  std::vector<std::string> turns;  // each new
  for (std::size_t i = 0; i < 8; ++i) {
    const std::size_t at = talk.words.size() - (i + 1) * kNewBytes;
    turns.push_back(history + talk.words.substr(at, kNewBytes) + talk.end_of_turn);
  }
  std::size_t next = 0;
  Figure("tokenize_turn_us_32k", 1e6 * MedianSeconds(effort, [&] { read(memo, turns[next++]); }), "us");

  router::PromptMemo nothing(0);
  const double whole = MedianSeconds(effort, [&] { read(nothing, history); });
  const double cold = MedianSeconds(effort, [&] {
    router::PromptMemo fresh(std::size_t{64} << 20U);
    read(fresh, history);
  });
  Figure("tokenize_whole_us_32k", 1e6 * whole, "us");
  Figure("tokenize_memo_cold_ratio", cold / whole, "x");
}

}  // namespace roost::bench
