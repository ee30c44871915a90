#include "worker/disk/disk_cache.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/thread_name.h"

namespace roost::worker {

using wire::HoldOutcome;

namespace {

// Between two reports that tell of nothing but what was written.
constexpr std::chrono::milliseconds kTellInterval{250};

}  // namespace

DiskCache::DiskCache(std::unique_ptr<DiskStore> store, ReadableBlocks& readable, FrameInbox& inbox, const Clock& clock,
                     std::function<void()> wake, const Options& options)
    : store_(std::move(store)),
      readable_(readable),
      inbox_(inbox),
      clock_(clock),
      wake_(std::move(wake)),
      options_(options),
      memory_(std::make_shared<FrameMemory>(readable.sizes(), options.frame_count + 1, options.staging)),
      queue_(options.queue_limit),
      pace_(options.write_rate) {
  ROOST_CHECK(readable.sizes().frame_bytes() == store_->frame_bytes());
  CountDrop(DiskDrop::kOrphan, store_->orphan_count());
  (void)Snapshot();
  store_->Follow({.stored = [this](const DiskBlock& block) { Note(block, true); },
                  .removed =
                      [this](const DiskBlock& block, DiskDrop reason) {
                        CountDrop(reason, 1);
                        Note(block, false);
                      }});
}

DiskCache::~DiskCache() { Stop(); }

void DiskCache::Start() {
  writer_ = std::thread([this] { Write(); });
  reader_ = std::thread([this] { Read(); });
}

void DiskCache::Stop() {
  stopping_ = true;
  { const std::lock_guard lock(write_mutex_); }
  write_changed_.notify_all();
  { const std::lock_guard lock(read_mutex_); }
  read_changed_.notify_all();
  memory_->Wake();
  if (writer_.joinable()) writer_.join();
  if (reader_.joinable()) reader_.join();
}

// ---- the engine ----

void DiskCache::Offer(std::span<const DiskOffer> blocks) {
  if (is_off_) return;
  std::uint32_t dropped = 0;
  {
    const std::lock_guard lock(write_mutex_);
    for (const DiskOffer& offer : blocks) {
      if (!store_->Use(offer.block.hash)) dropped += queue_.Push(offer);
    }
  }
  CountDrop(DiskDrop::kQueueFull, dropped);
  write_changed_.notify_one();
}

std::uint32_t DiskCache::CountFront(const FrameChain& chain) const {
  return is_off_ || is_hidden_ || wrong_count_ > 0 ? 0 : store_->CountFront(chain);
}

double DiskCache::SecondsFor(std::uint32_t block_count) const {
  const std::uint64_t frame_bytes = store_->frame_bytes();
  return read_rate_.SecondsFor(block_count * frame_bytes, awaited_count_.load() * frame_bytes, clock_.Now());
}

void DiskCache::Erase(std::uint64_t id, wire::Evict order) { PostErasure({.id = id, .what = std::move(order)}); }
void DiskCache::Drop(BlockHash block) {
  ++wrong_count_;
  PostErasure({.id = std::nullopt, .what = block, .is_wrong = true});
}
void DiskCache::Distrust(const std::string& /*worker_id*/) {
  LogWarning("all blocks on disk are dropped", {{"why", "one of them was wrong"}});
  ++wrong_count_;
  PostErasure({.id = std::nullopt, .what = std::monostate(), .is_wrong = true});
}

void DiskCache::PostErasure(EraseTask task) {
  {
    const std::lock_guard lock(write_mutex_);
    erases_.push_back(std::move(task));
  }
  write_changed_.notify_one();
}

// ---- news ----

void DiskCache::Note(const DiskBlock& block, bool is_stored) {
  const std::lock_guard lock(news_mutex_);
  changes_.Add(block, is_stored);
  has_news_.store(true, std::memory_order_release);
}

DiskNews DiskCache::TakeNews() {
  DiskNews news;
  const std::lock_guard lock(news_mutex_);
  changes_.Tell(news);
  news.bytes_per_second = is_off_ ? 0 : read_rate_.bytes_per_second();
  if (changes_.empty()) news.erased = std::exchange(erased_, {});  // behind what has left
  has_news_.store(!changes_.empty() || !erased_.empty(), std::memory_order_release);
  return news;
}

std::vector<wire::StoredRun> DiskCache::Snapshot() {
  std::vector<wire::StoredRun> runs;
  store_->Visit([&](const DiskIndex& index) {
    const std::lock_guard lock(news_mutex_);
    changes_.TellAll(index);
    runs = index.Runs();
  });
  return runs;
}

void DiskCache::WakeSoon() {
  if (has_news() && clock_.Now() >= last_wake_ + kTellInterval) WakeNow();
}

void DiskCache::WakeNow() {
  last_wake_ = clock_.Now();
  wake_();
}

bool DiskCache::WriteOut() {
  const std::lock_guard lock(write_mutex_);
  if (!writes_out_.exchange(true)) write_changed_.notify_one();
  return is_off_ || is_full_ || (queue_.empty() && !is_writing_);
}

DiskCounts DiskCache::counts() const {
  DiskCounts counts;
  for (std::size_t i = 0; i < dropped_.size(); ++i) counts.dropped[i] = dropped_[i].load();
  counts.written_bytes = written_bytes_.load();
  counts.used_bytes = store_->used_bytes();
  store_->Visit([&](const DiskIndex& index) { counts.blocks = index.size(); });
  counts.is_available = !is_off_;
  return counts;
}

// ---- the writer ----

void DiskCache::Write() {
  NameThisThread("disk-write");
  while (!stopping_) {
    if (WriteNext()) {
      WakeSoon();
      continue;
    }
    std::unique_lock lock(write_mutex_);
    const bool has_blocks = !queue_.empty() && !is_off_;
    if (has_news() && !has_blocks) {
      lock.unlock();
      WakeNow();
      lock.lock();
    }
    const bool is_bounded = !writes_out_;
    const auto has_more_to_do = [&] { return stopping_ || !erases_.empty() || (is_bounded && writes_out_); };
    if (has_blocks || !unfinished_.empty()) {
      const Instant next = !has_blocks           ? next_removal_
                           : unfinished_.empty() ? pace_.next()
                                                 : std::min(pace_.next(), next_removal_);
      const Duration pause = std::max<Duration>(next - clock_.Now(), std::chrono::microseconds(1));
      (void)write_changed_.wait_for(lock, pause, has_more_to_do);
    } else {
      write_changed_.wait(lock, [&] { return has_more_to_do() || (!queue_.empty() && !is_off_); });
    }
  }
}

bool DiskCache::WriteNext() {
  if (EndErasures()) return true;
  if (writes_out_) pace_.Lift();
  std::optional<EraseTask> task;
  std::optional<DiskBlock> block;
  {
    const std::lock_guard lock(write_mutex_);
    if (!erases_.empty()) {
      task = std::move(erases_.front());
      erases_.pop_front();
    } else if (queue_.empty() || is_off_ || clock_.Now() < pace_.next()) {
      return false;
    }
  }
  if (task) {
    CarryOut(*task);
    return true;
  }
  const Result<DiskStore::Prepared> prepared = store_->PrepareStep();
  if (!prepared.ok()) {
    NoteFailure(prepared.error());
    return true;
  }
  is_full_ = false;
  CountWritten(prepared->written_bytes);
  if (prepared->room == DiskStore::Room::kWorked) return true;
  {
    const std::lock_guard lock(write_mutex_);
    block = queue_.Pop();
    is_writing_ = block.has_value();
  }
  if (!block) return true;
  WriteBlock(*block);
  const std::lock_guard lock(write_mutex_);
  is_writing_ = false;
  return true;
}

// A block that is there already is not written again.
void DiskCache::WriteBlock(const DiskBlock& block) {
  if (store_->Use(block.hash)) return;
  std::optional<FrameBuffer> copy = memory_->Take([this] { return !stopping_; });
  if (!copy) return;
  if (!store_->Takes(block)) {
    CountDrop(DiskDrop::kOrphan, 1);
  } else if (!readable_.Read(block.hash, block.tenant, *copy)) {
    CountDrop(DiskDrop::kQueueFull, 1);
  } else if (const Result<void> written = store_->Append(block, *copy); !written.ok()) {
    NoteFailure(written.error());
  } else {
    CountWritten(store_->frame_bytes());
  }
}

void DiskCache::CountWritten(std::uint64_t bytes) {
  if (bytes == 0) return;
  written_bytes_ += bytes;
  pace_.Count(bytes, clock_.Now());
}

void DiskCache::CarryOut(const EraseTask& task) {
  DiskStore::Erasure erasure;
  DiskDrop reason = DiskDrop::kErased;
  if (const auto* const order = std::get_if<wire::Evict>(&task.what)) {
    erasure = store_->ErasureOf(*order);
  } else if (const auto* const block = std::get_if<BlockHash>(&task.what)) {
    erasure.tops = {*block};
    reason = DiskDrop::kUnreadable;
  } else {
    store_->Visit([&](const DiskIndex& index) { erasure.tops = index.FirstBlocks(); });
    reason = DiskDrop::kUnreadable;
  }
  const std::uint32_t count = store_->Erase(erasure, reason);
  if (task.is_wrong) --wrong_count_;
  if (!task.id) return;
  unfinished_.push_back({*task.id, count});
  next_removal_ = clock_.Now();
  (void)EndErasures();
}

// True if erasures that are carried out were told.
bool DiskCache::EndErasures() {
  if (unfinished_.empty() || clock_.Now() < next_removal_) return false;
  next_removal_ = clock_.Now() + kErrorPause;
  if (!store_->RemoveLeftOver().ok()) return false;
  {
    const std::lock_guard lock(news_mutex_);
    for (const DiskNews::Erased& each : std::exchange(unfinished_, {})) erased_.push_back(each);
    has_news_.store(true, std::memory_order_release);
  }
  WakeNow();
  return true;
}

// A full disk is no fault of it.
void DiskCache::NoteFailure(const Error& error) {
  const bool is_full = error.code == ErrorCode::kOverloaded;
  pace_.PauseUntil(clock_.Now() + (is_full ? Duration(kFullPause) : Duration(kErrorPause)));
  if (!is_full) return NoteError(error);
  if (is_full_.exchange(true)) return;
  LogWarning("the disk of blocks is full: nothing is written until there is space", {{"why", error.ToString()}});
}

void DiskCache::NoteError(const Error& error) {
  {
    const std::lock_guard lock(news_mutex_);
    const Instant now = clock_.Now();
    errors_.push_back(now);
    while (errors_.front() + kErrorWindow < now) errors_.pop_front();
    if (errors_.size() == 1) LogWarning("the disk of blocks fails", {{"why", error.ToString()}});
    if (errors_.size() < kMostErrors || is_off_.exchange(true)) return;
    has_news_.store(true, std::memory_order_release);
  }
  LogError("the disk of blocks is off until the worker starts again",
           {{"errors", kMostErrors}, {"seconds", kErrorWindow.count()}, {"last", error.ToString()}});
  wake_();
}

// ---- the reader ----

void DiskCache::Ask(FrameRequest request) {
  const HoldId id = request.id;
  if (stopping_ || is_off_) return inbox_.Push(FramesEnded{id, HoldOutcome::kMissing});
  auto asked = std::make_shared<Asked>();
  awaited_count_ += request.chain.size();
  asked->request = std::move(request);
  {
    const std::lock_guard lock(read_mutex_);
    asked_.push_back(std::move(asked));
  }
  read_changed_.notify_one();
}

void DiskCache::Cancel(HoldId id) {
  {
    const std::lock_guard lock(read_mutex_);
    for (const auto& asked : asked_) {
      if (asked->request.id == id) asked->is_cancelled = true;
    }
  }
  memory_->Wake();
}

void DiskCache::Read() {
  NameThisThread("disk-read");
  while (!stopping_) {
    if (ReadNext()) continue;
    std::unique_lock lock(read_mutex_);
    read_changed_.wait(lock, [&] { return stopping_ || !asked_.empty(); });
  }
}

bool DiskCache::ReadNext() {
  std::shared_ptr<Asked> asked;
  {
    const std::lock_guard lock(read_mutex_);
    if (asked_.empty()) return false;
    asked = asked_.front();
  }
  const FrameChain& chain = asked->request.chain;
  const auto is_wanted = [&] { return !stopping_ && !asked->is_cancelled; };
  std::optional<FrameBuffer> frame;
  if (asked->next < chain.size()) frame = memory_->Take(is_wanted);
  if (asked->next == chain.size()) {
    EndRead(asked, HoldOutcome::kComplete);
  } else if (!frame || is_off_) {
    EndRead(asked, HoldOutcome::kCancelled);
  } else if (wrong_count_ > 0) {
    EndRead(asked, HoldOutcome::kMissing);
  } else {
    const Instant begin = clock_.Now();
    Result<OpenedFrame> opened = store_->Read(chain, asked->next, *frame);
    if (opened.ok()) memory_->Stage(*frame);
    const Instant now = clock_.Now();
    if (opened.ok()) {
      read_rate_.Learn(store_->frame_bytes(), ToSeconds(now - begin), now);
      --awaited_count_;
      inbox_.Push(ArrivedFrame{asked->request.id, asked->next++, *std::move(frame), std::move(opened).value(), now});
    } else {
      if (opened.error().code != ErrorCode::kNotFound) {
        NoteError(opened.error());
        PostErasure({.id = std::nullopt, .what = chain.hashes[asked->next]});
      }
      EndRead(asked, HoldOutcome::kMissing);
    }
  }
  return true;
}

void DiskCache::EndRead(const std::shared_ptr<Asked>& asked, HoldOutcome outcome) {
  awaited_count_ -= asked->request.chain.size() - asked->next;
  {
    const std::lock_guard lock(read_mutex_);
    asked_.pop_front();
  }
  inbox_.Push(FramesEnded{asked->request.id, outcome});
}

}  // namespace roost::worker
