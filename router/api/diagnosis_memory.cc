#include "router/api/diagnosis_memory.h"

#include <xxhash.h>

#include <algorithm>
#include <string>
#include <utility>

namespace roost::router {
namespace {

// An entry takes this beside its print: nodes of the list and the map, their buckets, and the counter of the print.
constexpr std::size_t kEntryBytes = 320;

}  // namespace

std::vector<std::uint32_t> BlocksOf(std::span<const BlockHash> hashes) {
  std::vector<std::uint32_t> blocks;
  blocks.reserve(hashes.size());
  for (const BlockHash& hash : hashes) blocks.push_back(static_cast<std::uint32_t>(hash.low));
  return blocks;
}

PromptComparison Compare(const PromptPrint& before, const PromptPrint& now,
                         const std::function<std::uint32_t(std::size_t message)>& token_of) {
  PromptComparison comparison{.before = PromptComparison::Before::kFound};
  comparison.cache_key_changed = before.cache_key != now.cache_key;
  comparison.effort_changed = before.effort != now.effort;
  comparison.process = before.computed_by.process();
  comparison.seconds_ago = ToSeconds(now.at - before.at);
  const auto part = [&](PromptChange change, std::uint32_t token) {
    comparison.change = change;
    comparison.token = std::min(token, now.prompt_tokens);
    comparison.missed_tokens = before.prompt_tokens - std::min(before.prompt_tokens, comparison.token);
    return comparison;
  };
  if (before.model != now.model) return part(PromptChange::kModel, 0);
  if (before.scope != now.scope) return part(PromptChange::kScope, 0);
  const auto [end, other] =
      std::mismatch(before.blocks.begin(), before.blocks.end(), now.blocks.begin(), now.blocks.end());
  const auto equal = static_cast<std::uint32_t>(end - before.blocks.begin()) * now.block_tokens;
  comparison.token = equal;
  if (end == before.blocks.end() || other == now.blocks.end()) return comparison;
  const bool has_other_tools = before.tools != now.tools;
  if (has_other_tools && before.front != now.front) return part(PromptChange::kTools, equal);
  if (before.system != now.system) return part(PromptChange::kSystem, equal);
  if (before.front != now.front) return part(PromptChange::kParameters, equal);
  const auto message =
      std::mismatch(before.messages.begin(), before.messages.end(), now.messages.begin(), now.messages.end());
  const auto index = static_cast<std::size_t>(message.first - before.messages.begin());
  if (index == before.messages.size()) {
    // Some templates write the tools behind the first messages.
    return part(has_other_tools ? PromptChange::kTools : PromptChange::kParameters, equal);
  }
  comparison.message = static_cast<std::uint32_t>(index);
  return part(PromptChange::kMessage, index < now.messages.size() ? std::max(equal, token_of(index)) : equal);
}

std::uint64_t DiagnosisMemory::Hash(std::string_view bytes) const {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed_);
}

DiagnosisMemory::Key DiagnosisMemory::KeyOf(Kind kind, std::string_view tenant, std::string_view name) const {
  // No tenant's name holds a control character.
  std::string text(1, static_cast<char>(kind));
  text.append(tenant).append("\n").append(name);
  const XXH128_hash_t hash = XXH3_128bits_withSeed(text.data(), text.size(), seed_);
  return {hash.high64, hash.low64};
}

std::shared_ptr<const PromptPrint> DiagnosisMemory::At(const Key& key, Instant now) const {
  const auto found = by_key_.find(key);
  if (found == by_key_.end() || now - found->second->at > kLifetime) return nullptr;
  return found->second->print;
}

std::shared_ptr<const PromptPrint> DiagnosisMemory::Find(std::string_view tenant, std::string_view answer_id,
                                                         Instant now) {
  const Key key = KeyOf(Kind::kAnswer, tenant, answer_id);
  const std::lock_guard lock(mutex_);
  return At(key, now);
}

std::shared_ptr<const PromptPrint> DiagnosisMemory::LastOf(const Owner& owner, Instant now) {
  if (owner.session.empty()) return nullptr;
  const Key key = KeyOf(Kind::kSession, owner.tenant, owner.session);
  const std::lock_guard lock(mutex_);
  return At(key, now);
}

void DiagnosisMemory::Keep(const Owner& owner, std::string_view answer_id, std::shared_ptr<const PromptPrint> print,
                           Instant now) {
  const std::size_t bytes = kEntryBytes + print->SizeInBytes();
  if (bytes > most_bytes_) return;
  Entry entry{KeyOf(Kind::kAnswer, owner.tenant, answer_id), {}, now, bytes, std::move(print)};
  if (!owner.session.empty()) entry.session = KeyOf(Kind::kSession, owner.tenant, owner.session);
  const std::lock_guard lock(mutex_);
  while (!entries_.empty() && (held_bytes_ + bytes > most_bytes_ || now - entries_.front().at > kLifetime))
    DropOldest();
  held_bytes_ += bytes;
  const auto place = entries_.insert(entries_.end(), std::move(entry));
  by_key_[place->key] = place;
  if (place->session != Key()) by_key_[place->session] = place;
}

void DiagnosisMemory::DropOldest() {
  const auto oldest = entries_.begin();
  held_bytes_ -= oldest->bytes;
  for (const Key& key : {oldest->key, oldest->session}) {
    const auto found = by_key_.find(key);
    if (found != by_key_.end() && found->second == oldest) by_key_.erase(found);
  }
  entries_.erase(oldest);
}

std::size_t DiagnosisMemory::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return held_bytes_;
}

std::size_t DiagnosisMemory::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace roost::router
