#include "deploy/roostctl/orders/order_commands.h"

#include <gtest/gtest.h>

namespace roost::roostctl {
namespace {

TEST(CordonTest, TellsWhatIsLeftAtTheWorker) {
  const auto text = [](const char* answer) { return FormatCordonReport(ReadCordonAnswer(answer).value()); };
  EXPECT_EQ(text(R"({"worker":"w1","answered":true,"cordoned":true,"idle":false,"running_requests":2,)"
                 R"("waiting_requests":1,"in_flight_requests":3})"),
            "w1 is cordoned; requests left there: 2 running, 1 waiting\n");
  EXPECT_EQ(text(R"({"worker":"w1","answered":true,"cordoned":true,"idle":true})"),
            "w1 is cordoned; no request is left there\n");
  EXPECT_EQ(text(R"({"worker":"w1","answered":true,"cordoned":false,"idle":true})"), "w1 takes requests\n");
}

TEST(CordonTest, AWorkerThatHasNotDoneItIsAnErrorWithTheReason) {
  const auto report = ReadCordonAnswer(R"({"worker":"w1","answered":false,"reason":"no answer"})");
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().message, "w1: no answer");
}

TEST(CordonTest, AnotherAnswerIsAnError) {
  EXPECT_FALSE(ReadCordonAnswer("<html>").ok());
  EXPECT_FALSE(ReadCordonAnswer(R"({"error":{}})").ok());
}

}  // namespace
}  // namespace roost::roostctl
