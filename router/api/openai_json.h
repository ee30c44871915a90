// The bodies of OpenAI's API as this server writes them. Pure functions from values to JSON text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "router/fleet/dispatcher.h"

namespace roost::router {

enum class AnswerKind { kChat, kCompletion };

// What all parts of one answer have in common.
struct AnswerIdentity {
  AnswerKind kind = AnswerKind::kChat;
  std::string id;  // "chatcmpl-…" or "cmpl-…"
  std::int64_t created_unix_seconds = 0;
  std::string model;
  std::string system_fingerprint;
};

struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::uint32_t cached_tokens = 0;  // of the prompt, whose KV the worker had
};

struct WholeChoice {
  std::string_view text;
  std::string_view finish_reason;
};
// `choices` in the order of their indices.
[[nodiscard]] std::string WholeAnswer(const AnswerIdentity& identity, std::span<const WholeChoice> choices,
                                      const Usage& usage);

// ---- chunks of a stream: each is about one choice; `usage` is set when the client wants it in every chunk ----

// The first chunk of a chat's choice: who speaks.
[[nodiscard]] std::string RoleChunk(const AnswerIdentity& identity, std::uint32_t choice,
                                    const std::optional<Usage>& usage);
[[nodiscard]] std::string TextChunk(const AnswerIdentity& identity, std::uint32_t choice, std::string_view text,
                                    const std::optional<Usage>& usage);
[[nodiscard]] std::string FinishChunk(const AnswerIdentity& identity, std::uint32_t choice,
                                      std::string_view finish_reason, const std::optional<Usage>& usage);
// After the finish, without choices.
[[nodiscard]] std::string UsageChunk(const AnswerIdentity& identity, const Usage& usage);

// One server-sent event.
[[nodiscard]] std::string Frame(std::string_view json);
inline constexpr std::string_view kDoneFrame = "data: [DONE]\n\n";

// ---- models and workers ----

[[nodiscard]] std::string ModelBody(const ServedModel& model);
[[nodiscard]] std::string ModelListBody(std::span<const std::shared_ptr<const ServedModel>> models);
// {"workers":[…]}: what `roostctl status` shows.
[[nodiscard]] std::string WorkersBody(std::span<const WorkerStatus> workers);

// {"queues":[…]}: what waits at the router.
[[nodiscard]] std::string QueuesBody(std::span<const QueueStatus> queues);

}  // namespace roost::router
