// Remembers earlier requests, to compare later ones with them: hashes of their parts, and no text.
//
//   answer id ─► print: model, scope, tools, system, each message, the prompt's blocks
//   session  ─► the print of its last answer
//
// A process has a seed of its own for the hashes. Each print belongs to a tenant: another tenant's id is as unknown as
// one that never was. The oldest go first: beyond `most_bytes`, and after an hour.
//
// Thread-safe. Keep and Find take constant time; Keep frees what is too old or too much.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/prefix/block_hash.h"
#include "router/route/log/cache_verdict.h"

namespace roost::router {

struct PromptPrint {
  std::uint64_t model = 0;
  std::uint64_t scope = 0;
  std::uint64_t cache_key = 0;
  std::uint64_t effort = 0;
  std::uint64_t tools = 0;  // as the request has them
  std::uint64_t front = 0;  // as the template writes it, tools included, but for the instructions
  std::uint64_t system = 0;
  std::vector<std::uint64_t> messages;
  std::vector<std::uint32_t> blocks;  // the first digits of their hashes, of which each covers those before it
  std::uint32_t prompt_tokens = 0;
  std::uint32_t block_tokens = 16;
  Instant at{};
  ComputedBy computed_by = {};

  [[nodiscard]] std::size_t SizeInBytes() const {
    return sizeof(PromptPrint) + messages.capacity() * sizeof(std::uint64_t) +
           blocks.capacity() * sizeof(std::uint32_t);
  }
};

// The first digits of the hashes.
[[nodiscard]] std::vector<std::uint32_t> BlocksOf(std::span<const BlockHash> hashes);

// Finds what differs in `now`. `token_of`: the tokens of `now` before that of its messages; called at most once.
[[nodiscard]] PromptComparison Compare(const PromptPrint& before, const PromptPrint& now,
                                       const std::function<std::uint32_t(std::size_t message)>& token_of);

class DiagnosisMemory {
 public:
  static constexpr Duration kLifetime = std::chrono::hours(1);

  // 0 bytes: nothing is kept.
  DiagnosisMemory(std::size_t most_bytes, std::uint64_t seed) : most_bytes_(most_bytes), seed_(seed) {}
  DiagnosisMemory(const DiagnosisMemory&) = delete;
  DiagnosisMemory& operator=(const DiagnosisMemory&) = delete;

  [[nodiscard]] bool is_on() const { return most_bytes_ > 0; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }

  // A hash of these bytes, under the seed.
  [[nodiscard]] std::uint64_t Hash(std::string_view bytes) const;

  struct Owner {
    std::string_view tenant;
    std::string_view session;  // empty: none
  };
  // Null: there is none, or it is too old.
  [[nodiscard]] std::shared_ptr<const PromptPrint> Find(std::string_view tenant, std::string_view answer_id,
                                                        Instant now);
  [[nodiscard]] std::shared_ptr<const PromptPrint> LastOf(const Owner& owner, Instant now);
  void Keep(const Owner& owner, std::string_view answer_id, std::shared_ptr<const PromptPrint> print, Instant now);

  [[nodiscard]] std::size_t held_bytes() const;
  [[nodiscard]] std::size_t size() const;

 private:
  struct Key {
    std::uint64_t high = 0;
    std::uint64_t low = 0;

    bool operator==(const Key&) const = default;
  };
  struct KeyHasher {
    [[nodiscard]] std::size_t operator()(const Key& key) const noexcept { return key.low; }
  };
  struct Entry {
    Key key;
    Key session;  // all zero: none
    Instant at;
    std::size_t bytes = 0;
    std::shared_ptr<const PromptPrint> print;
  };
  using Entries = std::list<Entry>;
  enum class Kind : char { kAnswer = 'a', kSession = 's' };

  [[nodiscard]] Key KeyOf(Kind kind, std::string_view tenant, std::string_view name) const;
  // Need mutex_.
  [[nodiscard]] std::shared_ptr<const PromptPrint> At(const Key& key, Instant now) const;
  void DropOldest();

  const std::size_t most_bytes_;
  const std::uint64_t seed_;
  mutable std::mutex mutex_;
  // Guarded by mutex_. The oldest first.
  Entries entries_;
  std::unordered_map<Key, Entries::iterator, KeyHasher> by_key_;  // of answers, and of sessions their last
  std::size_t held_bytes_ = 0;
};

}  // namespace roost::router
