#include "tests/sim/cluster_sim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <variant>

namespace roost::sim {

namespace {

using namespace std::chrono_literals;

constexpr Duration kTickInterval = 100ms;
constexpr Faults kNoFaults{};
constexpr Faults kManyFaults{.dropped = 10, .doubled = 10, .overtaking = 10, .longest_delay = 40ms};

constexpr std::uint32_t kForgottenEvents = 10;

std::uint32_t Number(std::uint64_t value) { return static_cast<std::uint32_t>(value); }

// Drops a step's events without a gap in the sequence: only the digests can reveal it.
void ForgetEvents(wire::WorkerMessage& message) {
  if (auto* const step = std::get_if<wire::Step>(&message)) step->events.clear();
}

}  // namespace

ClusterSim::ClusterSim(std::uint64_t seed, Blocks blocks)
    : rng_(seed),
      blocks_(blocks),
      router_count_(rng_.Below(4) == 0 ? 2 : 1),
      worker_count_(1 + Number(rng_.Below(kMaxNodes))),
      routers_(router_count_),
      workers_(worker_count_) {
  for (std::uint32_t router = 0; router < router_count_; ++router) StartRouter(router);
  for (std::uint32_t worker = 0; worker < worker_count_; ++worker) {
    sends_cache_events_.push_back(rng_.Below(8) != 0);
    StartWorker(worker);
  }
}

void ClusterSim::StartRouter(std::uint32_t router) {
  const auto send = [this, router](const std::string& worker_id, const wire::RouterMessage& message) {
    lines_[{router, WorkerNumber(worker_id)}].to_worker.Send(message, clock_.Now(), faults_, rng_);
  };
  routers_[router] = std::make_unique<SimRouter>(clock_, send, answers_, rng_());
}

void ClusterSim::StartWorker(std::uint32_t worker) {
  const auto send = [this, worker](worker::PeerId router, wire::WorkerMessage message) {
    if (rng_.Below(1000) < forgotten_events_) ForgetEvents(message);
    lines_[{router.value(), worker}].to_router.Send(std::move(message), clock_.Now(), faults_, rng_);
  };
  const SimWorker::Setup setup{.id = std::string(1, static_cast<char>('a' + worker)),
                               .block_count = 24 + Number(rng_.Below(40)),
                               .sends_cache_events = sends_cache_events_[worker],
                               .first_epoch = next_epoch_,
                               .router_count = router_count_,
                               .exchanges_blocks = blocks_ == Blocks::kTravel};
  const auto send_blocks = [this, worker](const std::string& to, TransferMessage message) {
    SendBlocks(worker, to, std::move(message));
  };
  next_epoch_ += 1U << 20U;  // more than the lives of one process
  workers_[worker] = std::make_unique<SimWorker>(setup, clock_, send, send_blocks);
}

// Worse than the lines between routers and workers. A few frames are altered or torn.
void ClusterSim::SendBlocks(std::uint32_t from, const std::string& to, TransferMessage message) {
  const Faults faults{.dropped = 3 * faults_.dropped,
                      .doubled = 3 * faults_.doubled,
                      .overtaking = 3 * faults_.overtaking,
                      .longest_delay = faults_.longest_delay};
  auto* const frame = std::get_if<FrameMessage>(&message);
  if (frame != nullptr && rng_.Below(1000) < faults.dropped) {
    frame->bytes[rng_.Below(frame->bytes.size())] ^= std::byte{0x40};
  } else if (frame != nullptr && rng_.Below(1000) < faults.dropped) {
    frame->bytes.resize(rng_.Below(frame->bytes.size()));
  }
  block_lines_[{from, WorkerNumber(to)}].Send(std::move(message), clock_.Now(), faults, rng_);
}

std::uint32_t ClusterSim::WorkerNumber(const std::string& id) const {
  return static_cast<std::uint32_t>(id.front() - 'a');
}

void ClusterSim::RunWithFaults(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    faults_ = rng_.Below(2) == 0 ? kManyFaults : kNoFaults;
    forgotten_events_ = kForgottenEvents;
    if (rng_.Below(20) == 0) Misfortune();
    ClientsAct();
    Round();
  }
  faults_ = kNoFaults;
  forgotten_events_ = 0;
  for (const auto& worker : workers_) worker->LoseNoReport();
  for (auto& [nodes, lines] : lines_) {
    lines.to_router.Heal();
    lines.to_worker.Heal();
  }
  for (auto& [nodes, line] : block_lines_) line.Heal();
}

