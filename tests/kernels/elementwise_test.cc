// Gather, RMS norm, SiLU, rotary embedding and block copies: the fast implementations against the plain ones.
#include "kernels/parallel_copy.h"
#include "tests/kernels/kernels_testing.h"

namespace roost::kernels {
namespace {

constexpr std::array<DType, 2> kOutDTypes{DType::kF32, DType::kBF16};

TEST(GatherEmbeddingTest, CopiesTheRowsOfTheTokensThatItHas) {
  OpenDevice device(CpuOps(), kTestThreads);
  Rng rng(1);
  constexpr std::uint32_t kVocab = 50;
  constexpr std::uint32_t kWidth = 19;
  const std::vector<float> table = RandomFloats(rng, kVocab * kWidth);
  std::vector<std::uint16_t> halves(table.size());
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(rng() & 0x7bffU);
  Tensor bf16(DType::kBF16, table);
  std::vector<TokenId> tokens;
  for (int i = 0; i < 40; ++i) tokens.push_back(static_cast<TokenId>(rng.Below(kVocab)));
  for (const auto& [data, dtype] : std::initializer_list<std::pair<const void*, DType>>{
           {table.data(), DType::kF32}, {bf16.data(), DType::kBF16}, {halves.data(), DType::kF16}}) {
    std::vector<float> out(tokens.size() * kWidth);
    std::vector<float> plain(out.size());
    GatherEmbeddingArgs args{.table = data,
                             .table_dtype = dtype,
                             .token_count = kVocab,
                             .tokens = tokens.data(),
                             .rows = static_cast<std::uint32_t>(tokens.size()),
                             .width = kWidth,
                             .out = out.data()};
    GatherEmbeddingCpu(device, args);
    args.out = plain.data();
    GatherEmbeddingRef(device, args);
    EXPECT_EQ(out, plain);
    // A table with only some tokens gives zeros for the others.
    args.first_token = 20;
    args.token_count = 11;
    args.table = static_cast<const std::byte*>(data) + 20 * kWidth * SizeOf(dtype);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool has = tokens[i] >= 20 && tokens[i] < 31;
      if (!has) std::fill_n(plain.begin() + static_cast<std::ptrdiff_t>(i * kWidth), kWidth, 0.0F);
    }
    std::vector<float> part(plain.size(), 7);
    args.out = part.data();
    GatherEmbeddingCpu(device, args);
    EXPECT_EQ(part, plain);
    part.assign(part.size(), 7);
    GatherEmbeddingRef(device, args);
    EXPECT_EQ(part, plain);
  }
}

TEST(ParallelCopyTest, CopiesEveryByteOnce) {
  Rng rng(1);
  constexpr std::size_t kMiB = std::size_t{1} << 20U;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, kMiB - 1, 2 * kMiB, 3 * kMiB + 1, 9 * kMiB + 77}) {
    std::vector<std::uint8_t> from(bytes);
    for (std::uint8_t& byte : from) byte = static_cast<std::uint8_t>(rng());
    std::vector<std::uint8_t> to(bytes + 1, 0xAB);
    CopyInParallel(to.data(), from.data(), bytes);
    EXPECT_EQ(to.back(), 0xAB);
    to.pop_back();
    EXPECT_EQ(to, from);
  }
}

TEST(DTypeTest, HalvesWidenExactly) {
  EXPECT_EQ(F16ToFloat(0x3c00), 1.0F);
  EXPECT_EQ(F16ToFloat(0xc000), -2.0F);
  EXPECT_EQ(F16ToFloat(0x7bff), 65504.0F);
  EXPECT_EQ(F16ToFloat(0x0001), 0x1.0p-24F);
  EXPECT_EQ(F16ToFloat(0x83ff), -0x3ffp-24F);
  EXPECT_TRUE(std::isinf(F16ToFloat(0x7c00)));
  EXPECT_TRUE(std::isnan(F16ToFloat(0x7e00)));
}

