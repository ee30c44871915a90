// Frames that the hand-written codec of protocol 2.4 wrote: four of each kind of message, with random values. Changing
// these bytes changes the protocol.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "common/wire/codec.h"
#include "tests/support/source_dir.h"

namespace roost::wire {
namespace {

// Each frame: 'w' or 'r' for its sender, its size as 4 bytes, its bytes.
class RecordedFrames {
 public:
  RecordedFrames() {
    const std::string folder = std::string(testing_support::SourceDir()) + "/tests/common/wire/recordings/";
    std::ifstream file(folder + "protocol-2.4.bin", std::ios::binary);
    text_.assign(std::istreambuf_iterator<char>(file), {});
  }

  // Calls `each` with the sender and the bytes of every frame.
  template <typename Function>
  void ForEach(Function each) const {
    for (std::size_t at = 0; at < text_.size();) {
      std::uint32_t size = 0;
      std::memcpy(&size, text_.data() + at + 1, sizeof(size));
      const char sender = text_[at];
      at += 1 + sizeof(size);
      const auto bytes = std::as_bytes(std::span(text_)).subspan(at, size);
      each(sender, Bytes(bytes.begin(), bytes.end()));
      at += size;
    }
  }

 private:
  std::string text_;
};

TEST(RecordedFramesTest, AreReadAndWrittenByteForByte) {
  std::set<std::pair<char, std::size_t>> kinds;
  const auto expect_same = [&kinds](char sender, const Bytes& frame, const auto& decoded) {
    ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
    ASSERT_TRUE(decoded.value().has_value());
    kinds.emplace(sender, decoded.value()->index());
    EXPECT_EQ(Encode(*decoded.value()), frame) << sender << " " << decoded.value()->index();
  };
  RecordedFrames().ForEach([&](char sender, const Bytes& frame) {
    sender == 'w' ? expect_same(sender, frame, DecodeWorkerMessage(frame))
                  : expect_same(sender, frame, DecodeRouterMessage(frame));
  });
  EXPECT_EQ(kinds.size(), std::variant_size_v<WorkerMessage> + std::variant_size_v<RouterMessage>);
}

}  // namespace
}  // namespace roost::wire
