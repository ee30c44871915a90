#include "router/api/requests/unread_prompt.h"

#include <fmt/format.h>
#include <simdjson.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "common/json/json_read.h"
#include "common/json/kept_numbers.h"
#include "router/fleet/text_pieces.h"

namespace roost::router {
namespace {

// The beginnings of a chat's instructions and of its first question, by which its session is known.
constexpr std::size_t kSessionBytes = 512;
constexpr std::size_t kMaxOpeningBytes = 16 * kSessionBytes;
constexpr std::size_t kMaxTextDepth = 32;

// In the order of templates.
constexpr std::array kInstructionFields{"tools", "system", "instructions"};
constexpr std::array kPromptFields{"messages", "input", "prompt"};

// Calls `take` with the texts within the element, names of members too, until it returns false. Where clients mark what
// to cache differs from turn to turn, and is no text of the prompt.
template <typename Take>
bool VisitTexts(JsonElement element, std::size_t depth, const Take& take) {
  constexpr std::string_view kCacheMark = "cache_control";
  if (depth == 0) return true;
  if (const auto own = json::TextOf(element)) return take(*own);
  if (json::Array array; element.get(array) == simdjson::SUCCESS) {
    return std::all_of(array.begin(), array.end(), [&](JsonElement part) { return VisitTexts(part, depth - 1, take); });
  }
  json::Object object;
  if (element.get(object) != simdjson::SUCCESS) return true;
  return std::all_of(object.begin(), object.end(), [&](const auto& member) {
    return member.key == kCacheMark || (take(member.key) && VisitTexts(member.value, depth - 1, take));
  });
}

void AppendBeginning(JsonElement element, std::string& text) {
  const std::size_t most = text.size() + kSessionBytes;
  VisitTexts(element, kMaxTextDepth, [&text, most](std::string_view own) {
    text.append(own.substr(0, most - text.size()));
    return text.size() < most;
  });
}

bool IsQuestion(JsonElement message) { return json::At<std::string_view>(message, "role").value_or("user") == "user"; }

// Equal in all turns of a chat, and different in chats that only have their instructions in common.
std::string OpeningOf(const JsonObject& body) {
  std::string text;
  for (const char* const field : kInstructionFields) {
    if (const auto element = body.Find(field)) AppendBeginning(*element, text);
  }
  for (const char* const field : kPromptFields) {
    const auto element = body.Find(field);
    if (!element) continue;
    json::Array messages;
    if (element->get(messages) != simdjson::SUCCESS) {
      AppendBeginning(*element, text);
      continue;
    }
    for (const JsonElement message : messages) {
      AppendBeginning(message, text);
      if (IsQuestion(message) || text.size() >= kMaxOpeningBytes) break;
    }
  }
  return text;
}

std::string SaltOf(const JsonObject& body) {
  const auto own = body.String("cache_salt");
  if (own.ok() && *own) return std::string(**own);
  const auto fields = body.Find("cache");
  return std::string(fields ? json::At<std::string_view>(*fields, "salt").value_or("") : "");
}

// Has a list of messages or parts one that is no text?
bool HasMedia(JsonElement element, std::size_t depth) {
  constexpr std::array<std::string_view, 12> kMedia{"image_url", "input_image", "image",       "image_embeds",
                                                    "image_pil", "audio_url",   "input_audio", "audio",
                                                    "video_url", "video",       "input_file",  "file"};
  json::Array parts;
  if (depth == 0 || element.get(parts) != simdjson::SUCCESS) return false;
  return std::any_of(parts.begin(), parts.end(), [&](JsonElement part) {
    const std::string_view type = json::At<std::string_view>(part, "type").value_or("");
    if (std::find(kMedia.begin(), kMedia.end(), type) != kMedia.end()) return true;
    JsonElement content;
    return part.at_key("content").get(content) == simdjson::SUCCESS && HasMedia(content, depth - 1);
  });
}

}  // namespace

bool HasMedia(const JsonObject& body) {
  constexpr std::size_t kLists = 3;  // messages, their parts, and those of a tool's result
  for (const char* const field : {"messages", "input"}) {
    const auto list = body.Find(field);
    if (list && HasMedia(*list, kLists)) return true;
  }
  return false;
}

std::optional<std::uint64_t> SessionOf(const JsonObject& body, const std::string& of_headers,
                                       const std::string& tenant) {
  // All routers of a fleet compute the same, whatever they were built with.
  const auto hash = [&tenant](std::string_view name) {
    const std::string text = fmt::format("{}\n{}", tenant, name);
    return XXH3_64bits(text.data(), text.size());
  };
  const auto named = body.String("session_id");
  if (named.ok() && *named && !(*named)->empty()) return hash(**named);
  if (!of_headers.empty()) return hash(of_headers);
  const std::string text = OpeningOf(body);
  return text.empty() ? std::nullopt : std::optional(hash(text));
}

UnreadPrompt PiecesOf(const JsonObject& body, const ServedModel& model, const std::string& tenant) {
  TextPieces pieces(RootHash({.fingerprint = model.fingerprint,
                              .adapter = model.name,
                              .tenant = tenant,
                              .salt = SaltOf(body),
                              .block_tokens = kPieceTokens,
                              .kv_dtype = model.kv_dtype}));
  std::optional<std::size_t> instructions;
  const auto append = [&](JsonElement element, bool is_question) {
    // The piece that is begun has instructions too.
    if (is_question && !instructions) instructions = pieces.hashes().size() + (pieces.has_rest() ? 1 : 0);
    VisitTexts(element, kMaxTextDepth, [&pieces](std::string_view text) {
      pieces.Append(text);
      return !pieces.is_full();
    });
  };
  for (const char* const field : kInstructionFields) {
    if (const auto element = body.Find(field)) append(*element, false);
  }
  for (const char* const field : kPromptFields) {
    const auto element = body.Find(field);
    if (!element) continue;
    json::Array messages;
    if (element->get(messages) != simdjson::SUCCESS) {
      append(*element, true);
    } else {
      for (const JsonElement message : messages) append(message, IsQuestion(message));
    }
  }
  return {pieces.hashes(), instructions.value_or(0)};
}

}  // namespace roost::router
