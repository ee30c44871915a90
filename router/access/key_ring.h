// The keys that are valid now, and how a request is matched with one.
//
// Matching takes the same time whatever is presented: the secret is hashed, and its digest is compared with that of
// every key, each to its last byte. So the time tells neither how much of a secret was right nor which key it was near
// to, and what could be learnt about a digest would not help to find a secret.
//
// One key may hold half of the memory for requests, so that no key keeps the others out; all of it where there is one
// key alone.
//
// Replace takes new keys in while requests are open; a request keeps the key that it came with.
//
// Thread-safe. Find is O(keys): about 10 ns each.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/byte_budget.h"
#include "router/access/api_key.h"
#include "router/access/key_account.h"

namespace roost::router {

// The account of a key that is valid or was.
struct NamedAccount {
  std::string name;
  std::string tenant;  // the latest
  std::shared_ptr<KeyAccount> account;
};

class KeyRing {
 public:
  // `memory` is that of all keys' requests; null: it is not bounded.
  explicit KeyRing(std::vector<ApiKey> keys, std::shared_ptr<ByteBudget> memory = nullptr)
      : memory_(std::move(memory)) {
    Replace(std::move(keys));
  }
  KeyRing(const KeyRing&) = delete;
  KeyRing& operator=(const KeyRing&) = delete;

  // Accounts stay with their names.
  void Replace(std::vector<ApiKey> keys);

  // The key of this secret.
  [[nodiscard]] std::optional<KeyEntry> Find(std::string_view secret) const;

  // All keys that have been used or are valid, by name.
  [[nodiscard]] std::vector<NamedAccount> Accounts() const;
  [[nodiscard]] std::size_t key_count() const;

 private:
  using Keys = std::vector<KeyEntry>;

  // Needs mutex_.
  [[nodiscard]] std::shared_ptr<KeyAccount> NewAccount() const;
  void ShareMemory();

  const std::shared_ptr<ByteBudget> memory_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::shared_ptr<const Keys> keys_;
  std::map<std::string, NamedAccount> accounts_;  // by name
};

}  // namespace roost::router
