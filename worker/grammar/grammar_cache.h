// Compiled grammars by their source, within a limit in bytes: the least recently used one is removed first. A removed
// grammar lives on while a caller holds it. Not thread-safe. O(1).
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "worker/grammar/grammar_library.h"

namespace roost::worker {

class GrammarCache {
 public:
  explicit GrammarCache(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // Null if there is none.
  [[nodiscard]] std::shared_ptr<const CompiledGrammar> Find(std::string_view key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front().grammar;
  }

  // A grammar larger than the limit is not kept.
  void Put(std::string key, std::shared_ptr<const CompiledGrammar> grammar) {
    const std::size_t bytes = grammar->bytes() + key.size();
    if (bytes > max_bytes_ || by_key_.contains(key)) return;
    entries_.push_front({std::move(key), std::move(grammar), bytes});
    by_key_.emplace(entries_.front().key, entries_.begin());
    bytes_ += bytes;
    while (bytes_ > max_bytes_) {
      bytes_ -= entries_.back().bytes;
      by_key_.erase(entries_.back().key);
      entries_.pop_back();
    }
  }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const CompiledGrammar> grammar;
    std::size_t bytes = 0;
  };

  const std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::list<Entry> entries_;                                                 // the most recently used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_;  // keys point into entries_
};

}  // namespace roost::worker
