// Messages that vLLM 0.32 has sent, through decoder, order and book, beside a model too simple to be wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "tests/worker/adapters/event_tools.h"
#include "worker/adapters/events/cache_change.h"
#include "worker/adapters/events/cache_salt.h"
#include "worker/adapters/events/event_order.h"

namespace roost::worker::adapters {
namespace {

using testing_support::Followed;
using testing_support::FramesOf;
using testing_support::Json;
using testing_support::NumberOf;
using testing_support::Recording;

constexpr BlockHash kRecordedDefault{41, 42};
constexpr BlockHash kRecordedRoot{51, 52};

// The root of requests without a salt, for an adapter or for the model alone.
BlockHash RecordedRootOf(const std::string& adapter) {
  return adapter.empty() ? kRecordedDefault : BlockHash{61, adapter.size()};
}

// The engine's hash → the tokens up to the block's end, and how many copies there are.
class NaiveEngineCache {
 public:
  explicit NaiveEngineCache(std::uint32_t block_tokens) : block_tokens_(block_tokens) {}

  void Apply(const std::string& payload) {
    const Json message = Json::from_msgpack(payload);
    for (const Json& event : message.at(1)) {
      if (event.at("type") == "AllBlocksCleared") blocks_.clear();
      if (event.at("type") == "BlockStored") Store(event);
      if (event.at("type") == "BlockRemoved") {
        for (const Json& hash : event.at("block_hashes")) --blocks_.at(hash).copies;
      }
    }
  }

  // Our hashes of what it has: each one from its whole prefix. Blocks with another salt than ours are left out.
  [[nodiscard]] std::set<BlockHash> OurHashes() const {
    std::set<BlockHash> hashes;
    for (const auto& [name, block] : blocks_) {
      const auto roots =
          block.salt.empty() ? SaltedRoots{RecordedRootOf(block.adapter), std::nullopt} : ParseSalt(block.salt);
      if (block.copies == 0 || !roots) continue;
      hashes.insert(HashBlocks(roots->root, roots->own, block.prefix, block_tokens_).back());
    }
    return hashes;
  }
  [[nodiscard]] std::size_t copies() const {
    std::size_t copies = 0;
    for (const auto& [name, block] : blocks_) copies += block.copies;
    return copies;
  }

 private:
  struct Block {
    std::vector<TokenId> prefix;
    std::string adapter;
    std::string salt;
    std::size_t copies = 0;
  };

  void Store(const Json& event) {
    Block last;
    if (!event.at("parent_block_hash").is_null()) last = blocks_.at(event.at("parent_block_hash"));
    if (!event.at("lora_name").is_null()) last.adapter = event.at("lora_name");
    const Json& keys = event.at("extra_keys").at(0);
    if (!keys.is_null() && keys.back() != last.adapter) last.salt = keys.back();
    auto token = event.at("token_ids").begin();
    for (const Json& hash : event.at("block_hashes")) {
      for (std::uint32_t i = 0; i < block_tokens_; ++i) last.prefix.push_back(*token++);
      Block& block = blocks_[hash];
      block.prefix = last.prefix;
      block.adapter = last.adapter;
      block.salt = last.salt;
      ++block.copies;
    }
  }

  std::uint32_t block_tokens_;
  std::map<Json, Block> blocks_;
};

class RecordedEventsTest : public testing::Test {
 protected:
  // Plays a file of events. `salt` replaces the one of the recorded requests. After each message the view is what the
  // model has.
  void Play(const std::string& file, std::uint32_t block_tokens, const std::string& salt = "grain") {
    NaiveEngineCache engine(block_tokens);
    if (!followed_) {
      followed_.emplace(BlockBook::Options{.block_tokens = block_tokens,
                                           .default_root = kRecordedDefault,
                                           .adapter_root = RecordedRootOf,
                                           .max_blocks = 71});
    }
    std::map<std::string, std::vector<TokenId>> prompts;
    for (const Json& line : Recording(file)) {
      if (line.contains("asked")) prompts[line.at("asked")] = line.at("prompt").get<std::vector<TokenId>>();
      if (line.contains("answered")) Answered(line, prompts[line.at("answered")], block_tokens, salt);
      if (!line.contains("frames")) continue;
      const std::vector<std::string> frames = FramesOf(line.at("frames"));
      const std::string payload = WithSalt(frames.at(2), salt);
      engine.Apply(payload);
      order_.TakeLive(NumberOf(frames.at(1)), payload, clock_.Now());
      RunSteps();
      EXPECT_EQ(followed_->receiver.hashes(), engine.OurHashes()) << line.at("at");
      ++messages_;
    }
    EXPECT_LE(engine.copies(), 71U);
    EXPECT_TRUE(order_.exact());
  }

