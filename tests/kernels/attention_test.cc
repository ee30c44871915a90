// Attention on generated work lists: the fast implementation against the plain one, on every instruction set, and the
// guarantee that a row's bits do not depend on how the work was cut.
#include <algorithm>

#include "tests/kernels/attention_batch.h"
#include "tests/kernels/kernels_testing.h"
#include "tests/support/sanitized.h"

namespace roost::kernels {
namespace {

using testing_support::kSanitized;

struct Case {
  std::uint32_t query_heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t head_dim = 64;
  DType dtype = DType::kF32;
  std::uint32_t block_tokens = 16;
  std::uint32_t context = kSanitized ? 540 : 700;  // positions: two whole spans and a part
};

// One sequence whose K, V and queries depend only on the case's shape, not on block_tokens.
class Sequence {
 public:
  explicit Sequence(const Case& c) : case_(c), q_(0), out_(c.dtype, 0) {
    Rng rng(c.head_dim * 31 + c.query_heads);
    const std::uint32_t block_count = c.context / c.block_tokens + 2;
    kv_ = {nullptr, c.dtype, block_count, 2, c.kv_heads, c.block_tokens, c.head_dim};
    storage_.resize(block_count * kv_.BlockBytes());
    kv_.base = storage_.data();
    // Blocks are in reverse order in the pool; rows that belong to no position are poison.
    for (std::uint32_t b = 0; b < block_count; ++b) blocks_.push_back(block_count - 1 - b);
    std::memset(storage_.data(), 0xff, storage_.size());
    for (std::uint32_t j = 0; j < c.context; ++j) {
      for (std::uint32_t h = 0; h < c.kv_heads; ++h) Fill(rng, j, h);
    }
    q_ = RandomFloats(rng, std::size_t{c.context} * c.query_heads * c.head_dim, 3);
    out_ = Tensor(c.dtype, q_.size());
  }

  // Adds rows for positions first … first+count-1 in packs of `pack` rows; contexts longer than a span are cut if `cut`
  // says so.
  void Add(std::uint32_t first, std::uint32_t count, std::uint32_t pack, AttentionItem::Output cut) {
    for (std::uint32_t row = first; row < first + count; row += pack) {
      const std::uint32_t rows = std::min(pack, first + count - row);
      const AttentionItem item{.first_row = static_cast<std::uint32_t>(rows_.size()),
                               .row_count = rows,
                               .position_count = row + rows,
                               .output = cut};
      for (std::uint32_t r = 0; r < rows; ++r) rows_.push_back({row + r, row + r});
      if (cut == AttentionItem::Output::kWhole) {
        items_.push_back(item);
      } else {
        AddPartials(item, row + rows);
      }
    }
  }

  const Tensor& Run(const OpTable& ops, std::uint32_t threads) {
    OpenDevice device(ops, threads);
    partials_.assign(std::size_t{partial_count_} * PartialFloats(case_.head_dim), -1);
    ops.attention(device, {.q = q_.data(),
                           .scale = 0.125F,
                           .query_head_count = case_.query_heads,
                           .kv = kv_,
                           .layer = 1,
                           .blocks = blocks_.data(),
                           .rows = rows_.data(),
                           .items = items_.data(),
                           .item_count = static_cast<std::uint32_t>(items_.size()),
                           .merges = merges_.data(),
                           .merge_count = static_cast<std::uint32_t>(merges_.size()),
                           .parts = parts_.data(),
                           .partials = partials_.data(),
                           .out = out_.data(),
                           .out_dtype = case_.dtype});
    return out_;
  }

 private:
  void Fill(Rng& rng, std::uint32_t j, std::uint32_t h) {
    const std::uint32_t block = blocks_[j / case_.block_tokens];
    const std::size_t row = std::size_t{j % case_.block_tokens} * case_.head_dim;
    for (std::uint32_t d = 0; d < case_.head_dim; ++d) {
      StoreElement(kv_.base, kv_.dtype, kv_.KOffset(block, 1, h) + row + d, static_cast<float>(rng.Uniform() * 2 - 1));
      StoreElement(kv_.base, kv_.dtype, kv_.VOffset(block, 1, h) + row + d, static_cast<float>(rng.Uniform() * 2 - 1));
    }
  }

  void AddPartials(AttentionItem item, std::uint32_t end) {
    const std::uint32_t first_partial = partial_count_;
    for (std::uint32_t first = 0; first < end; first += kAttentionSpan) {
      item.first_position = first;
      item.position_count = std::min(kAttentionSpan, end - first);
      item.first_block = first / case_.block_tokens;
      item.first_partial = partial_count_;
      partial_count_ += item.row_count * case_.query_heads;
      items_.push_back(item);
    }
    for (std::uint32_t r = 0; r < item.row_count; ++r) {
      const auto first_part = static_cast<std::uint32_t>(parts_.size());
      for (std::uint32_t partial = first_partial + r * case_.query_heads; partial < partial_count_;
           partial += item.row_count * case_.query_heads) {
        parts_.push_back(partial);
      }
      merges_.push_back(
          {rows_[item.first_row + r].token, first_part, static_cast<std::uint32_t>(parts_.size()) - first_part});
    }
  }

