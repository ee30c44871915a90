// Generated load: seeded, and the same on every machine. For published loads the defaults are their sources'
// parameters.
#pragma once

#include <cstdint>

#include "common/base/rng.h"
#include "deploy/roostctl/workload/trace.h"

namespace roost::workload {

// Chats of several turns behind shared system prompts. A turn's prompt is the whole chat so far, so the blocks of an
// answer come back in the next turn. Sessions start at random over the span; the think time between turns is
// exponential; turn counts are geometric; lengths of user texts and answers are uniform around their means.
struct MultiTurnChatOptions {
  std::uint32_t block_tokens = 64;
  std::uint32_t session_count = 600;
  double start_span_seconds = 1800;
  double mean_turn_count = 5;
  double mean_think_seconds = 60;
  std::uint32_t system_prompt_count = 8;
  std::uint32_t system_token_count = 1500;
  std::uint32_t mean_user_token_count = 200;
  std::uint32_t mean_answer_token_count = 300;
  std::uint64_t seed = 1;
};
[[nodiscard]] Trace MultiTurnChat(const MultiTurnChatOptions& options);

// Groups of prompts that share a long front, in random order; each prompt comes once. SGLang's generated-shared-prefix
// benchmark.
struct SharedPrefixOptions {
  std::uint32_t block_tokens = 64;
  std::uint32_t group_count = 64;
  std::uint32_t prompts_per_group = 16;
  std::uint32_t system_token_count = 2048;
  std::uint32_t question_token_count = 128;
  std::uint32_t output_token_count = 256;
  double requests_per_second = 8;
  std::uint64_t seed = 1;
};
[[nodiscard]] Trace SharedPrefix(const SharedPrefixOptions& options);

// Users in groups, each with one long prompt behind the group's system prompt, who return at random. llm-d's "B2B SaaS"
// benchmark.
struct TenantUsersOptions {
  std::uint32_t block_tokens = 64;
  std::uint32_t group_count = 150;
  std::uint32_t users_per_group = 5;
  std::uint32_t system_token_count = 6000;
  std::uint32_t question_token_count = 1200;
  std::uint32_t output_token_count = 1000;
  std::uint32_t request_count = 6000;
  double requests_per_second = 34;
  std::uint64_t seed = 1;
};
[[nodiscard]] Trace TenantUsers(const TenantUsersOptions& options);

// Questions behind a few system prompts, of which the k-th is asked in proportion to 1/k (Zipf's law). Lengths of
// questions and answers are uniform between their bounds. The default is the commonest load there is: one system prompt
// for all.
struct SystemPromptOptions {
  std::uint32_t block_tokens = 16;
  std::uint32_t system_count = 1;
  std::uint32_t system_token_count = 2000;
  std::uint32_t least_question_tokens = 50;
  std::uint32_t most_question_tokens = 300;
  std::uint32_t least_answer_tokens = 200;
  std::uint32_t most_answer_tokens = 1000;
  std::uint32_t request_count = 2000;
  double requests_per_second = 8;
  std::uint64_t seed = 1;
};
[[nodiscard]] Trace SystemPrompts(const SystemPromptOptions& options);
inline constexpr std::uint32_t kZipfSystemPrompts = 10;
// A number below `count`, above 0, of which k comes in proportion to 1/(k + 1).
[[nodiscard]] std::uint64_t Zipf(Rng& rng, std::uint32_t count);
// The lengths of answers by models that think before they answer.
inline constexpr std::uint32_t kMinReasoningTokens = 2000;
inline constexpr std::uint32_t kMaxReasoningTokens = 16'000;

// Prompts without a common front.
struct NoReuseOptions {
  std::uint32_t block_tokens = 64;
  std::uint32_t request_count = 1000;
  std::uint32_t mean_input_token_count = 2000;
  std::uint32_t mean_output_token_count = 200;
  double requests_per_second = 8;
  std::uint64_t seed = 1;
};
[[nodiscard]] Trace NoReuse(const NoReuseOptions& options);

}  // namespace roost::workload