void ClusterSim::Misfortune() {
  if (blocks_ == Blocks::kTravel && rng_.Below(4) == 0) {
    FaultyLine<TransferMessage>& line =
        block_lines_[{Number(rng_.Below(worker_count_)), Number(rng_.Below(worker_count_))}];
    return line.CutUntil(clock_.Now() + std::chrono::milliseconds(rng_.Below(4000)));
  }
  if (blocks_ == Blocks::kTravel && rng_.Below(3) == 0) {
    const router::Service service = rng_.Below(2) == 0 ? router::Service::kCordoned : router::Service::kOpen;
    return routers_[rng_.Below(router_count_)]->Cordon(workers_[rng_.Below(worker_count_)]->id(), service);
  }
  const std::uint32_t router = Number(rng_.Below(router_count_));
  const std::uint32_t worker = Number(rng_.Below(worker_count_));
  Lines& lines = lines_[{router, worker}];
  const Instant until = clock_.Now() + std::chrono::milliseconds(rng_.Below(4000));
  switch (rng_.Below(8)) {
    case 0: lines.to_router.CutUntil(until); break;
    case 1: lines.to_worker.CutUntil(until); break;
    case 2:
      lines.to_router.CutUntil(until);
      lines.to_worker.CutUntil(until);
      break;
    case 3: StartRouter(router); break;
    case 4: StartWorker(worker); break;
    default: workers_[worker]->LoseNextReport(); break;
  }
}

void ClusterSim::ClientsAct() {
  SimRouter& router = *routers_[rng_.Below(router_count_)];
  if (rng_.Below(3) == 0) static_cast<void>(router.Submit(RandomPrompt(), 1 + Number(rng_.Below(12))));
  if (rng_.Below(30) == 0) router.CancelOne(rng_());
  if (rng_.Below(50) == 0) router.Evict(RandomPrompt());
  if (rng_.Below(200) == 0) router.EvictAll();
  if (blocks_ == Blocks::kTravel) BlocksAct();
}

// Prompts are pulled ahead of requests, which may be sent elsewhere or leave.
void ClusterSim::BlocksAct() {
  SimRouter& router = *routers_[rng_.Below(router_count_)];
  const std::string& worker = workers_[rng_.Below(worker_count_)]->id();
  const std::string& source = workers_[rng_.Below(worker_count_)]->id();
  const auto patience = std::chrono::milliseconds(1 + rng_.Below(3000));
  if (rng_.Below(20) == 0) router.Warm(RandomPrompt(), worker, patience);
  if (rng_.Below(8) > 0 || worker == source) return;
  std::vector<TokenId> prompt = RandomPrompt();
  router.Hold(prompt, worker, source, patience);
  if (rng_.Below(3) > 0) static_cast<void>(router.Submit(std::move(prompt), 1 + Number(rng_.Below(12))));
}

// Few families of prompts, so that prefixes are shared; the pools are small, so that blocks are evicted.
std::vector<TokenId> ClusterSim::RandomPrompt() {
  std::vector<TokenId> prompt(SimWorker::kBlockTokens * (1 + rng_.Below(6)), Number(rng_.Below(4)));
  for (std::uint64_t left = 1 + rng_.Below(8); left > 0; --left) prompt.push_back(Number(rng_.Below(3)));
  return prompt;
}

void ClusterSim::Round() {
  clock_.Advance(std::chrono::milliseconds(5 + rng_.Below(20)));
  for (const auto& worker : workers_) worker->Run();
  for (std::uint32_t router = 0; router < router_count_; ++router) {
    for (std::uint32_t worker = 0; worker < worker_count_; ++worker) Deliver(router, worker);
  }
  for (auto& [nodes, line] : block_lines_) {
    while (auto message = line.Receive(clock_.Now())) {
      workers_[nodes.second]->Receive(workers_[nodes.first]->id(), *std::move(message));
    }
  }
  if (clock_.Now() < next_tick_) return;
  next_tick_ = clock_.Now() + kTickInterval;
  for (const auto& router : routers_) router->Tick();
}

