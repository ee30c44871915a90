// A worker's Holds, as worker/engine/holds.cc and engine_thread.cc carry them out.
#include <algorithm>
#include <chrono>
#include <utility>

#include "deploy/roostctl/simulate/sim_worker.h"
#include "worker/cache/cache_travel.h"

namespace roost::simulate {

using worker::HoldId;

// The blocks are asked for at once, not at the engine's next step.
void SimWorker::TakeHold(std::uint32_t router, wire::Hold hold) {
  if (block_links_ == nullptr) return send_(router, std::get<wire::HoldAnswer>(worker::Refusal(hold)));
  const HoldId id(++last_received_hold_);
  worker::FrameRequest request{.id = id,
                               .chain = worker::ChainOf(hold),
                               .peer = {.worker_id = hold.source.worker_id, .address = hold.source.address},
                               .follow = std::chrono::milliseconds(hold.source.follow ? hold.patience_ms : 0)};
  inbox_.push_back({.router = router, .message = std::move(hold), .receipt = {{id, timeline_.Now()}}});
  block_links_->Ask(index_, std::move(request));
  StartStep();
}

void SimWorker::BeginHold(std::uint32_t router, const wire::Hold& hold, worker::HoldReceipt receipt) {
  worker::ArrivalSpec spec{.id = receipt.id,
                           .chain = worker::ChainOf(hold),
                           .tenant = hold.tenant,
                           .source = worker::SourceId(1),
                           .purpose = hold.purpose,
                           .follows = hold.source.follow,
                           .begin = receipt.received,
                           .patience_end = receipt.received + std::chrono::milliseconds(hold.patience_ms)};
  if (!scheduler_.arrivals().Begin(std::move(spec))) {
    block_links_->Cancel(index_, receipt.id);
    return send_(router, std::get<wire::HoldAnswer>(worker::Refusal(hold)));
  }
  scheduler_.arrivals().EndRestoresOf(hold.hashes);
  holds_.emplace(receipt.id, OpenHold{router, hold.answer_id});
}

void SimWorker::TakeArrived() {
  if (!has_arrivals()) return;
  worker::Arrivals& arrivals = scheduler_.arrivals();
  for (worker::FrameNews& news : std::exchange(news_, {})) arrivals.Take(std::move(news));
  const Instant now = timeline_.Now();
  arrivals.EndUnwanted(
      now, [this](BlockHash block, std::uint32_t position) { return scheduler_.sequences().Wants(block, position); });
  arrivals.Advance(now, writes_);
}

void SimWorker::AwaitArrivals() {
  if (!has_arrivals()) return;
  const std::uint64_t plan = ++wait_plan_;
  std::optional<Instant> end = scheduler_.arrivals().NextEnd();
  if (!end) return;
  const Instant soonest = timeline_.Now() + std::chrono::milliseconds(1);
  if (const std::optional<Instant> wait = scheduler_.AwaitsArrivalsUntil()) end = std::min(*end, *wait);
  // With requests that decode, each of their steps looks whether one that waits can begin.
  if (decode_.request_count() > 0 && scheduler_.Load().waiting_requests > 0) end = soonest;
  timeline_.At(std::max(*end, soonest), [this, plan] {
    if (plan == wait_plan_ && !is_gone_) StartStep();
  });
}

void SimWorker::AnswerHolds() {
  if (!has_arrivals()) return;
  writes_.clear();
  if (block_links_ != nullptr) block_links_->OnRoom(index_);
  for (const worker::EndedArrival& ended : scheduler_.arrivals().TakeEnded()) {
    ended.is_restore ? EndRestore(ended) : AnswerHold(ended);
  }
}

void SimWorker::AnswerHold(const worker::EndedArrival& ended) {
  const Instant now = timeline_.Now();
  const auto micros = [](Duration time) {
    return static_cast<std::uint64_t>(
        std::max<Duration::rep>(std::chrono::duration_cast<std::chrono::microseconds>(time).count(), 0));
  };
  if (!ended.source_ended) block_links_->Cancel(index_, ended.id);
  const OpenHold hold = holds_.extract(ended.id).mapped();
  wire::HoldAnswer answer{.answer_id = hold.answer_id,
                          .held_block_count = ended.held_count,
                          .arrived_block_count = ended.arrived_count,
                          .missing_block_count = ended.missing_count,
                          .bytes = ended.arrived_count * block_links_->frame_bytes(),
                          .microseconds = micros(now - ended.begin),
                          .outcome = ended.outcome};
  if (ended.first_frame) {
    answer.first_frame_microseconds = std::max<std::uint64_t>(1, micros(*ended.first_frame - ended.begin));
  }
  if (ended.arrived_count > 0) ++pulls_.pull_count;
  pulls_.token_count += std::uint64_t{ended.arrived_count} * text_.block_tokens();
  send_(hold.router, answer);
}

// ---- the disk ----

void SimWorker::EndRestore(const worker::EndedArrival& ended) {
  if (!ended.source_ended) disk_->Cancel(ended.id);
  restores_.restore_count += ended.arrived_count > 0 ? 1 : 0;
  restores_.token_count += std::uint64_t{ended.arrived_count} * text_.block_tokens();
}

std::vector<wire::CacheEvent> SimWorker::TellDisk() {
  worker::DiskNews news = disk_->TakeNews();
  load_.disk_block_count = news.block_count;
  load_.disk_digest = news.digest;
  load_.disk_bytes_per_second = news.bytes_per_second;
  load_.block_bytes = disk_->frame_bytes();
  return std::move(news.events);
}

// ---- blocks that others may read ----

// All that is committed is written: no step is under way.
void SimWorker::Publish() {
  if (block_links_ == nullptr) return;
  Retract();
  worker::PrefixCache& cache = kept_.cache();
  std::vector<worker::PublishedBlock> published;
  for (const worker::BlockRef ref : std::exchange(stored_, {})) {
    if (cache.pool().generation(ref.block) != ref.generation || !cache.IsReady(ref.block)) continue;
    const worker::ReadyBlock block = Describe(cache.tree(), ref.block);
    published.push_back({.block = ref.block,
                         .about = {.position = block.position,
                                   .hash = block.hash,
                                   .parent = block.parent,
                                   .root = block.root,
                                   .tenant = worker::TenantHash(cache.tenants().name(block.tenant))},
                         .tokens = block.tokens});
  }
  readable_->Publish(published);
  if (!published.empty()) block_links_->OnPublished(index_);
}

// The step that begins may write to the blocks that have left.
void SimWorker::Retract() {
  if (block_links_ == nullptr) return;
  readable_->Retract(changes_.removed);
  stored_.insert(stored_.end(), changes_.stored.begin(), changes_.stored.end());
  changes_.Clear();
}

}  // namespace roost::simulate
