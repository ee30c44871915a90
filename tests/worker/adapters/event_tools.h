// Tools that tests of vLLM's and SGLang's events share: recordings, messages built by hand, and a receiver that checks
// the contract of wire::CacheEvent.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/prefix/block_hash.h"
#include "common/wire/messages.h"
#include "tests/support/source_dir.h"
#include "worker/adapters/events/block_book.h"
#include "worker/adapters/events/cache_change.h"

namespace roost::worker::adapters::testing_support {

using Json = nlohmann::json;

inline std::string FromHex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// The lines of a file of tests/engines/recordings/vllm-0.32.0.
inline std::vector<Json> Recording(const std::string& name) {
  std::ifstream in(std::string(roost::testing_support::SourceDir()) + "/tests/engines/recordings/vllm-0.32.0/" + name);
  EXPECT_TRUE(in.good()) << name;
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

// The frames of a line, or of what it asked.
inline std::vector<std::string> FramesOf(const Json& frames) {
  std::vector<std::string> bytes;
  for (const Json& frame : frames) bytes.push_back(FromHex(frame.get<std::string>()));
  return bytes;
}

inline std::uint64_t NumberOf(const std::string& frame) {
  std::uint64_t number = 0;
  for (const char byte : frame) number = (number << 8U) | static_cast<unsigned char>(byte);
  return number;
}

inline std::string Packed(const Json& value) {
  const std::vector<std::uint8_t> bytes = Json::to_msgpack(value);
  return {bytes.begin(), bytes.end()};
}

// A message with these events.
inline std::string PackedMessage(const Json& events, const Json& rank = 0) {
  return Packed(Json::array({1.5, events, rank}));
}

inline std::span<const std::byte> BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

// Applies events as a router does, and fails the test where they break the contract: after each, every stored block's
// parent is stored, and what is removed is a leaf.
class Receiver {
 public:
  // Tells whose child a block is; without, only what events say themselves is checked.
  void SetParent(BlockHash block, std::optional<BlockHash> parent) { parents_[block] = parent; }

  void Apply(const std::vector<wire::CacheEvent>& events) {
    for (const wire::CacheEvent& event : events) {
      switch (event.kind) {
        case wire::CacheEvent::Kind::kStored: Store(event.stored); break;
        case wire::CacheEvent::Kind::kRemoved:
          for (const BlockHash hash : event.removed) Remove(hash);
          break;
        case wire::CacheEvent::Kind::kResumable:
          for (const BlockHash hash : event.resumable) {
            EXPECT_TRUE(Has(hash)) << "resumable, but not stored";
            EXPECT_TRUE(resumable_.insert(hash).second) << "told twice";
          }
          break;
        case wire::CacheEvent::Kind::kUnresumable:
          for (const BlockHash hash : event.unresumable) EXPECT_EQ(resumable_.erase(hash), 1U);
          break;
        case wire::CacheEvent::Kind::kDiskStored:
        case wire::CacheEvent::Kind::kDiskRemoved: ADD_FAILURE() << "a block on disk"; break;
      }
    }
  }
  void Apply(const std::vector<wire::StoredRun>& snapshot) {
    for (const wire::StoredRun& run : snapshot) Store(run);
  }

  [[nodiscard]] const std::map<BlockHash, std::uint32_t>& positions() const { return positions_; }
  [[nodiscard]] bool Has(BlockHash hash) const { return positions_.contains(hash); }
  [[nodiscard]] std::set<BlockHash> hashes() const {
    std::set<BlockHash> all;
    for (const auto& [hash, position] : positions_) all.insert(hash);
    return all;
  }
  [[nodiscard]] const std::set<BlockHash>& resumable() const { return resumable_; }
  [[nodiscard]] BlockHash resumable_digest() const {
    BlockHash digest;
    for (const BlockHash hash : resumable_) digest = digest ^ hash;
    return digest;
  }
  [[nodiscard]] BlockHash digest() const {
    BlockHash digest;
    for (const auto& [hash, position] : positions_) digest = digest ^ hash;
    return digest;
  }

 private:
  void Store(const wire::StoredRun& run) {
    std::uint32_t position = run.first_position;
    std::optional<BlockHash> before;
    EXPECT_FALSE(run.hashes.empty());
    for (const BlockHash hash : run.hashes) {
      EXPECT_TRUE(positions_.emplace(hash, position++).second) << "stored twice";
      if (before) parents_[hash] = before;
      before = hash;
      const auto parent = parents_.find(hash);
      if (parent == parents_.end() || !parent->second) continue;
      EXPECT_TRUE(Has(*parent->second)) << "stored without its parent";
      if (Has(*parent->second)) {
        EXPECT_EQ(positions_[*parent->second] + 1, positions_[hash]);
      }
      ++children_[*parent->second];
    }
  }
  void Remove(BlockHash hash) {
    EXPECT_EQ(positions_.erase(hash), 1U) << "removed, but not stored";
    resumable_.erase(hash);
    EXPECT_EQ(children_[hash], 0) << "removed, but no leaf";
    const auto parent = parents_.find(hash);
    if (parent != parents_.end() && parent->second) --children_[*parent->second];
  }

  std::map<BlockHash, std::uint32_t> positions_;
  std::map<BlockHash, std::optional<BlockHash>> parents_;
  std::map<BlockHash, int> children_;
  std::set<BlockHash> resumable_;
};

// A book with its receiver.
struct Followed {
  explicit Followed(const BlockBook::Options& options) : book(options) {}

  // The decoded changes of one message, then what a router makes of the events.
  void Apply(const std::vector<CacheChange>& changes) {
    for (const CacheChange& change : changes) last = book.Apply(change);
    book.Settle();
    Take();
  }
  void Take() {
    std::vector<wire::CacheEvent> events;
    book.TakeEvents(events);
    receiver.Apply(events);
    EXPECT_EQ(receiver.digest(), book.digest());
    EXPECT_EQ(receiver.positions().size(), book.block_count());
    EXPECT_EQ(receiver.resumable_digest(), book.resume_points().digest());
    const std::vector<BlockHash> all = book.resume_points().All();
    EXPECT_EQ(receiver.resumable(), std::set<BlockHash>(all.begin(), all.end()));
  }
  [[nodiscard]] std::uint64_t left_out(LeftOut reason) const { return book.left_out()[IndexOf(reason)]; }

  BlockBook book;
  Receiver receiver;
  BlockBook::Outcome last = BlockBook::Outcome::kFollowed;
};

}  // namespace roost::worker::adapters::testing_support
