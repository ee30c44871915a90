#include "worker/transfer/frame.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "tests/worker/transfer/frame_tools.h"

namespace roost::worker {
namespace {

// Writes the format byte by byte, from its description.
class Writer {
 public:
  Writer& U32(std::uint32_t value) { return Low(value, 4); }
  Writer& U64(std::uint64_t value) { return Low(value, 8); }
  Writer& Hash(BlockHash hash) { return U64(hash.high).U64(hash.low); }
  Writer& Append(std::span<const std::byte> more) {
    bytes.insert(bytes.end(), more.begin(), more.end());
    return *this;
  }

  std::vector<std::byte> bytes;

 private:
  Writer& Low(std::uint64_t value, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(value >> 8 * i & 0xFF));
    return *this;
  }
};

TEST(FrameTest, HasTheBytesOfItsDescription) {
  const TestChain chain(3, 7, OwnScope{.first_block = 2, .root = {5, 6}});
  for (std::uint32_t index = 0; index < 3; ++index) {
    const FrameBuffer frame = FrameOf(chain, index);
    Writer writer;
    writer.Append(std::as_bytes(std::span("RSTB", 4))).U32(1).U32(index).U32(16).U64(400);
    writer.Hash(chain.chain.hashes[index]);
    writer.Hash(index == 0 ? kTestRoot : index == 2 ? BlockHash{5, 6} : chain.chain.hashes[index - 1]);
    writer.Hash(index == 2 ? BlockHash{5, 6} : kTestRoot).U64(index == 2 ? XXH3_64bits("acme", 4) : 0);
    ASSERT_EQ(writer.bytes.size(), kFrameHeaderBytes);
    for (const TokenId token : chain.TokensAt(index)) writer.U32(token);
    ASSERT_EQ(writer.bytes.size(), kTestSizes.data_offset());
    writer.Append(frame.data());
    const XXH128_hash_t sum = XXH3_128bits(writer.bytes.data(), writer.bytes.size());
    writer.U64(sum.low64).U64(sum.high64);
    ASSERT_EQ(writer.bytes.size(), kTestSizes.frame_bytes());
    EXPECT_TRUE(std::equal(writer.bytes.begin(), writer.bytes.end(), frame.bytes().begin()));
  }
}

TEST(FrameTest, OpensAsWhatWasSealed) {
  const TestChain chain(5, 2, OwnScope{.first_block = 3, .root = {5, 6}});
  for (std::uint32_t first = 0; first < 5; ++first) {
    const FrameChain rest = chain.From(first);
    for (std::uint32_t index = first; index < 5; ++index) {
      const FrameBuffer frame = FrameOf(chain, index);
      const Result<OpenedFrame> opened = OpenFrame(frame, rest, index - first);
      ASSERT_TRUE(opened.ok()) << opened.error().ToString();
      EXPECT_EQ(opened->block, chain.BlockAt(index));
      EXPECT_TRUE(std::equal(opened->tokens.begin(), opened->tokens.end(), chain.TokensAt(index).begin(),
                             chain.TokensAt(index).end()));
    }
  }
}

// The sum finds a change of any byte, also one of the fields' own checks.
TEST(FrameTest, AnyChangedByteIsFound) {
  const TestChain chain(2);
  Rng rng(3);
  for (std::size_t at = 0; at < kTestSizes.frame_bytes(); ++at) {
    FrameBuffer frame = FrameOf(chain, 1);
    frame.bytes()[at] ^= static_cast<std::byte>(1 + rng.Below(255));
    EXPECT_FALSE(OpenFrame(frame).ok()) << "byte " << at;
    EXPECT_FALSE(OpenFrame(frame, chain.chain, 1).ok()) << "byte " << at;
  }
}

std::string FieldOf(const Result<OpenedFrame>& opened) { return opened.ok() ? "none" : opened.error().field; }

FrameBuffer Sealed(const TestChain& chain, const FrameBlock& block, std::span<const TokenId> tokens) {
  FrameBuffer frame = FrameOf(chain, 1);
  SealFrame(block, tokens, frame);
  return frame;
}

// The sender says something else than what was asked for, with a right sum.
TEST(FrameTest, ASealedFrameMustBeTheBlockAskedFor) {
  const TestChain chain(3);
  const FrameBlock right = chain.BlockAt(1);
  const auto tokens = chain.TokensAt(1);
  EXPECT_EQ(FieldOf(OpenFrame(Sealed(chain, right, tokens), chain.chain, 1)), "none");

  FrameBlock wrong = right;
  wrong.hash.low ^= 1;
  EXPECT_EQ(FieldOf(OpenFrame(Sealed(chain, wrong, tokens), chain.chain, 1)), "hash");
  wrong = right;
  wrong.parent.high ^= 1;
  EXPECT_EQ(FieldOf(OpenFrame(Sealed(chain, wrong, tokens), chain.chain, 1)), "hash");
  std::vector<TokenId> other(tokens.begin(), tokens.end());
  other[9] += 1;
  EXPECT_EQ(FieldOf(OpenFrame(Sealed(chain, right, other), chain.chain, 1)), "hash");
  wrong = right;
  wrong.parent = {8, 9};
  wrong.hash = ChainHash(wrong.parent, tokens);
  EXPECT_EQ(FieldOf(OpenFrame(Sealed(chain, wrong, tokens), chain.chain, 1)), "hash");
  FrameChain asked = chain.chain;
  asked.hashes[1] = wrong.hash;
  EXPECT_EQ(FieldOf(OpenFrame(Sealed(chain, wrong, tokens), asked, 1)), "parent");
  wrong = right;
  wrong.position = 2;
  EXPECT_EQ(FieldOf(OpenFrame(Sealed(chain, wrong, tokens), chain.chain, 1)), "position");
  wrong = right;
  wrong.root.low ^= 1;
  EXPECT_EQ(FieldOf(OpenFrame(Sealed(chain, wrong, tokens), chain.chain, 1)), "root");
  wrong = right;
  wrong.tenant = TenantHash("other");
  EXPECT_EQ(FieldOf(OpenFrame(Sealed(chain, wrong, tokens), chain.chain, 1)), "tenant");
  wrong.tenant = 0;
  EXPECT_EQ(FieldOf(OpenFrame(Sealed(chain, wrong, tokens), chain.chain, 1)), "none");
  EXPECT_EQ(FieldOf(OpenFrame(FrameOf(chain, 2), chain.chain, 1)), "position");
}

TEST(FrameTest, NumbersThatAreNotFiniteAreFound) {
  const TestChain chain(2);
  struct Case {
    kernels::DType dtype;
    std::size_t bytes;
    std::uint32_t largest;
    std::vector<std::uint32_t> not_finite;
  };
  const std::vector<Case> cases = {
      {kernels::DType::kF32, 4, 0xFF7FFFFF, {0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF, 0x7F800001}},
      {kernels::DType::kBF16, 2, 0xFF7F, {0x7F80, 0xFF80, 0x7FC0, 0xFFFF, 0x7F81}},
      {kernels::DType::kF16, 2, 0xFBFF, {0x7C00, 0xFC00, 0x7E00, 0xFFFF, 0x7C01}}};
  for (const Case& each : cases) {
    FrameSizes sizes = kTestSizes;
    sizes.dtype = each.dtype;
    FrameBuffer frame(sizes);
    const std::size_t count = sizes.data_bytes / each.bytes;
    for (std::size_t at = 0; at < count; ++at) {
      std::memcpy(frame.data().data() + at * each.bytes, &each.largest, each.bytes);
    }
    const auto open = [&] {
      SealFrame(chain.BlockAt(1), chain.TokensAt(1), frame);
      return FieldOf(OpenFrame(frame, chain.chain, 1));
    };
    EXPECT_EQ(open(), "none") << NameOf(each.dtype);
    for (const std::uint32_t bits : each.not_finite) {
      for (const std::size_t at : {std::size_t{0}, count / 2, count - 1}) {
        std::memcpy(frame.data().data() + at * each.bytes, &bits, each.bytes);
        EXPECT_EQ(open(), "data") << NameOf(each.dtype) << " " << std::hex << bits << " at " << at;
        std::memcpy(frame.data().data() + at * each.bytes, &each.largest, each.bytes);
      }
    }
  }
}

TEST(FrameTest, TenantsHaveHashesAndNoneHasZero) {
  EXPECT_EQ(TenantHash(""), 0U);
  EXPECT_NE(TenantHash("a"), 0U);
  EXPECT_NE(TenantHash("a"), TenantHash("b"));
}

TEST(FrameTest, AnEmptyBufferIsNoFrame) { EXPECT_EQ(FieldOf(OpenFrame(FrameBuffer())), "magic"); }

}  // namespace
}  // namespace roost::worker
