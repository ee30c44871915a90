// The beginnings of a prompt that only an engine reads, by which a worker is chosen that has computed them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/prefix/block_hash.h"
#include "router/api/json_object.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

// True if the request has an image, audio, video or file.
[[nodiscard]] bool HasMedia(const JsonObject& body);

// The session of a request: what it says, what its headers name, or how its chat began. Empty for one without texts.
[[nodiscard]] std::optional<std::uint64_t> SessionOf(const JsonObject& body, const std::string& of_headers,
                                                     const std::string& tenant);

// The texts of a request in the order of a template, as far as they are worth remembering (text_pieces.h). Another
// model of the same server has other blocks, so the scope has the name that was asked for.
struct UnreadPrompt {
  std::vector<BlockHash> pieces;
  std::size_t instruction_pieces = 0;  // before the first question
};
[[nodiscard]] UnreadPrompt PiecesOf(const JsonObject& body, const ServedModel& model, const std::string& tenant);

}  // namespace roost::router