TEST(DTypeTest, BF16RoundsToNearestEven) {
  EXPECT_EQ(FloatToBF16(1.0F), 0x3f80);
  EXPECT_EQ(FloatToBF16(std::bit_cast<float>(0x3f808000U)), 0x3f80);  // a tie rounds to even
  EXPECT_EQ(FloatToBF16(std::bit_cast<float>(0x3f818000U)), 0x3f82);
  EXPECT_EQ(FloatToBF16(std::bit_cast<float>(0x3f808001U)), 0x3f81);
  EXPECT_TRUE(std::isnan(BF16ToFloat(FloatToBF16(std::nanf("")))));
}

TEST(RmsNormTest, AgreesWithThePlainOne) {
  OpenDevice device(CpuOps(), kTestThreads);
  ForEachInstructionSet([&] {
    for (const std::uint32_t width : {1U, 7U, 16U, 48U, 192U, 1000U}) {
      for (const DType dtype : kOutDTypes) {
        Rng rng(width);
        constexpr std::uint32_t kRows = 37;
        const std::vector<float> start = RandomFloats(rng, kRows * width, 3);
        const std::vector<float> delta = RandomFloats(rng, kRows * width);
        const std::vector<float> weight = RandomFloats(rng, width);
        std::vector<float> hidden = start;
        std::vector<float> plain_hidden = start;
        Tensor out(dtype, kRows * width);
        Tensor plain(dtype, kRows * width);
        RmsNormCpu(device,
                   {hidden.data(), delta.data(), weight.data(), nullptr, 1e-5F, kRows, width, out.data(), dtype});
        RmsNormRef(device, {plain_hidden.data(), delta.data(), weight.data(), nullptr, 1e-5F, kRows, width,
                            plain.data(), dtype});
        EXPECT_EQ(hidden, plain_hidden);
        ExpectNear(out, plain, 1e-5);
      }
    }
  });
}

