#include "worker/engine/holds.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace roost::worker {
namespace {

std::uint64_t Microseconds(Duration time) {
  return static_cast<std::uint64_t>(
      std::max<Duration::rep>(std::chrono::duration_cast<std::chrono::microseconds>(time).count(), 0));
}

}  // namespace

SourceId BlockSources::IdOf(const std::string& name) {
  const auto known = ids_.find(name);
  if (known != ids_.end()) return known->second;
  if (ids_.size() == kMaxNamed) return SourceId(kMaxNamed + 1);
  return ids_.emplace(name, SourceId(static_cast<std::uint16_t>(ids_.size() + 1))).first->second;
}

std::string BlockSources::NameOf(SourceId id) const {
  const auto is_it = [id](const auto& known) { return known.second == id; };
  const auto known = std::find_if(ids_.begin(), ids_.end(), is_it);
  return known == ids_.end() ? "one of many workers" : known->first;
}

std::optional<OrderReply> Holds::Begin(LinkId link, const wire::Hold& hold, const std::optional<HoldReceipt>& receipt,
                                       EvictionGroup group) {
  if (!receipt || ways_.source == nullptr || ways_.readable == nullptr) return Refusal(hold);
  ArrivalSpec spec{.id = receipt->id,
                   .chain = ChainOf(hold),
                   .tenant = hold.tenant,
                   .group = group,
                   .source = sources_.IdOf(hold.source.worker_id),
                   .purpose = hold.purpose,
                   .follows = hold.source.follow,
                   .hit_count = hold.hits,
                   .begin = receipt->received,
                   .patience_end = receipt->received + std::chrono::milliseconds(hold.patience_ms)};
  if (!arrivals_.Begin(std::move(spec))) {
    Cancel(ways_.source, receipt->id);
    return Refusal(hold);
  }
  arrivals_.EndRestoresOf(hold.hashes);
  open_.emplace(receipt->id, Open{link, hold.answer_id});
  return std::nullopt;
}

void Holds::TakeNews() {
  if (ways_.arriving == nullptr || !ways_.arriving->has_news()) return;
  std::vector<FrameNews> fresh = ways_.arriving->Take();
  std::move(fresh.begin(), fresh.end(), std::back_inserter(news_));
}

void Holds::HandOver() {
  for (FrameNews& news : std::exchange(news_, {})) arrivals_.Take(std::move(news));
}

void Holds::Answer(Instant now, StepReport& report) {
  if (!arrivals_.has_ended()) return;
  for (const EndedArrival& ended : arrivals_.TakeEnded()) {
    if (!ended.source_ended) Cancel(ended.is_restore ? ways_.disk : ways_.source, ended.id);
    if (ended.is_restore) {
      Count(AnswerOf(ended, now, 0), report.counts.restored);
      continue;
    }
    const Open order = open_.extract(ended.id).mapped();
    const wire::HoldAnswer answer = AnswerOf(ended, now, order.answer_id);
    Count(answer, report.counts.pulled);
    report.answers.push_back({order.link, answer});
  }
}

// The time that the blocks took, without that of the step under way when the last one came.
wire::HoldAnswer Holds::AnswerOf(const EndedArrival& ended, Instant now, std::uint64_t answer_id) const {
  const Instant end = ended.outcome == wire::HoldOutcome::kComplete ? ended.last_frame.value_or(now) : now;
  wire::HoldAnswer answer{.answer_id = answer_id,
                          .held_block_count = ended.held_count,
                          .arrived_block_count = ended.arrived_count,
                          .missing_block_count = ended.missing_count,
                          .bytes = std::uint64_t{ended.arrived_count} * ways_.readable->sizes().frame_bytes(),
                          .microseconds = Microseconds(end - ended.begin),
                          .outcome = ended.outcome,
                          .cause = ended.cause};
  if (ended.first_frame) {
    answer.first_frame_microseconds = std::max<std::uint64_t>(1, Microseconds(*ended.first_frame - ended.begin));
  }
  return answer;
}

void Holds::Count(const wire::HoldAnswer& answer, ArrivalCounts& counts) const {
  constexpr double kMicrosecond = 1e-6;
  ++counts.ends[static_cast<std::size_t>(answer.outcome)];
  if (answer.arrived_block_count == 0) return;
  counts.blocks += answer.arrived_block_count;
  counts.bytes += answer.bytes;
  counts.prefill_seconds += pace_.rates().prefill_seconds(answer.arrived_block_count * block_tokens_);
  counts.seconds.push_back(static_cast<double>(answer.microseconds) * kMicrosecond);
  counts.first_frame_seconds.push_back(static_cast<double>(answer.first_frame_microseconds) * kMicrosecond);
}

std::uint64_t Holds::Distrust(std::span<const SourceId> sources, Erasures& erasures) const {
  std::uint64_t total = 0;
  for (const SourceId source : sources) {
    const bool is_disk = source == kDiskSource;
    const std::string name = is_disk ? "the disk" : sources_.NameOf(source);
    FrameSource* const from = is_disk ? ways_.disk : ways_.source;
    if (from != nullptr) from->Distrust(name);
    // Some of what came from there may be on disk by now.
    if (!is_disk && ways_.disk != nullptr) ways_.disk->Distrust(name);
    const std::uint32_t count = erasures.DiscardFrom(source);
    total += count;
    spdlog::warn("{} blocks are discarded, because they came from {} or stand behind such a block", count, name);
  }
  return total;
}

void Holds::Cancel(FrameSource* source, HoldId id) {
  if (source != nullptr) source->Cancel(id);
}

}  // namespace roost::worker
