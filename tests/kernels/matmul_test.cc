// The CPU's products against the plain one, and their guarantee: a row's result depends on that row alone.
#include <algorithm>

#include "kernels/cpu/matmul_cpu.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/matmul_stream.h"
#include "kernels/matmul_bucket.h"
#include "tests/kernels/kernels_testing.h"

namespace roost::kernels {
namespace {

struct Shape {
  std::uint32_t outputs;
  std::uint32_t inputs;
};

// Small and whole, odd, more than one slab, a last slab of different width, many inputs.
constexpr std::array<Shape, 7> kShapes{
    {{192, 256}, {100, 70}, {33, 271}, {1, 64}, {1152, 1024}, {1100, 1000}, {260, 12288}}};

// A way to compute a product.
struct Kind {
  const char* name = "";
  DType dtype = DType::kF32;
  Result<std::unique_ptr<MatmulWeights>> (*prepare)(Device& device, const PrepareMatmulArgs& args) = PrepareMatmulCpu;
};

// The kinds of oneDNN, and panels in every instruction set.
template <typename Body>
void ForEachKind(const Body& body) {
  body(Kind{.name = "f32"});
  if (CpuComputesBF16()) body(Kind{.name = "bf16", .dtype = DType::kBF16});
  const Kind panels{.name = "panels", .dtype = DType::kBF16, .prepare = [](Device& device, const auto& args) {
                      return PreparePanels(CpuDevice::Of(device), args);
                    }};
  ForEachInstructionSet([&] { body(panels); });
}

std::vector<float> Product(Device& device, const MatmulWeights& weights, Tensor& x, std::size_t first_row,
                           std::uint32_t rows) {
  std::vector<float> y(std::size_t{rows} * weights.outputs());
  const std::byte* from = x.bytes.data() + first_row * weights.inputs() * SizeOf(x.dtype);
  MatmulCpu(device, {&weights, from, rows, y.data()});
  return y;
}

class MatmulTest : public testing::Test {
 protected:
  // Weights of `shape` in two parts of f32 and bf16, the first with a bias.
  PrepareMatmulArgs Weights(const Shape& shape, DType compute_dtype) {
    Rng rng(shape.outputs + shape.inputs);
    const std::uint32_t first = shape.outputs / 3;
    weight_ = RandomFloats(rng, std::size_t{first} * shape.inputs, 0.1F);
    bias_ = RandomFloats(rng, first);
    second_ = Tensor(DType::kBF16, RandomFloats(rng, std::size_t{shape.outputs - first} * shape.inputs, 0.1F));
    parts_ = {{second_.data(), DType::kBF16, nullptr, shape.outputs - first}};
    if (first > 0) parts_.insert(parts_.begin(), {weight_.data(), DType::kF32, bias_.data(), first});
    return {parts_, shape.inputs, compute_dtype};
  }

