#include "deploy/roostctl/generate/generate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <sstream>

namespace roost::roostctl {
namespace {

using namespace std::chrono_literals;

OfflineTotals Totals() {
  OfflineTotals totals;
  totals.request_count = 8;
  totals.ended_count = 2;
  totals.prompt_tokens = 400;
  totals.cached_tokens = 300;
  totals.computed_prompt_tokens = 200;
  totals.decode_tokens = 30;
  totals.output_tokens = 40;
  totals.prefill_seconds = 0.5;
  totals.decode_seconds = 0.25;
  totals.total_seconds = 2;
  return totals;
}
constexpr const char* kLine = "Prefill: 1000 tok/s, Decode: 120 tok/s, cached 75%, 2 of 8 prompts";

TEST(LiveLineTest, WritesALineASecondWhereNobodyLooks) {
  ManualClock clock;
  std::ostringstream out;
  LiveLine live(out, clock, LiveOutput::kLines);
  live.Update(Totals());
  clock.Advance(999ms);
  live.Update(Totals());
  EXPECT_EQ(out.str(), "");
  clock.Advance(1ms);
  live.Update(Totals());
  live.Update(Totals());
  EXPECT_EQ(out.str(), std::string(kLine) + "\n");
  clock.Advance(5s);
  live.Update(Totals());
  EXPECT_EQ(out.str(), std::string(kLine) + "\n" + kLine + "\n");
}

TEST(LiveLineTest, WritesOverItsLineOnATerminal) {
  ManualClock clock;
  std::ostringstream out;
  LiveLine live(out, clock, LiveOutput::kTerminal);
  live.Update(Totals());
  clock.Advance(100ms);
  live.Update(Totals());
  clock.Advance(100ms);
  live.Update(Totals());
  EXPECT_EQ(out.str(), std::string("\r\x1b[K") + kLine + "\r\x1b[K" + kLine);
}

TEST(LiveLineTest, EndsWithTheWholeRun) {
  ManualClock clock;
  std::ostringstream out;
  LiveLine(out, clock, LiveOutput::kLines).End(Totals());
  EXPECT_EQ(out.str(), std::string(kLine) +
                           "\n2 prompts in 2.00 s: prefill 500 tokens in 0.50 s, decode 30 tokens in 0.25 s, 220 tok/s "
                           "in all\n");
}

TEST(LiveLineTest, RunWithoutAStepHasNoRates) {
  ManualClock clock;
  std::ostringstream out;
  LiveLine(out, clock, LiveOutput::kLines).End({});
  EXPECT_EQ(out.str().find("Prefill: 0 tok/s, Decode: 0 tok/s, cached 0%, 0 of 0 prompts\n"), 0U);
}

}  // namespace
}  // namespace roost::roostctl
