#include "router/access/key_ring.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace roost::router {
namespace {

constexpr std::uint64_t kSharesOfMemory = 2;  // of which one key has one

}  // namespace

void KeyRing::Replace(std::vector<ApiKey> keys) {
  auto entries = std::make_shared<Keys>();
  const std::lock_guard lock(mutex_);
  for (ApiKey& key : keys) {
    NamedAccount& named = accounts_[key.name];
    if (named.account == nullptr) named = {.name = key.name, .tenant = {}, .account = NewAccount()};
    named.tenant = key.tenant;
    entries->push_back({std::make_shared<const ApiKey>(std::move(key)), named.account});
  }
  keys_ = std::move(entries);
  ShareMemory();
}

std::shared_ptr<KeyAccount> KeyRing::NewAccount() const {
  if (memory_ == nullptr) return std::make_shared<KeyAccount>();
  return std::make_shared<KeyAccount>(std::make_shared<ByteBudget>(memory_->limit(), memory_));
}

void KeyRing::ShareMemory() {
  if (memory_ == nullptr) return;
  const std::uint64_t share = keys_->size() > 1 ? memory_->limit() / kSharesOfMemory : memory_->limit();
  for (const auto& [name, named] : accounts_) named.account->memory()->SetLimit(share);
}

std::optional<KeyEntry> KeyRing::Find(std::string_view secret) const {
  std::shared_ptr<const Keys> keys;
  {
    const std::lock_guard lock(mutex_);
    keys = keys_;
  }
  const KeyDigest digest = DigestOfSecret(secret.substr(0, kMaxSecretBytes));
  // All digests are looked at, and no branch depends on one.
  std::size_t found = keys->size();
  for (std::size_t i = 0; i < keys->size(); ++i) {
    const int differs = CRYPTO_memcmp(digest.data(), (*keys)[i].key->digest.data(), digest.size());
    const std::size_t mask = std::size_t{0} - static_cast<std::size_t>(differs == 0);
    found = (found & ~mask) | (i & mask);
  }
  if (found == keys->size() || secret.size() > kMaxSecretBytes) return std::nullopt;
  return (*keys)[found];
}

std::vector<NamedAccount> KeyRing::Accounts() const {
  std::vector<NamedAccount> accounts;
  const std::lock_guard lock(mutex_);
  accounts.reserve(accounts_.size());
  for (const auto& [name, account] : accounts_) accounts.push_back(account);
  return accounts;
}

std::size_t KeyRing::key_count() const {
  const std::lock_guard lock(mutex_);
  return keys_->size();
}

}  // namespace roost::router
