// Shared by the tests of offline runs: the demo model's text, and requests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"
#include "deploy/roostctl/generate/offline_run.h"
#include "router/api/requests/prompt.h"
#include "tests/support/source_dir.h"

namespace roost::roostctl {

inline std::string DemoModel() { return std::string(testing_support::SourceDir()) + "/deploy/demo-model"; }

// The demo model as a router knows it, for engines with blocks of `block_tokens`.
inline std::shared_ptr<const router::ServedModel> ServedDemo(std::uint32_t block_tokens,
                                                             std::uint32_t max_context_tokens) {
  auto served = std::make_shared<router::ServedModel>();
  served->name = "demo-model";
  served->kv_dtype = "f32";
  served->block_tokens = block_tokens;
  served->max_context_tokens = max_context_tokens;
  served->tokenizer = Tokenizer::FromFile(DemoModel() + "/tokenizer.json").value();
  served->chat_template =
      ChatTemplate::Parse("{% for message in messages %}{{ message.content }}{% endfor %}", "test").value();
  return served;
}

// Records what a run reports.
struct RecordedRun final : OfflineSink {
  void OnAnswer(const OfflineAnswer& answer) override { answers.push_back(answer); }
  void OnStep(const OfflineTotals& totals) override { steps.push_back(totals); }

  std::vector<OfflineAnswer> answers;
  std::vector<OfflineTotals> steps;
};

}  // namespace roost::roostctl