  Case case_;
  KvLayout kv_;
  std::vector<std::byte> storage_;
  std::vector<std::uint32_t> blocks_;
  std::vector<float> q_;
  Tensor out_;
  std::vector<AttentionRow> rows_;
  std::vector<AttentionItem> items_;
  std::vector<AttentionMerge> merges_;
  std::vector<std::uint32_t> parts_;
  std::vector<float> partials_;
  std::uint32_t partial_count_ = 0;
};

constexpr auto kWhole = AttentionItem::Output::kWhole;
constexpr auto kPartial = AttentionItem::Output::kPartial;

// The lanes of the CPU's largest tile.
constexpr std::uint32_t kPackLanes = 16;

// The whole sequence, in packs that suit the case.
Tensor Baseline(const Case& c, const OpTable& ops) {
  Sequence sequence(c);
  sequence.Add(0, c.context, std::max(1U, kPackLanes / (c.query_heads / c.kv_heads)), kWhole);
  return sequence.Run(ops, 1);
}

TEST(AttentionTest, AgreesWithThePlainOne) {
  for (const Case& c : {Case{}, Case{.query_heads = 6, .kv_heads = 2, .head_dim = 16, .context = 300},
                        Case{.query_heads = 14, .kv_heads = 2, .head_dim = 40, .dtype = DType::kBF16, .context = 270},
                        Case{.query_heads = 2, .kv_heads = 2, .head_dim = 128, .dtype = DType::kBF16, .context = 40},
                        Case{.query_heads = 16, .kv_heads = 1, .head_dim = 6, .block_tokens = 4, .context = 50},
                        Case{.query_heads = 20, .kv_heads = 1, .head_dim = 16, .context = 30}}) {
    const Tensor plain = Baseline(c, ReferenceOps());
    ForEachInstructionSet([&] { ExpectNear(Baseline(c, CpuOps()), plain, 1e-5); });
  }
}

TEST(AttentionTest, PartialResultsMergeToTheWhole) {
  const Case c;
  for (const OpTable* ops : {&CpuOps(), &ReferenceOps()}) {
    Sequence sequence(c);
    sequence.Add(0, c.context, 3, kPartial);
    ExpectNear(sequence.Run(*ops, 1), Baseline(c, ReferenceOps()), 1e-5);
  }
}

TEST(AttentionTest, ARowsBitsDoNotDependOnHowTheWorkIsCut) {
  constexpr std::uint32_t kKvHeads = kSanitized ? 1 : 2;
  const auto packs = kSanitized ? std::vector<std::uint32_t>{2, 7} : std::vector<std::uint32_t>{1, 2, 5, 7};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    ForEachInstructionSet([&] {
      const Case c{.query_heads = 2 * kKvHeads, .kv_heads = kKvHeads, .dtype = dtype};
      const Tensor wanted = Baseline(c, CpuOps());
      for (const std::uint32_t block_tokens : {4U, 64U, 256U}) {
        Case other = c;
        other.block_tokens = block_tokens;
        EXPECT_EQ(Baseline(other, CpuOps()).bytes, wanted.bytes) << block_tokens;
      }
      for (const std::uint32_t pack : packs) {
        for (const auto cut : {kWhole, kPartial}) {
          Sequence sequence(c);
          sequence.Add(0, 300, pack, cut);
          sequence.Add(300, c.context - 300, 8, kWhole);
          EXPECT_EQ(sequence.Run(CpuOps(), kTestThreads).bytes, wanted.bytes) << pack;
        }
      }
    });
  }
}

TEST(AttentionTest, SharingAPrefixChangesNoBit) {
  AttentionBatch batch({.kv_heads = 2, .group = 3, .head_dim = 40}, 1);
  // All have 256 positions in common; 1 to 7 have 528 with request 0, and 9 to 11 with request 8.
  for (std::uint32_t i = 0; i < 12; ++i) {
    const bool begins = i % 8 == 0;
    batch.Add(600 + 30 * i, 1 + i % 2, begins ? 0 : i / 8 * 8, i == 0 ? 0 : begins ? 256 : 528);
  }
  batch.Fill();
  const Backend backend = Backend::Open(CpuOps(), {.thread_count = kTestThreads}).value();
  const AttentionProfile sharing = AttentionProfileCpu(backend.device(), 40);
  AttentionProfile apart = sharing;
  apart.item_cost_positions = 1U << 20U;  // so that a second item never saves time
  const auto reads = [&batch](const AttentionProfile& profile) {
    worker::AttentionPlan plan;
    batch.MakePlan(profile, plan);
    std::uint64_t positions = 0;
    for (const AttentionItem& item : plan.items) positions += item.position_count;
    return positions;
  };
  ASSERT_LT(reads(sharing) * 3, reads(apart) * 2);
  EXPECT_EQ(batch.Run(backend, sharing).bytes, batch.Run(backend, apart).bytes);
  AttentionBatch::ExpectNear(batch.Run(backend, sharing), batch.Wanted());
}

TEST(AttentionTest, VectorWidthChangesNoBitWhereMultiplyAddIsFused) {
  std::vector<std::vector<std::byte>> results;
  ForEachInstructionSet([&] {
    if ((hwy::SupportedTargets() & (HWY_AVX3 | HWY_AVX2)) != 0) results.push_back(Baseline({}, CpuOps()).bytes);
  });
  for (const auto& result : results) EXPECT_EQ(result, results.front());
}

}  // namespace
}  // namespace roost::kernels
