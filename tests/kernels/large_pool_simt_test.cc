// KV pools of 128 GiB behind the SIMT shim: memory that the system gives only where it is written. There, even vectors
// of 16 bytes have indices above 2^32. An op on the pool's last blocks must do what it does on a pool of four.
#include <sys/mman.h>

#include <cstring>

#include "kernels/device_memory.h"
#include "tests/kernels/kernels_testing.h"
#include "tests/support/simt/simt_ops.h"

namespace roost::kernels {
namespace {

constexpr std::size_t kPoolBytes = std::size_t{128} << 30U;

class SparseMemory {
 public:
  explicit SparseMemory(std::size_t bytes)
      : bytes_(bytes),
        memory_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~SparseMemory() {
    if (memory_ != MAP_FAILED) ::munmap(memory_, bytes_);
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;

  [[nodiscard]] void* data() const { return memory_ != MAP_FAILED ? memory_ : nullptr; }

 private:
  const std::size_t bytes_;
  void* const memory_;
};

struct PoolShape {
  std::uint32_t layer_count;
  std::uint32_t kv_head_count;
  std::uint32_t block_tokens;
  std::uint32_t head_dim;
};

// Four blocks of a pool, which the tests call 0 to 3.
struct Pool {
  KvLayout kv;
  std::array<std::uint32_t, 4> blocks;

  [[nodiscard]] std::byte* Block(std::uint32_t i) const {
    return static_cast<std::byte*>(kv.base) + blocks[i] * kv.BlockBytes();
  }
  [[nodiscard]] std::uint32_t Slot(std::uint32_t i, std::uint32_t row) const {
    return blocks[i] * kv.block_tokens + row;
  }
};

class LargePoolSimtTest : public testing::TestWithParam<PoolShape> {
 protected:
  void SetUp() override {
    if (sparse_.data() == nullptr) GTEST_SKIP() << "the system gives no " << kPoolBytes << " bytes of addresses";
    const PoolShape& shape = GetParam();
    KvLayout kv{.base = sparse_.data(),
                .dtype = DType::kBF16,
                .block_count = 0,
                .layer_count = shape.layer_count,
                .kv_head_count = shape.kv_head_count,
                .block_tokens = shape.block_tokens,
                .head_dim = shape.head_dim};
    kv.block_count = static_cast<std::uint32_t>(kPoolBytes / kv.BlockBytes());
    const std::uint32_t count = kv.block_count;
    large_ = {kv, {0, count / 2, count - 2, count - 1}};
    kv.block_count = 4;
    dense_.resize(4 * kv.BlockBytes());
    kv.base = dense_.data();
    small_ = {kv, {0, 1, 2, 3}};
    for (std::uint32_t i = 0; i < 4; ++i) Fill(i);
  }

  // Both pools' block gets the same values.
  void Fill(std::uint32_t block) {
    for (std::size_t i = 0; i < small_.kv.BlockBytes() / 2; ++i) {
      StoreElement(small_.Block(block), DType::kBF16, i, Random());
    }
    std::memcpy(large_.Block(block), small_.Block(block), small_.kv.BlockBytes());
  }

  float Random() { return static_cast<float>(rng_.Uniform() * 2 - 1); }
  Tensor Random(DType dtype, std::size_t count) { return {dtype, RandomFloats(rng_, count)}; }

  void ExpectPoolsAgree() const {
    for (std::uint32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(std::memcmp(large_.Block(i), small_.Block(i), small_.kv.BlockBytes()), 0) << "block " << i;
    }
  }

  [[nodiscard]] Device& device() const { return backend_.device(); }