TEST(RmsNormTest, WorksOnTheRowsItIsGivenAlone) {
  OpenDevice device(CpuOps(), 1);
  constexpr std::uint32_t kWidth = 20;
  Rng rng(3);
  const std::vector<float> start = RandomFloats(rng, 5 * kWidth);
  const std::vector<float> weight = RandomFloats(rng, kWidth);
  const std::vector<std::uint32_t> rows{4, 1};
  std::vector<float> hidden = start;
  std::vector<float> all(5 * kWidth);
  std::vector<float> some(2 * kWidth);
  RmsNormCpu(device, {hidden.data(), nullptr, weight.data(), nullptr, 1e-5F, 5, kWidth, all.data(), DType::kF32});
  RmsNormCpu(device, {hidden.data(), nullptr, weight.data(), rows.data(), 1e-5F, 2, kWidth, some.data(), DType::kF32});
  EXPECT_EQ(hidden, start);
  EXPECT_EQ(std::memcmp(some.data(), all.data() + 4 * kWidth, kWidth * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(some.data() + kWidth, all.data() + kWidth, kWidth * sizeof(float)), 0);
}

TEST(SiluMulTest, AgreesWithThePlainOne) {
  OpenDevice device(CpuOps(), kTestThreads);
  ForEachInstructionSet([&] {
    for (const std::uint32_t width : {1U, 15U, 16U, 72U, 1152U}) {
      for (const DType dtype : kOutDTypes) {
        Rng rng(width);
        constexpr std::uint32_t kRows = 18;
        std::vector<float> gate_up = RandomFloats(rng, 2 * kRows * width, 20);
        gate_up[0] = -1e4F;  // exp of its negative overflows
        Tensor out(dtype, kRows * width);
        Tensor plain(dtype, kRows * width);
        SiluMulCpu(device, {gate_up.data(), kRows, width, out.data(), dtype});
        SiluMulRef(device, {gate_up.data(), kRows, width, plain.data(), dtype});
        ExpectNear(out, plain, 1e-5);
      }
    }
  });
}

struct RopeCase {
  std::uint32_t head_dim;
  DType kv_dtype;
  bool norms;
};

TEST(RopeTest, AgreesWithThePlainOne) {
  OpenDevice device(CpuOps(), kTestThreads);
  constexpr std::uint32_t kRows = 21;
  constexpr std::uint32_t kHeads = 6;
  ForEachInstructionSet([&] {
    for (const RopeCase& c : {RopeCase{64, DType::kF32, true}, RopeCase{128, DType::kBF16, false},
                              RopeCase{6, DType::kF32, false}, RopeCase{80, DType::kBF16, true}}) {
      Rng rng(c.head_dim);
      KvLayout kv{nullptr, c.kv_dtype, 8, 2, 3, 4, c.head_dim};
      Tensor storage(c.kv_dtype, 8 * kv.BlockBytes() / SizeOf(c.kv_dtype));
      Tensor plain_storage = storage;
      const std::vector<float> qkv = RandomFloats(rng, std::size_t{kRows} * (kHeads + 6) * c.head_dim);
      const std::vector<float> norm = RandomFloats(rng, c.head_dim);
      const std::vector<float> frequencies = RandomFloats(rng, c.head_dim / 2);
      std::vector<std::uint32_t> positions;
      std::vector<std::uint32_t> slots;
      for (std::uint32_t r = 0; r < kRows; ++r) {
        positions.push_back(static_cast<std::uint32_t>(rng.Below(1000)));
        slots.push_back(31 - r);
      }
      std::vector<float> cos(kRows * c.head_dim / 2);
      std::vector<float> sin = cos;
      std::vector<float> plain_cos = cos;
      std::vector<float> plain_sin = cos;
      RopeAnglesCpu(device, {frequencies.data(), positions.data(), kRows, c.head_dim / 2, cos.data(), sin.data()});
      RopeAnglesRef(device,
                    {frequencies.data(), positions.data(), kRows, c.head_dim / 2, plain_cos.data(), plain_sin.data()});
      for (std::size_t i = 0; i < cos.size(); ++i) {
        ASSERT_NEAR(cos[i], plain_cos[i], 1e-6);
        ASSERT_NEAR(sin[i], plain_sin[i], 1e-6);
      }
      Tensor q(DType::kF32, std::size_t{kRows} * kHeads * c.head_dim);
      Tensor plain_q = q;
      RopeToCacheArgs args{.qkv = qkv.data(),
                           .cos = cos.data(),
                           .sin = sin.data(),
                           .q_norm = c.norms ? norm.data() : nullptr,
                           .k_norm = c.norms ? norm.data() : nullptr,
                           .epsilon = 1e-6F,
                           .rows = kRows,
                           .query_head_count = kHeads,
                           .q = static_cast<float*>(q.data()),
                           .kv = kv,
                           .layer = 1,
                           .slots = slots.data()};
      args.kv.base = storage.data();
      RopeToCacheCpu(device, args);
      args.kv.base = plain_storage.data();
      args.q = static_cast<float*>(plain_q.data());
      RopeToCacheRef(device, args);
      ExpectNear(q, plain_q, 1e-5);
      ExpectNear(storage, plain_storage, 1e-5);
    }
  });
}

TEST(CopyBlockRowsTest, CopiesTheFirstRowsOfEveryLayerAndHead) {
  OpenDevice device(CpuOps(), 1);
  KvLayout kv{nullptr, DType::kF32, 3, 2, 2, 4, 5};
  std::vector<float> storage(3 * kv.BlockBytes() / sizeof(float));
  for (std::size_t i = 0; i < storage.size(); ++i) storage[i] = static_cast<float>(i);
  const std::vector<float> before = storage;
  kv.base = storage.data();
  const BlockRowsCopy copy{2, 0, 3};
  CopyBlockRowsCpu(device, {kv, &copy, 1});
  const std::size_t block = kv.BlockBytes() / sizeof(float);
  for (std::size_t i = 0; i < storage.size(); ++i) {
    const bool copied = i < block && i % kv.HeadElements() < std::size_t{3} * kv.head_dim;
    EXPECT_EQ(storage[i], copied ? before[i + 2 * block] : before[i]) << i;
  }
}

}  // namespace
}  // namespace roost::kernels
