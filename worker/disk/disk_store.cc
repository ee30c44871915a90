#include "worker/disk/disk_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <variant>

#include "common/base/byte_size.h"
#include "common/base/check.h"
#include "common/base/log.h"

namespace roost::worker {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDiskCacheFlag = "disk-cache";
constexpr std::string_view kFolderPrefix = "blocks-";
// So much is written before the page cache is given back.
constexpr std::uint64_t kFlushBytes = std::uint64_t{16} << 20U;

std::string FolderName(const SegmentShape& shape) {
  return fmt::format("{}{:016x}-{:016x}", kFolderPrefix, shape.layout, shape.numerics);
}

std::string LastError() { return std::strerror(errno); }

// As far as they can be read. The iterator's own ++ throws.
std::vector<DiskFiles::Path> PathsIn(const DiskFiles::Path& folder, std::error_code& failure) {
  std::vector<DiskFiles::Path> paths;
  for (fs::directory_iterator next(folder, failure); !failure && next != fs::directory_iterator();
       next.increment(failure)) {
    paths.push_back(next->path());
  }
  return paths;
}

// A folder for this user alone.
bool MakeFolder(const DiskFiles::Path& path) { return mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST; }

}  // namespace

// ---- the folder ----

Result<DiskFolder> DiskFolder::Take(const std::string& path, std::uint64_t bytes) {
  if (!MakeFolder(path)) return InvalidArgument(kDiskCacheFlag, "{} can not be made: {}", path, LastError());
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return InvalidArgument(kDiskCacheFlag, "{} is not a directory", path);
  struct statvfs system {};
  if (statvfs(path.c_str(), &system) != 0) return InvalidArgument(kDiskCacheFlag, "{}: {}", path, LastError());
  const std::uint64_t total = std::uint64_t{system.f_blocks} * system.f_frsize;
  if (bytes > total) {
    return InvalidArgument("disk-cache-bytes", "{} are more than the {} of the file system of {}", ByteSizeText(bytes),
                           ByteSizeText(total), path);
  }
  const DiskFiles::Path lock = DiskFiles::Path(path) / "lock";
  const int descriptor = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
  if (descriptor < 0) return InvalidArgument(kDiskCacheFlag, "{} can not be written: {}", path, LastError());
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    const bool is_taken = errno == EWOULDBLOCK;
    const std::string reason = LastError();
    (void)close(descriptor);
    if (is_taken) return InvalidArgument(kDiskCacheFlag, "{} is used by another process", path);
    return InvalidArgument(kDiskCacheFlag, "{} can not be locked: {}", path, reason);
  }
  return DiskFolder(path, descriptor);
}

