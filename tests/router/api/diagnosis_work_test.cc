// Diagnoses take as much work for another tenant's id as for one that never was, and no more memory for a million of
// them than is allowed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "router/api/diagnosis_memory.h"
#include "tests/router/api/diagnosis_fixture.h"
#include "tests/support/allocation_count.h"

namespace roost::router {
namespace {

using testing_support::AllocatedBytes;
using testing_support::AllocationCount;

constexpr std::string_view kQuestion = R"({"role":"user","content":"the first question of all"})";

class DiagnosisWorkTest : public DiagnosisTest {
 protected:
  struct Asked {
    std::uint64_t allocations = std::numeric_limits<std::uint64_t>::max();
    std::string body;  // without its own id
  };
  // The least of several times: a table that grows counts once.
  Asked AskWith(const std::string& id, const std::string& key) {
    Asked asked;
    for (int i = 0; i < 20; ++i) {
      const std::string body = Message("be rude", kQuestion, Compare(id));
      const std::uint64_t before = AllocationCount();
      const auto answer = Send("/v1/messages", body, key);
      End();
      asked.allocations = std::min(asked.allocations, AllocationCount() - before);
      asked.body = answer->response->body;
      const std::string own = At(asked.body, "/id");
      asked.body.replace(asked.body.find(own), own.size(), "its id");
    }
    return asked;
  }
};

TEST_F(DiagnosisWorkTest, AnotherTenantsIdIsAnsweredAsOneThatNeverWas) {
  const auto first = Send("/v1/messages", Message("be kind", kQuestion));
  End();
  const std::string id = At(first->response->body, "/id");
  std::string unknown = id;
  std::reverse(unknown.begin() + 5, unknown.end() - 1);  // "msg_… of the same length
  ASSERT_NE(unknown, id);
  (void)AskWith(id, "bird");  // what is remembered of a prompt is not made anew
  const Asked others = AskWith(id, "bird");
  const Asked nobodys = AskWith(unknown, "bird");
  EXPECT_EQ(others.body, nobodys.body);
  EXPECT_EQ(others.allocations, nobodys.allocations);
  (void)AskWith(id, "acme");
  const Asked own = AskWith(id, "acme");
  EXPECT_NE(own.body, nobodys.body);
  EXPECT_NE(own.allocations, nobodys.allocations) << "the count shows no difference at all";
}

// Also what other tenants keep under the same names changes nothing.
TEST_F(DiagnosisWorkTest, AnotherTenantsSessionIsAsUnknownAsAnyOther) {
  const auto ask = [&](const std::string& session, const std::string& key) {
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    for (int i = 0; i < 20; ++i) {
      // A session of its own each time, of the same length: bird has never used it.
      const std::string body = Message("be rude", kQuestion, fmt::format(R"(,"session_id":"{}{:02}")", session, i));
      const std::uint64_t before = AllocationCount();
      (void)Send("/v1/messages", body, key);
      End();
      least = std::min(least, AllocationCount() - before);
      if (key == "bird") {
        EXPECT_EQ(Comparison().before, PromptComparison::Before::kNone);
      }
    }
    return least;
  };
  (void)ask("shared", "acme");
  (void)ask("warmup", "bird");
  const std::uint64_t others = ask("shared", "bird");
  EXPECT_EQ(others, ask("nobody", "bird"));
}

TEST(DiagnosisBytesTest, AMillionAnswersStayWithinTheBound) {
  constexpr std::size_t kMost = std::size_t{16} << 20U;
  // Many of the smallest prints, and few of large ones: each has its own share of what a table takes beside them.
  struct Shape {
    std::uint64_t messages;
    std::uint64_t blocks;
    int count;
  };
  for (const Shape& shape : {Shape{1, 1, 1'000'000}, Shape{12, 80, 200'000}, Shape{200, 4000, 30'000}}) {
    Rng rng(1);
    const std::uint64_t before = AllocatedBytes();
    std::uint64_t most = 0;
    std::size_t most_told = 0;
    DiagnosisMemory memory(kMost, 7);
    for (int i = 0; i < shape.count; ++i) {
      PromptPrint print{.messages = {}, .blocks = {}, .prompt_tokens = 40};
      print.messages.resize(rng.Below(shape.messages + 1));
      print.blocks.resize(rng.Below(shape.blocks + 1));
      const std::string session = rng.Below(2) == 0 ? "" : std::to_string(rng.Below(5000));
      memory.Keep({"acme", session}, "msg_" + std::to_string(i), std::make_shared<const PromptPrint>(std::move(print)),
                  Instant());
      most = std::max(most, AllocatedBytes() - before);
      most_told = std::max(most_told, memory.held_bytes());
    }
    EXPECT_LE(most_told, kMost);
    EXPECT_GT(most_told, kMost * 9 / 10) << "the bound was never reached";
    EXPECT_LE(most, kMost) << shape.blocks << " blocks: by the allocator's count";
    EXPECT_GT(most, kMost / 2) << "it is charged far more than it takes";
  }
}

}  // namespace
}  // namespace roost::router
