// The CUDA backend's ops except attention against the plain ones, over random shapes; see tested_ops.h.
#include "kernels/cuda/cuda_limits.h"
#include "kernels/device_memory.h"
#include "tests/kernels/kernels_testing.h"
#include "tests/kernels/tested_ops.h"

namespace roost::kernels {
namespace {

// A tensor in host memory together with its copy on the device.
class DeviceTensor {
 public:
  DeviceTensor(const Backend& backend, Tensor host) : backend_(backend), host_(std::move(host)), buffer_(backend) {
    buffer_.Upload(std::span<const std::byte>(host_.bytes));
  }

  [[nodiscard]] Tensor& host() { return host_; }
  [[nodiscard]] void* device() const { return buffer_.data(); }
  [[nodiscard]] float* device_f32() const { return buffer_.as<float>(); }

  // The contents on the device now.
  [[nodiscard]] Tensor Read() const {
    Tensor read(host_.dtype, host_.size());
    backend_.ops().copy_to_host(backend_.device(), read.bytes.data(), buffer_.data(), read.bytes.size());
    return read;
  }

 private:
  const Backend& backend_;
  Tensor host_;
  DeviceBuffer buffer_;
};

class CudaOpsTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto ops = TestedOps();
    if (!ops.ok()) GTEST_SKIP() << ops.error().ToString();
    tested_.emplace(Backend::Open(**ops, {}).value());
  }

  [[nodiscard]] const OpTable& ops() const { return tested_->ops(); }
  [[nodiscard]] Device& device() const { return tested_->device(); }

  DeviceTensor Random(DType dtype, std::size_t count, float scale = 1) {
    return {*tested_, Tensor(dtype, RandomFloats(rng_, count, scale))};
  }
  DeviceTensor Zeros(DType dtype, std::size_t count) { return {*tested_, Tensor(dtype, count)}; }

  template <typename T>
  [[nodiscard]] DeviceBuffer Upload(const std::vector<T>& values) const {
    DeviceBuffer buffer(*tested_);
    buffer.Upload(std::span<const T>(values));
    return buffer;
  }

  // 1 to `most`; small sizes are likelier.
  std::uint32_t Size(std::uint32_t most) { return static_cast<std::uint32_t>(1 + rng_.Below(1 + rng_.Below(most))); }

  // `count` different numbers below `limit`, in any order.
  std::vector<std::uint32_t> Distinct(std::uint32_t count, std::uint32_t limit) {
    std::vector<std::uint32_t> numbers(limit);
    for (std::uint32_t i = 0; i < limit; ++i) numbers[i] = i;
    for (std::uint32_t i = 0; i < count; ++i) std::swap(numbers[i], numbers[i + rng_.Below(limit - i)]);
    numbers.resize(count);
    return numbers;
  }

  Rng rng_{1};
  std::optional<Backend> tested_;
  OpenDevice plain_{ReferenceOps(), 1};
};

TEST_F(CudaOpsTest, GatherEmbeddingCopiesTheRowsOfTheTokensThatItHas) {
  for (int round = 0; round < 12; ++round) {
    const std::uint32_t width = round % 3 == 0 ? 8 * Size(40) : Size(300);
    const std::uint32_t vocab = Size(60);
    const std::uint32_t rows = Size(64);
    std::vector<TokenId> tokens(rows);
    const auto first_token = static_cast<TokenId>(rng_.Below(vocab));  // also tokens before and after the table
    for (TokenId& token : tokens) token = static_cast<TokenId>(rng_.Below(first_token + vocab + 10));
    const DeviceBuffer device_tokens = Upload(tokens);
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      // Halves may have any bits except those of infinities and NaN.
      DeviceTensor table = Random(dtype == DType::kF32 ? dtype : DType::kBF16, std::size_t{vocab} * width);
      DeviceTensor out = Zeros(DType::kF32, std::size_t{rows} * width);
      Tensor plain(DType::kF32, out.host().size());
      GatherEmbeddingArgs args{.table = table.host().data(),
                               .table_dtype = dtype,
                               .first_token = first_token,
                               .token_count = vocab,
                               .tokens = tokens.data(),
                               .rows = rows,
                               .width = width,
                               .out = static_cast<float*>(plain.data())};
      GatherEmbeddingRef(plain_, args);
      args.table = table.device();
      args.tokens = device_tokens.as<TokenId>();
      args.out = out.device_f32();
      ops().gather_embedding(device(), args);
      EXPECT_EQ(out.Read().bytes, plain.bytes);
    }
  }
}