DiskFolder::DiskFolder(DiskFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

DiskFolder::~DiskFolder() {
  if (lock_ >= 0) (void)close(lock_);
}

// ---- the start ----

Result<std::unique_ptr<DiskStore>> DiskStore::Open(const DiskFolder& folder, DiskFiles& files,
                                                   const DiskStoreOptions& options) {
  const std::uint64_t least = kLeastSegments * options.shape.file_bytes();
  if (options.bytes < least) {
    return InvalidArgument("disk-cache-bytes", "{} are less than {} segments of this model's blocks, which take {}",
                           ByteSizeText(options.bytes), kLeastSegments, ByteSizeText(least));
  }
  DiskFiles::Path own = folder.path() / FolderName(options.shape);
  if (!MakeFolder(own)) return InvalidArgument(kDiskCacheFlag, "{} can not be made: {}", own.string(), LastError());
  std::unique_ptr<DiskStore> store(new DiskStore(std::move(own), files, options));
  ROOST_RETURN_IF_ERROR(store->ReadAll());
  store->FindOthers(folder.path());
  store->ShrinkToFit();
  store->IndexAll();
  return store;
}

std::unique_ptr<DiskStore> DiskStore::MakeEmpty(DiskFiles::Path name, DiskFiles& files,
                                                const DiskStoreOptions& options) {
  ROOST_CHECK(options.bytes >= kLeastSegments * options.shape.file_bytes());
  return std::unique_ptr<DiskStore>(new DiskStore(std::move(name), files, options));
}

DiskFiles::Path DiskStore::PathOf(std::uint64_t segment) const { return folder_ / SegmentName(segment); }

// A file that is no segment of this shape is of no use to anybody: it goes.
Result<void> DiskStore::ReadAll() {
  std::error_code failure;
  for (const DiskFiles::Path& path : PathsIn(folder_, failure)) {
    const std::optional<std::uint64_t> number = SegmentNumberOf(path.filename().string());
    if (!number) continue;
    next_number_ = std::max(next_number_, *number + 1);
    Result<SegmentContent> content = ReadSegment(files_, path, options_.shape, *number);
    if (!content.ok()) {
      (void)files_.Remove(path);
      continue;
    }
    segments_.emplace(*number, Segment{std::move(content->entries), content->is_sealed});
  }
  if (failure) return InvalidArgument(kDiskCacheFlag, "{} can not be read: {}", folder_.string(), failure.message());
  segment_count_ = segments_.size();
  // Appending goes on where it was; an earlier segment that was never sealed is as good as it is.
  if (!segments_.empty() && !segments_.rbegin()->second.is_sealed) open_ = segments_.rbegin()->first;
  const Result<void> sealed = SealIfFull();
  if (!sealed.ok()) return InvalidArgument(kDiskCacheFlag, "can not be written: {}", sealed.error().ToString());
  return {};
}

void DiskStore::FindOthers(const DiskFiles::Path& dir) {
  struct Found {
    fs::file_time_type written;
    OtherSegment segment;
  };
  std::vector<Found> found;
  std::error_code ignored;
  for (const DiskFiles::Path& folder : PathsIn(dir, ignored)) {
    const std::string name = folder.filename().string();
    if (!name.starts_with(kFolderPrefix) || folder == folder_ || !fs::is_directory(folder, ignored)) continue;
    other_folders_.push_back(name);
    for (const DiskFiles::Path& file : PathsIn(folder, ignored)) {
      if (!SegmentNumberOf(file.filename().string())) continue;
      const std::uintmax_t bytes = fs::file_size(file, ignored);
      if (!ignored) found.push_back({fs::last_write_time(file, ignored), {file, bytes}});
    }
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.written > b.written; });
  for (Found& each : found) {
    other_bytes_ += each.segment.bytes;
    others_.push_back(std::move(each.segment));
  }
}

// It may have had more bytes before.
void DiskStore::ShrinkToFit() {
  while (segments_.size() > options_.bytes / options_.shape.file_bytes()) {
    (void)files_.Remove(PathOf(segments_.begin()->first));
    segments_.erase(segments_.begin());
  }
  segment_count_ = segments_.size();
}

// Fronts before what continues them, wherever they lie; of equal blocks the latest.
void DiskStore::IndexAll() {
  struct Found {
    const DiskBlock* block = nullptr;
    DiskPlace place;
  };
  std::unordered_map<BlockHash, Found, BlockHashHasher> latest;
  std::vector<DiskPlace> dead;
  for (const auto& [number, segment] : segments_) {
    for (const SegmentEntry& entry : segment.entries) {
      if (!entry.block) continue;
      const Found found{&*entry.block, {number, entry.slot}};
      const auto [known, is_new] = latest.try_emplace(entry.block->hash, found);
      if (is_new) continue;
      dead.push_back(known->second.place);
      known->second = found;
    }
  }
  std::vector<Found> blocks;
  blocks.reserve(latest.size());
  for (const auto& [hash, found] : latest) blocks.push_back(found);
  std::sort(blocks.begin(), blocks.end(), [](const Found& a, const Found& b) {
    return std::pair(a.block->position, a.place) < std::pair(b.block->position, b.place);
  });
  for (const Found& found : blocks) {
    if (index_.size() < kMaxDiskBlocks && index_.Takes(*found.block)) {
      index_.Add(*found.block, found.place);
    } else {
      dead.push_back(found.place);
      ++orphan_count_;
    }
  }
  EraseAt(dead);
}

// ---- any thread ----

std::uint32_t DiskStore::CountFront(const FrameChain& chain) const {
  const std::lock_guard lock(mutex_);
  std::uint32_t count = 0;
  for (; count < chain.size(); ++count) {
    const DiskIndex::Node* const node = index_.Find(chain.hashes[count]);
    if (node == nullptr || node->block.position != chain.first_position + count) break;
    if (node->block.tenant != 0 && node->block.tenant != chain.tenant) break;
  }
  return count;
}

bool DiskStore::Use(BlockHash hash) {
  const std::lock_guard lock(mutex_);
  DiskIndex::Node* const node = index_.Find(hash);
  if (node == nullptr) return false;
  node->used = true;
  return true;
}

