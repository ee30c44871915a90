#include "tests/support/simt/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "common/base/check.h"

namespace roost::simt {
namespace {

constexpr std::size_t kSharedAlignment = 128;
constexpr std::size_t kChunkBytes = 16;
constexpr int kPoison = 0xFF;

thread_local Block* current_block = nullptr;

std::uint32_t LaneBit(std::uint32_t thread) { return 1U << thread % kWarpLanes; }

}  // namespace

Block& Block::Current() {
  ROOST_CHECK(current_block != nullptr, "no kernel is running");
  return *current_block;
}

SharedMemory::SharedMemory(std::size_t bytes) : bytes_(bytes) {
  void* memory = nullptr;
  ROOST_CHECK(::posix_memalign(&memory, kSharedAlignment, std::max<std::size_t>(bytes, 1)) == 0);
  std::memset(memory, kPoison, bytes);
  memory_.reset(static_cast<std::byte*>(memory));
}

void SharedMemory::Free::operator()(std::byte* memory) const { std::free(memory); }

bool SharedMemory::Holds(const void* address, std::size_t bytes) const {
  const auto start = reinterpret_cast<std::uintptr_t>(memory_.get());
  const auto from = reinterpret_cast<std::uintptr_t>(address);
  return from >= start && from + bytes <= start + bytes_;
}

void Block::Run(const Dim3& grid, const Dim3& shape, const Dim3& index, std::size_t dynamic_shared_bytes,
                const std::function<void()>& kernel) {
  ROOST_CHECK(current_block == nullptr, "a kernel is running");
  ROOST_CHECK(shape.count() > 0 && shape.count() <= kMaxBlockThreads && shape.count() % kWarpLanes == 0,
              "a block of {} threads", shape.count());
  grid_ = grid;
  shape_ = shape;
  index_ = index;
  shared_bytes_ = 0;
  TakeShared(dynamic_shared_bytes);
  dynamic_shared_ = SharedMemory(dynamic_shared_bytes);
  races_.Clear();
  races_.Watch({dynamic_shared(), dynamic_shared_bytes});
  for (const std::span<const std::byte> memory : watched_global_) races_.Watch(memory);
  static_shared_.clear();
  threads_.assign(shape.count(), {});
  ready_.resize(shape.count());
  for (std::uint32_t i = 0; i < ready_.size(); ++i) ready_[i] = i;
  at_barrier_ = 0;
  finished_ = 0;
  ++barrier_count_;
  last_barrier_ = {};
  sync_counts_.assign(shape.count() / kWarpLanes, 0);
  current_block = this;
  fibers_.Start(shape.count(), [&kernel](std::size_t /*index*/) { kernel(); });
  while (!ready_.empty()) {
    const std::size_t pick = rng_.Below(ready_.size());
    const std::uint32_t next = ready_[pick];
    ready_[pick] = ready_.back();
    ready_.pop_back();
    RunThread(next);
  }
  if (finished_ < threads_.size()) ReportDeadlock();
  current_block = nullptr;
}

void Block::RunThread(std::uint32_t index) {
  thread_ = index;
  if (!fibers_.Resume(index)) Finish(index);
}

void Block::Finish(std::uint32_t index) {
  Thread& thread = threads_[index];
  thread.state = Thread::State::kFinished;
  ++finished_;
  const bool none_pending = thread.uncommitted.empty() && std::all_of(thread.groups.begin(), thread.groups.end(),
                                                                      [](const auto& group) { return group.empty(); });
  ROOST_CHECK(none_pending, "thread {} ends with copies that nobody waited for", index);
  ReleaseBarrier();
}

Dim3 Block::thread_index() const {
  return {thread_ % shape_.x, thread_ / shape_.x % shape_.y, thread_ / shape_.x / shape_.y};
}

void* Block::StaticShared(const void* site, std::size_t bytes) {
  auto [found, added] = static_shared_.try_emplace(site);
  if (added) {
    TakeShared(bytes);
    found->second = SharedMemory(bytes);
    races_.Watch({found->second.data(), bytes});
  }
  return found->second.data();
}

void Block::TakeShared(std::size_t bytes) {
  shared_bytes_ += bytes;
  ROOST_CHECK(shared_bytes_ <= kMaxSharedBytes, "{} bytes of shared memory", shared_bytes_);
}

void Block::Wake(std::uint32_t index) {
  threads_[index].state = Thread::State::kReady;
  ready_.push_back(index);
}

bool Block::PassesBarrier(const Place& place) {
  barriers_.insert(place);
  return place == removed_barrier_;
}

void Block::SyncThreads(const Place& place) {
  if (PassesBarrier(place)) return;
  thread().place = place;
  ++at_barrier_;
  thread().state = Thread::State::kAtBarrier;
  ReleaseBarrier();
  fibers_.Suspend();
}

void Block::ReleaseBarrier() {
  if (at_barrier_ == 0 || at_barrier_ + finished_ < threads_.size()) return;
  const Place* place = nullptr;
  for (std::uint32_t i = 0; i < threads_.size(); ++i) {
    if (threads_[i].state != Thread::State::kAtBarrier) continue;
    if (place == nullptr) place = &threads_[i].place;
    if (!(threads_[i].place == *place)) ReportDeadlock();  // they meet at different barriers
  }
  for (std::uint32_t i = 0; i < threads_.size(); ++i) {
    if (threads_[i].state == Thread::State::kAtBarrier) Wake(i);
  }
  at_barrier_ = 0;
  last_barrier_ = *place;
  ++barrier_count_;
  ++counters_.barriers;
}

void Block::Collective(const char* what, std::uint32_t mask, void* operand, void (*compute)(Operands)) {
  Thread& self = thread();
  ROOST_CHECK((mask & LaneBit(thread_)) != 0, "{}: lane {} is not in its mask {:08x}", what, lane(), mask);
  self.what = what;
  self.mask = mask;
  self.operand = operand;
  self.state = Thread::State::kAtCollective;
  const std::uint32_t first = thread_ - lane();
  void* operands[kWarpLanes] = {};
  bool complete = true;
  for (std::uint32_t i = first; i < first + kWarpLanes && complete; ++i) {
    if ((mask & LaneBit(i)) == 0) continue;
    const Thread& other = threads_[i];
    complete = other.state == Thread::State::kAtCollective && other.mask == mask && std::strcmp(other.what, what) == 0;
    operands[i - first] = other.operand;
  }
  if (!complete) {
    fibers_.Suspend();
    return;
  }
  compute(operands);
  ++counters_.collectives;
  self.state = Thread::State::kReady;
  for (std::uint32_t i = first; i < first + kWarpLanes; ++i) {
    if (i != thread_ && (mask & LaneBit(i)) != 0) Wake(i);
  }
}

void Block::SyncWarp(const Place& place, std::uint32_t mask) {
  if (PassesBarrier(place)) return;
  Collective("__syncwarp", mask, this, [](Operands lanes) {
    Block& block = Current();
    const bool all = std::all_of(std::begin(lanes), std::end(lanes), [](const void* lane) { return lane != nullptr; });
    if (all) ++block.sync_counts_[block.thread_ / kWarpLanes];
  });
}

void Block::NotePlain(const void* address, std::size_t bytes, Access access) {
  if (current_block == nullptr) return;
  current_block->Note(address, bytes, access, access == Access::kRead ? "a load" : "a store");
}

void Block::Note(const void* address, std::size_t bytes, Access access, const char* what) {
  const std::uint32_t warp = thread_ / kWarpLanes;
  const Races::Stamp now{
      .barriers = barrier_count_,
      .warp_syncs = sync_counts_[warp],
      .warp = static_cast<std::uint16_t>(warp),
      .lane = access == Access::kWarpRead ? Races::Stamp::kSeveral : static_cast<std::uint16_t>(lane())};
  const Races::Stamp* other = races_.Note(address, bytes, access, now);
  if (other != nullptr) [[unlikely]]
    ReportRace(address, what, *other);
}

void Block::IssueCopy(void* to_shared, const void* from) {
  CheckShared(to_shared, kChunkBytes, kChunkBytes, "cp.async");
  ROOST_CHECK(reinterpret_cast<std::uintptr_t>(from) % kChunkBytes == 0, "cp.async from an unaligned address");
  Note(to_shared, kChunkBytes, Access::kWrite, "cp.async");
  std::memset(to_shared, kPoison, kChunkBytes);
  thread().uncommitted.push_back({to_shared, from});
  ++counters_.async_copies;
}

void Block::CommitCopies() {
  thread().groups.push_back(std::move(thread().uncommitted));
  thread().uncommitted.clear();
}

void Block::WaitForCopies(std::size_t pending_groups) {
  std::deque<std::vector<Copy>>& groups = thread().groups;
  for (; groups.size() > pending_groups; groups.pop_front()) {
    for (const Copy& copy : groups.front()) {
      if (copy.from == nullptr) {
        std::memset(copy.to, 0, kChunkBytes);
      } else {
        std::memcpy(copy.to, copy.from, kChunkBytes);
      }
      Note(copy.to, kChunkBytes, Access::kWrite, "the end of cp.async");
    }
  }
}

void Block::CheckShared(const void* address, std::size_t bytes, std::size_t alignment, const char* what) const {
  ROOST_CHECK(reinterpret_cast<std::uintptr_t>(address) % alignment == 0, "{}: not at a multiple of {}", what,
              alignment);
  const bool found = dynamic_shared_.Holds(address, bytes) ||
                     std::any_of(static_shared_.begin(), static_shared_.end(),
                                 [&](const auto& entry) { return entry.second.Holds(address, bytes); });
  ROOST_CHECK(found, "{}: not in the block's shared memory", what);
}

std::string Block::Describe(const Thread& thread) const {
  switch (thread.state) {
    case Thread::State::kReady: return "ready";
    case Thread::State::kAtBarrier: return fmt::format("at __syncthreads, {}:{}", thread.place.file, thread.place.line);
    case Thread::State::kAtCollective: return fmt::format("at {}, mask {:08x}", thread.what, thread.mask);
    case Thread::State::kFinished: return "finished";
  }
  return {};
}

void Block::ReportDeadlock() const {
  std::map<std::string, std::vector<std::uint32_t>> waiting;
  for (std::uint32_t i = 0; i < threads_.size(); ++i) waiting[Describe(threads_[i])].push_back(i);
  fmt::print(stderr, "deadlock in block ({}, {}, {}):\n", index_.x, index_.y, index_.z);
  for (const auto& [where, who] : waiting) {
    fmt::print(stderr, "  {} {}, of them the first is {} and the last {}\n", who.size(), where, who.front(),
               who.back());
  }
  std::fflush(stderr);
  std::abort();
}

void Block::ReportRace(const void* address, const char* what, const Races::Stamp& other) const {
  const auto name = [](std::uint16_t number) {
    return number == Races::Stamp::kSeveral ? std::string("several") : fmt::format("{}", number);
  };
  const auto offset = static_cast<const std::byte*>(address) - dynamic_shared();
  const bool is_dynamic = dynamic_shared_.Holds(address, 1);
  const std::string where = is_dynamic ? fmt::format("byte {} of dynamic shared memory", offset)
                                       : fmt::format("{}, which is not dynamic shared memory", address);
  fmt::print(stderr,
             "race in block ({}, {}, {}) on {}: {} by warp {}, lane {}, and an access by warp {}, lane {}, "
             "without a barrier between; the last __syncthreads: {}:{}\n",
             index_.x, index_.y, index_.z, where, what, thread_ / kWarpLanes, lane(), name(other.warp),
             name(other.lane), last_barrier_.file == nullptr ? "none" : last_barrier_.file, last_barrier_.line);
  std::fflush(stderr);
  std::abort();
}

}  // namespace roost::simt
