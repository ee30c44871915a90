// The worker's spans of requests that are traced, as its link sees them:
//
//   router's span ─► "generate": from the request's arrival to its last token
//                      ├─► "queue":   until its first step
//                      ├─► "prefill": until its first token
//                      └─► "decode":  until its last
//
// A request that ends early lacks the parts that it did not reach. Times are those of the link's thread, which hears of
// a step when it has ended.
//
// One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/trace/span.h"
#include "common/wire/messages.h"

namespace roost::worker {

struct RequestSpansOptions {
  trace::SpanOutlet outlet = {};
  std::string worker_id = {};
};

class RequestSpans {
 public:
  // The data on a traced request so far. Belongs to the request's owner.
  struct Traced {
    std::string trace_id;
    std::string parent_span_id;
    Instant received{};
    std::uint32_t prompt_tokens = 0;
    std::optional<double> queue_seconds = {};
    std::optional<Instant> first_token = {};
    std::uint32_t cached_tokens = 0;
    std::uint64_t output_tokens = 0;
  };

  explicit RequestSpans(RequestSpansOptions options) : options_(std::move(options)) {}

  // Null when the request is not traced.
  [[nodiscard]] std::unique_ptr<Traced> Begin(const wire::Generate& request, Instant received) const;
  static void Note(Traced& traced, const wire::TokenEvent& event, Instant now);
  void End(const Traced& traced, wire::FinishReason reason, Instant now) const;

 private:
  void AddPart(const Traced& traced, const std::string& parent, std::string name, Instant begin, Instant end) const;

  const RequestSpansOptions options_;
};

}  // namespace roost::worker
