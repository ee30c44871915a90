// Text to token ids and messages to text, with real tokenizers and templates. Measured in CPU time of one thread, which
// other load on the machine affects least.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/text/chat_template.h"
#include "common/text/jinja/json.h"
#include "common/text/tokenizer.h"
#include "tests/bench/bench.h"
#include "tests/support/hostile_texts.h"
#include "tests/support/shared_data.h"

namespace roost::bench {
namespace {

std::string ContentsOf(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Median of several runs of `work`.
template <typename Work>
double MedianOf(Effort effort, Work work) {
  std::vector<double> seconds(effort == Effort::kQuick ? 1 : 7);
  for (double& run : seconds) run = work();
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

double SecondsToEncode(const Tokenizer& tokenizer, std::string_view text) {
  const double start = ThreadSeconds();
  ROOST_CHECK(tokenizer.Encode(text, SpecialTokens::kOmit).ok());
  return ThreadSeconds() - start;
}

// Cold: a tokenizer that has not encoded anything yet, so its word tables and buffers are empty.
void BenchTokenize(Effort effort, const std::filesystem::path& file, std::string_view suffix, std::string_view text) {
  const std::string json = ContentsOf(file);
  std::shared_ptr<const Tokenizer> tokenizer;
  const double cold = MedianOf(effort, [&] {
    tokenizer = Tokenizer::FromJson(json, "bench").value();
    return SecondsToEncode(*tokenizer, text);
  });
  const double warm = MedianOf(effort, [&] { return SecondsToEncode(*tokenizer, text); });
  const double megabytes = static_cast<double>(text.size()) * 1e-6;
  Figure(fmt::format("tokenize_mb_s_cold{}", suffix), megabytes / cold, "MB/s");
  Figure(fmt::format("tokenize_mb_s_warm{}", suffix), megabytes / warm, "MB/s");
}

// The slowest of the hostile texts.
void BenchHostile(Effort effort, const std::filesystem::path& file, std::string_view suffix) {
  const auto tokenizer = Tokenizer::FromFile(file).value();
  double most = 0;
  std::string_view slowest;
  const auto texts = testing_support::HostileTexts(std::size_t{1} << (effort == Effort::kQuick ? 12U : 20U));
  for (const auto& [what, text] : texts) {
    const double seconds = SecondsToEncode(*tokenizer, text);
    if (seconds > most) slowest = what;
    most = std::max(most, seconds);
  }
  fmt::print(stderr, "text: {} is slowest on {}\n", file.filename().string(), slowest);
  Figure(fmt::format("tokenize_hostile_ms_1mb{}", suffix), most * 1e3, "ms");
}

// A conversation of 20 messages, a system prompt before them; some 8,000 characters.
jinja::Value Conversation() {
  std::string messages = R"({"role":"system","content":"You are a careful assistant. Answer in short sentences."})";
  const std::string sentence = "The router sends a request to the worker that holds most of its prefix, and says why. ";
  for (int turn = 0; turn < 20; ++turn) {
    std::string content = fmt::format("Turn {}: what does \\\"cached\\\" mean here?\\n", turn);
    for (int i = 0; i < 1 + turn % 8; ++i) content += sentence;
    messages += fmt::format(R"(,{{"role":"{}","content":"{}"}})", turn % 2 == 0 ? "user" : "assistant", content);
  }
  return jinja::FromJson(fmt::format(R"({{"messages":[{}],"add_generation_prompt":true,"bos_token":"<s>",)"
                                     R"("eos_token":"</s>"}})",
                                     messages),
                         "bench")
      .value();
}

void BenchTemplate(Effort effort, const std::filesystem::path& file, std::string_view figure) {
  const auto chat_template = ChatTemplate::Parse(ContentsOf(file), "bench").value();
  const jinja::Value context = Conversation();
  const int calls = effort == Effort::kQuick ? 1 : 200;
  const double seconds = MedianOf(effort, [&] {
    const double start = ThreadSeconds();
    for (int i = 0; i < calls; ++i) ROOST_CHECK(chat_template->RenderTraced(context, {}).ok());
    return ThreadSeconds() - start;
  });
  Figure(figure, seconds / calls * 1e6, "us");
}

}  // namespace

void BenchText(Effort effort) {
  const std::filesystem::path shared = testing_support::SharedDir();
  const std::filesystem::path templates = shared / "chat_templates/templates";
  const std::filesystem::path tokenizers = shared / "tokenizers";
  for (const std::filesystem::path& needed : {shared / "corpus", templates, tokenizers}) {
    if (std::filesystem::exists(needed)) continue;
    fmt::print(stderr, "text: needs {}; set ROOST_SHARED to the folder of real data\n", needed.string());
    return;
  }
  const std::string corpus = ContentsOf(shared / "corpus/tinyshakespeare.txt");
  const std::string_view text =
      std::string_view(corpus).substr(0, effort == Effort::kQuick ? 1U << 12U : corpus.size());
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kTokenizers = {
      {{"cl100k", ""}, {"gpt-2", "_gpt2"}, {"llama-spm", "_llama_spm"}}};
  for (const auto& [name, suffix] : kTokenizers) {
    const std::filesystem::path file = tokenizers / fmt::format("{}.tokenizer.json", name);
    BenchTokenize(effort, file, suffix, text);
    BenchHostile(effort, file, suffix);
  }
  BenchTemplate(effort, templates / "meta-llama-Llama-3.1-8B-Instruct.jinja", "template_us_20turns");
  BenchTemplate(effort, templates / "Qwen-Qwen2.5-7B-Instruct.jinja", "template_us_20turns_qwen2_5");
  BenchTemplate(effort, templates / "Qwen-Qwen3-0.6B.jinja", "template_us_20turns_qwen3");
}

}  // namespace roost::bench