  Rng rng_{1};
  const Backend backend_ = Backend::Open(simt::SimtOps(), {}).value();
  const SparseMemory sparse_{kPoolBytes};
  std::vector<std::byte> dense_;
  Pool large_;
  Pool small_;
};

TEST_P(LargePoolSimtTest, RopeWritesToTheLastBlock) {
  constexpr std::uint32_t kRows = 3;
  const KvLayout& kv = small_.kv;
  const std::uint32_t heads = 2 * kv.kv_head_count;
  const std::uint32_t last_row = kv.block_tokens - 1;
  Tensor qkv = Random(DType::kBF16, std::size_t{kRows} * (heads + 2 * kv.kv_head_count) * kv.head_dim);
  Tensor cos = Random(DType::kF32, std::size_t{kRows} * kv.head_dim / 2);
  Tensor sin = Random(DType::kF32, std::size_t{kRows} * kv.head_dim / 2);
  Tensor q(DType::kBF16, std::size_t{kRows} * heads * kv.head_dim);
  const std::vector<std::byte> before(small_.Block(3), small_.Block(3) + kv.BlockBytes());
  for (const Pool* pool : {&small_, &large_}) {
    const std::vector<std::uint32_t> slots{pool->Slot(3, last_row), pool->Slot(2, 0), pool->Slot(3, 0)};
    RopeToCacheCuda(device(), {.qkv = qkv.data(),
                               .cos = static_cast<const float*>(cos.data()),
                               .sin = static_cast<const float*>(sin.data()),
                               .rows = kRows,
                               .query_head_count = heads,
                               .q = q.data(),
                               .kv = pool->kv,
                               .layer = kv.layer_count - 1,
                               .slots = slots.data(),
                               .activation_dtype = DType::kBF16});
  }
  ExpectPoolsAgree();
  EXPECT_NE(std::memcmp(before.data(), large_.Block(3), before.size()), 0);
}

TEST_P(LargePoolSimtTest, AttentionReadsTheLastBlocks) {
  const KvLayout& kv = small_.kv;
  const std::uint32_t heads = 4 * kv.kv_head_count;
  const std::uint32_t positions = 4 * kv.block_tokens - 3;
  Tensor q = Random(DType::kBF16, std::size_t{heads} * kv.head_dim);
  const AttentionRow row{.token = 0, .position = positions - 1};
  const AttentionItem item{.row_count = 1, .position_count = positions};
  std::vector<Tensor> results;
  for (const Pool* pool : {&small_, &large_}) {
    const std::array<std::uint32_t, 4> blocks{pool->blocks[3], pool->blocks[0], pool->blocks[1], pool->blocks[2]};
    Tensor& out = results.emplace_back(DType::kBF16, q.size());
    AttentionCuda(device(), {.q = q.data(),
                             .q_dtype = DType::kBF16,
                             .scale = 1,
                             .query_head_count = heads,
                             .kv = pool->kv,
                             .layer = kv.layer_count - 1,
                             .blocks = blocks.data(),
                             .rows = &row,
                             .items = &item,
                             .item_count = 1,
                             .out = out.data(),
                             .out_dtype = DType::kBF16});
  }
  EXPECT_EQ(results[1].bytes, results[0].bytes);
  EXPECT_NE(results[1].at(0), 0);
}

TEST_P(LargePoolSimtTest, RowsAreCopiedFromAndToTheLastBlock) {
  const std::uint32_t rows = small_.kv.block_tokens - 1;
  for (const Pool* pool : {&small_, &large_}) {
    const std::vector<BlockRowsCopy> copies{{pool->blocks[3], pool->blocks[0], rows},
                                            {pool->blocks[1], pool->blocks[3], rows},
                                            {pool->blocks[0], pool->blocks[2], rows}};
    CopyBlockRowsCuda(device(), {pool->kv, copies.data(), static_cast<std::uint32_t>(copies.size())});
  }
  ExpectPoolsAgree();
}

TEST_P(LargePoolSimtTest, TheLastBlocksAreGatheredAndScattered) {
  const std::size_t block_bytes = small_.kv.BlockBytes();
  for (const Pool* pool : {&small_, &large_}) {
    const std::vector<BlockMove> gathered{{pool->blocks[3], 0}, {pool->blocks[1], 1}, {pool->blocks[2], 2}};
    std::vector<std::byte> buffer(gathered.size() * block_bytes);
    simt::SimtOps().open_copy_streams(device())->Gather({pool->kv, gathered.data(), 3, buffer.data()});
    EXPECT_EQ(std::memcmp(buffer.data(), pool->Block(3), block_bytes), 0);
    EXPECT_EQ(std::memcmp(buffer.data() + block_bytes, pool->Block(1), block_bytes), 0);
    EXPECT_EQ(std::memcmp(buffer.data() + 2 * block_bytes, pool->Block(2), block_bytes), 0);
    const std::vector<BlockMove> scattered{{pool->blocks[0], 0}, {pool->blocks[2], 1}, {pool->blocks[3], 2}};
    ScatterBlocksCuda(device(), {pool->kv, scattered.data(), 3, buffer.data()});
  }
  ExpectPoolsAgree();
}

// 32 million blocks of 4 KiB, and 32,768 of 4 MiB.
INSTANTIATE_TEST_SUITE_P(Shapes, LargePoolSimtTest,
                         testing::Values(PoolShape{1, 1, 16, 64}, PoolShape{32, 8, 32, 128}));

}  // namespace
}  // namespace roost::kernels