TEST_F(CudaOpsTest, SampledTokensComeToTheirPlaces) {
  for (const std::uint32_t count : {0U, 1U, 31U, 256U, 700U}) {
    std::vector<SampledToken> sampled(1 + count);
    for (SampledToken& token : sampled) token.token = static_cast<TokenId>(rng_.Below(1000));
    std::vector<TokenId> tokens(2 * count + 1, TokenId(5000));
    std::vector<SampledPlace> places;
    for (const std::uint32_t index : Distinct(count, static_cast<std::uint32_t>(tokens.size()))) {
      places.push_back({.index = index, .draw = static_cast<std::uint32_t>(rng_.Below(sampled.size()))});
    }
    std::vector<TokenId> wanted = tokens;
    for (const SampledPlace& place : places) wanted[place.index] = sampled[place.draw].token;
    const DeviceBuffer device_sampled = Upload(sampled);
    const DeviceBuffer device_places = Upload(places);
    const DeviceBuffer device_tokens = Upload(tokens);
    ops().place_sampled(device(), {.sampled = device_sampled.as<SampledToken>(),
                                   .places = device_places.as<SampledPlace>(),
                                   .place_count = count,
                                   .tokens = device_tokens.as<TokenId>()});
    ops().copy_to_host(device(), tokens.data(), device_tokens.data(), tokens.size() * sizeof(TokenId));
    EXPECT_EQ(tokens, wanted);
  }
}

// One upload after the other, each larger, without a wait in between: later changes on the host must not reach the
// device.
TEST_F(CudaOpsTest, UploadsTakePiecesToTheirOffsets) {
  constexpr std::uint32_t kUploads = 6;
  const auto count_of = [](std::uint32_t upload) { return std::size_t{1} << (10 + 2 * upload); };
  std::vector<DeviceBuffer> buffers;
  for (std::uint32_t upload = 0; upload < kUploads; ++upload) {
    buffers.emplace_back(*tested_).Reserve(2 * count_of(upload) * sizeof(std::uint32_t));
  }
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t upload = 0; upload < kUploads; ++upload) {
    numbers.assign(count_of(upload), upload);
    const std::size_t bytes = numbers.size() * sizeof(std::uint32_t);
    // The second half comes first, then nothing, then the beginning.
    const std::vector<HostPiece> pieces = {{numbers.data(), bytes, bytes}, {}, {&upload, sizeof(upload), 0}};
    buffers[upload].Upload(std::span<const HostPiece>(pieces));
    numbers.assign(numbers.size(), 99);
  }
  for (std::uint32_t upload = 0; upload < kUploads; ++upload) {
    std::vector<std::uint32_t> read(2 * count_of(upload));
    ops().copy_to_host(device(), read.data(), buffers[upload].data(), read.size() * sizeof(std::uint32_t));
    EXPECT_EQ(read.front(), upload);
    const auto middle = read.begin() + static_cast<std::ptrdiff_t>(count_of(upload));
    EXPECT_TRUE(std::all_of(middle, read.end(), [&](std::uint32_t number) { return number == upload; }));
  }
}

TEST_F(CudaOpsTest, ReadbacksEndInTheirOrderWithWhatWasThereWhenTheyBegan) {
  const std::vector<std::uint32_t> first = {1, 2, 3};
  const std::vector<std::uint32_t> second = {4, 5};
  DeviceBuffer buffer = Upload(first);
  for (int round = 0; round < 5; ++round) {
    buffer.Upload(std::span<const std::uint32_t>(first));
    ops().begin_readback(device(), buffer.data(), first.size() * sizeof(std::uint32_t));
    buffer.Upload(std::span<const std::uint32_t>(second));
    ops().begin_readback(device(), buffer.data(), second.size() * sizeof(std::uint32_t));
    std::vector<std::uint32_t> read(3);
    ops().end_readback(device(), read.data());
    EXPECT_EQ(read, first);
    ops().begin_readback(device(), nullptr, 0);
    read.resize(2);
    ops().end_readback(device(), read.data());
    EXPECT_EQ(read, second);
    ops().end_readback(device(), nullptr);
  }
}

class CudaRmsNormTest : public CudaOpsTest {
 protected:
  void Compare(std::uint32_t width, std::uint32_t source_rows);
};