// A block that is copied to another segment, or erased, while it is read, is looked for again.
Result<OpenedFrame> DiskStore::Read(const FrameChain& chain, std::uint32_t index, FrameBuffer& to) {
  const auto place_of = [&](BlockHash hash) -> std::optional<DiskPlace> {
    const std::lock_guard lock(mutex_);
    DiskIndex::Node* const node = index_.Find(hash);
    if (node == nullptr) return std::nullopt;
    node->used = true;
    return node->place;
  };
  const BlockHash hash = chain.hashes[index];
  std::optional<DiskPlace> place = place_of(hash);
  while (place) {
    Result<void> read = files_.Read(PathOf(place->segment), options_.shape.FrameOffset(place->slot), to.bytes());
    Result<OpenedFrame> opened = read.ok() ? OpenFrame(to, chain, index) : Result<OpenedFrame>(std::move(read).error());
    const std::optional<DiskPlace> now = place_of(hash);
    if (now == place && !opened.ok() && opened.error().code == ErrorCode::kNotFound) {
      return DataLoss("disk-cache", "{} is gone", PathOf(place->segment).string());  // it was not Roost that removed it
    }
    if (now == place) return opened;
    place = now;
  }
  return Error{ErrorCode::kNotFound, "is not on disk", "block"};
}

void DiskStore::Visit(const std::function<void(const DiskIndex&)>& visit) const {
  const std::lock_guard lock(mutex_);
  visit(index_);
}

std::uint64_t DiskStore::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return segment_count_ * options_.shape.file_bytes() + other_bytes_;
}

std::uint32_t DiskStore::capacity() const {
  const std::uint64_t slots = options_.bytes / options_.shape.file_bytes() * options_.shape.slot_count;
  return static_cast<std::uint32_t>(std::min(kMaxDiskBlocks, slots));
}

// ---- room ----

bool DiskStore::HasRoomForSegment() const { return used_bytes() + options_.shape.file_bytes() <= options_.bytes; }

Result<DiskStore::Prepared> DiskStore::PrepareStep() {
  if (!HasRoomForSegment() && RemoveOther()) return Prepared{.room = Room::kWorked};
  if (!open_) {
    if (!HasRoomForSegment()) {
      RemoveOldest();
    } else {
      ROOST_RETURN_IF_ERROR(NewSegment());
    }
    return Prepared{.room = Room::kWorked};
  }
  if (!HasRoomForSegment() && segments_.size() > 1) return ReclaimStep();
  return Prepared{};
}

Result<void> DiskStore::NewSegment() {
  const std::uint64_t number = next_number_++;
  ROOST_RETURN_IF_ERROR(CreateSegment(files_, PathOf(number), options_.shape, number));
  segments_.emplace(number, Segment{});
  open_ = number;
  const std::lock_guard lock(mutex_);
  segment_count_ = segments_.size();
  return {};
}

Result<void> DiskStore::SealIfFull() {
  if (!open_) return {};
  Segment& segment = segments_.at(*open_);
  if (segment.entries.size() < options_.shape.slot_count) return {};
  const std::uint64_t number = *std::exchange(open_, std::nullopt);
  segment.is_sealed = true;
  return SealSegment(files_, PathOf(number), options_.shape, number, segment.entries);
}

bool DiskStore::IsLive(std::uint64_t segment, const SegmentEntry& entry) const {
  if (!entry.block) return false;
  const std::lock_guard lock(mutex_);
  const DiskIndex::Node* const node = index_.Find(entry.block->hash);
  return node != nullptr && node->place == DiskPlace{segment, entry.slot};
}

// Goes over the oldest segment, slot after slot: a used block is copied, any other leaves with what continues it.
Result<DiskStore::Prepared> DiskStore::ReclaimStep() {
  const auto& [number, segment] = *segments_.begin();
  for (; reclaimed_slots_ < segment.entries.size(); ++reclaimed_slots_) {
    const SegmentEntry entry = segment.entries[reclaimed_slots_];
    if (!IsLive(number, entry)) continue;
    bool is_used = false;
    {
      const std::lock_guard lock(mutex_);
      is_used = index_.Find(entry.block->hash)->used;
    }
    FrameBuffer frame(options_.sizes);
    const bool is_kept = is_used &&
                         files_.Read(PathOf(number), options_.shape.FrameOffset(entry.slot), frame.bytes()).ok() &&
                         OpenFrame(frame).ok();
    if (!is_kept) {
      (void)Erase({.tops = {entry.block->hash}, .fronts = {}}, is_used ? DiskDrop::kUnreadable : DiskDrop::kReclaimed);
      return Prepared{.room = Room::kWorked};
    }
    DiskPlace place;
    ROOST_RETURN_IF_ERROR(Write(*entry.block, frame.bytes(), place));
    {
      const std::lock_guard lock(mutex_);
      DiskIndex::Node* const node = index_.Find(entry.block->hash);
      node->place = place;
      node->used = false;
    }
    ++reclaimed_slots_;  // the copied ones are found there again, see AddCopied
    ROOST_RETURN_IF_ERROR(SealIfFull());
    return Prepared{.room = Room::kWorked, .written_bytes = options_.shape.slot_bytes()};
  }
  if (open_) ROOST_RETURN_IF_ERROR(files_.Sync(PathOf(*open_)));
  RemoveOldest();
  return Prepared{.room = Room::kWorked};
}

