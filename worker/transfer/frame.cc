#include "worker/transfer/frame.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "common/base/check.h"

namespace roost::worker {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are written as they lie in memory");
static_assert(sizeof(TokenId) == sizeof(std::uint32_t));

constexpr std::uint32_t kMagic = 0x42545352U;  // "RSTB"

// The fields in the order and with the places of the format.
struct Header {
  std::uint32_t magic = kMagic;
  std::uint32_t version = kFrameVersion;
  std::uint32_t position = 0;
  std::uint32_t token_count = 0;
  std::uint64_t data_bytes = 0;
  BlockHash hash;
  BlockHash parent;
  BlockHash root;
  std::uint64_t tenant = 0;
};
static_assert(sizeof(Header) == kFrameHeaderBytes && sizeof(BlockHash) == 16);

using Sum = std::array<std::uint64_t, 2>;
static_assert(sizeof(Sum) == kFrameSumBytes);

Sum SumOf(std::span<const std::byte> bytes) {
  const XXH128_hash_t sum = XXH3_128bits(bytes.data(), bytes.size());
  return {sum.low64, sum.high64};
}

std::span<const std::byte> SummedPart(std::span<const std::byte> frame) {
  return frame.first(frame.size() - kFrameSumBytes);
}

Result<void> CheckForm(const Header& header, const FrameSizes& sizes) {
  if (header.magic != kMagic) return InvalidArgument("magic", "{:#x} begins no frame", header.magic);
  if (header.version != kFrameVersion) {
    return InvalidArgument("version", "is {}, not {}", header.version, kFrameVersion);
  }
  if (header.token_count != sizes.block_tokens) {
    return InvalidArgument("token_count", "is {}, not {}", header.token_count, sizes.block_tokens);
  }
  if (header.data_bytes != sizes.data_bytes) {
    return InvalidArgument("data_bytes", "is {}, not {}", header.data_bytes, sizes.data_bytes);
  }
  return {};
}

// A number whose exponent has all bits set is infinite or none.
template <typename Word, Word kExponent>
bool AllFinite(std::span<const std::byte> data) {
  constexpr std::size_t kWords = 64;  // looked at together
  std::array<Word, kWords> words{};
  unsigned found = 0;
  while (!data.empty()) {
    const std::span<const std::byte> part = data.first(std::min(data.size(), sizeof(words)));
    if (part.size() < sizeof(words)) words = {};
    std::memcpy(words.data(), part.data(), part.size());
    for (std::size_t i = 0; i < kWords; ++i) found |= (words[i] & kExponent) == kExponent ? 1U : 0U;
    data = data.subspan(part.size());
  }
  return found == 0;
}

bool AllFinite(const FrameBuffer& frame) {
  if (!frame.sizes().dtype) return true;
  switch (*frame.sizes().dtype) {
    case kernels::DType::kF32: return AllFinite<std::uint32_t, 0x7F800000U>(frame.data());
    case kernels::DType::kBF16: return AllFinite<std::uint16_t, 0x7F80U>(frame.data());
    case kernels::DType::kF16: return AllFinite<std::uint16_t, 0x7C00U>(frame.data());
  }
  return true;
}

}  // namespace

std::uint64_t TenantHash(std::string_view tenant) {
  return tenant.empty() ? 0 : XXH3_64bits(tenant.data(), tenant.size());
}

void SealFrame(const FrameBlock& block, std::span<const TokenId> tokens, FrameBuffer& frame) {
  const FrameSizes& sizes = frame.sizes();
  ROOST_CHECK(tokens.size() == sizes.block_tokens, "{} tokens of {}", tokens.size(), sizes.block_tokens);
  const Header header{.position = block.position,
                      .token_count = sizes.block_tokens,
                      .data_bytes = sizes.data_bytes,
                      .hash = block.hash,
                      .parent = block.parent,
                      .root = block.root,
                      .tenant = block.tenant};
  const std::span<std::byte> bytes = frame.bytes();
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + kFrameHeaderBytes, tokens.data(), tokens.size_bytes());
  const Sum sum = SumOf(SummedPart(bytes));
  std::memcpy(bytes.data() + bytes.size() - kFrameSumBytes, sum.data(), kFrameSumBytes);
}

Result<OpenedFrame> OpenFrame(const FrameBuffer& frame) {
  const std::span<const std::byte> bytes = frame.bytes();
  if (bytes.empty()) return InvalidArgument("magic", "the frame is empty");
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  ROOST_RETURN_IF_ERROR(CheckForm(header, frame.sizes()));
  Sum sum{};
  std::memcpy(sum.data(), bytes.data() + bytes.size() - kFrameSumBytes, kFrameSumBytes);
  if (sum != SumOf(SummedPart(bytes))) return InvalidArgument("sum", "does not match the frame");
  OpenedFrame opened{.block = {.position = header.position,
                               .hash = header.hash,
                               .parent = header.parent,
                               .root = header.root,
                               .tenant = header.tenant},
                     .tokens = std::vector<TokenId>(header.token_count)};
  std::memcpy(opened.tokens.data(), bytes.data() + kFrameHeaderBytes, opened.tokens.size() * sizeof(TokenId));
  if (ChainHash(header.parent, opened.tokens) != header.hash) {
    return InvalidArgument("hash", "does not follow from parent and tokens");
  }
  if (!AllFinite(frame)) return InvalidArgument("data", "has a number that is not finite");
  return opened;
}

Result<OpenedFrame> OpenFrame(const FrameBuffer& frame, const FrameChain& chain, std::uint32_t index) {
  ROOST_CHECK(index < chain.size(), "block {} of {}", index, chain.size());
  ROOST_ASSIGN_OR_RETURN(OpenedFrame opened, OpenFrame(frame));
  const FrameBlock& block = opened.block;
  if (block.position != chain.first_position + index) {
    return InvalidArgument("position", "is {}, not {}", block.position, chain.first_position + index);
  }
  if (block.hash != chain.hashes[index]) return InvalidArgument("hash", "is not that of the block asked for");
  if (block.parent != chain.ParentAt(index)) return InvalidArgument("parent", "is not the block before");
  if (block.root != chain.RootAt(index)) return InvalidArgument("root", "is not that of the chain");
  if (block.tenant != 0 && block.tenant != chain.tenant) return InvalidArgument("tenant", "is not that of the chain");
  return opened;
}

}  // namespace roost::worker
