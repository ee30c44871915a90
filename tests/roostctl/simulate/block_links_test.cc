#include "deploy/roostctl/simulate/block_links.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <utility>
#include <variant>

#include "worker/transfer/peer_connection.h"

namespace roost::simulate {
namespace {

using std::chrono::milliseconds;
using wire::HoldOutcome;
using worker::HoldId;

constexpr std::uint32_t kTokensOfABlock = 16;
constexpr BlockHash kChainRoot{1, 1};
constexpr Duration kDelay = milliseconds(1);  // of a fetch's message

struct Block {
  BlockHash hash;
  BlockHash parent;
  std::vector<TokenId> tokens;
};

std::vector<Block> Chain(std::uint32_t count) {
  std::vector<Block> blocks;
  for (std::uint32_t i = 0; i < count; ++i) {
    Block block{.hash = {}, .parent = i == 0 ? kChainRoot : blocks.back().hash, .tokens = {}};
    block.tokens.assign(kTokensOfABlock, i + 1);
    block.hash = ChainHash(block.parent, block.tokens);
    blocks.push_back(std::move(block));
  }
  return blocks;
}

// Three workers whose links take a millisecond for a frame, unless a spec says otherwise. All news are noted with their
// times.
class BlockLinksTest : public ::testing::Test {
 protected:
  struct Node {
    worker::ReadableBlocks readable{MakeEmptyBlockReader(), 64, kTokensOfABlock};
    std::vector<std::pair<int, std::uint32_t>> frames = {};  // milliseconds, index
    std::vector<std::pair<int, HoldOutcome>> ends = {};
    std::vector<HoldId> joined = {};
    std::vector<worker::FrameBuffer> kept = {};  // memory of the frames
    bool keeps_frames = false;
  };

  void Start(std::vector<LinkSpec> specs = {{}, {}, {}}) {
    constexpr std::uint64_t kKvBytes = 1000;
    const auto bytes = worker::FrameSizes{.block_tokens = kTokensOfABlock, .data_bytes = kTokensOfABlock * kKvBytes};
    const double gigabits = static_cast<double>(bytes.frame_bytes()) * 1000 * 8 / 1e9;
    links_.emplace(LinkOptions{.gigabits_per_second = gigabits, .kv_bytes_per_token = kKvBytes}, kTokensOfABlock,
                   std::move(specs), kDelay, timeline_);
    for (std::uint32_t i = 0; i < 3; ++i) Attach(i);
  }

  void Attach(std::uint32_t i) {
    links_->Attach({.worker_id = std::string(1, static_cast<char>('a' + i)),
                    .index = i,
                    .readable = &nodes_[i].readable,
                    .tell = [this, i](worker::FrameNews news) { Note(nodes_[i], std::move(news)); }});
  }

  void Note(Node& node, worker::FrameNews news) const {
    if (auto* const frame = std::get_if<worker::ArrivedFrame>(&news)) {
      node.frames.emplace_back(Now(), frame->index);
      if (node.keeps_frames) node.kept.push_back(std::move(frame->buffer));
    } else if (const auto* const ended = std::get_if<worker::FramesEnded>(&news)) {
      node.ends.emplace_back(Now(), ended->outcome);
    } else {
      node.joined.push_back(std::get<worker::FramesJoined>(news).first);
    }
  }

  [[nodiscard]] int Now() const {
    return static_cast<int>(std::chrono::duration_cast<milliseconds>(timeline_.Now() - Instant{}).count());
  }

  void Publish(std::uint32_t node, std::uint32_t count) {
    const std::vector<Block> chain = Chain(count);
    std::vector<worker::PublishedBlock> published;
    for (std::uint32_t i = 0; i < count; ++i) {
      published.push_back(
          {.block = BlockId(i),
           .about = {.position = i, .hash = chain[i].hash, .parent = chain[i].parent, .root = kChainRoot},
           .tokens = chain[i].tokens});
    }
    nodes_[node].readable.Publish(published);
  }

