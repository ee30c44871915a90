#include "deploy/roostctl/workload/generators.h"

#include <cmath>

namespace roost::workload {
namespace {

// Kinds of texts, so that their ids differ.
enum class Text : std::uint64_t { kSystem, kChat, kPrompt };

// Block `place` of the chain of text `number` of this kind.
ContentId IdOf(Text text, std::uint64_t number, std::uint64_t place) {
  return static_cast<std::uint64_t>(text) << 60U | number << 24U | place;
}

double Exponential(Rng& rng, double mean) { return -mean * std::log(1.0 - rng.Uniform()); }

// Uniform over [mean / 2, mean * 3 / 2].
std::uint32_t Around(Rng& rng, std::uint32_t mean) {
  return mean / 2 + static_cast<std::uint32_t>(rng.Below(std::uint64_t{mean} + 1));
}

std::uint32_t Between(Rng& rng, std::uint32_t least, std::uint32_t most) {
  return least + static_cast<std::uint32_t>(rng.Below(std::uint64_t{most} - least + 1));
}

// A prompt and its answer: the first `system_token_count` tokens are system prompt `system`; the rest is `text` number
// `number`.
struct Chain {
  std::uint64_t system = 0;
  std::uint32_t system_token_count = 0;
  Text text = Text::kPrompt;
  std::uint64_t number = 0;
};

std::vector<ContentId> BlocksOf(const Chain& chain, std::uint64_t token_count, std::uint32_t block_tokens) {
  std::vector<ContentId> blocks;
  const std::uint64_t shared = chain.system_token_count / block_tokens;
  for (std::uint64_t i = 0; i < token_count / block_tokens; ++i) {
    blocks.push_back(i < shared ? IdOf(Text::kSystem, chain.system, i) : IdOf(chain.text, chain.number, i));
  }
  return blocks;
}

void AddChat(const MultiTurnChatOptions& options, std::uint64_t session, Rng& rng, Trace& trace) {
  const Chain chain{rng.Below(options.system_prompt_count), options.system_token_count, Text::kChat, session};
  double arrival = rng.Uniform() * options.start_span_seconds;
  std::uint32_t token_count = options.system_token_count;
  do {
    const std::uint32_t input = token_count + Around(rng, options.mean_user_token_count);
    const std::uint32_t output = Around(rng, options.mean_answer_token_count);
    token_count = input + output;
    trace.requests.push_back({.arrival_seconds = arrival,
                              .input_token_count = input,
                              .output_token_count = output,
                              .blocks = BlocksOf(chain, token_count, options.block_tokens),
                              .session = session + 1});
    arrival += Exponential(rng, options.mean_think_seconds);
  } while (rng.Uniform() >= 1.0 / options.mean_turn_count);
}

}  // namespace

std::uint64_t Zipf(Rng& rng, std::uint32_t count) {
  double sum = 0;
  for (std::uint32_t k = 1; k <= count; ++k) sum += 1.0 / k;
  double left = rng.Uniform() * sum;
  for (std::uint32_t k = 1; k < count; ++k) {
    left -= 1.0 / k;
    if (left < 0) return k - 1;
  }
  return count - 1;
}

Trace MultiTurnChat(const MultiTurnChatOptions& options) {
  Trace trace{.block_tokens = options.block_tokens, .requests = {}, .pacing = Pacing::kTurnByTurn};
  Rng rng(options.seed);
  for (std::uint64_t session = 0; session < options.session_count; ++session) AddChat(options, session, rng, trace);
  SortByArrival(trace);
  return trace;
}

Trace SharedPrefix(const SharedPrefixOptions& options) {
  Trace trace{.block_tokens = options.block_tokens, .requests = {}};
  Rng rng(options.seed);
  std::vector<std::uint64_t> order(std::size_t{options.group_count} * options.prompts_per_group);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.Below(i)]);
  double arrival = 0;
  for (const std::uint64_t prompt : order) {
    const Chain chain{prompt / options.prompts_per_group, options.system_token_count, Text::kPrompt, prompt};
    const std::uint32_t input = options.system_token_count + options.question_token_count;
    trace.requests.push_back(
        {.arrival_seconds = arrival,
         .input_token_count = input,
         .output_token_count = options.output_token_count,
         .blocks = BlocksOf(chain, std::uint64_t{input} + options.output_token_count, options.block_tokens),
         .session = prompt + 1});
    arrival += Exponential(rng, 1 / options.requests_per_second);
  }
  return trace;
}

Trace TenantUsers(const TenantUsersOptions& options) {
  Trace trace{.block_tokens = options.block_tokens, .requests = {}};
  Rng rng(options.seed);
  const std::uint32_t input = options.system_token_count + options.question_token_count;
  // Answers differ between requests: their blocks are named after the request, and follow the prompt's.
  const std::uint64_t user_count = std::uint64_t{options.group_count} * options.users_per_group;
  double arrival = 0;
  for (std::uint64_t i = 0; i < options.request_count; ++i) {
    const std::uint64_t user = rng.Below(user_count);
    const Chain prompt{user / options.users_per_group, options.system_token_count, Text::kPrompt, user};
    std::vector<ContentId> blocks = BlocksOf(prompt, input, options.block_tokens);
    const std::uint64_t token_count = std::uint64_t{input} + options.output_token_count;
    while (blocks.size() < token_count / options.block_tokens) blocks.push_back(IdOf(Text::kChat, i, blocks.size()));
    trace.requests.push_back({.arrival_seconds = arrival,
                              .input_token_count = input,
                              .output_token_count = options.output_token_count,
                              .blocks = std::move(blocks),
                              .session = user + 1});
    arrival += Exponential(rng, 1 / options.requests_per_second);
  }
  return trace;
}

Trace SystemPrompts(const SystemPromptOptions& options) {
  Trace trace{.block_tokens = options.block_tokens, .requests = {}};
  Rng rng(options.seed);
  double arrival = 0;
  for (std::uint64_t i = 0; i < options.request_count; ++i) {
    const Chain chain{Zipf(rng, options.system_count), options.system_token_count, Text::kPrompt, i};
    const std::uint32_t input =
        options.system_token_count + Between(rng, options.least_question_tokens, options.most_question_tokens);
    const std::uint32_t output = Between(rng, options.least_answer_tokens, options.most_answer_tokens);
    trace.requests.push_back({.arrival_seconds = arrival,
                              .input_token_count = input,
                              .output_token_count = output,
                              .blocks = BlocksOf(chain, std::uint64_t{input} + output, options.block_tokens),
                              .session = i + 1});
    arrival += Exponential(rng, 1 / options.requests_per_second);
  }
  return trace;
}

Trace NoReuse(const NoReuseOptions& options) {
  Trace trace{.block_tokens = options.block_tokens, .requests = {}};
  Rng rng(options.seed);
  double arrival = 0;
  for (std::uint64_t i = 0; i < options.request_count; ++i) {
    const std::uint32_t input = Around(rng, options.mean_input_token_count);
    const std::uint32_t output = Around(rng, options.mean_output_token_count);
    const Chain chain{0, 0, Text::kPrompt, i};
    trace.requests.push_back({.arrival_seconds = arrival,
                              .input_token_count = input,
                              .output_token_count = output,
                              .blocks = BlocksOf(chain, std::uint64_t{input} + output, options.block_tokens),
                              .session = i + 1});
    arrival += Exponential(rng, 1 / options.requests_per_second);
  }
  return trace;
}

}  // namespace roost::workload
