// A prompt in a file: a text, messages, or the body of a request.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "common/base/result.h"

namespace roost::roostctl {

// A request's body without its model: a chat or a completion.
struct PromptBody {
  std::string name;        // of the file, for people
  std::string members;     // JSON members with commas between them: "messages":[…],"tools":[…]
  std::string cache_salt;  // empty: none
};

inline constexpr std::size_t kMaxPromptFileBytes = std::size_t{64} << 20U;

// A file that begins with { is the body of a request with `messages` or `prompt`, one that begins with [ an array of
// messages, any other is a text. Errors name the file.
[[nodiscard]] Result<PromptBody> ReadPromptBody(const std::filesystem::path& path);
// The same of a text; `name` stands for the file.
[[nodiscard]] Result<PromptBody> ParsePromptBody(std::string name, const std::string& text);

}  // namespace roost::roostctl
