// For tests with real threads: waits that end as soon as their condition holds, and fail the test after a time limit.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/socket.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

inline constexpr std::chrono::seconds kPatience{30};

// Polls a condition that another thread changes; the pause is the sockets' own wait.
template <typename Condition>
[[nodiscard]] bool Eventually(Condition condition) {
  const wire::Waker nobody;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    wire::WaitForMessages({}, nobody, std::chrono::milliseconds(2));
  }
  return true;
}

class WaitingObserver final : public GenerationObserver {
 public:
  void OnDispatched(const Dispatched& dispatched) override {
    const std::lock_guard lock(mutex_);
    workers_.push_back(dispatched.worker_id);
    if (!predicted_token_count_) predicted_token_count_ = dispatched.decision.matched_tokens;
  }
  void OnPromptLogprobs(std::vector<wire::TokenLogprobs> logprobs) override {
    const std::lock_guard lock(mutex_);
    prompt_logprobs_ = std::move(logprobs);
  }
  // The tokens of all choices, as they come.
  void OnTokens(ChoiceTokens tokens) override {
    const std::lock_guard lock(mutex_);
    if (tokens.cached_token_count) cached_token_count_ = tokens.cached_token_count;
    tokens_.insert(tokens_.end(), tokens.tokens.begin(), tokens.tokens.end());
    logprobs_.insert(logprobs_.end(), tokens.logprobs.begin(), tokens.logprobs.end());
    changed_.notify_all();
  }
  void OnChoiceEnd(ChoiceEnd) override {}
  void OnEnd(GenerationEnd end) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(end_.has_value());
    end_ = std::move(end);
    changed_.notify_all();
  }

  [[nodiscard]] bool WaitForTokens(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return tokens_.size() >= count; });
  }
  // Fails the test if no end comes.
  GenerationEnd WaitForEnd() {
    std::unique_lock lock(mutex_);
    const bool ended = changed_.wait_for(lock, kPatience, [&] { return end_.has_value(); });
    EXPECT_TRUE(ended);
    return end_.value_or(GenerationEnd{});
  }
  std::vector<TokenId> tokens() {
    const std::lock_guard lock(mutex_);
    return tokens_;
  }
  std::vector<wire::TokenLogprobs> logprobs() {
    const std::lock_guard lock(mutex_);
    return logprobs_;
  }
  std::vector<wire::TokenLogprobs> prompt_logprobs() {
    const std::lock_guard lock(mutex_);
    return prompt_logprobs_;
  }
  std::vector<std::string> workers() {
    const std::lock_guard lock(mutex_);
    return workers_;
  }
  std::optional<std::uint32_t> cached_token_count() {
    const std::lock_guard lock(mutex_);
    return cached_token_count_;
  }
  // The prediction of the first dispatch.
  std::uint32_t predicted_token_count() {
    const std::lock_guard lock(mutex_);
    return predicted_token_count_.value_or(0);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> workers_;
  std::vector<TokenId> tokens_;
  std::vector<wire::TokenLogprobs> logprobs_;
  std::vector<wire::TokenLogprobs> prompt_logprobs_;
  std::optional<std::uint32_t> cached_token_count_;
  std::optional<std::uint32_t> predicted_token_count_;
  std::optional<GenerationEnd> end_;
};

}  // namespace roost::router
