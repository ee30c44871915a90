// The bodies of kernels/cuda/cuda_primitives.cuh and of the warp functions of cuda.h, lane by lane as PTX documents
// them.
#include <array>

#include "common/base/check.h"
#include "kernels/cuda/cuda_primitives.cuh"
#include "kernels/dtype.h"
#include "tests/support/simt/simt_device.h"

namespace roost::simt {
namespace {

constexpr std::uint32_t kAllLanes = 0xFFFFFFFF;

struct ShuffleOperand {
  std::uint64_t value;
  std::uint32_t source;
  bool found;
  std::uint64_t result;
};

struct BallotOperand {
  bool predicate;
  std::uint32_t result;
};

struct MatrixOperand {
  const std::uint16_t* row;
  std::uint32_t* out;  // [4]
};

struct ProductOperand {
  const std::uint32_t* a;  // [4]
  std::array<std::uint32_t, 2> b;
  float* c;  // [4]
};

// 8 addresses of rows are read in one pass if they are in different groups of 4 banks.
std::uint64_t ExtraPasses(Block::Operands lanes, std::uint32_t matrix) {
  std::array<std::uint64_t, 8> rows_of_group{};
  std::uint64_t most = 0;
  for (std::uint32_t r = 0; r < 8; ++r) {
    const auto row = reinterpret_cast<std::uintptr_t>(static_cast<MatrixOperand*>(lanes[8 * matrix + r])->row);
    most = std::max(most, ++rows_of_group[row / 16 % 8]);
  }
  return most - 1;
}

void Load(const char* what, const void* row, std::uint32_t (&out)[4], void (*compute)(Block::Operands)) {
  Block& block = Block::Current();
  block.CheckShared(row, 16, 16, what);
  block.Note(row, 16, Access::kWarpRead, what);
  MatrixOperand operand{static_cast<const std::uint16_t*>(row), out};
  block.Collective(what, kAllLanes, &operand, compute);
}

template <typename Element>
void ComputeLoad(Block::Operands lanes, const Element& element) {
  Counters& counters = Block::Current().counters();
  ++counters.matrix_loads;
  for (std::uint32_t matrix = 0; matrix < 4; ++matrix) {
    counters.matrix_load_conflicts += ExtraPasses(lanes, matrix);
    std::array<const std::uint16_t*, 8> rows{};
    for (std::uint32_t r = 0; r < 8; ++r) rows[r] = static_cast<MatrixOperand*>(lanes[8 * matrix + r])->row;
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      const std::uint32_t low = element(rows, lane / 4, lane % 4 * 2);
      const std::uint32_t high = element(rows, lane / 4, lane % 4 * 2 + 1);
      static_cast<MatrixOperand*>(lanes[lane])->out[matrix] = low | high << 16U;
    }
  }
}

void ComputeProduct(Block::Operands lanes) {
  ++Block::Current().counters().matrix_products;
  const auto half = [](std::uint32_t two, std::uint32_t i) {
    return kernels::BF16ToFloat(static_cast<std::uint16_t>(two >> 16U * i));
  };
  float a[16][16];
  float b[16][8];
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    const auto* operand = static_cast<const ProductOperand*>(lanes[lane]);
    const std::uint32_t g = lane / 4;
    const std::uint32_t t = lane % 4;
    for (std::uint32_t i = 0; i < 8; ++i)
      a[g + i / 2 % 2 * 8][2 * t + i % 2 + i / 4 * 8] = half(operand->a[i / 2], i % 2);
    for (std::uint32_t i = 0; i < 4; ++i) b[2 * t + i % 2 + i / 2 * 8][g] = half(operand->b[i / 2], i % 2);
  }
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    float* c = static_cast<ProductOperand*>(lanes[lane])->c;
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t row = lane / 4 + i / 2 * 8;
      const std::uint32_t column = lane % 4 * 2 + i % 2;
      for (std::uint32_t k = 0; k < 16; ++k) c[i] += a[row][k] * b[k][column];
    }
  }
}

}  // namespace

void NoteAtomic(const void* address, std::size_t bytes) {
  Block::Current().Note(address, bytes, Access::kAtomic, "an atomic");
}

