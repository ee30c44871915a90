// Promises beside a server: sessions that grow, part and begin anew, more than there are slots.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/rng.h"
#include "tests/worker/adapters/slot_server_double.h"
#include "tests/worker/adapters/slot_table_fixture.h"

namespace roost::worker::adapters {
namespace {

using Kind = SlotServerDouble::Kind;

class SlotPromisesTest : public SlotTableTest {
 protected:
  struct Outcomes {
    std::uint32_t equal = 0;
    std::uint32_t over = 0;
    std::uint32_t hits = 0;
  };
  enum class Others { kNone, kEachFourthTime };
  static constexpr std::uint32_t kPrompts = 1000;

  // As slot_sessions.py asks the real one.
  Outcomes Ask1000(SlotServerDouble::Options options, Others others = Others::kNone) {
    const bool has_points = options.kind != Kind::kFull;
    const auto window = static_cast<std::uint32_t>(options.kind == Kind::kWindows ? options.window : 0);
    options_ = {.slot_count = 3, .context_tokens = kContext, .goes_on_at_points = has_points, .window = window};
    SlotServerDouble server(options);
    const std::vector<TokenId> system = Tokens(99, 200);
    std::vector<std::vector<TokenId>> sessions(5);
    for (auto& session : sessions) session = Joined(system, Fresh(100, 600));
    Outcomes all;
    for (std::uint32_t i = 0; i < kPrompts; ++i) {
      if (others == Others::kEachFourthTime && i % 4 == 3) {
        (void)server.Answer(Fresh(50, 400), Fresh(2, 3));
        clock_.Advance(milliseconds(rng_.Below(1000)));
        if (rng_.Below(8) > 0) table().OnSlots(server.Page(), clock_.Now());
      }
      auto& session = sessions[rng_.Below(sessions.size())];
      if (session.size() > 3000 || rng_.Below(33) == 0) {
        session = Joined(system, Fresh(100, 600));
      } else if (rng_.Below(10) == 0) {
        session.resize(session.size() - 1 - rng_.Below(299));
      }
      session = Joined(std::move(session), Fresh(10, 150));
      const std::size_t promised = Promised(session);
      const CallId call = Ask(session);
      const auto grant = Next();
      if (!grant) {
        ADD_FAILURE() << "all slots were idle";
        return all;
      }
      const std::vector<TokenId> output = Fresh(8, 9);
      const std::size_t found = server.Answer(session, output, grant->slot, grant->finds_prefix);
      Answer(call, static_cast<std::uint32_t>(found), output);
      all.over += promised > found + 1 ? 1 : 0;
      all.equal += promised == found / kGrainTokens * kGrainTokens ? 1 : 0;
      all.hits += found > 0 ? 1 : 0;
      session = Joined(std::move(session), output);
      clock_.Advance(milliseconds(50 + rng_.Below(300)));
      if (rng_.Below(2) == 0) table().OnSlots(server.Page(), clock_.Now());
    }
    return all;
  }
  std::vector<TokenId> Fresh(std::size_t least, std::size_t most) {
    return Tokens(++last_, least + rng_.Below(most - least));
  }

 private:
  Rng rng_{7};
  TokenId last_ = 100;
};

TEST_F(SlotPromisesTest, FullAttention) {
  const Outcomes outcomes = Ask1000({});
  EXPECT_GT(outcomes.hits, 950U);
  EXPECT_GE(outcomes.equal, 980U);
}

TEST_F(SlotPromisesTest, FullAttentionBesideAnotherClient) {
  const Outcomes outcomes = Ask1000({}, Others::kEachFourthTime);
  EXPECT_GT(outcomes.hits, 700U);
  EXPECT_GE(outcomes.equal, 900U);
}

// How much it holds is learned from what is missed there.
TEST_F(SlotPromisesTest, FullAttentionWithTheServersMemory) {
  const Outcomes outcomes = Ask1000({.has_memory = true});
  EXPECT_GT(outcomes.hits, 950U);
  EXPECT_GE(outcomes.equal, 500U);
  EXPECT_LE(outcomes.over, 10U);
}

TEST_F(SlotPromisesTest, RecurrentLayers) {
  const Outcomes outcomes = Ask1000({.kind = Kind::kHybrid});
  EXPECT_GE(outcomes.equal, 980U);
  EXPECT_LE(outcomes.over, 10U);
}

TEST_F(SlotPromisesTest, Windows) {
  const Outcomes outcomes = Ask1000({.kind = Kind::kWindows});
  EXPECT_GE(outcomes.equal, 850U);
  EXPECT_LE(outcomes.over, 10U);
}

}  // namespace
}  // namespace roost::worker::adapters
