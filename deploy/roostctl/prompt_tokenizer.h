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
#include "deploy/roostctl/remote/prompt_body.h"
#include "deploy/roostctl/remote/router_access.h"

namespace roost::roostctl {

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
// Uses the router's /tokenize and /detokenize, and /v1/models for its workers' block size.
[[nodiscard]] std::unique_ptr<PromptTokenizer> RouterTokenizer(const RouterAccess& router, const std::string& model);

}  // namespace roost::roostctl
