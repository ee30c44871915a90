// CUDA's ops beyond the sizes of one launch; see tested_ops.h.

#include "kernels/device_memory.h"
#include "tests/kernels/kernels_testing.h"
#include "tests/kernels/tested_ops.h"

namespace roost::kernels {
namespace {

class CudaSizesTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto ops = TestedOps();
    if (!ops.ok()) GTEST_SKIP() << ops.error().ToString();
    tested_.emplace(Backend::Open(**ops, {}).value());
  }

  [[nodiscard]] DeviceBuffer Upload(const Tensor& tensor) const {
    DeviceBuffer buffer(*tested_);
    buffer.Upload(std::span<const std::byte>(tensor.bytes));
    return buffer;
  }
  [[nodiscard]] Tensor Read(const DeviceBuffer& buffer, const Tensor& shape) const {
    Tensor read = shape;
    tested_->ops().copy_to_host(tested_->device(), read.data(), buffer.data(), read.bytes.size());
    return read;
  }

  // Both copy the rows in a pool of random blocks.
  void ExpectCopiesAgree(const std::vector<BlockRowsCopy>& copies, std::uint32_t block_count) {
    KvLayout kv{.base = nullptr,
                .dtype = DType::kBF16,
                .block_count = block_count,
                .layer_count = 2,
                .kv_head_count = 1,
                .block_tokens = 16,
                .head_dim = 64};
    Tensor plain(DType::kBF16, RandomFloats(rng_, kv.BlockBytes() / 2 * block_count));
    const DeviceBuffer storage = Upload(plain);
    kv.base = storage.data();
    const CopyBlockRowsArgs args{kv, copies.data(), static_cast<std::uint32_t>(copies.size())};
    tested_->ops().copy_block_rows(tested_->device(), args);
    kv.base = plain.data();
    CopyBlockRowsCpu(plain_, {kv, args.copies, args.copy_count});
    EXPECT_EQ(Read(storage, plain).bytes, plain.bytes);
  }

  Rng rng_{1};
  std::optional<Backend> tested_;
  OpenDevice plain_{ReferenceOps(), 1};
};

// A launch takes 128 copies.
TEST_F(CudaSizesTest, MoreCopiesThanALaunchTakes) {
  for (const std::uint32_t count : {127U, 128U, 129U, 300U}) {
    std::vector<BlockRowsCopy> copies;
    for (std::uint32_t i = 0; i < count; ++i) copies.push_back({2 * i, 2 * i + 1, 1 + i % 16});
    SCOPED_TRACE(testing::Message() << count << " copies");
    ExpectCopiesAgree(copies, 2 * count);
  }
}

// The copies behind the 128th read what the first ones wrote, and overwrite what they read.
TEST_F(CudaSizesTest, CopiesOfALaterLaunchSeeTheOnesBefore) {
  std::vector<BlockRowsCopy> copies;
  for (std::uint32_t i = 0; i < 150; ++i) copies.push_back({i, 150 + i, 16});
  for (std::uint32_t i = 0; i < 150; ++i) copies.push_back({150 + (i + 1) % 150, i, 9});
  ExpectCopiesAgree(copies, 300);
}

// A grid has 65,535 rows of blocks along y.
TEST_F(CudaSizesTest, MoreRowsOfSiluMulThanAGridHas) {
  constexpr std::uint32_t kWidth = 8;
  for (const std::uint32_t rows : {65'535U, 65'536U, 70'001U}) {
    Tensor gate_up(DType::kBF16, RandomFloats(rng_, std::size_t{rows} * 2 * kWidth));
    Tensor wanted(DType::kBF16, std::size_t{rows} * kWidth);
    const DeviceBuffer device_gate_up = Upload(gate_up);
    const DeviceBuffer out = Upload(wanted);
    SiluMulArgs args{.gate_up = device_gate_up.data(),
                     .rows = rows,
                     .width = kWidth,
                     .out = out.data(),
                     .out_dtype = DType::kBF16,
                     .gate_up_dtype = DType::kBF16};
    tested_->ops().silu_mul(tested_->device(), args);
    args.gate_up = gate_up.data();
    args.out = wanted.data();
    SiluMulRef(plain_, args);
    SCOPED_TRACE(testing::Message() << rows << " rows");
    ExpectNear(Read(out, wanted), wanted, 1e-5);
  }
}

}  // namespace
}  // namespace roost::kernels
