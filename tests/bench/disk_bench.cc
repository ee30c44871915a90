// The worth of a disk of blocks: traces served by the real engine, one request after the other, with a pool of an
// eighth of their blocks. A trace's block is a small block of a model that computes nothing, so bytes and hits are real
// and no time passes but that which the write rate is measured against: a second for each block that is computed.
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/rng.h"
#include "common/prefix/block_hash.h"
#include "tests/bench/bench.h"
#include "tests/bench/memory_folder.h"
#include "tests/support/eviction_cells.h"
#include "tests/support/fake_model.h"
#include "tests/support/shared_data.h"
#include "worker/disk/disk_cache.h"
#include "worker/engine/engine.h"

namespace roost::bench {
namespace {

using testing_support::EvictionCase;
using workload::ContentId;
using workload::Trace;
using workload::TraceRequest;

constexpr std::uint32_t kModelBlockTokens = 8;  // of the model's blocks
constexpr std::uint32_t kVocab = 97;
constexpr BlockHash kRoot{11, 22};
constexpr std::uint64_t kSegmentBytes = 1U << 20U;

struct Setting {
  std::uint32_t pool_blocks = 0;
  bool has_disk = false;
  double most_written = 0;  // per computed block; 0: no bound
  bool restarts = false;    // before the second half
};

struct Counted {
  std::uint64_t prompt_blocks = 0;
  std::uint64_t hit_blocks = 0;
  std::uint64_t computed_blocks = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t frame_bytes = 1;

  [[nodiscard]] double hits() const {
    return 100 * static_cast<double>(hit_blocks) / static_cast<double>(prompt_blocks);
  }
  [[nodiscard]] double written_per_computed() const {
    return static_cast<double>(written_bytes) / static_cast<double>(frame_bytes * computed_blocks);
  }
};

// A worker between two starts.
class Life {
 public:
  Life(const Trace& trace, const Setting& setting, const MemoryFolder& folder, std::uint32_t most_blocks)
      : trace_(trace),
        model_({.block_tokens = kModelBlockTokens,
                .block_count = setting.pool_blocks,
                .vocab_size = kVocab,
                .max_context_tokens = (most_blocks + 2) * kModelBlockTokens,
                .clock = &clock_,
                .duration_of = [this](const worker::Batch& batch) { return PassTime(batch); }}),
        readable_(model_.MakeBlockReader(), setting.pool_blocks, kModelBlockTokens) {
    if (setting.has_disk) OpenDisk(setting, folder);
    worker::EngineOptions options{.max_batch_tokens = 1U << 20U};
    if (disk_ != nullptr) {
      options.readable = &readable_;
      options.arriving = &inbox_;
      options.source = disk_.get();
      options.disk = disk_.get();
    }
    engine_ = std::make_unique<worker::Engine>(model_, clock_, options);
  }

  void Serve(const TraceRequest& request, Counted& counted) {
    wire::Generate generate;
    generate.request_id = RequestId(++last_id_);
    for (const ContentId id : request.blocks) AppendTokens(id, generate.prompt);
    generate.prompt.push_back(0);
    generate.root = kRoot;
    generate.block_hashes = HashBlocks(kRoot, generate.prompt, kModelBlockTokens);
    generate.sampling.temperature = 0;
    generate.max_output_tokens = 1;
    const std::uint32_t prompt_blocks = PromptBlockCount(trace_, request);
    ROOST_CHECK(engine_->Submit(worker::LinkId(1), std::move(generate)).ok());
    std::uint32_t cached_tokens = 0;
    bool has_ended = false;
    const std::uint64_t computed = model_.computed_token_count();
    while (!has_ended) {
      for (const worker::RequestEvent& event : Step().tokens) {
        ROOST_CHECK(!event.event.error.has_value());
        if (event.event.cached_token_count) cached_tokens = *event.event.cached_token_count;
        has_ended = event.event.finish.has_value();
      }
    }
    (void)Step();  // what it leaves is offered to the disk
    counted.prompt_blocks += prompt_blocks;
    counted.hit_blocks += std::min(cached_tokens / kModelBlockTokens, prompt_blocks);
    counted.computed_blocks += (model_.computed_token_count() - computed) / kModelBlockTokens;
  }

  void End(Counted& counted) {
    if (disk_ == nullptr) return;
    counted.written_bytes += disk_->counts().written_bytes;
    counted.frame_bytes = disk_->frame_bytes();
  }

 private:
  void OpenDisk(const Setting& setting, const MemoryFolder& folder) {
    auto store = OpenStore(folder, files_, readable_.sizes(), std::uint64_t{8} << 30U, kSegmentBytes);
    const double rate = setting.most_written * static_cast<double>(store->frame_bytes());
    disk_ = std::make_unique<worker::DiskCache>(
        std::move(store), readable_, inbox_, clock_, [] {},
        worker::DiskCache::Options{.write_rate = static_cast<std::uint64_t>(rate),
                                   .queue_limit = setting.pool_blocks / worker::kDiskQueuePart,
                                   .frame_count = 64});
  }