  void Ask(std::uint32_t consumer, std::uint32_t source, std::uint32_t count) {
    worker::FrameRequest request{.id = HoldId(++last_id_),
                                 .chain = {.root = kChainRoot, .parent = kChainRoot},
                                 .peer = {.worker_id = std::string(1, static_cast<char>('a' + source)), .address = ""}};
    for (const Block& block : Chain(count)) request.chain.hashes.push_back(block.hash);
    links_->Ask(consumer, std::move(request));
  }

  void RunAll() {
    while (timeline_.RunNext()) {
    }
  }
  void RunUntil(int time) {
    bool is_there = false;
    timeline_.At(Instant{} + milliseconds(time), [&] { is_there = true; });
    while (!is_there) ASSERT_TRUE(timeline_.RunNext());
  }

  using Frames = std::vector<std::pair<int, std::uint32_t>>;
  using Ends = std::vector<std::pair<int, HoldOutcome>>;

  Timeline timeline_;
  std::map<std::uint32_t, Node> nodes_;
  std::optional<BlockLinks> links_;
  std::uint64_t last_id_ = 0;
};

TEST_F(BlockLinksTest, BringsFramesFrontToBackAtTheLinksRate) {
  Start();
  Publish(0, 3);
  Ask(1, 0, 3);
  EXPECT_EQ(links_->ArrivingBytes(1), 3 * links_->frame_bytes());
  EXPECT_EQ(links_->LeavingBytes(0), 0U);  // it does not know yet
  RunUntil(2);
  EXPECT_EQ(links_->LeavingBytes(0), 3 * links_->frame_bytes());
  RunAll();
  EXPECT_EQ(nodes_[1].frames, (Frames{{2, 0}, {3, 1}, {4, 2}}));
  EXPECT_EQ(nodes_[1].ends, (Ends{{4, HoldOutcome::kComplete}}));
  EXPECT_EQ(links_->ArrivingBytes(1) + links_->LeavingBytes(0), 0U);
}

TEST_F(BlockLinksTest, FetchesOverOneLinkTakeTurns) {
  Start();
  Publish(0, 2);
  Ask(1, 0, 2);
  Ask(2, 0, 2);
  RunAll();
  EXPECT_EQ(nodes_[1].frames, (Frames{{2, 0}, {4, 1}}));
  EXPECT_EQ(nodes_[2].frames, (Frames{{3, 0}, {5, 1}}));
}

TEST_F(BlockLinksTest, WaysOutAndInAreApart) {
  Start();
  Publish(0, 3);
  Publish(1, 1);
  Ask(1, 0, 3);
  Ask(2, 1, 1);
  RunAll();
  EXPECT_EQ(nodes_[1].frames, (Frames{{2, 1}, {3, 2}}));
  EXPECT_EQ(nodes_[2].frames, (Frames{{2, 0}}));
}

TEST_F(BlockLinksTest, ASlowConsumerDoesNotKeepItsSourceFromOthers) {
  Start({{}, {.speed = 0.1}, {}});
  Publish(0, 3);
  Ask(1, 0, 1);
  Ask(2, 0, 3);
  RunAll();
  EXPECT_EQ(nodes_[1].frames, (Frames{{11, 0}}));
  EXPECT_EQ(nodes_[2].frames, (Frames{{3, 0}, {4, 1}, {5, 2}}));
}

TEST_F(BlockLinksTest, OnlyBlocksThatTheConsumerLacksTravel) {
  Start();
  Publish(0, 3);
  Publish(1, 2);
  Ask(1, 0, 3);
  RunAll();
  EXPECT_EQ(nodes_[1].frames, (Frames{{2, 2}}));
}

TEST_F(BlockLinksTest, ABlockThatHasLeftTheSourceIsMissing) {
  Start();
  Publish(0, 3);
  Ask(1, 0, 3);
  RunUntil(2);
  const std::vector<BlockId> left{BlockId(2)};
  nodes_[0].readable.Retract(left);
  RunAll();
  EXPECT_EQ(nodes_[1].frames, (Frames{{2, 0}, {3, 1}}));
  EXPECT_EQ(nodes_[1].ends, (Ends{{3, HoldOutcome::kMissing}}));
}

TEST_F(BlockLinksTest, ARequestForBlocksOnTheirWayJoins) {
  Start();
  Publish(0, 3);
  Publish(2, 3);
  Ask(1, 0, 3);
  Ask(1, 2, 2);
  RunAll();
  EXPECT_EQ(nodes_[1].joined, (std::vector<HoldId>{HoldId(1)}));
  EXPECT_EQ(nodes_[1].frames.size(), 3U);
}

// The next one of the same peer follows.
TEST_F(BlockLinksTest, ACancelledFetchEndsAfterItsFrame) {
  Start();
  Publish(0, 5);
  Ask(1, 0, 3);
  Ask(1, 0, 5);
  RunUntil(2);
  links_->Cancel(1, HoldId(1));
  RunAll();
  EXPECT_EQ(nodes_[1].ends, (Ends{{2, HoldOutcome::kCancelled}, {8, HoldOutcome::kComplete}}));
}

TEST_F(BlockLinksTest, FramesWaitForTheConsumersMemory) {
  Start();
  nodes_[1].keeps_frames = true;
  Publish(0, 60);
  Ask(1, 0, 60);
  RunUntil(100);
  EXPECT_EQ(nodes_[1].frames.size(), 60U);  // of 16 kB, thousands fit
  nodes_[1].kept.clear();

  links_.emplace(LinkOptions{.gigabits_per_second = 1, .kv_bytes_per_token = 16'000'000}, kTokensOfABlock,
                 std::vector<LinkSpec>(3), kDelay, timeline_);
  for (std::uint32_t i = 0; i < 3; ++i) Attach(i);
  nodes_[1].frames.clear();
  Ask(1, 0, 60);
  RunAll();
  EXPECT_EQ(nodes_[1].frames.size(), 8U);
  nodes_[1].kept.erase(nodes_[1].kept.begin(), nodes_[1].kept.begin() + 3);
  links_->OnRoom(1);
  RunAll();
  EXPECT_EQ(nodes_[1].frames.size(), 11U);
}

TEST_F(BlockLinksTest, ABrokenLinkIsSilentAndPausesItsPair) {
  Start({{.breaks_after = milliseconds(3)}, {}, {}});
  Publish(0, 5);
  const auto silence = static_cast<int>(worker::kPeerSilence.count());
  Ask(1, 0, 5);
  RunAll();
  EXPECT_EQ(nodes_[1].frames, (Frames{{2, 0}, {3, 1}}));
  EXPECT_EQ(nodes_[1].ends, (Ends{{3 + silence, HoldOutcome::kBroken}}));
  for (int i = 0; i < 2; ++i) {
    Ask(1, 0, 5);
    RunAll();
  }
  const int paused_at = Now();
  Ask(1, 0, 5);
  EXPECT_EQ(nodes_[1].ends.back(), (std::pair{paused_at, HoldOutcome::kBroken}));
}

TEST_F(BlockLinksTest, ASourceThatLeavesBreaksItsFetchesAtOnce) {
  Start();
  Publish(0, 5);
  Ask(1, 0, 5);
  Ask(2, 0, 5);
  RunUntil(3);
  links_->Detach(0);
  links_->Detach(2);
  RunAll();
  ASSERT_EQ(nodes_[1].ends.size(), 1U);
  EXPECT_EQ(nodes_[1].ends.front().second, HoldOutcome::kBroken);
  EXPECT_LE(nodes_[1].ends.front().first, 5);
  EXPECT_TRUE(nodes_[2].ends.empty());  // it is gone
  EXPECT_EQ(links_->ArrivingBytes(1) + links_->ArrivingBytes(2) + links_->LeavingBytes(0), 0U);
}

}  // namespace
}  // namespace roost::simulate
