// Turns prompts into the tokens that a worker would get: through a router, or with the files of a model folder.
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

class PromptTokenizer {
 public:
  virtual ~PromptTokenizer() = default;
  [[nodiscard]] virtual Result<std::vector<TokenId>> Tokenize(const PromptBody& body) = 0;
  [[nodiscard]] virtual Result<std::string> Decode(std::span<const TokenId> tokens) = 0;
  // Of a block of the cache.
  [[nodiscard]] virtual Result<std::uint32_t> BlockTokens() = 0;
};

// Reads tokenizer and chat template of a model folder, and no weights.
[[nodiscard]] Result<std::unique_ptr<PromptTokenizer>> FolderTokenizer(const std::filesystem::path& folder,
                                                                       std::uint32_t block_tokens);
// Asks the router's /tokenize and /detokenize, and /v1/models for the size of its workers' blocks.
[[nodiscard]] std::unique_ptr<PromptTokenizer> RouterTokenizer(const std::string& router, const std::string& model);

}  // namespace roost::roostctl
