// However hostile the output of a model is, reading it takes time linear in its length.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tests/router/api/tool_outputs.h"

namespace roost::router {
namespace {

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The bytes read grow linearly with the text: the ratio of times is the same on any machine.
TEST(ToolParsersTest, HostileTextTakesLinearTime) {
  const std::vector<std::string> parts{"<",
                                       "<tool_call>",
                                       "{",
                                       "[",
                                       "\"",
                                       "<think>",
                                       "[TOOL_CALLS]",
                                       "<|channel|>",
                                       "<｜tool▁call▁begin｜>",
                                       "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": [",
                                       " ",
                                       "\n",
                                       "[add(a=",
                                       "<|message|>",
                                       "<|tool_call_begin|>",
                                       "<arg_key>",
                                       "<invoke name=\"",
                                       "<|tool_call>call:f{a:"};
  const auto seconds = [](const FamilyOutputOptions& options, const std::string& part, std::size_t size) {
    std::string text;
    while (text.size() < size) text += part;
    std::vector<std::string_view> pieces;
    for (std::size_t i = 0; i < text.size(); i += 7) pieces.push_back(std::string_view(text).substr(i, 7));
    const double begin = ThreadSeconds();
    (void)ParseIn(options, pieces);
    return ThreadSeconds() - begin;
  };
  for (const ToolFamily family :
       {ToolFamily::kHermes, ToolFamily::kLlama, ToolFamily::kPythonic, ToolFamily::kMistral, ToolFamily::kHarmony,
        ToolFamily::kDeepSeek, ToolFamily::kGranite, ToolFamily::kGlm, ToolFamily::kQwenXml, ToolFamily::kKimi,
        ToolFamily::kMiniMax, ToolFamily::kDsml, ToolFamily::kGemma}) {
    for (const CallDelivery delivery : {CallDelivery::kAtOnce, CallDelivery::kChecked}) {
      FamilyOutputOptions options = OptionsFor(family, ReasoningForm::kThink);
      options.delivery = delivery;
      for (const std::string& part : parts) {
        constexpr double kNoise = 2e-3;
        double small = 0;
        double large = 0;
        for (int turn = 0; turn < 3; ++turn) {  // again where something came between
          small = seconds(options, part, 8'000);
          large = seconds(options, part, 32'000);
          if (large <= 8 * (small + kNoise)) break;
        }
        EXPECT_LE(large, 8 * (small + kNoise)) << NameOf(family) << ": " << part;
      }
    }
  }
}

}  // namespace
}  // namespace roost::router
