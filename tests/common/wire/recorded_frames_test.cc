// Frames of released protocols, with random values, four of each kind of message: those of 2.4, which a hand-written
// codec wrote, and those that 2.5 to 2.8 added or lengthened. Changing these bytes changes the protocol.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "common/wire/codec.h"
#include "tests/support/source_dir.h"

namespace roost::wire {
namespace {

// Each frame: 'w' or 'r' for its sender, its size as 4 bytes, its bytes.
class RecordedFrames {
 public:
  explicit RecordedFrames(const std::string& name) {
    const std::string folder = std::string(testing_support::SourceDir()) + "/tests/common/wire/recordings/";
    std::ifstream file(folder + name, std::ios::binary);
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

// Calls `check` with each message of the recording, its frame, and what was decoded from that.
template <typename Function>
void ForEachMessage(const std::string& recording, Function check) {
  const auto checked = [&check](char sender, const Bytes& frame, const auto& decoded) {
    ASSERT_TRUE(decoded.ok()) << decoded.error().ToString();
    ASSERT_TRUE(decoded.value().has_value());
    check(sender, frame, *decoded.value());
  };
  RecordedFrames(recording).ForEach([&](char sender, const Bytes& frame) {
    sender == 'w' ? checked(sender, frame, DecodeWorkerMessage(frame))
                  : checked(sender, frame, DecodeRouterMessage(frame));
  });
}

TEST(RecordedFramesTest, AreReadAndWrittenByteForByte) {
  std::set<std::pair<char, std::size_t>> kinds;
  const auto expect_same = [&kinds](char sender, const Bytes& frame, const auto& message) {
    // These have had more fields since: the recording of a later protocol has their bytes.
    static const std::set<std::pair<char, std::size_t>> kLengthened{{'w', WorkerMessage(Hello()).index()},
                                                                    {'w', WorkerMessage(Step()).index()},
                                                                    {'r', RouterMessage(Hold()).index()}};
    if (kLengthened.contains({sender, message.index()}) && Encode(message).size() > frame.size()) return;
    kinds.emplace(sender, message.index());
    EXPECT_EQ(Encode(message), frame) << sender << " " << message.index();
  };
  ForEachMessage("protocol-2.4.bin", expect_same);
  ForEachMessage("protocol-2.5.bin", expect_same);
  ForEachMessage("protocol-2.6.bin", expect_same);
  ForEachMessage("protocol-2.7.bin", expect_same);
  ForEachMessage("protocol-2.8.bin", expect_same);
  EXPECT_EQ(kinds.size(), std::variant_size_v<WorkerMessage> + std::variant_size_v<RouterMessage>);
}

TEST(RecordedFramesTest, AnOlderWorkerServesNoBlocks) {
  std::size_t hellos = 0;
  ForEachMessage("protocol-2.4.bin", [&hellos](char /*sender*/, const Bytes& /*frame*/, const auto& message) {
    if constexpr (std::is_same_v<std::decay_t<decltype(message)>, WorkerMessage>) {
      const auto* const hello = std::get_if<Hello>(&message);
      if (hello == nullptr) return;
      ++hellos;
      EXPECT_EQ(hello->transfer, Transfer());
      EXPECT_FALSE(hello->features.contains(Feature::kHolds));
    }
  });
  EXPECT_EQ(hellos, 4U);
}

// The steps of the recording whose load is so.
std::size_t CountSteps(const std::string& recording, bool (*is_so)(const Load&)) {
  std::size_t count = 0;
  ForEachMessage(recording, [&](char /*sender*/, const Bytes& /*frame*/, const auto& message) {
    if constexpr (std::is_same_v<std::decay_t<decltype(message)>, WorkerMessage>) {
      const auto* const step = std::get_if<Step>(&message);
      if (step != nullptr && is_so(step->load)) ++count;
    }
  });
  return count;
}

TEST(RecordedFramesTest, AnOlderWorkerTellsNoBytesOnTheirWay) {
  const auto tells = [](const Load& load) { return load.arriving_bytes > 0 && load.leaving_bytes > 0; };
  EXPECT_EQ(CountSteps("protocol-2.4.bin", tells), 0U);
  EXPECT_EQ(CountSteps("protocol-2.7.bin", tells), 4U);
}

TEST(RecordedFramesTest, AnOlderWorkerDoesNotSayHowMuchIsLeftOfARoutersPrompts) {
  const auto says = [](const Load& load) { return !load.own_prompts.empty(); };
  EXPECT_EQ(CountSteps("protocol-2.7.bin", says), 0U);
  EXPECT_EQ(CountSteps("protocol-2.8.bin", says), 4U);
}

TEST(RecordedFramesTest, OlderPeersKnowNoSecretAndNoTicket) {
  std::size_t count = 0;
  ForEachMessage("protocol-2.5.bin", [&count](char /*sender*/, const Bytes& /*frame*/, const auto& message) {
    if constexpr (std::is_same_v<std::decay_t<decltype(message)>, WorkerMessage>) {
      if (const auto* const hello = std::get_if<Hello>(&message)) {
        ++count;
        EXPECT_TRUE(hello->transfer.secret.empty());
      }
    } else if (const auto* const hold = std::get_if<Hold>(&message)) {
      ++count;
      EXPECT_TRUE(hold->source.ticket.empty());
    }
  });
  EXPECT_EQ(count, 8U);
}

}  // namespace
}  // namespace roost::wire
