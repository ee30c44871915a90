// Prefixes that the operator lets all tenants share, such as a system prompt that all of them use. A prompt that begins
// with one has its first blocks in the scope without a tenant, and only the rest in the scope of its tenant (OwnScope,
// common/prefix/block_hash.h): so a worker computes the prefix once for all of them. Whether it is cached is no secret
// then. Prompts with a salt share nothing.
//
// The file has one JSON object per line, with the members that /admin/v1/warm takes for a prompt; `model` may be left
// out, and then the prefix is shared in every model. Blank lines and lines that begin with # are skipped:
//
//   {"messages": [{"role": "system", "content": "You are the assistant of …"}], "tools": […]}
//   {"model": "qwen3", "prompt": "…"}
//
// Thread-safe. SharedFront is O(shared blocks + 1) hashes; the first call for a model renders and tokenizes the
// prefixes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/prefix/block_hash.h"
#include "router/api/requests/prompt_request.h"
#include "router/fleet/dispatcher.h"

namespace roost::router {

struct SharedPrefix {
  std::string model;  // empty: every one
  PromptRequest prompt;
};

inline constexpr std::size_t kMaxSharedPrefixes = 1024;
inline constexpr std::size_t kMaxSharedPrefixFileBytes = std::size_t{16} << 20U;

// kInvalidArgument names file and line.
[[nodiscard]] Result<std::vector<SharedPrefix>> ParseSharedPrefixes(std::string_view text, const std::string& path);
[[nodiscard]] Result<std::vector<SharedPrefix>> ReadSharedPrefixes(const std::string& path);

class SharedPrefixes {
 public:
  SharedPrefixes() = default;
  SharedPrefixes(const SharedPrefixes&) = delete;
  SharedPrefixes& operator=(const SharedPrefixes&) = delete;

  void Replace(std::vector<SharedPrefix> prefixes);

  // The hashes of the blocks at the front of a prompt that all tenants share.
  [[nodiscard]] std::vector<BlockHash> SharedFront(const ServedModel& model, std::span<const TokenId> tokens);

 private:
  using Prefixes = std::vector<SharedPrefix>;
  using Blocks = std::unordered_set<BlockHash, BlockHashHasher>;  // of all prefixes of a model: closed to the front

  [[nodiscard]] std::shared_ptr<const Blocks> BlocksOf(const ServedModel& model);
  [[nodiscard]] static Blocks Hash(const ServedModel& model, const Prefixes& prefixes);

  std::mutex mutex_;
  // Guarded by mutex_.
  std::shared_ptr<const Prefixes> prefixes_ = std::make_shared<const Prefixes>();
  std::unordered_map<BlockHash, std::shared_ptr<const Blocks>, BlockHashHasher> blocks_;  // by their scope's root
};

}  // namespace roost::router
