// The rows of the embedding that each rank holds, and the number of copies.
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/worker/model/rank_testing.h"

namespace roost::worker {
namespace {

// A device that computes from rows of weights, as CUDA devices do, and counts the bytes that it holds.
class RowsDevice {
 public:
  static const kernels::OpTable& Ops() {
    static const kernels::OpTable kOps = [] {
      kernels::OpTable ops = kernels::ReferenceOps();
      ops.allocate = [](kernels::Device& device, std::size_t bytes) {
        held_bytes_ += bytes;
        return kernels::ReferenceOps().allocate(device, bytes);
      };
      ops.prepare_matmul = Prepare;
      return ops;
    }();
    return kOps;
  }

  // Bytes of all ranks together that depend on the vocabulary, per token of it.
  static std::size_t BytesPerToken(HfConfig config, std::uint32_t rank_count) {
    const auto bytes_of = [&](std::uint32_t vocab_size) {
      config.vocab_size = vocab_size;
      held_bytes_ = 0;
      (void)MakeRanks(config, rank_count, {.dtype = kernels::DType::kBF16, .ops = &Ops()}).value();
      return held_bytes_.load();
    };
    return (bytes_of(1024) - bytes_of(512)) / 512;
  }

 private:
  static Result<std::unique_ptr<kernels::MatmulWeights>> Prepare(kernels::Device& device,
                                                                 const kernels::PrepareMatmulArgs& args) {
    if (!kernels::AreUsableInPlace(args)) {
      for (const kernels::MatmulPart& part : args.parts) {
        held_bytes_ += std::size_t{part.outputs} * args.inputs * SizeOf(args.compute_dtype);
      }
      return kernels::PrepareMatmulRef(device, args);
    }
    kernels::MatmulPart part = args.parts.front();
    part.weight = args.resident;
    return kernels::PrepareMatmulRef(device,
                                     {.parts = {&part, 1}, .inputs = args.inputs, .compute_dtype = args.compute_dtype});
  }

  static inline std::atomic<std::size_t> held_bytes_{0};
};

TEST(EmbeddingTest, ItsRowsAreHeldOnceByAllRanksTogetherAndATiedOutputByNone) {
  HfConfig config = *SyntheticConfig("tiny");
  const std::size_t row_bytes = config.hidden_size * SizeOf(kernels::DType::kBF16);
  for (const std::uint32_t rank_count : {1U, 2U, 4U}) {
    config.tie = EmbeddingTie::kTied;
    EXPECT_EQ(RowsDevice::BytesPerToken(config, rank_count), row_bytes) << rank_count << " ranks";
    config.tie = EmbeddingTie::kUntied;
    EXPECT_EQ(RowsDevice::BytesPerToken(config, rank_count), 2 * row_bytes) << rank_count << " ranks";
  }
}

TEST(EmbeddingTest, LogitsFromItsRowsAreThoseFromACopy) {
  HfConfig config = *SyntheticConfig("tiny");
  config.vocab_size = 331;  // uneven shares
  const std::vector<TokenId> tokens = RandomTokens(1, 30, config.vocab_size);
  for (const std::uint32_t rank_count : {1U, 2U, 4U}) {
    const auto logits_on = [&](const kernels::OpTable& ops) {
      return LastLogits(*MakeRanks(config, rank_count, {.dtype = kernels::DType::kBF16, .ops = &ops}).value(), tokens,
                        9);
    };
    EXPECT_TRUE(BitEqual(logits_on(RowsDevice::Ops()), logits_on(kernels::ReferenceOps()))) << rank_count << " ranks";
  }
}

}  // namespace
}  // namespace roost::worker