void DiskStore::RemoveOldest() { DropSegment(segments_.begin()->first, DiskDrop::kReclaimed); }

// Its blocks leave with those that continue them elsewhere.
void DiskStore::DropSegment(std::uint64_t number, DiskDrop reason) {
  const auto found = segments_.find(number);
  std::vector<DiskPlace> places;
  for (const SegmentEntry& entry : found->second.entries) {
    if (IsLive(number, entry)) (void)TakeOut(entry.block->hash, reason, places);
  }
  left_over_.push_back(PathOf(number));
  if (const Result<void> gone = RemoveLeftOver(); !gone.ok()) {
    LogError("a segment of blocks can not be removed: a later start would find its blocks again",
             {{"file", PathOf(number).string()}, {"why", gone.error().ToString()}});
  }
  if (number == segments_.begin()->first) reclaimed_slots_ = 0;
  if (open_ == number) open_.reset();
  segments_.erase(found);
  {
    const std::lock_guard lock(mutex_);
    segment_count_ = segments_.size();
  }
  std::erase_if(places, [number](const DiskPlace& place) { return place.segment == number; });
  EraseAt(places);
}

Result<void> DiskStore::RemoveLeftOver() {
  while (!left_over_.empty()) {
    Result<void> gone = files_.Remove(left_over_.back());
    if (!gone.ok() && gone.error().code != ErrorCode::kNotFound) return gone;
    left_over_.pop_back();
  }
  return {};
}

bool DiskStore::RemoveOther() {
  if (others_.empty()) return false;
  const OtherSegment oldest = std::move(others_.back());
  others_.pop_back();
  (void)files_.Remove(oldest.path);
  (void)rmdir(oldest.path.parent_path().c_str());  // once it is empty
  const std::lock_guard lock(mutex_);
  other_bytes_ -= oldest.bytes;
  return true;
}

// ---- blocks in ----

bool DiskStore::Takes(const DiskBlock& block) const {
  const std::lock_guard lock(mutex_);
  return index_.size() < kMaxDiskBlocks && index_.Takes(block);
}

Result<void> DiskStore::Write(const DiskBlock& block, std::span<const std::byte> frame, DiskPlace& place) {
  std::vector<SegmentEntry>& entries = segments_.at(*open_).entries;
  const SegmentEntry entry{.slot = static_cast<std::uint32_t>(entries.size()), .block = block};
  ROOST_RETURN_IF_ERROR(WriteSlot(files_, PathOf(*open_), options_.shape, *open_, entry, frame));
  entries.push_back(entry);
  place = {*open_, entry.slot};
  unflushed_bytes_ += options_.shape.slot_bytes();
  if (unflushed_bytes_ >= kFlushBytes) {
    unflushed_bytes_ = 0;
    files_.FlushSoon(PathOf(*open_));
  }
  return {};
}

Result<void> DiskStore::Append(const DiskBlock& block, const FrameBuffer& frame) {
  ROOST_CHECK(open_.has_value(), "no segment is open");
  DiskPlace place;
  ROOST_RETURN_IF_ERROR(Write(block, frame.bytes(), place));
  {
    const std::lock_guard lock(mutex_);
    index_.Add(block, place);
    if (changes_.stored) changes_.stored(block);
  }
  return SealIfFull();
}

// ---- blocks out ----

std::uint32_t DiskStore::TakeOut(BlockHash hash, DiskDrop reason, std::vector<DiskPlace>& places) {
  std::uint32_t count = 0;
  const std::lock_guard lock(mutex_);
  index_.RemoveTree(hash, [&](const DiskIndex::Node& node) {
    ++count;
    places.push_back(node.place);
    if (changes_.removed) changes_.removed(node.block, reason);
  });
  return count;
}

