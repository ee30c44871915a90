#include "deploy/roostctl/simulate/block_links.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "worker/transfer/block_server.h"
#include "worker/transfer/block_transfer.h"
#include "worker/transfer/peers.h"

namespace roost::simulate {

using wire::HoldOutcome;
using worker::FrameChain;
using worker::FrameSizes;
using worker::HoldId;

namespace {

class EmptyBlockReader final : public worker::BlockReader {
 public:
  [[nodiscard]] std::size_t block_bytes() const override { return 0; }
  void Read(BlockId /*block*/, std::span<std::byte> /*to*/, const std::function<void()>& may_change) const override {
    may_change();
  }
};

}  // namespace

std::unique_ptr<worker::BlockReader> MakeEmptyBlockReader() { return std::make_unique<EmptyBlockReader>(); }

std::uint64_t LinkOptions::FrameBytes(std::uint32_t block_tokens) const {
  return FrameSizes{.block_tokens = block_tokens, .data_bytes = block_tokens * kv_bytes_per_token}.frame_bytes();
}

BlockLinks::BlockLinks(const LinkOptions& options, std::uint32_t block_tokens, std::vector<LinkSpec> workers,
                       Duration delay, Timeline& timeline)
    : bytes_per_second_(options.gigabits_per_second * 1e9 / 8),
      frame_bytes_(options.FrameBytes(block_tokens)),
      delay_(delay),
      timeline_(timeline),
      workers_(workers.size()) {
  const Result<std::size_t> frames = worker::FrameCountOf(
      {.block_tokens = block_tokens, .data_bytes = block_tokens * options.kv_bytes_per_token}, 0, std::nullopt);
  for (std::size_t i = 0; i < workers.size(); ++i) {
    workers_[i].link = workers[i];
    workers_[i].memory = std::make_shared<worker::FrameMemory>(FrameSizes{.block_tokens = block_tokens}, *frames);
  }
}

void BlockLinks::Attach(Place place) {
  index_by_id_[place.worker_id] = place.index;
  workers_[place.index].place = std::move(place);
}

void BlockLinks::Detach(std::uint32_t consumer) {
  Worker& worker = workers_[consumer];
  worker.place.reset();
  for (const auto& peer : worker.peers) {
    for (const FetchPtr& fetch : std::exchange(peer->fetches, {})) Forget(*fetch);
  }
  worker.asked_count = 0;
  worker.stalled.clear();
  // Fetches from it end when the others see it, at their next frame.
  OnPublished(consumer);
}

// ---- a consumer's requests ----

void BlockLinks::Ask(std::uint32_t consumer, worker::FrameRequest request) {
  Worker& worker = workers_[consumer];
  const HoldId id = request.id;
  const auto tell = [&worker](worker::FrameNews news) { worker.place->tell(std::move(news)); };
  if (const auto first = FindCovering(worker, request.chain)) return tell(worker::FramesJoined{id, *first});
  if (worker.pauses.IsPaused(request.peer, timeline_.Now())) {
    return tell(worker::FramesEnded{id, HoldOutcome::kBroken});
  }
  const auto source = index_by_id_.find(request.peer.worker_id);
  if (source == index_by_id_.end()) return tell(worker::FramesEnded{id, HoldOutcome::kBroken});
  Peer* const peer = worker.asked_count < worker::kMaxAsked ? PeerFor(worker, request) : nullptr;
  if (peer == nullptr) return tell(worker::FramesEnded{id, HoldOutcome::kBusy});
  auto fetch = std::make_shared<Fetch>();
  fetch->request = std::move(request);
  fetch->consumer = consumer;
  fetch->source = source->second;
  ++worker.asked_count;
  worker.arriving_count += fetch->request.chain.size();
  peer->fetches.push_back(fetch);
  if (peer->fetches.size() == 1) Begin(fetch);
}

std::optional<HoldId> BlockLinks::FindCovering(const Worker& consumer, const FrameChain& chain) {
  for (const auto& peer : consumer.peers) {
    for (const FetchPtr& fetch : peer->fetches) {
      const FrameChain& other = fetch->request.chain;
      if (fetch->is_cancelled || other.first_position != chain.first_position || other.size() < chain.size()) continue;
      if (other.tenant == chain.tenant && std::equal(chain.hashes.begin(), chain.hashes.end(), other.hashes.begin())) {
        return fetch->request.id;
      }
    }
  }
  return std::nullopt;
}

BlockLinks::Peer* BlockLinks::PeerFor(Worker& consumer, const worker::FrameRequest& request) const {
  const bool follows = request.follow.count() > 0;
  Peer* idle = nullptr;
  std::size_t busy_count = 0;  // with fetches of this kind
  for (const auto& peer : consumer.peers) {
    if (peer->fetches.empty()) {
      if (idle == nullptr || peer->place == request.peer) idle = peer.get();
      continue;
    }
    if (peer->follows != follows) continue;
    ++busy_count;
    if (!follows && peer->place == request.peer) return peer.get();
  }
  if (busy_count >= (follows ? worker::kMaxFollowed : std::size_t{worker::kDefaultPulls})) return nullptr;
  if (idle == nullptr) idle = consumer.peers.emplace_back(std::make_unique<Peer>()).get();
  idle->place = request.peer;
  idle->follows = follows;
  return idle;
}

void BlockLinks::Cancel(std::uint32_t consumer, HoldId id) {
  for (const auto& peer : workers_[consumer].peers) {
    for (const FetchPtr& fetch : peer->fetches) {
      if (fetch->request.id != id) continue;
      fetch->is_cancelled = true;
      OnPublished(fetch->source);  // it sees that if it follows
    }
  }
  OnRoom(consumer);  // those that wait for memory see it
}

// Later, because engines call it in the middle of their steps.
void BlockLinks::OnPublished(std::uint32_t source) {
  if (workers_[source].followers.empty()) return;
  timeline_.At(timeline_.Now(), [this, source] {
    for (const FetchPtr& fetch : std::exchange(workers_[source].followers, {})) waiting_.push_back(fetch);
    StartFrames();
  });
}

// Later, because a consumer's engine calls it in the middle of its step.
void BlockLinks::OnRoom(std::uint32_t consumer) {
  if (workers_[consumer].stalled.empty()) return;
  timeline_.At(timeline_.Now(), [this, consumer] {
    for (const FetchPtr& fetch : std::exchange(workers_[consumer].stalled, {})) QueueFrame(fetch);
    StartFrames();
  });
}

// ---- a fetch ----

void BlockLinks::Begin(const FetchPtr& fetch) {
  Worker& consumer = workers_[fetch->consumer];
  if (fetch->is_cancelled) return End(fetch, {.outcome = HoldOutcome::kCancelled, .was_tried = false});
  if (consumer.pauses.IsPaused(fetch->request.peer, timeline_.Now())) return End(fetch, {.was_tried = false});
  fetch->next = consumer.place->readable->CountFront(fetch->request.chain);
  consumer.arriving_count -= fetch->next;
  if (fetch->next == fetch->request.chain.size()) {
    return End(fetch, {.outcome = HoldOutcome::kComplete, .was_tried = false});
  }
  timeline_.After(delay_, [this, fetch] { ReachSource(fetch); });
}

void BlockLinks::ReachSource(const FetchPtr& fetch) {
  if (fetch->is_over) return;
  Worker& source = workers_[fetch->source];
  if (!source.place) return End(fetch, {});
  if (source.reader_count >= worker::kDefaultReaders) return End(fetch, {.outcome = HoldOutcome::kBusy});
  fetch->is_served = true;
  ++source.reader_count;
  source.leaving_count += fetch->request.chain.size() - fetch->next;
  if (fetch->request.follow.count() > 0) {
    fetch->follow_end = timeline_.Now() + fetch->request.follow;
    timeline_.At(fetch->follow_end, [this, source = fetch->source] { OnPublished(source); });
  }
  QueueFrame(fetch);
  StartFrames();
}

// The next frame waits for memory, and then for the two ends of its way.
void BlockLinks::QueueFrame(const FetchPtr& fetch) {
  if (fetch->is_over) return;
  if (fetch->is_cancelled) return End(fetch, {.outcome = HoldOutcome::kCancelled});
  Worker& consumer = workers_[fetch->consumer];
  if (consumer.memory->used() >= consumer.memory->limit()) {
    consumer.stalled.push_back(fetch);
    return;
  }
  fetch->frame = *consumer.memory->Take([] { return true; });
  waiting_.push_back(fetch);
}

// A fetch that ends within may ask for more, and that waits for its turn.
void BlockLinks::StartFrames() {
  if (std::exchange(is_starting_, true)) return;
  for (auto each = waiting_.begin(); each != waiting_.end();) {
    const FetchPtr fetch = *each;
    if (!fetch->is_over && (workers_[fetch->source].sends || workers_[fetch->consumer].receives)) {
      ++each;
      continue;
    }
    each = waiting_.erase(each);
    StartFrame(fetch);
  }
  is_starting_ = false;
}

void BlockLinks::StartFrame(const FetchPtr& fetch) {
  if (fetch->is_over) return;
  Worker& source = workers_[fetch->source];
  Worker& consumer = workers_[fetch->consumer];
  if (fetch->is_cancelled) return End(fetch, {.outcome = HoldOutcome::kCancelled});
  if (!source.place) return End(fetch, {});
  if (IsBroken(source)) {
    timeline_.After(worker::kPeerSilence, [this, fetch] {
      if (!fetch->is_over) End(fetch, {});
    });
    return;
  }
  const FrameChain& chain = fetch->request.chain;
  if (!source.place->readable->Read(chain.hashes[fetch->next], chain.tenant, fetch->frame)) {
    if (timeline_.Now() < fetch->follow_end) return source.followers.push_back(fetch);
    return End(fetch, {.outcome = HoldOutcome::kMissing});
  }
  source.sends = consumer.receives = true;
  timeline_.After(FrameTime(source), [this, &source] {
    source.sends = false;
    StartFrames();
  });
  timeline_.After(FrameTime(consumer), [this, &consumer] {
    consumer.receives = false;
    StartFrames();
  });
  timeline_.After(std::max(FrameTime(source), FrameTime(consumer)), [this, fetch] { OnFrame(fetch); });
}

void BlockLinks::OnFrame(const FetchPtr& fetch) {
  if (fetch->is_over) return;
  Worker& source = workers_[fetch->source];
  Worker& consumer = workers_[fetch->consumer];
  const FrameChain& chain = fetch->request.chain;
  Result<worker::OpenedFrame> opened = worker::OpenFrame(fetch->frame, chain, fetch->next);
  ROOST_CHECK(opened.ok(), "{}", opened.error().ToString());
  --source.leaving_count;
  --consumer.arriving_count;
  const std::uint32_t index = fetch->next++;
  consumer.place->tell(worker::ArrivedFrame{.id = fetch->request.id,
                                            .index = index,
                                            .buffer = std::move(fetch->frame),
                                            .opened = std::move(opened).value(),
                                            .at = timeline_.Now()});
  if (fetch->next == chain.size()) return End(fetch, {.outcome = HoldOutcome::kComplete});
  QueueFrame(fetch);
  StartFrames();
}

void BlockLinks::End(const FetchPtr& fetch, Outcome outcome) {
  Worker& consumer = workers_[fetch->consumer];
  if (outcome.was_tried) (void)consumer.pauses.OnEnd(fetch->request.peer, outcome.outcome, timeline_.Now());
  Forget(*fetch);
  --consumer.asked_count;
  const auto peer = std::find_if(consumer.peers.begin(), consumer.peers.end(), [&](const auto& each) {
    return !each->fetches.empty() && each->fetches.front() == fetch;
  });
  Peer& of = **peer;
  of.fetches.pop_front();
  const FetchPtr next = of.fetches.empty() ? nullptr : of.fetches.front();
  consumer.place->tell(worker::FramesEnded{fetch->request.id, outcome.outcome});
  if (next != nullptr) Begin(next);
}

void BlockLinks::Forget(Fetch& fetch) {
  const std::uint32_t left = fetch.request.chain.size() - fetch.next;
  fetch.is_over = true;
  fetch.frame = {};
  workers_[fetch.consumer].arriving_count -= left;
  OnRoom(fetch.consumer);
  if (!fetch.is_served) return;
  Worker& source = workers_[fetch.source];
  source.leaving_count -= left;
  --source.reader_count;
}

// ---- the links ----

bool BlockLinks::IsBroken(const Worker& source) const {
  return source.link.breaks_after && timeline_.Now() - Instant{} >= *source.link.breaks_after;
}

Duration BlockLinks::FrameTime(const Worker& worker) const {
  return FromSeconds(static_cast<double>(frame_bytes_) / (bytes_per_second_ * worker.link.speed));
}

std::uint64_t BlockLinks::ArrivingBytes(std::uint32_t consumer) const {
  return workers_[consumer].arriving_count * frame_bytes_;
}

std::uint64_t BlockLinks::LeavingBytes(std::uint32_t source) const {
  return workers_[source].leaving_count * frame_bytes_;
}

}  // namespace roost::simulate
