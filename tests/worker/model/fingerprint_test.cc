// The changes of a model's files that give a different fingerprint, and those that do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/worker/model/model_directory.h"
#include "worker/model/load_model.h"
#include "worker/model/loading/weights.h"

namespace roost::worker {
namespace {

namespace fs = std::filesystem;

class FingerprintTest : public testing::Test {
 protected:
  void SetUp() override { WriteSmallLlama(directory_); }

  std::string Fingerprint(const ModelOptions& options = {.block_count = 8}) {
    return LoadModel({directory_.path().string()}, options).value().fingerprint;
  }

  TemporaryDirectory directory_;
};

TEST_F(FingerprintTest, CoversConfigAndTokenizer) {
  const std::string before = Fingerprint();
  EXPECT_EQ(Fingerprint(), before);
  directory_.Write("tokenizer.json", R"({"version": "1.1"})");
  const std::string other_tokenizer = Fingerprint();
  EXPECT_NE(other_tokenizer, before);
  directory_.Write("config.json", SmallLlamaConfig() + "\n");
  EXPECT_NE(Fingerprint(), other_tokenizer);
}

TEST_F(FingerprintTest, CoversEveryByteOfTheWeights) {
  const std::string before = Fingerprint();
  const std::string whole = WeightsFile(SmallLlamaTensors());
  const std::size_t data = whole.size() - SmallLlamaDataBytes();
  for (std::size_t at = data; at < whole.size(); at += 331) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    directory_.Write("model.safetensors", changed);
    EXPECT_NE(Fingerprint(), before) << at;
  }
  directory_.Write("model.safetensors", whole);
  EXPECT_EQ(Fingerprint(), before);
}

TEST_F(FingerprintTest, IsTheSameHoweverTensorsAreSpreadOverFiles) {
  const std::string before = Fingerprint();
  fs::remove(directory_.path() / "model.safetensors");
  WriteSmallLlamaInShards(directory_);
  EXPECT_EQ(Fingerprint(), before);
}

TEST_F(FingerprintTest, IsTheSameForAnyNumberOfRanksAndThreads) {
  const std::string before = Fingerprint();
  EXPECT_EQ(Fingerprint({.thread_count = 2, .block_count = 8, .device_ordinals = {0, 0}}), before);
}

class TensorHashesTest : public testing::Test {
 protected:
  static constexpr std::size_t kPiece = 10;

  enum class Order { kForwards, kBackwards };

  // The hash of a tensor with these bytes, whose pieces come in this order.
  static std::optional<TensorHash> Hash(const std::string& bytes, Order in_time = Order::kForwards) {
    const std::array<std::size_t, 2> sizes{7, bytes.size()};
    TensorHashes hashes(sizes, kPiece);
    std::vector<std::size_t> order((bytes.size() + kPiece - 1) / kPiece);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (in_time == Order::kBackwards) std::reverse(order.begin(), order.end());
    for (const std::size_t i : order) {
      // The other tensor is piece 0.
      hashes.AddPiece(
          1 + i,
          std::as_bytes(std::span(bytes)).subspan(i * kPiece).first(std::min(kPiece, bytes.size() - i * kPiece)));
    }
    EXPECT_EQ(hashes.HashOf(0), std::nullopt);
    return hashes.HashOf(1);
  }
};

TEST_F(TensorHashesTest, TheOrderOfPiecesInTimeMakesNoDifference) {
  const std::string bytes = "0123456789abcdefghijABCDE";
  EXPECT_EQ(Hash(bytes, Order::kForwards), Hash(bytes, Order::kBackwards));
}

TEST_F(TensorHashesTest, TheOrderOfPiecesInTheTensorDoes) {
  EXPECT_NE(Hash("0123456789abcdefghij"), Hash("abcdefghij0123456789"));
  EXPECT_NE(Hash("0123456789"), Hash("0123456789abcdefghij"));
}

TEST_F(TensorHashesTest, EmptyTensorsHaveOneToo) { EXPECT_NE(Hash(""), std::nullopt); }

}  // namespace
}  // namespace roost::worker