void CudaRmsNormTest::Compare(std::uint32_t width, std::uint32_t source_rows) {
  const bool some_rows = rng_.Below(2) == 0;
  const std::uint32_t rows = some_rows ? Size(source_rows) : source_rows;
  const bool has_delta = rng_.Below(3) > 0;
  const std::vector<std::uint32_t> indices = Distinct(rows, source_rows);
  const DeviceBuffer device_indices = Upload(indices);
  DeviceTensor hidden = Random(DType::kF32, std::size_t{source_rows} * width, 3);
  DeviceTensor delta = Random(DType::kBF16, std::size_t{source_rows} * width);
  DeviceTensor weight = Random(DType::kF32, width);
  DeviceTensor out = Zeros(DType::kBF16, std::size_t{rows} * width);
  RmsNormArgs args{.hidden = hidden.device_f32(),
                   .delta = has_delta ? delta.device() : nullptr,
                   .weight = weight.device_f32(),
                   .row_indices = some_rows ? device_indices.as<std::uint32_t>() : nullptr,
                   .epsilon = 1e-5F,
                   .rows = rows,
                   .width = width,
                   .out = out.device(),
                   .out_dtype = DType::kBF16,
                   .delta_dtype = DType::kBF16};
  ops().rms_norm(device(), args);
  Tensor plain(DType::kBF16, out.host().size());
  args.hidden = static_cast<float*>(hidden.host().data());
  args.delta = has_delta ? delta.host().data() : nullptr;
  args.weight = static_cast<const float*>(weight.host().data());
  args.row_indices = some_rows ? indices.data() : nullptr;
  args.out = plain.data();
  RmsNormRef(plain_, args);
  ASSERT_EQ(hidden.Read().bytes, hidden.host().bytes);
  ExpectNear(out.Read(), plain, 1e-5);
}

TEST_F(CudaRmsNormTest, AgreesWithThePlainOne) {
  for (int round = 0; round < 24; ++round) Compare(round % 2 == 0 ? 8 * Size(700) : Size(1200), Size(48));
}

// A row is in shared memory, of which a kernel has 48 KiB by default.
TEST_F(CudaRmsNormTest, TakesRowsUpToTheWidest) {
  for (const std::uint32_t width : {12'256U, 12'257U, 12'264U, 12'288U, 12'289U, 16'384U, kMaxNormedWidth}) {
    Compare(width, 2);
  }
}

TEST_F(CudaOpsTest, SiluMulAgreesWithThePlainOne) {
  for (int round = 0; round < 16; ++round) {
    const std::uint32_t width = round % 2 == 0 ? 8 * Size(500) : Size(900);
    const std::uint32_t rows = Size(40);
    DeviceTensor gate_up = Random(DType::kBF16, std::size_t{rows} * 2 * width, round == 0 ? 1e4F : 20.0F);
    DeviceTensor out = Zeros(DType::kBF16, std::size_t{rows} * width);
    SiluMulArgs args{.gate_up = gate_up.device(),
                     .rows = rows,
                     .width = width,
                     .out = out.device(),
                     .out_dtype = DType::kBF16,
                     .gate_up_dtype = DType::kBF16};
    ops().silu_mul(device(), args);
    Tensor plain(DType::kBF16, out.host().size());
    args.gate_up = gate_up.host().data();
    args.out = plain.data();
    SiluMulRef(plain_, args);
    ExpectNear(out.Read(), plain, 1e-5);
  }
}

TEST_F(CudaOpsTest, AnglesOfFarPositionsAreExact) {
  constexpr std::uint32_t kHalf = 64;
  std::vector<std::uint32_t> positions{0, 1, 2, 1000, 131071, 1048575, (1U << 24U) - 1};
  while (positions.size() < 60) positions.push_back(static_cast<std::uint32_t>(rng_.Below(200000)));
  std::vector<float> frequencies(kHalf);
  for (std::uint32_t i = 0; i < kHalf; ++i) frequencies[i] = std::pow(500000.0F, -static_cast<float>(i) / kHalf);
  const auto rows = static_cast<std::uint32_t>(positions.size());
  const DeviceBuffer device_positions = Upload(positions);
  const DeviceBuffer device_frequencies = Upload(frequencies);
  DeviceTensor cos = Zeros(DType::kF32, std::size_t{rows} * kHalf);
  DeviceTensor sin = Zeros(DType::kF32, std::size_t{rows} * kHalf);
  ops().rope_angles(device(), {device_frequencies.as<float>(), device_positions.as<std::uint32_t>(), rows, kHalf,
                               cos.device_f32(), sin.device_f32()});
  RopeAnglesRef(plain_, {frequencies.data(), positions.data(), rows, kHalf, static_cast<float*>(cos.host().data()),
                         static_cast<float*>(sin.host().data())});
  const Tensor read_cos = cos.Read();
  const Tensor read_sin = sin.Read();
  for (std::size_t i = 0; i < read_cos.size(); ++i) {
    ASSERT_NEAR(read_cos.at(i), cos.host().at(i), 5e-7) << "position " << positions[i / kHalf];
    ASSERT_NEAR(read_sin.at(i), sin.host().at(i), 5e-7) << "position " << positions[i / kHalf];
  }
}

