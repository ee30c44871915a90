#include "deploy/roostctl/simulate/simulation.h"

#include <algorithm>
#include <iterator>
#include <list>
#include <numeric>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "common/base/check.h"
#include "deploy/roostctl/simulate/arrival_times.h"
#include "deploy/roostctl/simulate/fluid_decode.h"
#include "deploy/roostctl/simulate/kept_cache.h"

namespace roost::simulate {
namespace {

using worker::BlockChain;
using worker::BlockRef;
using worker::PrefixCache;

// A request in the pool.
struct Guest {
  std::uint32_t number = 0;
  std::vector<TokenId> tokens;
  std::vector<BlockHash> hashes;
  std::uint32_t prompt_token_count = 0;
  std::vector<BlockRef> matched;  // while it waits
  std::vector<BlockId> blocks;    // the matched ones; from its start on, all its blocks
  std::uint32_t cached_token_count = 0;

  [[nodiscard]] BlockChain chain() const { return {TraceText::root(), hashes, tokens}; }
};

class Pool {
 public:
  Pool(const TraceText& text, PoolSize size, const SimulationOptions& options)
      : text_(text),
        options_(options),
        kept_(CacheOptionsOf(text, size, options)),
        decode_(options.worker.service, MeanSpeed(options), static_cast<std::uint32_t>(options.workers.size())),
        log_(text.trace().requests.size(), [this](std::uint32_t number) { arrivals_.OnEnd(number); }),
        arrivals_(text.trace(), options.speed, timeline_, [this](std::uint32_t number) { Arrive(number); }) {
    for (const WorkerSpec& spec : options.workers) free_speeds_.insert(spec.speed);
    const double growth = options.worker.service.DepthGrowth() * text.block_tokens();
    cache().claims().SetRecomputeCost({.growth = static_cast<float>(growth)});
  }

  void Run(const Progress& progress) {
    constexpr std::size_t kProgressSteps = 100;
    const std::size_t step = log_.records().size() / kProgressSteps + 1;
    arrivals_.Begin(timeline_.Now());
    std::size_t told = 0;
    while (!log_.all_ended()) {
      ROOST_CHECK(timeline_.RunNext());
      if (progress && log_.ended_count() >= told + step) progress(told = log_.ended_count());
    }
  }

  Outcome Figures() const {
    Outcome outcome;
    outcome.Fill(log_.records(), {computed_tokens_}, options_.limits);
    return outcome;
  }

 private:
  static KeptCacheOptions CacheOptionsOf(const TraceText& text, PoolSize size, const SimulationOptions& options) {
    const auto worker_count = static_cast<std::uint32_t>(options.workers.size());
    const std::uint64_t all = (text.distinct_block_count() + text.trace().requests.size()) * text.block_tokens();
    return {.block_tokens = text.block_tokens(),
            .kept_tokens = size == PoolSize::kUnbounded ? all : options.worker.cache_tokens * worker_count,
            .reserve_tokens = ReserveTokens(text.trace(), options.worker, worker_count),
            .eviction = options.worker.eviction};
  }

  static double MeanSpeed(const SimulationOptions& options) {
    const double sum = std::accumulate(options.workers.begin(), options.workers.end(), 0.0,
                                       [](double so_far, const WorkerSpec& spec) { return so_far + spec.speed; });
    return sum / static_cast<double>(options.workers.size());
  }

  PrefixCache& cache() { return kept_.cache(); }

  // ---- waiting ----

  void Arrive(std::uint32_t number) {
    Guest guest{.number = number,
                .tokens = text_.Prompt(number),
                .hashes = text_.PromptHashes(number),
                .prompt_token_count = text_.PromptTokenCount(number),
                .matched = {},
                .blocks = {}};
    log_.OnArrival(number, guest.prompt_token_count, timeline_.Now());
    Match(guest);
    waiting_.push_back(std::move(guest));
    StartAll();
  }

  // At least one prompt token must be computed.
  [[nodiscard]] std::uint32_t MatchableBlocks(const Guest& guest) const {
    return (guest.prompt_token_count - 1) / text_.block_tokens();
  }

  void Match(Guest& guest) {
    guest.matched.clear();
    cache().Match(guest.chain(), MatchableBlocks(guest), guest.matched);
    guest.blocks.clear();
    for (const BlockRef ref : guest.matched) guest.blocks.push_back(ref.block);
    guest.cached_token_count = static_cast<std::uint32_t>(guest.matched.size()) * text_.block_tokens();
  }

