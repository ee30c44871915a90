// Constraints without a library: automata that allow tokens by a hash of the output so far, and a Constrainer that
// finishes its jobs when the test says so. The text of a constraint is the seed of its automaton, in decimal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "worker/grammar/constrainer.h"

namespace roost::testing_support {

// At some positions only one token is allowed, at some the text may end, and after kMaxTokens it must.
class FakeAutomaton final : public worker::Automaton {
 public:
  static constexpr std::uint32_t kMaxTokens = 30;

  FakeAutomaton(std::uint64_t seed, std::uint32_t vocab_size) : state_(Mix64(seed)), vocab_size_(vocab_size) {}

  [[nodiscard]] bool Accept(TokenId token) override {
    if (!Allows(token)) return false;
    state_ = Mix64(state_ ^ (token + 1));
    ++position_;
    return true;
  }
  void FillMask(worker::TokenMask mask) override {
    std::fill(mask.begin(), mask.end(), 0);
    for (TokenId token = 0; token < vocab_size_; ++token) {
      if (Allows(token)) mask[token / 32] |= std::uint32_t{1} << token % 32;
    }
  }
  [[nodiscard]] bool MayEnd() const override { return position_ >= kMaxTokens || state_ % 11 == 0; }
  [[nodiscard]] std::unique_ptr<worker::Automaton> Fork() const override {
    return std::make_unique<FakeAutomaton>(*this);
  }

 private:
  // Token 0 is the stop token.
  [[nodiscard]] bool Allows(TokenId token) const {
    if (token == 0 || token >= vocab_size_ || position_ >= kMaxTokens) return false;
    if (state_ % 3 == 0) return token == 1 + state_ % (vocab_size_ - 1);
    return Mix64(state_ + token) % 5 == 0 || token == 1 + state_ % (vocab_size_ - 1);
  }

  std::uint64_t state_;
  std::uint32_t vocab_size_;
  std::uint32_t position_ = 0;
};

class FakeConstrainer final : public worker::Constrainer {
 public:
  enum class Pace : std::uint8_t { kAtOnce, kWhenReleased };

  explicit FakeConstrainer(std::uint32_t vocab_size, Pace pace = Pace::kAtOnce)
      : vocab_size_(vocab_size), pace_(pace) {}

  void Begin(Job job) override {
    jobs_.push_back(std::move(job));
    if (pace_ == Pace::kAtOnce) Release();
  }
  void Drop(std::uint64_t id) override {
    std::erase_if(jobs_, [id](const Job& job) { return job.id == id; });
  }
  [[nodiscard]] bool HasDone() const override { return !done_.empty(); }
  [[nodiscard]] std::vector<Done> TakeDone() override { return std::exchange(done_, {}); }

  // Finishes all jobs.
  void Release() {
    for (const Job& job : std::exchange(jobs_, {})) done_.push_back({job.id, Start(job)});
  }
  [[nodiscard]] std::size_t job_count() const { return jobs_.size(); }

 private:
  [[nodiscard]] Result<std::unique_ptr<worker::Automaton>> Start(const Job& job) const {
    if (job.constraint.text == "bad") return InvalidArgument(job.constraint.field, "is bad");
    auto automaton = std::make_unique<FakeAutomaton>(std::stoull(job.constraint.text), vocab_size_);
    for (const TokenId token : job.output) {
      if (!automaton->Accept(token)) return InvalidArgument(job.constraint.field, "does not allow the output so far");
    }
    return std::unique_ptr<worker::Automaton>(std::move(automaton));
  }

  const std::uint32_t vocab_size_;
  const Pace pace_;
  std::vector<Job> jobs_;
  std::vector<Done> done_;
};

}  // namespace roost::testing_support
