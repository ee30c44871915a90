#include "worker/adapters/host/adapter_engine.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace roost::worker::adapters {
namespace {

struct Events {
  explicit Events(std::size_t limit = SseReader::kMaxEventBytes) : reader(limit) {}
  bool Read(std::string_view bytes) {
    return reader
        .Read(bytes,
              [this](std::string_view data) -> Result<void> {
                all.emplace_back(data);
                return {};
              })
        .ok();
  }
  SseReader reader;
  std::vector<std::string> all;
};

using Texts = std::vector<std::string>;

TEST(SseReaderTest, AnEmptyLineEndsAnEvent) {
  Events events;
  EXPECT_TRUE(events.Read("data: a\n"));
  EXPECT_TRUE(events.all.empty());
  EXPECT_TRUE(events.Read("\ndata: b\n\n"));
  EXPECT_EQ(events.all, (Texts{"a", "b"}));
}

TEST(SseReaderTest, LinesMayEndWithCarriageReturns) {
  Events events;
  EXPECT_TRUE(events.Read("data:a\r\n\r\ndata:  b\r\n\r\n"));
  EXPECT_EQ(events.all, (Texts{"a", " b"}));
}

TEST(SseReaderTest, DataLinesOfOneEventAreJoined) {
  Events events;
  EXPECT_TRUE(events.Read("data: a\ndata: b\n\n"));
  EXPECT_EQ(events.all, (Texts{"a\nb"}));
}

TEST(SseReaderTest, CommentsAndOtherFieldsAreSkipped) {
  Events events;
  EXPECT_TRUE(events.Read(": ping\n\nevent: x\nid: 3\n\n\ndata: a\n\n"));
  EXPECT_EQ(events.all, (Texts{"a"}));
}

TEST(SseReaderTest, AnEventOverTheLimitIsAnError) {
  Events one_line(16);
  EXPECT_TRUE(one_line.Read("data: 123456789"));
  EXPECT_FALSE(one_line.Read("0123"));
  Events many_lines(16);
  EXPECT_TRUE(many_lines.Read("data: 12345\n"));
  EXPECT_FALSE(many_lines.Read("data: 1234567\n"));
}

TEST(SseReaderTest, SmallEventsMayGoOnForEver) {
  Events events(16);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(events.Read("data: 12345\n\n"));
  EXPECT_EQ(events.all.size(), 1000U);
}

TEST(SseReaderTest, StopsAtTheFirstErrorOfItsCaller) {
  SseReader reader;
  int calls = 0;
  const auto read = reader.Read("data: a\n\ndata: b\n\n", [&calls](std::string_view) -> Result<void> {
    ++calls;
    return InvalidArgument("", "no");
  });
  EXPECT_FALSE(read.ok());
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace roost::worker::adapters