  // A match is valid as long as its last block is, because parents stay; and it can only grow by the next block.
  void MatchAgainIfChanged(Guest& guest) {
    const auto depth = static_cast<std::uint32_t>(guest.matched.size());
    const bool stands =
        depth == 0 || kept_.pool().generation(guest.matched.back().block) == guest.matched.back().generation;
    const bool grows =
        stands && depth < MatchableBlocks(guest) && cache().Find(guest.chain(), depth, guest.blocks).has_value();
    if (!stands || grows) Match(guest);
  }

  [[nodiscard]] static std::uint32_t UncachedTokens(const Guest& guest) {
    return guest.prompt_token_count - guest.cached_token_count;
  }

  void StartAll() {
    const std::size_t most_running = options_.workers.size() * options_.worker.max_running_requests;
    while (!free_speeds_.empty() && !waiting_.empty() && running_.size() < most_running) {
      for (Guest& guest : waiting_) MatchAgainIfChanged(guest);
      const auto next = std::min_element(waiting_.begin(), waiting_.end(), [](const Guest& a, const Guest& b) {
        return UncachedTokens(a) < UncachedTokens(b);
      });
      Guest guest = std::move(*next);
      waiting_.erase(next);
      const auto fastest = std::prev(free_speeds_.end());
      const double speed = *fastest;
      free_speeds_.erase(fastest);
      Start(std::move(guest), speed);
    }
  }

  // ---- running ----

  // Starts `guest` on a server of this speed.
  void Start(Guest guest, double speed) {
    for (const BlockRef ref : guest.matched) cache().Acquire(ref);
    TakeBlocks(guest);
    const std::uint32_t uncached = UncachedTokens(guest);
    const Prefill prefill = PrefillOf(guest.cached_token_count, uncached, speed);
    computed_tokens_ += uncached;
    const std::uint32_t number = guest.number;
    running_.emplace(number, std::move(guest));
    prompt_seconds_per_step_ += prefill.prompt_seconds_per_step;
    TellPrompts();
    timeline_.After(FromSeconds(prefill.seconds), [this, number, prefill] { EndPrefill(number, prefill); });
  }

  struct Prefill {
    double server_speed = 1;
    double seconds = 0;
    double prompt_seconds_per_step = 0;  // at speed 1
  };

  // A prefill takes whole steps, in which its server's share of the requests decodes.
  [[nodiscard]] Prefill PrefillOf(std::uint32_t first_position, std::uint32_t token_count, double speed) const {
    const ServiceModel& service = options_.worker.service;
    const std::uint32_t largest = options_.worker.max_batch_tokens;
    const std::uint32_t steps = (token_count + largest - 1) / largest;
    const double per_step =
        service.PromptSeconds(service.ChunkSeconds(first_position, token_count) / steps, token_count / steps);
    const bool is_mixed = service.batching == Batching::kMixed;
    const double beside = is_mixed && decode_.request_count() > 0 ? decode_.StepSecondsWithoutPrompts()
                                                                  : service.step_base_seconds / speed;
    return {speed, steps * (per_step / speed + beside), per_step};
  }

  void TellPrompts() {
    const std::size_t busy = options_.workers.size() - free_speeds_.size();
    if (busy == 0) return decode_.SetPrompts({}, timeline_.Now());
    decode_.SetPrompts({.worker_share = static_cast<double>(busy) / static_cast<double>(options_.workers.size()),
                        .seconds_per_step = prompt_seconds_per_step_ / static_cast<double>(busy)},
                       timeline_.Now());
    PlanDecodeEnd();
  }

  // Allocates the blocks for all its tokens.
  void TakeBlocks(Guest& guest) {
    const std::size_t needed = (guest.tokens.size() + text_.block_tokens() - 1) / text_.block_tokens();
    while (guest.blocks.size() < needed) {
      const std::optional<BlockId> block = cache().Allocate();
      ROOST_CHECK(block.has_value(), "request {} finds no room", guest.number);
      guest.blocks.push_back(*block);
    }
    kept_.Settle();
  }

  // Commits the full blocks from index `first` on.
  void Commit(Guest& guest, std::uint32_t first) {
    for (std::uint32_t index = first; index < guest.hashes.size(); ++index) {
      guest.blocks[index] = cache().Commit(guest.chain(), index, guest.blocks).block;
    }
  }

