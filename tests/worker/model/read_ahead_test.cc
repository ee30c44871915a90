
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/worker/model/model_directory.h"
#include "worker/model/loading/weights.h"

namespace roost::worker {
namespace {

// Counts the bytes that the threads bring, and waits for them.
class Brought {
 public:
  void Note(std::span<const std::byte> piece) {
    const std::lock_guard lock(mutex_);
    begins_.insert(piece.data());
    bytes_ += piece.size();
    most_ahead_ = std::max(most_ahead_, bytes_ - std::min(bytes_, taken_));
    more_.notify_all();
  }
  void WaitFor(std::uint64_t bytes) {
    std::unique_lock lock(mutex_);
    more_.wait(lock, [&] { return bytes_ >= bytes; });
  }
  // Call it before the reader reports that it took them.
  void WillTake(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    taken_ += bytes;
  }
  [[nodiscard]] std::uint64_t bytes() {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }
  [[nodiscard]] std::uint64_t most_ahead() const { return most_ahead_; }
  [[nodiscard]] std::size_t piece_count() const { return begins_.size(); }

 private:
  std::mutex mutex_;
  std::condition_variable more_;
  std::set<const std::byte*> begins_;
  std::uint64_t bytes_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t most_ahead_ = 0;
};

class ReadAheadTest : public testing::Test {
 protected:
  static constexpr std::size_t kPiece = 100;

  [[nodiscard]] ReadAheadOptions Options(std::uint64_t window_bytes) {
    return {.thread_count = 3,
            .piece_bytes = kPiece,
            .window_bytes = window_bytes,
            .bring = [this](const ReadPiece& piece) { brought_.Note(piece.bytes); }};
  }

  Brought brought_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(10'050);
};

TEST_F(ReadAheadTest, BringsEveryPieceOnce) {
  const std::span<const std::byte> all = bytes_;
  {
    const ReadAhead ahead({all.first(50), {}, all.subspan(50)}, Options(1'000'000));
    brought_.WaitFor(bytes_.size());
  }
  EXPECT_EQ(brought_.bytes(), bytes_.size());
  EXPECT_EQ(brought_.piece_count(), 101U);
}

TEST_F(ReadAheadTest, StaysWithinItsWindowAndFollowsTheReader) {
  constexpr std::uint64_t kWindow = 700;
  {
    ReadAhead ahead({bytes_}, Options(kWindow));
    for (std::uint64_t taken = 0; taken + kWindow <= bytes_.size(); taken += kPiece) {
      brought_.WaitFor(taken + kWindow);
      brought_.WillTake(kPiece);
      ahead.Take(kPiece);
    }
    brought_.WaitFor(bytes_.size());
  }
  EXPECT_EQ(brought_.bytes(), bytes_.size());
  EXPECT_LE(brought_.most_ahead(), kWindow);
}

TEST_F(ReadAheadTest, EndsWhileNobodyTakesAnything) {
  { const ReadAhead ahead({bytes_}, Options(kPiece)); }
  EXPECT_LE(brought_.bytes(), kPiece);
  { const ReadAhead ahead({}, Options(kPiece)); }
}

TEST_F(ReadAheadTest, FinishBringsWhatNobodyTook) {
  ReadAhead ahead({bytes_}, Options(kPiece));
  ahead.Finish();
  EXPECT_EQ(brought_.bytes(), bytes_.size());
  EXPECT_EQ(brought_.piece_count(), 101U);
}

TEST(BringMappedTest, BytesBeyondTheEndOfTheFileAreAnErrorAndNoSignal) {
  const TemporaryDirectory directory;
  const std::string header = R"({"a": {"dtype": "F32", "shape": [50000], "data_offsets": [0, 200000]}})";
  const auto path = directory.Write("model.safetensors", SafetensorsBytes(header, std::string(200'000, 'x')));
  const SafetensorsWeights weights(SafetensorsDirectory::Open(directory.path()).value());
  EXPECT_EQ(weights.total_bytes(), 200'000U);
  const std::uint64_t shape = 50'000;
  EXPECT_TRUE(weights.Get("a", {&shape, 1}).ok());
  std::filesystem::resize_file(path, 20'000);
  const auto cut = weights.Get("a", {&shape, 1});
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().code, ErrorCode::kDataLoss);
  EXPECT_EQ(cut.error().field, path.string());
  EXPECT_NE(cut.error().message.find("tensor 'a' can not be read"), std::string::npos) << cut.error().message;
}

}  // namespace
}  // namespace roost::worker