  std::vector<float> weight_;
  std::vector<float> bias_;
  Tensor second_{DType::kBF16, 0};
  std::vector<MatmulPart> parts_;
};

TEST_F(MatmulTest, AgreesWithThePlainOne) {
  OpenDevice device(CpuOps(), kTestThreads);
  ForEachKind([&](const Kind& kind) {
    for (const Shape& shape : kShapes) {
      constexpr std::uint32_t kRows = 7;
      const PrepareMatmulArgs args = Weights(shape, kind.dtype);
      const auto weights = kind.prepare(device, args).value();
      const auto plain_weights = PrepareMatmulRef(device, args).value();
      Rng rng(5);
      Tensor x(kind.dtype, RandomFloats(rng, std::size_t{kRows} * shape.inputs));
      const std::vector<float> y = Product(device, *weights, x, 0, kRows);
      std::vector<float> plain(y.size());
      MatmulRef(device, {plain_weights.get(), x.data(), kRows, plain.data()});
      const double tolerance = 1e-6 * std::sqrt(shape.inputs);
      for (std::size_t i = 0; i < y.size(); ++i) {
        ASSERT_NEAR(y[i], plain[i], tolerance * (1 + std::abs(plain[i]))) << kind.name << " " << i;
      }
    }
  });
}

TEST_F(MatmulTest, ARowsResultIsTheSameWhateverItIsComputedWith) {
  OpenDevice one(CpuOps(), 1);
  OpenDevice two(CpuOps(), kTestThreads);
  ForEachKind([&](const Kind& kind) {
    for (const Shape& shape : kShapes) {
      constexpr std::uint32_t kRows = 150;
      const PrepareMatmulArgs args = Weights(shape, kind.dtype);
      const auto weights = kind.prepare(one, args).value();
      const auto same_weights = kind.prepare(two, args).value();
      Rng rng(5);
      Tensor x(kind.dtype, RandomFloats(rng, std::size_t{kRows} * shape.inputs));
      const std::vector<float> wanted = Product(one, *weights, x, 0, kRows);
      EXPECT_EQ(Product(two, *same_weights, x, 0, kRows), wanted);
      for (const std::uint32_t rows : {1U, 2U, 3U, 4U, 5U, 6U, 13U, 16U, 31U, 100U, 149U}) {
        for (const std::uint32_t first : {0U, 1U, kRows - rows}) {
          const std::vector<float> y = Product(one, *weights, x, first, rows);
          ASSERT_EQ(std::memcmp(y.data(), wanted.data() + std::size_t{first} * shape.outputs, y.size() * sizeof(float)),
                    0)
              << shape.outputs << "x" << shape.inputs << " " << kind.name << " rows " << first << "+" << rows;
        }
      }
    }
  });
}

TEST_F(MatmulTest, MoreRowsThanPanelsTakeAtOnceAreComputedAlike) {
  OpenDevice device(CpuOps(), kTestThreads);
  constexpr std::uint32_t kRows = 401;
  const auto weights = PreparePanels(CpuDevice::Of(device), Weights({40, 70}, DType::kBF16)).value();
  Rng rng(5);
  Tensor x(DType::kBF16, RandomFloats(rng, std::size_t{kRows} * 70));
  const std::vector<float> all = Product(device, *weights, x, 0, kRows);
  for (const std::uint32_t row : {0U, 383U, 384U, 400U}) {
    const std::vector<float> y = Product(device, *weights, x, row, 1);
    EXPECT_TRUE(std::equal(y.begin(), y.end(), all.begin() + std::ptrdiff_t{row} * 40)) << "row " << row;
  }
}

TEST_F(MatmulTest, TilesCoverEveryRowOnce) {
  const auto family = MatmulKernelFamily::Create({64, 64, DType::kF32}, 1).value();
  for (std::uint32_t rows = 1; rows <= 300; ++rows) {
    for (const std::uint32_t max_rows : {16U, 128U}) {
      std::uint32_t next = 0;
      for (const MatmulTile& tile : family->Cut(rows, max_rows)) {
        EXPECT_EQ(tile.first_row, next);
        EXPECT_GE(tile.rows, 1U);
        EXPECT_LE(tile.rows, family->tile_rows(tile.kernel));
        EXPECT_LE(family->tile_rows(tile.kernel), std::max(max_rows, family->TileSizes().front()));
        next += tile.rows;
      }
      EXPECT_EQ(next, rows);
    }
  }
}

// One panel, packed as oneDNN packs it.
class StreamTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kInputs = 271;
  static constexpr std::uint32_t kOutputs = 50;
  static constexpr std::uint32_t kRows = 27;

  void SetUp() override {
    if (!CanStream() || !CpuComputesBF16()) GTEST_SKIP() << "this CPU has no bf16 products";
    Rng rng(3);
    x_ = Tensor(DType::kBF16, RandomFloats(rng, std::size_t{kRows} * kInputs));
    weight_ = Tensor(DType::kBF16, RandomFloats(rng, std::size_t{kOutputs} * kInputs));
    packed_.resize(StreamedPanelBytes(kInputs) / sizeof(std::uint16_t));
    for (std::size_t output = 0; output < kOutputs; ++output) {
      for (std::size_t k = 0; k < kInputs; ++k) {
        packed_[(k / 2 * kStreamedPanelOutputs + output) * 2 + k % 2] = Bits(weight_)[output * kInputs + k];
      }
    }
  }

