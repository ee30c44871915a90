#include "router/api/requests/shared_prefixes.h"

#include <optional>
#include <utility>

#include "common/base/log.h"
#include "router/api/json_lines.h"

namespace roost::router {
namespace {

// The most scopes of models and adapters, some of which are gone.
constexpr std::size_t kMaxScopes = 256;

Result<SharedPrefix> PrefixOf(const JsonObject& object) {
  SharedPrefix prefix;
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::string_view> model, object.String("model"));
  prefix.model = model.value_or("");
  ROOST_ASSIGN_OR_RETURN(prefix.prompt, ParsePromptRequest(object, ChatPart::kFront));
  if (!prefix.prompt.tenant.empty()) return InvalidArgument("tenant", "has no place here: all tenants share it");
  if (!prefix.prompt.fields().cache.salt.empty()) {
    return InvalidArgument("cache_salt", "has no place here: prompts with a salt share nothing");
  }
  return prefix;
}

}  // namespace

Result<std::vector<SharedPrefix>> ParseSharedPrefixes(std::string_view text, const std::string& path) {
  std::vector<SharedPrefix> prefixes;
  const Result<void> read = ForEachJsonLine(text, path, [&](const JsonObject& object) -> Result<void> {
    if (prefixes.size() == kMaxSharedPrefixes) return InvalidArgument("", "more than {} prefixes", kMaxSharedPrefixes);
    ROOST_ASSIGN_OR_RETURN(SharedPrefix prefix, PrefixOf(object));
    prefixes.push_back(std::move(prefix));
    return {};
  });
  if (!read.ok()) return read.error();
  return prefixes;
}

Result<std::vector<SharedPrefix>> ReadSharedPrefixes(const std::string& path) {
  ROOST_ASSIGN_OR_RETURN(const std::string text, ReadOperatorsFile(path, kMaxSharedPrefixFileBytes));
  return ParseSharedPrefixes(text, path);
}

void SharedPrefixes::Replace(std::vector<SharedPrefix> prefixes) {
  const std::lock_guard lock(mutex_);
  prefixes_ = std::make_shared<const Prefixes>(std::move(prefixes));
  blocks_.clear();
}

std::vector<BlockHash> SharedPrefixes::SharedFront(const ServedModel& model, std::span<const TokenId> tokens) {
  std::vector<BlockHash> front;
  const std::shared_ptr<const Blocks> blocks = BlocksOf(model);
  if (blocks->empty()) return front;
  BlockHash last = ScopeRoot(model, "", "");
  for (; tokens.size() >= model.block_tokens; tokens = tokens.subspan(model.block_tokens)) {
    last = ChainHash(last, tokens.first(model.block_tokens));
    if (!blocks->contains(last)) break;
    front.push_back(last);
  }
  return front;
}

std::shared_ptr<const SharedPrefixes::Blocks> SharedPrefixes::BlocksOf(const ServedModel& model) {
  std::shared_ptr<const Prefixes> prefixes;
  const BlockHash scope = ScopeRoot(model, "", "");
  {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(scope);
    if (found != blocks_.end()) return found->second;
    prefixes = prefixes_;
  }
  // Without the lock: others need not wait. Two threads may do it at the same time, once.
  auto blocks = std::make_shared<const Blocks>(Hash(model, *prefixes));
  const std::lock_guard lock(mutex_);
  if (prefixes_ != prefixes) return blocks;
  if (blocks_.size() >= kMaxScopes) blocks_.clear();
  blocks_.insert_or_assign(scope, blocks);
  return blocks;
}

SharedPrefixes::Blocks SharedPrefixes::Hash(const ServedModel& model, const Prefixes& prefixes) {
  Blocks blocks;
  for (const SharedPrefix& prefix : prefixes) {
    const bool is_meant = prefix.model.empty() || prefix.model == model.name || prefix.model == model.model_name();
    if (!is_meant) continue;
    const Result<HashedPrompt> hashed = HashPrompt(model, prefix.prompt, RenderSettings{});
    if (hashed.ok()) {
      blocks.insert(hashed->hashes.begin(), hashed->hashes.end());
    } else {
      LogWarning("a shared prefix is not shared in a model",
                 {{"model", model.name}, {"error", hashed.error().ToString()}});
    }
  }
  return blocks;
}

}  // namespace roost::router