std::uint64_t Shuffle(const char* what, std::uint32_t mask, std::uint64_t value, std::uint32_t source) {
  ShuffleOperand operand{value, source, false, 0};
  Block::Current().Collective(what, mask, &operand, [](Block::Operands lanes) {
    for (void* lane : lanes) {
      if (lane == nullptr) continue;
      auto* self = static_cast<ShuffleOperand*>(lane);
      const auto* from = static_cast<const ShuffleOperand*>(lanes[self->source]);
      self->found = from != nullptr;
      if (self->found) self->result = from->value;
    }
  });
  ROOST_CHECK(operand.found, "{}: lane {} is not in the mask {:08x}", what, source, mask);
  return operand.result;
}

std::uint32_t Ballot(const char* what, std::uint32_t mask, int predicate) {
  BallotOperand operand{predicate != 0, 0};
  Block::Current().Collective(what, mask, &operand, [](Block::Operands lanes) {
    std::uint32_t votes = 0;
    for (std::uint32_t i = 0; i < kWarpLanes; ++i) {
      if (lanes[i] != nullptr && static_cast<const BallotOperand*>(lanes[i])->predicate) votes |= 1U << i;
    }
    for (void* lane : lanes) {
      if (lane != nullptr) static_cast<BallotOperand*>(lane)->result = votes;
    }
  });
  return operand.result;
}

}  // namespace roost::simt

namespace roost::kernels {

using simt::Block;

std::uint32_t LaneId() { return Block::Current().lane(); }

std::byte* DynamicShared() { return Block::Current().dynamic_shared(); }

void CopyAsync16(void* to_shared, const void* from) { Block::Current().IssueCopy(to_shared, from); }

void CopyAsync16OrZero(void* to_shared, const void* from, std::uint32_t valid) {
  Block::Current().IssueCopy(to_shared, valid != 0 ? from : nullptr);
}

void CommitCopies() { Block::Current().CommitCopies(); }

template <int kPending>
void WaitForCopies() {
  Block::Current().WaitForCopies(kPending);
}
template void WaitForCopies<0>();
template void WaitForCopies<1>();
template void WaitForCopies<2>();
template void WaitForCopies<3>();

void LoadMatrices(const void* row, std::uint32_t (&out)[4]) {
  simt::Load("ldmatrix", row, out, [](Block::Operands lanes) {
    simt::ComputeLoad(lanes, [](const auto& rows, std::uint32_t g, std::uint32_t t) { return rows[g][t]; });
  });
}

void LoadMatricesTransposed(const void* row, std::uint32_t (&out)[4]) {
  simt::Load("ldmatrix.trans", row, out, [](Block::Operands lanes) {
    simt::ComputeLoad(lanes, [](const auto& rows, std::uint32_t g, std::uint32_t t) { return rows[t][g]; });
  });
}

void MultiplyAdd16x8x16(const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1, float (&c)[4]) {
  simt::ProductOperand operand{a, {b0, b1}, c};
  Block::Current().Collective("mma.m16n8k16", simt::kAllLanes, &operand, simt::ComputeProduct);
}

float FastExp2(float x) {
  const float y = std::exp2(x);
  return y < 0x1.0p-126F ? 0 : y;
}

std::uint16_t RoundToBF16(float x) { return FloatToBF16(x); }

std::uint32_t PackBF16(float low, float high) { return FloatToBF16(low) | std::uint32_t{FloatToBF16(high)} << 16U; }

float BF16Low(std::uint32_t two) { return __uint_as_float(two << 16U); }

float BF16High(std::uint32_t two) { return __uint_as_float(two & 0xFFFF0000U); }

std::uint32_t MultiprocessorCount(Device& /*device*/) { return simt::kMultiprocessors; }

void LaunchThreads(Device& device, const LaunchShape& shape, const std::function<void()>& thread) {
  simt::Device& shim = simt::Device::Of(device);
  shim.RunOrRecord([&shim, shape, thread] {
    shim.Run({shape.grid_x, shape.grid_y, shape.grid_z}, {shape.threads}, shape.shared_bytes, thread);
  });
}

}  // namespace roost::kernels
