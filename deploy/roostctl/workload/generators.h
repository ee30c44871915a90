// Generated load: seeded, the same on every machine. Parameters of published loads are the defaults of their sources.
#pragma once

#include <cstdint>

#include "deploy/roostctl/workload/trace.h"

namespace roost::workload {

// Chats of several turns behind shared system prompts. A turn's prompt is all of the chat so far, so the blocks that an
// answer fills come back in the next turn. Sessions start at random over the span; people think between turns for an
// exponential time; turn counts are geometric; user texts and answers have lengths spread evenly around their means.
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

// Groups of prompts that share a long front part, in random order; each prompt comes once. SGLang's
// generated-shared-prefix benchmark.
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

// Users of groups, each with one long prompt behind the group's system prompt, who come again at random. llm-d's
// "B2B SaaS" benchmark.
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

// Prompts that have nothing in common.
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
