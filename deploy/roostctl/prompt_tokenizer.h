// Turns prompts into the tokens that a worker would get: through a router, or with a model folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"

namespace roost::roostctl {

// A request's body without its model: a chat or a completion.
struct PromptBody {
  std::string name;        // the file's name, for people
  std::string members;     // JSON members separated by commas: "messages":[…],"tools":[…]
  std::string cache_salt;  // empty: none
};

inline constexpr std::size_t kMaxPromptFileBytes = std::size_t{64} << 20U;

// A file that begins with { is the body of a request with `messages` or `prompt`; with [, an array of messages; any
// other is plain text. Errors name the file.
[[nodiscard]] Result<PromptBody> ReadPromptBody(const std::filesystem::path& path);
// The same for a text; `name` takes the place of the file's name.
[[nodiscard]] Result<PromptBody> ParsePromptBody(std::string name, const std::string& text);

class PromptTokenizer {
 public:
  virtual ~PromptTokenizer() = default;
  [[nodiscard]] virtual Result<std::vector<TokenId>> Tokenize(const PromptBody& body) = 0;
  [[nodiscard]] virtual Result<std::string> Decode(std::span<const TokenId> tokens) = 0;
  // Tokens per block of the cache.
  [[nodiscard]] virtual Result<std::uint32_t> BlockTokens() = 0;
};

// Reads the tokenizer and the chat template of a model folder, but no weights.
[[nodiscard]] Result<std::unique_ptr<PromptTokenizer>> FolderTokenizer(const std::filesystem::path& folder,
                                                                       std::uint32_t block_tokens);
// Uses the router's /tokenize and /detokenize, and /admin/v1/match for its workers' block size.
[[nodiscard]] std::unique_ptr<PromptTokenizer> RouterTokenizer(const std::string& router, const std::string& model);

}  // namespace roost::roostctl
