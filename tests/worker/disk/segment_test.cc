#include "worker/disk/segment.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>

#include "tests/worker/disk/disk_tools.h"

namespace roost::worker {
namespace {

class SegmentTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(CreateSegment(files_, path_, shape_, kNumber).ok()); }

  void Write(std::uint32_t slot) {
    const SegmentEntry entry{.slot = slot, .block = StoreUser::BlockOf(chain_, slot)};
    ASSERT_TRUE(WriteSlot(files_, path_, shape_, kNumber, entry, FrameOf(chain_, slot).bytes()).ok());
    entries_.push_back(entry);
  }
  SegmentContent ReadBack() {
    Result<SegmentContent> content = ReadSegment(files_, path_, shape_, kNumber);
    EXPECT_TRUE(content.ok()) << content.error().ToString();
    return std::move(content).value();
  }
  void Flip(std::uint64_t offset) {
    std::array<std::byte, 1> byte{};
    ASSERT_TRUE(files_.Read(path_, offset, byte).ok());
    byte[0] ^= std::byte{1};
    ASSERT_TRUE(files_.Write(path_, offset, byte).ok());
  }

  static constexpr std::uint64_t kNumber = 7;
  TestFolder folder_;
  const DiskFiles::Path path_ = folder_.path() / SegmentName(kNumber);
  const SegmentShape shape_ = TestShape();
  DiskFiles files_;
  const TestChain chain_{kTestSlots};
  std::vector<SegmentEntry> entries_;
};

TEST_F(SegmentTest, ItsShapeHoldsAtLeastEightBlocksHoweverLargeTheyAre) {
  EXPECT_EQ(SegmentShape::Of(1, 1, std::uint64_t{64} << 20U).slot_count, kLeastSlots);
  const SegmentShape usual = SegmentShape::Of(1, 1, 1'800'000);
  EXPECT_LE(usual.file_bytes(), kSegmentBytes);
  EXPECT_GT(usual.file_bytes() + usual.slot_bytes(), kSegmentBytes);
}

TEST_F(SegmentTest, IsForThisUserAlone) {
  EXPECT_EQ(std::filesystem::status(path_).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(std::filesystem::file_size(path_), shape_.file_bytes());
}

TEST_F(SegmentTest, AnOpenOneIsReadUpToItsLastEntry) {
  EXPECT_TRUE(ReadBack().entries.empty());
  for (std::uint32_t slot = 0; slot < 3; ++slot) Write(slot);
  const SegmentContent content = ReadBack();
  EXPECT_FALSE(content.is_sealed);
  EXPECT_EQ(content.used_slots, 3U);
  EXPECT_EQ(content.entries, entries_);
}

TEST_F(SegmentTest, ASealedOneHasAllEntriesAgain) {
  for (std::uint32_t slot = 0; slot < kTestSlots; ++slot) Write(slot);
  ASSERT_TRUE(SealSegment(files_, path_, shape_, kNumber, entries_).ok());
  Flip(shape_.SlotOffset(0) + 3);  // which a sealed one does not read
  const SegmentContent content = ReadBack();
  EXPECT_TRUE(content.is_sealed);
  EXPECT_EQ(content.entries, entries_);
}

TEST_F(SegmentTest, AnEntryOfASealedOneWithAFlippedBitIsLeftOut) {
  for (std::uint32_t slot = 0; slot < kTestSlots; ++slot) Write(slot);
  ASSERT_TRUE(SealSegment(files_, path_, shape_, kNumber, entries_).ok());
  for (std::uint64_t byte = 0; byte < kEntryBytes; ++byte) {
    Flip(shape_.entries_offset() + 2 * kEntryBytes + byte);
    EXPECT_EQ(ReadBack().entries.size(), kTestSlots - 1) << byte;
    Flip(shape_.entries_offset() + 2 * kEntryBytes + byte);
  }
  EXPECT_EQ(ReadBack().entries.size(), kTestSlots);
}

TEST_F(SegmentTest, ATornTailEndsAnOpenOne) {
  for (std::uint32_t slot = 0; slot < 4; ++slot) Write(slot);
  Flip(shape_.SlotOffset(3) + 10);
  EXPECT_EQ(ReadBack().used_slots, 3U);
}

TEST_F(SegmentTest, ADamagedSlotOfAnOpenOneHidesNothingBehindIt) {
  for (std::uint32_t slot = 0; slot < 4; ++slot) Write(slot);
  Flip(shape_.SlotOffset(1) + 10);
  const SegmentContent content = ReadBack();
  EXPECT_EQ(content.used_slots, 4U);
  EXPECT_FALSE(content.entries[1].block.has_value());
  EXPECT_TRUE(content.entries[3].block.has_value());
}

TEST_F(SegmentTest, AnErasedSlotStaysErasedAndIsSkipped) {
  for (std::uint32_t slot = 0; slot < 3; ++slot) Write(slot);
  ASSERT_TRUE(EraseSlot(files_, path_, shape_, kNumber, 1).ok());
  const SegmentContent content = ReadBack();
  EXPECT_EQ(content.used_slots, 3U);
  EXPECT_FALSE(content.entries[1].block.has_value());
  EXPECT_TRUE(content.entries[2].block.has_value());
  std::vector<std::byte> bytes(shape_.frame_bytes);
  ASSERT_TRUE(files_.Read(path_, shape_.FrameOffset(1), bytes).ok());
  EXPECT_EQ(bytes, std::vector<std::byte>(shape_.frame_bytes));
}

TEST_F(SegmentTest, OneOfAnotherShapeOrNumberIsRefused) {
  SegmentShape other = shape_;
  other.numerics = 3;
  EXPECT_EQ(ReadSegment(files_, path_, other, kNumber).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(ReadSegment(files_, path_, shape_, kNumber + 1).error().code, ErrorCode::kDataLoss);
  std::filesystem::resize_file(path_, 10);
  EXPECT_EQ(ReadSegment(files_, path_, shape_, kNumber).error().code, ErrorCode::kDataLoss);
}

TEST_F(SegmentTest, NamesSortByNumber) {
  EXPECT_EQ(SegmentNumberOf(SegmentName(42)), 42U);
  EXPECT_LT(SegmentName(9), SegmentName(10));
  for (const char* name : {"lock", "x.segment", "00000000004x.segment", "0000000000042.segment"}) {
    EXPECT_FALSE(SegmentNumberOf(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace roost::worker