std::uint32_t DiskStore::Erase(const Erasure& erasure, DiskDrop reason) {
  std::vector<DiskPlace> places;
  std::uint32_t count = 0;
  for (const BlockHash top : erasure.tops) count += TakeOut(top, reason, places);
  for (const BlockHash front : erasure.fronts) {
    bool is_leaf = false;
    {
      const std::lock_guard lock(mutex_);
      is_leaf = index_.IsLeaf(front);
    }
    if (is_leaf) count += TakeOut(front, reason, places);
  }
  if (count > 0) AddCopied(places);
  EraseAt(places);
  return count;
}

// The oldest segment still has the blocks that were copied from it: they would be found there by a later start.
void DiskStore::AddCopied(std::vector<DiskPlace>& places) const {
  if (reclaimed_slots_ == 0) return;
  const auto& [number, segment] = *segments_.begin();
  for (std::size_t i = 0; i < reclaimed_slots_; ++i) {
    const SegmentEntry& entry = segment.entries[i];
    if (!entry.block) continue;
    const std::lock_guard lock(mutex_);
    if (index_.Find(entry.block->hash) == nullptr) places.push_back({number, entry.slot});
  }
}

// A segment that can not be written goes whole, so that what was erased does not come back.
void DiskStore::EraseAt(std::span<const DiskPlace> places) {
  std::set<std::uint64_t> written;
  std::set<std::uint64_t> broken;
  for (const DiskPlace& place : places) {
    const auto segment = segments_.find(place.segment);
    if (segment == segments_.end()) continue;
    written.insert(place.segment);
    const auto entry = std::lower_bound(segment->second.entries.begin(), segment->second.entries.end(), place.slot,
                                        [](const SegmentEntry& each, std::uint32_t slot) { return each.slot < slot; });
    entry->block.reset();
    if (!EraseSlot(files_, PathOf(place.segment), options_.shape, place.segment, place.slot).ok()) {
      broken.insert(place.segment);
    }
  }
  for (const std::uint64_t segment : written) {
    if (!broken.contains(segment) && !files_.Sync(PathOf(segment)).ok()) broken.insert(segment);
  }
  for (const std::uint64_t segment : broken) {
    if (segments_.contains(segment)) DropSegment(segment, DiskDrop::kUnreadable);
  }
}

DiskStore::Erasure DiskStore::ErasureOf(const wire::Evict& order) const {
  Erasure erasure;
  const auto* const prompt = std::get_if<wire::PromptToEvict>(&order.what);
  if (const auto* const tenant = std::get_if<wire::TenantToEvict>(&order.what)) {
    const std::lock_guard lock(mutex_);
    erasure.tops = index_.TopsOf(TenantHash(tenant->tenant));
  } else if (const auto* const block = std::get_if<wire::BlockToEvict>(&order.what)) {
    const std::lock_guard lock(mutex_);
    if (index_.Find(block->hash) == nullptr) return erasure;
    erasure.tops = {block->hash};
    erasure.fronts = index_.PathBefore(block->hash);
  } else if (prompt->block_hashes.empty()) {
    std::vector<BlockHash> firsts;
    Visit([&](const DiskIndex& index) { firsts = index.FirstBlocks(); });
    std::copy_if(firsts.begin(), firsts.end(), std::back_inserter(erasure.tops),
                 [&](BlockHash hash) { return BeginsLike(hash, *prompt); });
  } else {
    erasure.tops = {prompt->block_hashes.back()};
    erasure.fronts.assign(prompt->block_hashes.rbegin() + 1, prompt->block_hashes.rend());
  }
  return erasure;
}

// The tokens of a block stand in its frame alone.
bool DiskStore::BeginsLike(BlockHash hash, const wire::PromptToEvict& prompt) const {
  DiskPlace place;
  {
    const std::lock_guard lock(mutex_);
    const DiskIndex::Node* const node = index_.Find(hash);
    if (node == nullptr) return false;
    place = node->place;
  }
  FrameBuffer frame(options_.sizes);
  if (!files_.Read(PathOf(place.segment), options_.shape.FrameOffset(place.slot), frame.bytes()).ok()) return true;
  const Result<OpenedFrame> opened = OpenFrame(frame);
  if (!opened.ok()) return true;  // it can not be read, so it may be what is named
  const std::size_t count = std::min(prompt.tokens.size(), opened->tokens.size());
  return opened->block.root == prompt.root &&
         std::equal(prompt.tokens.begin(), prompt.tokens.begin() + static_cast<std::ptrdiff_t>(count),
                    opened->tokens.begin());
}

}  // namespace roost::worker
