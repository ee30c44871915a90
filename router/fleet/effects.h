// The effects that the fleet core wants, in order. The core itself sends nothing and calls no observer: its driver (the
// link thread, or a test) carries out the effects, without holding a lock.
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

// Read a tokenizer bundle, which may take long, and pass the result to FleetCore::OnTextBundle or OnBundleFault.
struct ReadBundle {
  wire::Tokenizer bundle;
};

// A call to one observer.
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

// The end of an order.
struct NotifyAnswers {
  AnswersDone done;
  std::vector<WorkerAnswer> answers;
};

struct NotifyForward {
  std::shared_ptr<ForwardObserver> observer;
  ForwardPiece piece;
};

using Effect = std::variant<SendToWorker, ReadBundle, NotifyDispatched, NotifyPromptLogprobs, NotifyTokens,
                            NotifyChoiceEnd, NotifyEnd, NotifyAnswers, NotifyForward>;

// If the effect is a call to an observer or an order's callback, makes the call; otherwise does nothing.
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
