// Predicts the number of tokens of an answer, learned from the answers that have ended: a mean per model, and one per
// conversation, which counts while it has predicted better.
//
// Bounded: kConversations conversations, of which a newer one takes the place of an older one with the same low bits.
// Not thread-safe. O(log models).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "router/route/cost.h"

namespace roost::router {

class AnswerLengths {
 public:
  // An answer of the model has ended; `session_hash` is 0 without a conversation.
  void Observe(std::string_view model, std::uint64_t session_hash, std::uint32_t tokens);

  // At most `max_tokens`, the request's bound. Before the first answer of the model it is kFirstGuess, or the bound.
  [[nodiscard]] double Expect(std::string_view model, std::uint64_t session_hash, std::uint32_t max_tokens) const;
  // The mean of any answer of the model, and so, if lengths have no memory, of what is left of one that runs.
  [[nodiscard]] double MeanOf(std::string_view model) const;

  static constexpr double kFirstGuess = kUsualAnswer.own;
  static constexpr double kGuessedAnswers = 4;  // the guess counts as so many answers
  static constexpr std::size_t kConversations = 4096;

 private:
  // A mean in which an answer counts half after about 34 more.
  struct FadingMean {
    double sum = 0;
    double weight = 0;
    void Add(double value);
    [[nodiscard]] double Or(double otherwise) const { return weight > 0 ? sum / weight : otherwise; }
  };
  struct Conversation {
    std::uint64_t hash = 0;
    double last_tokens = 0;
  };
  struct OfModel {
    FadingMean tokens{.sum = kGuessedAnswers * kFirstGuess, .weight = kGuessedAnswers};
    // The errors of both predictors, over answers in conversations that had one before.
    FadingMean error_of_mean;
    FadingMean error_of_conversation;
    std::vector<Conversation> conversations;  // by the low bits of the hash; empty until the first

    [[nodiscard]] const Conversation* Find(std::uint64_t hash) const;
    [[nodiscard]] bool trusts_conversations() const {
      return error_of_conversation.weight > 0 && error_of_conversation.Or(0) < error_of_mean.Or(0);
    }
  };

  std::map<std::string, OfModel, std::less<>> models_;
};

}  // namespace roost::router
