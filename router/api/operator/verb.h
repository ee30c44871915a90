// An operator's verb: a route of the admin API, the order that its request becomes, and the body made from the workers'
// answers. Each is one file here that ends with its constant; verb.cc has their table, from which the Api makes its
// routes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/json_writer.h"
#include "common/base/result.h"
#include "common/http/http_message.h"
#include "router/api/json_object.h"
#include "router/api/requests/prompt.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/fleet_snapshot.h"
#include "router/text/prompt_memo.h"

namespace roost::router {

// Decides if operators see the text of prompts.
enum class PrefixText { kHide, kShow };

// The parts of a call that a verb may use, for the time of its plan.
struct VerbCall {
  HttpRequest& request;
  std::shared_ptr<const ServedModel>& model;  // set once read_model has found it
  std::shared_ptr<const FleetSnapshot> view;  // not null
  RenderSettings settings;
  PrefixText prefix_text = PrefixText::kHide;
  Result<Instant> deadline;
  const Clock& clock;
  PromptMemo& memo;
  std::function<Result<void>(const JsonObject& body)> read_model;  // an error if the model accepts no requests now
  std::function<Result<std::shared_ptr<const ServedModel>>(const std::string& name)> find_model;
};

// From the workers' answers to the body of the answer.
using MakeBody = std::function<Result<std::string>(std::span<const WorkerAnswer>)>;

struct OrderPlan {
  Order order;
  MakeBody body;
};

// Plans run on text threads.
struct Verb {
  std::string_view method;
  std::string_view path;
  std::string_view name;  // a metrics label
  Result<OrderPlan> (*plan)(VerbCall& call);
};

[[nodiscard]] std::span<const Verb* const> Verbs();

// ---- for the verbs ----

// The fields with which all answers about one prompt begin.
struct PromptSize {
  std::string model;
  std::uint64_t block_count = 0;
  std::uint64_t token_count = 0;
};
void WriteSize(const PromptSize& size, JsonWriter& json);

// The entry of a worker that gave no answer of the expected kind.
void WriteUnanswered(const WorkerAnswer& answer, JsonWriter& json);

// "prompt 18 tokens: 16 cached in 4 blocks, 2 to prefill". A partly cached block counts as a block.
[[nodiscard]] std::string HitLine(std::uint32_t prompt_tokens, std::uint32_t cached_tokens, std::uint32_t block_tokens);

}  // namespace roost::router
