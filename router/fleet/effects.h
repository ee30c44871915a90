// What the fleet core asks its driver to do, in order. The core itself sends nothing and calls no one: its driver (the
// link thread, or a test) carries the effects out, outside of any lock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/wire/messages.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

struct SendToWorker {
  std::string identity;  // of the worker's connection
  wire::RouterMessage message;
  // The request's part of the input memory budget, released once the message is sent.
  std::shared_ptr<const void> held = nullptr;
};

// Read a tokenizer bundle, which takes long, and give the result to FleetCore::OnTextBundle.
struct ReadBundle {
  wire::Tokenizer bundle;
};

// A call of one observer.
struct NotifyDispatched {
  std::shared_ptr<GenerationObserver> observer;
  Dispatched dispatched;
};
struct NotifyPromptLogprobs {
  std::shared_ptr<GenerationObserver> observer;
  std::vector<wire::TokenLogprobs> logprobs;
};
struct NotifyTokens {
  std::shared_ptr<GenerationObserver> observer;
  ChoiceTokens tokens;
};
struct NotifyChoiceEnd {
  std::shared_ptr<GenerationObserver> observer;
  ChoiceEnd end;
};
struct NotifyEnd {
  std::shared_ptr<GenerationObserver> observer;
  GenerationEnd end;
};

// The end of an inquiry.
struct NotifyAnswers {
  AnswersDone done;
  std::vector<WorkerAnswer> answers;
};

using Effect = std::variant<SendToWorker, ReadBundle, NotifyDispatched, NotifyPromptLogprobs, NotifyTokens,
                            NotifyChoiceEnd, NotifyEnd, NotifyAnswers>;

// Calls the observer or the callback of an inquiry, if the effect is such a call; else does nothing.
void NotifyObserver(Effect& effect);

// Not thread-safe.
class EffectQueue {
 public:
  void Send(std::string identity, wire::RouterMessage message, std::shared_ptr<const void> held = nullptr) {
    effects_.emplace_back(SendToWorker{std::move(identity), std::move(message), std::move(held)});
  }
  void Push(Effect effect) { effects_.push_back(std::move(effect)); }

  [[nodiscard]] std::size_t size() const { return effects_.size(); }
  [[nodiscard]] std::vector<Effect> Take() { return std::exchange(effects_, {}); }

 private:
  std::vector<Effect> effects_;
};

}  // namespace roost::router