void ClusterSim::Deliver(std::uint32_t router, std::uint32_t worker) {
  Lines& lines = lines_[{router, worker}];
  while (auto message = lines.to_router.Receive(clock_.Now())) {
    routers_[router]->Receive(workers_[worker]->id(), *std::move(message));
  }
  while (auto message = lines.to_worker.Receive(clock_.Now())) {
    workers_[worker]->Receive(worker::PeerId(router), *std::move(message));
  }
}

void ClusterSim::Recover(Duration time) {
  const Instant end = clock_.Now() + time;
  while (clock_.Now() < end) {
    ClientsAct();
    for (const auto& worker : workers_) worker->Uncordon();
    Round();
  }
  // A lost tokenizer is asked for again after ten seconds.
  for (const Instant patience = clock_.Now() + 11s; clock_.Now() < patience && !AllAreReady();) Round();
}

bool ClusterSim::AllAreReady() const {
  const auto is_ready = [](const router::WorkerStatus& worker) { return worker.ready; };
  return std::all_of(routers_.begin(), routers_.end(), [&](const auto& router) {
    const std::vector<router::WorkerStatus> workers = router->Workers();
    return std::all_of(workers.begin(), workers.end(), is_ready);
  });
}

void ClusterSim::Drain() {
  constexpr int kPatience = 4000;  // a Hold that was lost is given up after 35 s
  for (int i = 0; i < kPatience && !AllHaveEnded(); ++i) Round();
}

bool ClusterSim::AllHaveEnded() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->is_idle(); }) &&
         std::all_of(routers_.begin(), routers_.end(), [](const auto& router) { return router->is_idle(); });
}

void ClusterSim::Pass(Duration time) {
  for (const Instant end = clock_.Now() + time; clock_.Now() < end;) Round();
}

void ClusterSim::CheckViews() {
  for (const auto& router : routers_) {
    const std::vector<router::WorkerStatus> statuses = router->Workers();
    ASSERT_EQ(statuses.size(), worker_count_);
    for (const router::WorkerStatus& status : statuses) {
      const SimWorker& worker = *workers_[WorkerNumber(status.worker_id)];
      ASSERT_TRUE(worker.is_up()) << status.worker_id;
      if (!worker.sends_cache_events()) {
        ASSERT_NE(status.mode, router::WorkerMode::kExact) << status.worker_id;
        ASSERT_LE(status.indexed_block_count, worker.Held().size()) << status.worker_id;
        continue;
      }
      ASSERT_EQ(status.mode, router::WorkerMode::kExact) << status.worker_id;
      ASSERT_TRUE(status.index_in_sync) << status.worker_id;
      ASSERT_TRUE(router->ViewIs(status, worker.Held()))
          << status.worker_id << " at " << status.indexed_block_count << " blocks";
    }
  }
}

void ClusterSim::CheckNothingIsLeft() {
  for (const auto& router : routers_) {
    ASSERT_EQ(router->core().request_count(), 0U);
    ASSERT_EQ(router->core().pending_count(), 0U);
    ASSERT_EQ(router->core().copy_count(), 0U);
    ASSERT_EQ(router->core().hold_count(), 0U);
    ASSERT_EQ(router->core().handover_count(), 0U);
    for (const router::WorkerStatus& status : router->Workers()) ASSERT_EQ(status.in_flight_requests, 0U);
  }
  for (const auto& worker : workers_) {
    ASSERT_TRUE(worker->is_idle()) << worker->id() << " has a Hold, a fetch, a reader or a frame";
    ASSERT_EQ(worker->ReadableCount(), blocks_ == Blocks::kTravel ? worker->Held().size() : 0) << worker->id();
    ASSERT_EQ(worker->CountHeldBlocks(), 0U) << worker->id();
  }
}

SimWorker::HoldEnds ClusterSim::HoldEnds() const {
  SimWorker::HoldEnds ends{};
  for (const auto& worker : workers_) {
    for (std::size_t i = 0; i < ends.size(); ++i) ends[i] += worker->hold_ends()[i];
  }
  return ends;
}

}  // namespace roost::sim
