#include "kernels/cpu/matmul_kernels.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "common/base/log.h"
#include "common/base/rng.h"
#include "kernels/cpu/cpu_parallel.h"
#include "kernels/cpu/large_memory.h"
#include "kernels/cpu/matmul_stream.h"

namespace roost::kernels {
namespace {

constexpr std::array<std::uint32_t, 8> kTileSizes{1, 2, 4, 8, 16, 32, 64, 128};
static_assert(kTileSizes.back() == kLargestTileRows);
// Candidates for the tile size that the others must match; the first whose result does not depend on a row's place in
// the tile is taken.
constexpr std::array<std::uint32_t, 8> kAnchors{16, 4, 64, 8, 32, 128, 2, 1};

dnnl::memory::data_type DnnlType(DType dtype) {
  return dtype == DType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

std::vector<std::byte> RandomMatrix(Rng& rng, std::size_t elements, DType dtype) {
  std::vector<std::byte> matrix(elements * SizeOf(dtype));
  for (std::size_t i = 0; i < elements; ++i) {
    StoreElement(matrix.data(), dtype, i, static_cast<float>(rng.Uniform() * 2 - 1));
  }
  return matrix;
}

// Row r of the result is row (r + shift) mod rows of `matrix`.
template <typename T>
std::vector<T> RotatedRows(const std::vector<T>& matrix, std::size_t rows, std::size_t shift) {
  const auto split = matrix.begin() + static_cast<std::ptrdiff_t>(matrix.size() / rows * shift);
  std::vector<T> rotated(split, matrix.end());
  rotated.insert(rotated.end(), matrix.begin(), split);
  return rotated;
}

bool CpuHas(dnnl::cpu_isa instructions) {
  const auto wanted = static_cast<unsigned>(instructions);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

bool BitEqual(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

bool CpuComputesBF16() { return CpuHas(dnnl::cpu_isa::avx512_core_bf16); }

Result<std::unique_ptr<MatmulKernelFamily>> MatmulKernelFamily::Create(const MatmulShape& shape,
                                                                       std::uint32_t thread_count) {
  // oneDNN builds a primitive for as many threads as OpenMP would give it.
  const ScopedSerialOpenMp serial;
  try {
    std::unique_ptr<MatmulKernelFamily> family(new MatmulKernelFamily(shape, thread_count));
    family->Generate();
    ROOST_RETURN_IF_ERROR(family->DropUnequalKernels());
    return family;
  } catch (const dnnl::error& error) {
    return Error{ErrorCode::kInternal,
                 fmt::format("oneDNN has no {} product of {} by {} on this CPU: {}", NameOf(shape.dtype), shape.outputs,
                             shape.inputs, error.what()),
                 "compute_dtype"};
  }
}

MatmulKernelFamily::MatmulKernelFamily(const MatmulShape& shape, std::uint32_t thread_count)
    : shape_(shape), thread_count_(thread_count), engine_(dnnl::engine::kind::cpu, 0) {
  for (std::uint32_t thread = 0; thread < thread_count; ++thread) streams_.emplace_back(engine_);
}

void MatmulKernelFamily::Generate() {
  const dnnl::memory::desc any({shape_.inputs, shape_.outputs}, DnnlType(shape_.dtype), dnnl::memory::format_tag::any);
  const Kernel anchor = MakeKernel(kAnchors.front(), any);
  const std::string implementation = anchor.description.impl_info_str();
  for (const std::uint32_t rows : kTileSizes) {
    Kernel kernel = MakeKernel(rows, anchor.description.weights_desc());
    if (kernel.description.impl_info_str() == implementation) kernels_.push_back(std::move(kernel));
  }
}

MatmulKernelFamily::Kernel MatmulKernelFamily::MakeKernel(std::uint32_t tile_rows,
                                                          const dnnl::memory::desc& packed) const {
  using Memory = dnnl::memory;
  const Memory::desc x({tile_rows, shape_.inputs}, DnnlType(shape_.dtype), Memory::format_tag::ab);
  const Memory::desc y({tile_rows, shape_.outputs}, Memory::data_type::f32, Memory::format_tag::ab);
  dnnl::primitive_attr attributes;
  // Two threads must not use the library's own scratchpad at once.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  Kernel kernel;
  kernel.tile_rows = tile_rows;
  kernel.description = dnnl::matmul::primitive_desc(dnnl::matmul::desc(x, packed, y), attributes, engine_);
  kernel.primitive = dnnl::matmul(kernel.description);
  for (std::uint32_t thread = 0; thread < thread_count_; ++thread) {
    kernel.arguments.push_back({Memory(x, engine_, DNNL_MEMORY_NONE), Memory(y, engine_, DNNL_MEMORY_NONE),
                                Memory(kernel.description.scratchpad_desc(), engine_)});
  }
  return kernel;
}

std::vector<float> MatmulKernelFamily::RunAll(std::size_t kernel, const dnnl::memory& packed,
                                              const std::vector<std::byte>& x) {
  std::vector<float> y(std::size_t{kLargestTileRows} * shape_.outputs);
  const std::size_t tile = kernels_[kernel].tile_rows;
  const std::size_t row_bytes = shape_.inputs * SizeOf(shape_.dtype);
  for (std::size_t row = 0; row < kLargestTileRows; row += tile) {
    Run(kernel, 0, packed, x.data() + row * row_bytes, y.data() + row * shape_.outputs);
  }
  return y;
}

Result<void> MatmulKernelFamily::DropUnequalKernels() {
  constexpr std::size_t kShift = 5;  // prime to every tile size, so that each row changes its place in the tile
  Rng rng(shape_.outputs * std::uint64_t{1000003} + shape_.inputs);
  const auto x = RandomMatrix(rng, std::size_t{kLargestTileRows} * shape_.inputs, shape_.dtype);
  const auto weight = RandomMatrix(rng, std::size_t{shape_.outputs} * shape_.inputs, shape_.dtype);
  const LargeArray<std::byte> memory(static_cast<std::byte*>(AllocateLarge(packed_bytes())));
  if (memory == nullptr) return Error{ErrorCode::kInternal, "no memory to test oneDNN's products", {}};
  ROOST_ASSIGN_OR_RETURN(const dnnl::memory packed, Pack(weight.data(), memory.get()));
  const auto rotated_x = RotatedRows(x, kLargestTileRows, kShift);

  std::optional<std::vector<float>> wanted;
  for (const std::uint32_t rows : kAnchors) {
    const auto anchor = std::find_if(kernels_.begin(), kernels_.end(),
                                     [rows](const Kernel& kernel) { return kernel.tile_rows == rows; });
    if (anchor == kernels_.end()) continue;
    const auto index = static_cast<std::size_t>(anchor - kernels_.begin());
    std::vector<float> y = RunAll(index, packed, x);
    if (!BitEqual(RotatedRows(y, kLargestTileRows, kShift), RunAll(index, packed, rotated_x))) continue;
    wanted = std::move(y);
    break;
  }
  if (!wanted) return Error{ErrorCode::kInternal, "no matrix product of oneDNN is deterministic here", "compute_dtype"};

  std::vector<std::uint32_t> dropped;
  std::vector<Kernel> kept;
  for (std::size_t index = 0; index < kernels_.size(); ++index) {
    const bool equal = BitEqual(*wanted, RunAll(index, packed, x)) &&
                       BitEqual(RotatedRows(*wanted, kLargestTileRows, kShift), RunAll(index, packed, rotated_x));
    if (equal) {
      kept.push_back(kernels_[index]);
    } else {
      dropped.push_back(kernels_[index].tile_rows);
    }
  }
  kernels_ = std::move(kept);
  stream_depth_ = FindStreamDepth(packed, x, *wanted);
  if (!dropped.empty()) {
    LogDebug("tile sizes whose rows differ are not used",
             {{"shape", fmt::format("{}x{} {}", shape_.outputs, shape_.inputs, NameOf(shape_.dtype))},
              {"dropped", fmt::format("{}", fmt::join(dropped, " "))}});
  }
  return {};
}

// oneDNN sums up so many inputs at once as it finds good for a processor's caches: all of them, or a power of two.
std::uint32_t MatmulKernelFamily::FindStreamDepth(const dnnl::memory& packed, const std::vector<std::byte>& x,
                                                  const std::vector<float>& wanted) const {
  constexpr std::uint32_t kLeastDepth = 64;
  if (!CanStream() || shape_.dtype != DType::kBF16 || !CpuComputesBF16()) return 0;
  const dnnl::memory::desc streamed({shape_.inputs, shape_.outputs}, DnnlType(shape_.dtype),
                                    dnnl::memory::format_tag::BA16a64b2a);
  if (packed.get_desc() != streamed) return 0;
  if (StreamsLikeKernels(shape_.inputs, packed, x, wanted)) return shape_.inputs;
  for (std::uint32_t depth = kLeastDepth; depth < shape_.inputs; depth *= 2) {
    if (StreamsLikeKernels(depth, packed, x, wanted)) return depth;
  }
  return 0;
}

// Stops at the first rows that differ.
bool MatmulKernelFamily::StreamsLikeKernels(std::uint32_t depth, const dnnl::memory& packed,
                                            const std::vector<std::byte>& x, const std::vector<float>& wanted) const {
  constexpr std::uint32_t kMostRows = 2 * kStreamedRowsAtOnce + 1;
  const std::size_t outputs = shape_.outputs;
  std::vector<float> y(kMostRows * outputs);
  for (std::uint32_t row = 0, rows = 1; row < kLargestTileRows; row += rows, rows = rows % kMostRows + 1) {
    rows = std::min(rows, kLargestTileRows - row);
    Stream({.packed = packed.get_data_handle(),
            .inputs = shape_.inputs,
            .depth = depth,
            .outputs = shape_.outputs,
            .x = reinterpret_cast<const std::uint16_t*>(x.data()) + std::size_t{row} * shape_.inputs,
            .rows = rows,
            .y = y.data(),
            .y_stride = outputs});
    if (std::memcmp(y.data(), wanted.data() + row * outputs, rows * outputs * sizeof(float)) != 0) return false;
  }
  return true;
}

bool MatmulKernelFamily::MayStream(std::uint32_t rows) const {
  return stream_depth_ > 0 && (rows <= kStreamedRowsAtOnce || !CpuHas(dnnl::cpu_isa::avx512_core_amx));
}

std::vector<std::uint32_t> MatmulKernelFamily::TileSizes() const {
  std::vector<std::uint32_t> sizes;
  for (const Kernel& kernel : kernels_) sizes.push_back(kernel.tile_rows);
  return sizes;
}

std::vector<MatmulTile> MatmulKernelFamily::Cut(std::uint32_t rows, std::uint32_t max_tile_rows) const {
  std::vector<MatmulTile> tiles;
  std::size_t kernel = kernels_.size() - 1;
  while (kernel > 0 && tile_rows(kernel) > max_tile_rows) --kernel;
  for (std::uint32_t first = 0; first < rows;) {
    const std::uint32_t left = rows - first;
    // A little padding is cheaper than a second pass over the weights.
    while (kernel > 0 && tile_rows(kernel) > left && tile_rows(kernel) * 3 > left * 4) --kernel;
    const std::uint32_t taken = std::min(left, tile_rows(kernel));
    tiles.push_back({first, taken, kernel});
    first += taken;
  }
  return tiles;
}

std::size_t MatmulKernelFamily::packed_bytes() const {
  constexpr std::size_t kAlignment = 64;
  return (kernels_.front().description.weights_desc().get_size() + kAlignment - 1) / kAlignment * kAlignment;
}

Result<dnnl::memory> MatmulKernelFamily::Pack(const void* weight, void* to) const {
  const ScopedSerialOpenMp serial;
  try {
    const dnnl::memory::dim columns = shape_.inputs;
    const dnnl::memory::desc plain({columns, shape_.outputs}, DnnlType(shape_.dtype), {1, columns});
    dnnl::memory from(plain, engine_, const_cast<void*>(weight));  // NOLINT: oneDNN has no read-only memory
    dnnl::memory packed(kernels_.front().description.weights_desc(), engine_, to);
    dnnl::stream stream(engine_);
    dnnl::reorder(from, packed).execute(stream, from, packed);
    stream.wait();
    return packed;
  } catch (const dnnl::error& error) {
    return Error{ErrorCode::kInternal, fmt::format("no memory for weights: {}", error.what()), {}};
  }
}

void MatmulKernelFamily::Run(std::size_t kernel, std::uint32_t thread, const dnnl::memory& packed, const void* x,
                             float* y) {
  Kernel::Arguments& arguments = kernels_[kernel].arguments[thread];
  const auto set_address = [](const dnnl::memory& memory, void* address) {
    ROOST_CHECK(dnnl_memory_set_data_handle(memory.get(), address) == dnnl_success);
  };
  set_address(arguments.x, const_cast<void*>(x));  // NOLINT: oneDNN has no read-only memory
  set_address(arguments.y, y);
  // The C interface, because the C++ one builds a map for each call.
  const std::array<dnnl_exec_arg_t, 4> list{{{DNNL_ARG_SRC, arguments.x.get()},
                                             {DNNL_ARG_WEIGHTS, packed.get()},
                                             {DNNL_ARG_DST, arguments.y.get()},
                                             {DNNL_ARG_SCRATCHPAD, arguments.scratch.get()}}};
  const dnnl_status_t status = dnnl_primitive_execute(kernels_[kernel].primitive.get(), streams_[thread].get(),
                                                      static_cast<int>(list.size()), list.data());
  ROOST_CHECK(status == dnnl_success, "oneDNN status {}", static_cast<int>(status));
}

Result<MatmulKernelFamily*> MatmulKernelCache::For(const MatmulShape& shape) {
  std::unique_ptr<MatmulKernelFamily>& family = families_[shape];
  if (family == nullptr) {
    ROOST_ASSIGN_OR_RETURN(family, MatmulKernelFamily::Create(shape, thread_count_));
  }
  return family.get();
}

}  // namespace roost::kernels