  void EndPrefill(std::uint32_t number, const Prefill& prefill) {
    Guest& guest = running_.at(number);
    Commit(guest, static_cast<std::uint32_t>(guest.matched.size()));
    const std::uint32_t cached = guest.cached_token_count;
    const ServiceModel& service = options_.worker.service;
    log_.OnFirstToken(
        number,
        {.cached_token_count = cached,
         .saved_seconds = service.ChunkSeconds(0, cached) / prefill.server_speed,
         .computed_seconds = service.ChunkSeconds(cached, guest.prompt_token_count - cached) / prefill.server_speed},
        timeline_.Now());
    decode_.Start({.id = number,
                   .token_count = text_.DecodedTokenCount(number),
                   .context_token_count = static_cast<double>(guest.prompt_token_count)},
                  timeline_.Now());
    free_speeds_.insert(prefill.server_speed);
    prompt_seconds_per_step_ -= prefill.prompt_seconds_per_step;
    TellPrompts();
    PlanDecodeEnd();
    StartAll();
  }

  void PlanDecodeEnd() {
    ++decode_plan_;
    const std::optional<Instant> end = decode_.NextEnd();
    if (!end) return;
    timeline_.At(std::max(*end, timeline_.Now()), [this, plan = decode_plan_] {
      if (plan == decode_plan_) OnDecodeEnd();
    });
  }

  void OnDecodeEnd() {
    for (const std::uint64_t id : decode_.TakeEnded(timeline_.Now())) Leave(static_cast<std::uint32_t>(id));
    PlanDecodeEnd();
    StartAll();
  }

  // Ends the request; the full blocks of its prompt and answer stay in the cache.
  void Leave(std::uint32_t number) {
    Guest& guest = running_.at(number);
    const auto prompt_blocks = static_cast<std::uint32_t>(guest.hashes.size());
    const std::vector<TokenId> answer = text_.Answer(number);
    guest.tokens.insert(guest.tokens.end(), answer.begin(), answer.end());
    const std::vector<TokenId>& tokens = guest.tokens;
    while ((guest.hashes.size() + 1) * text_.block_tokens() <= tokens.size()) {
      const BlockHash parent = guest.hashes.empty() ? TraceText::root() : guest.hashes.back();
      const std::span<const TokenId> all(tokens);
      guest.hashes.push_back(
          ChainHash(parent, all.subspan(guest.hashes.size() * text_.block_tokens(), text_.block_tokens())));
    }
    TakeBlocks(guest);
    Commit(guest, prompt_blocks);
    cache().ReleaseAll(guest.blocks, {.number = left_count_++,
                                      .prompt_token_count = guest.prompt_token_count,
                                      .cached_token_count = guest.cached_token_count,
                                      .output_token_count = static_cast<std::uint32_t>(answer.size())});
    kept_.Settle();
    (void)cache().TakeEvents();
    running_.erase(number);
    log_.OnEnd(number, static_cast<std::uint32_t>(answer.size()), timeline_.Now());
  }

  const TraceText& text_;
  const SimulationOptions& options_;
  Timeline timeline_;
  KeptCache kept_;
  FluidDecode decode_;
  RequestLog log_;
  Arrivals arrivals_;
  std::list<Guest> waiting_;  // in order of arrival
  std::unordered_map<std::uint32_t, Guest> running_;
  std::multiset<double> free_speeds_;   // speeds of the idle servers
  double prompt_seconds_per_step_ = 0;  // of all running prefills
  std::uint64_t computed_tokens_ = 0;
  std::uint64_t decode_plan_ = 0;
  std::uint64_t left_count_ = 0;
};

}  // namespace

Outcome SimulatePool(const TraceText& text, PoolSize size, const SimulationOptions& options, const Progress& progress) {
  ROOST_CHECK(!options.workers.empty());
  Pool pool(text, size, options);
  pool.Run(progress);
  Outcome outcome = pool.Figures();
  outcome.policy = size == PoolSize::kOfWorkers ? "pooled" : "infinite";
  outcome.worker_count = static_cast<std::uint32_t>(options.workers.size());
  if (size == PoolSize::kOfWorkers) outcome.cache_tokens = options.worker.cache_tokens;
  return outcome;
}

}  // namespace roost::simulate
