// Identifies who makes a request: a key, and the account that counts what is done with it. An account lives as long as
// the router, also across reloads of the key file, so that neither a reload nor a new limit forgets what was used.
//
//   Ask ─ refused: over a limit
//    └─ Admission (one of the concurrent requests, until it is gone)
//          └ TakeTokens, as they are used
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "common/base/byte_budget.h"
#include "common/base/clock.h"
#include "common/base/result.h"
#include "router/access/api_key.h"

namespace roost::router {

// A rate as a bucket: it fills evenly, up to what a minute allows, and each use takes from it. A use may take more than
// there is, because the length of an answer is not known before its end: then the level is below nothing, and new uses
// wait until it is above again. So over any time t the use is at most limit · (1 + t / minute) and one request more for
// each that was under way.
//
// Pure: the caller gives the time. Not thread-safe.
class RateLimit {
 public:
  // The limit's state, as a client is told it.
  struct State {
    std::uint64_t limit = 0;      // per minute
    std::uint64_t remaining = 0;  // that can be used now
    Duration until_full{};        // if nothing more is used
    Duration until_free{};        // until something can be used; zero while there is something left
  };

  // `per_minute` may differ from call to call: limits are reloaded, and shared among routers. kNoLimit: always free.
  [[nodiscard]] State Look(std::uint64_t per_minute, Instant now);
  // Takes even where there is not so much.
  void Take(std::uint64_t amount, std::uint64_t per_minute, Instant now);
  // Undoes a Take that came to nothing. The amount filled up since stays.
  void GiveBack(std::uint64_t amount, std::uint64_t per_minute, Instant now);

 private:
  void Fill(std::uint64_t per_minute, Instant now);

  double used_ = 0;  // taken and not filled up again
  Instant filled_at_{};
  bool began_ = false;
};

// The use of one key since the router began.
struct KeyUsage {
  std::uint64_t requests = 0;  // generations that were computed
  std::uint64_t refused = 0;   // over a limit
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;  // of the prompts'
  std::uint64_t output_tokens = 0;
};

// The limits and their state, as a client is told them.
struct LimitsState {
  RateLimit::State requests;
  RateLimit::State tokens;
};

struct RateRefusal {
  Error error;  // kRateLimited
  Duration retry_after{};
};

class KeyAccount {
 public:
  // `memory` is the key's share of the memory for requests; null: no bound.
  explicit KeyAccount(std::shared_ptr<ByteBudget> memory = nullptr) : memory_(std::move(memory)) {}
  KeyAccount(const KeyAccount&) = delete;
  KeyAccount& operator=(const KeyAccount&) = delete;

  // Counts a request against `limits`, or says which of them is reached. `router_count` routers share each limit.
  [[nodiscard]] std::optional<RateRefusal> Begin(const KeyLimits& limits, std::uint32_t router_count, Instant now);
  // One of the concurrent requests ends.
  void End();
  void TakeTokens(std::uint64_t count, const KeyLimits& limits, std::uint32_t router_count, Instant now);
  void GiveTokensBack(std::uint64_t count, const KeyLimits& limits, std::uint32_t router_count, Instant now);
  [[nodiscard]] LimitsState Look(const KeyLimits& limits, std::uint32_t router_count, Instant now);

  void CountGeneration(std::uint64_t prompt_tokens, std::uint64_t cached_tokens, std::uint64_t output_tokens);
  [[nodiscard]] KeyUsage usage() const;
  [[nodiscard]] const std::shared_ptr<ByteBudget>& memory() const { return memory_; }

 private:
  // Needs mutex_.
  [[nodiscard]] std::optional<RateRefusal> LimitReached(const KeyLimits& limits, std::uint32_t router_count,
                                                        Instant now);

  const std::shared_ptr<ByteBudget> memory_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  RateLimit requests_;
  RateLimit tokens_;
  std::uint64_t concurrent_ = 0;
  KeyUsage usage_;
};

// A key and its account.
struct KeyEntry {
  std::shared_ptr<const ApiKey> key;
  std::shared_ptr<KeyAccount> account;
};

// A request of a key, shared by all that work on it. While one that counts exists, it is one of the key's concurrent
// requests.
class Admission {
 public:
  // Counts against the key's limits, each shared by `router_count` routers.
  [[nodiscard]] static std::variant<std::shared_ptr<Admission>, RateRefusal> Ask(KeyEntry entry,
                                                                                 std::uint32_t router_count,
                                                                                 Instant now);
  // The admission of a request that costs nothing.
  [[nodiscard]] static std::shared_ptr<Admission> Uncounted(KeyEntry entry, std::uint32_t router_count);

  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;
  ~Admission();

  [[nodiscard]] const ApiKey& key() const { return *entry_.key; }
  [[nodiscard]] KeyAccount& account() const { return *entry_.account; }
  void TakeTokens(std::uint64_t count, Instant now) const;
  void GiveTokensBack(std::uint64_t count, Instant now) const;
  [[nodiscard]] LimitsState Look(Instant now) const;

 private:
  enum class Kind { kCounted, kUncounted };
  Admission(Kind kind, KeyEntry entry, std::uint32_t router_count)
      : kind_(kind), entry_(std::move(entry)), router_count_(router_count) {}

  const Kind kind_;
  const KeyEntry entry_;
  const std::uint32_t router_count_;
};

}  // namespace roost::router