  worker::StepReport Step() {
    Write();
    for (int i = 0; i < 32 && disk_ != nullptr && disk_->ReadNext(); ++i) {
    }
    engine_->TakeNews();
    return engine_->Step();
  }

  // The disk goes on while a batch is computed.
  Duration PassTime(const worker::Batch& batch) {
    std::uint64_t tokens = 0;
    for (const worker::BatchSlice& slice : batch.slices) tokens += slice.token_count;
    for (; tokens >= kModelBlockTokens; tokens -= kModelBlockTokens) {
      clock_.Advance(std::chrono::seconds(1));
      Write();
    }
    return Duration(0);
  }

  void Write() {
    while (disk_ != nullptr && disk_->WriteNext()) {
    }
  }

  static void AppendTokens(ContentId id, std::vector<TokenId>& to) {
    std::uint64_t rest = Mix64(id + 1);
    for (std::uint32_t i = 0; i < kModelBlockTokens; ++i) {
      to.push_back(static_cast<TokenId>(rest % kVocab));
      rest /= kVocab;
    }
  }

  const Trace& trace_;
  ManualClock clock_;
  testing_support::FakeModel model_;
  worker::FrameInbox inbox_{[] {}};
  worker::ReadableBlocks readable_;
  worker::DiskFiles files_;
  std::unique_ptr<worker::DiskCache> disk_;
  std::unique_ptr<worker::Engine> engine_;
  std::uint64_t last_id_ = 0;
};

// The whole trace, and its second half.
struct Played {
  Counted all;
  Counted second_half;
};

Played Play(const Trace& trace, const Setting& setting, std::uint32_t most_blocks) {
  const MemoryFolder folder;
  Played played;
  auto life = std::make_unique<Life>(trace, setting, folder, most_blocks);
  const std::size_t half = trace.requests.size() / 2;
  Counted first;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    if (i == half && setting.restarts) {
      life->End(first);
      life = nullptr;
      life = std::make_unique<Life>(trace, setting, folder, most_blocks);
    }
    life->Serve(trace.requests[i], i < half ? first : played.second_half);
  }
  life->End(played.second_half);
  played.all = played.second_half;
  played.all.prompt_blocks += first.prompt_blocks;
  played.all.hit_blocks += first.hit_blocks;
  played.all.computed_blocks += first.computed_blocks;
  played.all.written_bytes += first.written_bytes;
  return played;
}

void Compare(std::string_view name, const Trace& trace) {
  std::unordered_set<ContentId> contents;
  std::size_t most_blocks = 0;
  for (const TraceRequest& request : trace.requests) {
    contents.insert(request.blocks.begin(), request.blocks.end());
    most_blocks = std::max(most_blocks, request.blocks.size());
  }
  const auto most = static_cast<std::uint32_t>(most_blocks);
  const auto working_set = static_cast<std::uint32_t>(contents.size());
  const std::uint32_t pool = std::max(working_set / 8, most + 8);
  const auto play = [&](std::string_view kind, const Setting& setting) {
    const Played played = Play(trace, setting, most);
    const std::string of = fmt::format("{}_{}", name, kind);
    Figure("disk_hits_" + of, played.all.hits(), "%");
    Figure("disk_second_half_" + of, played.second_half.hits(), "%");
    if (!setting.has_disk) return;
    Figure("disk_written_" + of, played.all.written_per_computed(), "x");
  };
  play("whole_pool", {.pool_blocks = working_set + most + 8});
  play("eighth", {.pool_blocks = pool});
  play("disk", {.pool_blocks = pool, .has_disk = true});
  play("disk_restart", {.pool_blocks = pool, .has_disk = true, .restarts = true});
  for (const double bound : {0.1, 0.25, 0.5}) {
    play(fmt::format("disk_0_{}", static_cast<int>(100 * bound)),
         {.pool_blocks = pool, .has_disk = true, .most_written = bound});
  }
}

}  // namespace

void BenchDisk(Effort effort) {
  if (effort == Effort::kQuick) {
    workload::MultiTurnChatOptions small;
    small.session_count = 30;
    return Compare("small_chat", workload::MultiTurnChat(small));
  }
  auto recorded = testing_support::RecordedEvictionCases(testing_support::SharedDir() / "traces");
  ROOST_CHECK(recorded.ok(), "{}", recorded.error().ToString());
  for (const EvictionCase& each : *recorded) {
    if (each.name != "agents_168") Compare(each.name, each.trace);
  }
}

}  // namespace roost::bench