TEST_F(CudaOpsTest, RopeToCacheAgreesWithThePlainOne) {
  for (int round = 0; round < 24; ++round) {
    const std::array<std::uint32_t, 6> head_dims{64, 128, 80, 6, 256, 24};
    const std::uint32_t head_dim = head_dims[rng_.Below(head_dims.size())];
    const std::uint32_t kv_heads = Size(4);
    const std::uint32_t heads = kv_heads * Size(8);
    const std::uint32_t rows = Size(24);
    const bool norms = rng_.Below(2) == 0;
    KvLayout kv{.base = nullptr,
                .dtype = DType::kBF16,
                .block_count = 5,
                .layer_count = 2,
                .kv_head_count = kv_heads,
                .block_tokens = 16,
                .head_dim = head_dim};
    const std::vector<std::uint32_t> slots = Distinct(rows, 80);
    const DeviceBuffer device_slots = Upload(slots);
    DeviceTensor storage = Random(DType::kBF16, 5 * kv.BlockBytes() / SizeOf(DType::kBF16));
    DeviceTensor qkv = Random(DType::kBF16, std::size_t{rows} * (heads + 2 * kv_heads) * head_dim, 2);
    DeviceTensor q_norm = Random(DType::kF32, head_dim);
    DeviceTensor k_norm = Random(DType::kF32, head_dim);
    DeviceTensor cos = Random(DType::kF32, std::size_t{rows} * head_dim / 2);
    DeviceTensor sin = Random(DType::kF32, std::size_t{rows} * head_dim / 2);
    DeviceTensor q = Zeros(DType::kBF16, std::size_t{rows} * heads * head_dim);
    RopeToCacheArgs args{.qkv = qkv.device(),
                         .cos = cos.device_f32(),
                         .sin = sin.device_f32(),
                         .q_norm = norms ? q_norm.device_f32() : nullptr,
                         .k_norm = norms ? k_norm.device_f32() : nullptr,
                         .epsilon = 1e-6F,
                         .rows = rows,
                         .query_head_count = heads,
                         .q = q.device(),
                         .kv = kv,
                         .layer = 1,
                         .slots = device_slots.as<std::uint32_t>(),
                         .activation_dtype = DType::kBF16};
    args.kv.base = storage.device();
    ops().rope_to_cache(device(), args);
    const auto f32 = [](DeviceTensor& tensor) { return static_cast<const float*>(tensor.host().data()); };
    args.qkv = qkv.host().data();
    args.cos = f32(cos);
    args.sin = f32(sin);
    args.q_norm = norms ? f32(q_norm) : nullptr;
    args.k_norm = norms ? f32(k_norm) : nullptr;
    args.slots = slots.data();
    args.q = q.host().data();
    args.kv.base = storage.host().data();
    RopeToCacheRef(plain_, args);
    ExpectNear(q.Read(), q.host(), 1e-5);
    ExpectNear(storage.Read(), storage.host(), 1e-5);
  }
}

TEST_F(CudaOpsTest, CopiesOfBlockRowsSeeTheOnesBefore) {
  for (int round = 0; round < 16; ++round) {
    const std::array<std::uint32_t, 3> head_dims{64, 6, 128};
    KvLayout kv{.base = nullptr,
                .dtype = rng_.Below(2) == 0 ? DType::kBF16 : DType::kF32,
                .block_count = 12,
                .layer_count = Size(3),
                .kv_head_count = Size(3),
                .block_tokens = 16,
                .head_dim = head_dims[rng_.Below(3)]};
    DeviceTensor storage = Random(kv.dtype, 12 * kv.BlockBytes() / SizeOf(kv.dtype));
    std::vector<BlockRowsCopy> copies;
    while (copies.size() < 20) {
      const std::vector<std::uint32_t> blocks = Distinct(2, kv.block_count);
      copies.push_back({blocks[0], blocks[1], static_cast<std::uint32_t>(rng_.Below(17))});
    }
    kv.base = storage.device();
    ops().copy_block_rows(device(), {kv, copies.data(), static_cast<std::uint32_t>(copies.size())});
    kv.base = storage.host().data();
    CopyBlockRowsCpu(plain_, {kv, copies.data(), static_cast<std::uint32_t>(copies.size())});
    ASSERT_EQ(storage.Read().bytes, storage.host().bytes);
  }
}