  static const std::uint16_t* Bits(Tensor& tensor) { return reinterpret_cast<const std::uint16_t*>(tensor.data()); }

  // Rows from `first_row` on, inputs from `first` on.
  std::vector<float> Streamed(std::uint32_t first_row, std::uint32_t rows, std::uint32_t depth, std::uint32_t first = 0,
                              std::uint32_t inputs = kInputs) {
    std::vector<float> y(std::size_t{rows} * kOutputs);
    Stream({.packed = packed_.data() + std::size_t{first} * kStreamedPanelOutputs,
            .inputs = inputs,
            .depth = depth,
            .outputs = kOutputs,
            .x = Bits(x_) + std::size_t{first_row} * kInputs + first,
            .rows = rows,
            .y = y.data(),
            .y_stride = kOutputs});
    return y;
  }

  Tensor x_{DType::kBF16, 0};
  Tensor weight_{DType::kBF16, 0};
  std::vector<std::uint16_t> packed_;
};

TEST_F(StreamTest, ARowsBitsDoNotDependOnTheRowsBesideIt) {
  for (const std::uint32_t depth : {64U, kInputs}) {
    const std::vector<float> all = Streamed(0, kRows, depth);
    for (std::uint32_t rows = 1; rows < kRows; ++rows) {
      const std::vector<float> y = Streamed(kRows - rows, rows, depth);
      ASSERT_EQ(std::memcmp(y.data(), all.data() + (kRows - rows) * std::size_t{kOutputs}, y.size() * sizeof(float)), 0)
          << rows << " rows";
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      double wanted = 0;
      for (std::size_t k = 0; k < kInputs; ++k) {
        wanted += double{BF16ToFloat(Bits(x_)[i / kOutputs * kInputs + k])} *
                  double{BF16ToFloat(Bits(weight_)[i % kOutputs * kInputs + k])};
      }
      ASSERT_NEAR(all[i], wanted, 1e-4) << i;
    }
  }
}

TEST_F(StreamTest, EachDepthOfInputsIsAChainOfItsOwn) {
  constexpr std::uint32_t kDepth = 64;
  std::vector<float> wanted = Streamed(0, 1, kDepth, 0, kDepth);
  for (std::uint32_t first = kDepth; first < kInputs; first += kDepth) {
    const std::uint32_t inputs = std::min(kDepth, kInputs - first);
    const std::vector<float> chain = Streamed(0, 1, inputs, first, inputs);
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += chain[i];
  }
  EXPECT_EQ(Streamed(0, 1, kDepth), wanted);
  EXPECT_NE(Streamed(0, 1, kInputs), wanted);
}

TEST(MatmulBucketTest, BatchesOfABucketArePlannedForItsLargest) {
  EXPECT_EQ(MatmulBucket(1), 1U);
  EXPECT_EQ(MatmulBucket(33), 64U);
  EXPECT_EQ(MatmulBucket(257), 512U);
  EXPECT_EQ(MatmulBucket(513), 768U);
  for (std::uint32_t rows = 1; rows < 5000; ++rows) {
    EXPECT_GE(MatmulBucket(rows), rows);
    EXPECT_LT(MatmulBucket(rows), 2 * rows);
    EXPECT_EQ(MatmulBucket(MatmulBucket(rows)), MatmulBucket(rows));
  }
}

TEST(CpuOpsTest, HoldsWeightsInBF16WhateverInstructionsThereAre) {
  OpenDevice device(CpuOps(), 1);
  EXPECT_EQ(CpuOps().preferred_dtype(device), DType::kBF16);
  EXPECT_TRUE(CpuOps().supports_dtype(device, DType::kBF16));
  EXPECT_TRUE(CpuOps().supports_dtype(device, DType::kF32));
  EXPECT_FALSE(CpuOps().supports_dtype(device, DType::kF16));
}

}  // namespace
}  // namespace roost::kernels
