#include "common/base/trace_context.h"

#include <gtest/gtest.h>

#include <string>

namespace roost {
namespace {

constexpr std::string_view kExample = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(TraceContextTest, TakesTheExampleOfTheSpecification) {
  EXPECT_TRUE(IsTraceParent(kExample));
  EXPECT_EQ(TraceIdOf(kExample), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(TraceIdOf(""), "");
}

TEST(TraceContextTest, RefusesWhatIsNone) {
  for (const std::string_view text : {"", "00", "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                      "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
                                      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
                                      "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                                      "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                                      "00-0af7651916cd43dd8448eb211c80319c+b7ad6b7169203331-01",
                                      "00-0af7651916cd43dd8448eb211c80319\n-b7ad6b7169203331-01",
                                      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x"}) {
    EXPECT_FALSE(IsTraceParent(text)) << text;
  }
}

TEST(TraceContextTest, PartsMakeTheWholeAgain) {
  const std::optional<TraceContext> context = ParseTraceParent(kExample);
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(context->parent_id, "b7ad6b7169203331");
  EXPECT_TRUE(context->is_sampled);
  EXPECT_EQ(MakeTraceParent(*context), kExample);
  const std::optional<TraceContext> unsampled =
      ParseTraceParent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-02");
  EXPECT_FALSE(unsampled->is_sampled);
  EXPECT_FALSE(ParseTraceParent("rubbish").has_value());
}

}  // namespace
}  // namespace roost