TEST_F(CudaOpsTest, BlocksAreGatheredAndScattered) {
  for (int round = 0; round < 8; ++round) {
    KvLayout kv{.base = nullptr,
                .dtype = DType::kBF16,
                .block_count = 40,
                .layer_count = Size(3),
                .kv_head_count = Size(3),
                .block_tokens = 16,
                .head_dim = round % 2 == 0 ? 64U : 6U};
    const std::size_t block_elements = kv.BlockBytes() / SizeOf(DType::kBF16);
    DeviceTensor storage = Random(DType::kBF16, kv.block_count * block_elements);
    const std::vector<std::uint32_t> blocks = Distinct(Size(20), kv.block_count);
    const auto count = static_cast<std::uint32_t>(blocks.size());
    const std::vector<std::uint32_t> places = Distinct(count, count);
    std::vector<BlockMove> moves;
    for (std::uint32_t i = 0; i < count; ++i) moves.push_back({.block = blocks[i], .place = places[i]});
    DeviceTensor sent = Random(DType::kBF16, count * block_elements);
    DeviceTensor received = Zeros(DType::kBF16, count * block_elements);
    MoveBlocksArgs args{kv, moves.data(), count, received.device()};
    args.kv.base = storage.device();
    const std::unique_ptr<CopyStreams> streams = ops().open_copy_streams(device());
    ops().begin_readback(device(), nullptr, 0);
    ops().end_readback(device(), nullptr);  // a gather does not wait for ops
    streams->Gather(args);
    streams->HoldOps();
    args.buffer = sent.device();
    ops().scatter_blocks(device(), args);
    args = {kv, moves.data(), count, received.host().data()};
    args.kv.base = storage.host().data();
    GatherBlocksCpu(plain_, args);
    args.buffer = sent.host().data();
    ScatterBlocksCpu(plain_, args);
    EXPECT_EQ(received.Read().bytes, received.host().bytes);
    EXPECT_EQ(storage.Read().bytes, storage.host().bytes);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::size_t bytes = kv.BlockBytes();
      EXPECT_EQ(std::memcmp(storage.host().bytes.data() + blocks[i] * bytes,
                            sent.host().bytes.data() + places[i] * bytes, bytes),
                0);
    }
  }
}

// CUDA rounds a bias to y's dtype, the plain product keeps it in f32: this bias is the same in both. Behind the shim,
// products are the plain ones with a rounded bias: there this only tests the test.
TEST_F(CudaOpsTest, MatmulAgreesWithThePlainOne) {
  for (int round = 0; round < 12; ++round) {
    const std::uint32_t inputs = 8 * Size(40);
    const std::array<std::uint32_t, 2> outputs{8 * Size(30), 8 * Size(30)};
    const std::uint32_t rows = Size(40);
    const DType y_dtype = rng_.Below(2) == 0 ? DType::kF32 : DType::kBF16;
    Tensor first(DType::kF32, RandomFloats(rng_, std::size_t{outputs[0]} * inputs, 0.1F));
    Tensor bias(DType::kF32, Tensor(DType::kBF16, RandomFloats(rng_, outputs[0])).Values());
    Tensor second(DType::kBF16, RandomFloats(rng_, std::size_t{outputs[1]} * inputs, 0.1F));
    const std::array<MatmulPart, 2> parts{
        MatmulPart{first.data(), DType::kF32, round % 2 == 0 ? bias.data() : nullptr, outputs[0]},
        MatmulPart{second.data(), DType::kBF16, nullptr, outputs[1]}};
    const auto weights = ops().prepare_matmul(device(), {parts, inputs, DType::kBF16}).value();
    const auto plain_weights = PrepareMatmulRef(plain_, {parts, inputs, DType::kBF16}).value();
    DeviceTensor x = Random(DType::kBF16, std::size_t{rows} * inputs);
    DeviceTensor y = Zeros(y_dtype, std::size_t{rows} * weights->outputs());
    ops().matmul(device(), {weights.get(), x.device(), rows, y.device(), y_dtype});
    MatmulRef(plain_, {plain_weights.get(), x.host().data(), rows, y.host().data(), y_dtype});
    ExpectNear(y.Read(), y.host(), 1e-5 * std::sqrt(inputs));
  }
}

}  // namespace
}  // namespace roost::kernels