  static std::string WithSalt(const std::string& payload, const std::string& salt) {
    Json message = Json::from_msgpack(payload);
    for (Json& event : message.at(1)) {
      if (!event.contains("extra_keys")) continue;
      for (Json& keys : event.at("extra_keys")) {
        if (!keys.is_null() && keys.back() == "grain") keys.back() = salt;
      }
    }
    return testing_support::Packed(message);
  }

  // The blocks of the prompt are there when its answer is.
  void Answered(const Json& line, const std::vector<TokenId>& prompt, std::uint32_t block_tokens,
                const std::string& salt) {
    const std::string name = line.at("answered");
    BlockHash root = kRecordedDefault;
    if (name.starts_with("salted")) {
      const auto roots = ParseSalt(salt);
      if (!roots) return;
      root = roots->root;
    }
    for (const BlockHash hash : HashBlocks(root, prompt, block_tokens)) {
      EXPECT_TRUE(followed_->receiver.Has(hash)) << name;
      ++checked_prompt_blocks_;
    }
  }

  void RunSteps() {
    while (const auto step = order_.Next()) {
      if (std::holds_alternative<EventOrder::StartFromNothing>(*step)) {
        followed_->book.Clear();
        followed_->Take();
      }
      const auto* apply = std::get_if<EventOrder::Apply>(&*step);
      if (apply == nullptr) continue;
      const auto changes = DecodeVllmEvents(testing_support::BytesOf(apply->payload));
      ASSERT_TRUE(changes.ok()) << changes.error().ToString();
      followed_->Apply(changes.value());
    }
  }

  ManualClock clock_;
  EventOrder order_{{.replay = EventOrder::Replay::kNone}, clock_.Now()};
  std::optional<Followed> followed_;
  int messages_ = 0;
  int checked_prompt_blocks_ = 0;
};

TEST_F(RecordedEventsTest, FollowsAConversation) {
  Play("events.jsonl", 32);
  EXPECT_EQ(messages_, 16);
  EXPECT_GT(checked_prompt_blocks_, 80);
  EXPECT_EQ(followed_->left_out(LeftOut::kForeignSalt), 3U);
  EXPECT_EQ(order_.counts(), EventOrder::Counts());
  LeftOutCounts others = followed_->book.left_out();
  others[IndexOf(LeftOut::kForeignSalt)] = 0;
  EXPECT_EQ(others, LeftOutCounts());
}

TEST_F(RecordedEventsTest, FollowsOurSalt) {
  Play("events.jsonl", 32, SaltOf(kRecordedRoot, std::nullopt, kRecordedDefault));
  EXPECT_EQ(followed_->book.left_out(), LeftOutCounts());
}

TEST_F(RecordedEventsTest, TheNextLifeBeginsFromNothing) {
  Play("events.jsonl", 32);
  Play("events-restarted-byte-hashes.jsonl", 32);
  EXPECT_EQ(messages_, 18);
  EXPECT_EQ(order_.counts().restarts, 1U);
  EXPECT_EQ(followed_->receiver.positions().size(), 3U);
}

TEST_F(RecordedEventsTest, FollowsTheDefaultBlockSize) {
  Play("events-defaults.jsonl", 128);
  EXPECT_EQ(messages_, 1);
  EXPECT_EQ(followed_->receiver.positions().size(), 2U);
}

TEST_F(RecordedEventsTest, AdaptersHaveBlocksOfTheirOwn) {
  Play("events-adapters.jsonl", 32, SaltOf(kRecordedRoot, std::nullopt, kRecordedDefault));
  EXPECT_EQ(messages_, 5);
  EXPECT_EQ(followed_->receiver.positions().size(), 9U)
      << "two of the model, two and two salted of one, three of another";
  EXPECT_EQ(followed_->left_out(LeftOut::kAdapter), 0U);
}

TEST_F(RecordedEventsTest, GenerationFillsBlocks) {
  std::vector<TokenId> text;
  std::string name = "generation fills two blocks";
  Play("events.jsonl", 32);
  Followed early({.block_tokens = 32, .default_root = kRecordedDefault, .max_blocks = 71});
  for (const Json& line : Recording("events.jsonl")) {
    if (line.value("asked", "") == name) text = line.at("prompt").get<std::vector<TokenId>>();
    if (line.contains("frames")) {
      const auto changes = DecodeVllmEvents(testing_support::BytesOf(FramesOf(line.at("frames")).at(2)));
      ASSERT_TRUE(changes.ok());
      early.Apply(changes.value());
    }
    if (line.value("answered", "") != name) continue;
    for (const TokenId token : line.at("token_ids").get<std::vector<TokenId>>()) text.push_back(token);
    text.pop_back();  // the last one drawn is not in the cache
    for (const BlockHash hash : HashBlocks(kRecordedDefault, text, 32)) EXPECT_TRUE(early.receiver.Has(hash));
    return;
  }
  FAIL() << "not in the recording";
}

}  // namespace
}  // namespace roost::worker::adapters
