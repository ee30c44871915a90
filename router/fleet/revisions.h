// The revisions of each model. Workers of one model name can share blocks and continue each other's requests only if
// they agree in name, fingerprint, KV dtype, block size and tokenizer. Each set of such workers is a revision of the
// model, with an index of its own. Usually there is one. During a rollout of new weights there are two, and requests
// are divided between them by their numbers of workers.
//
// A revision has the LoRA adapters that any of its ready workers serves. Clients ask for an adapter by its name as for
// a model. A name that a model has means the model; if adapters of several models have it, the first model's by name.
//
//   hello ──► Join ──► revision (an index, no worker ready) ── Publish ──► served ── Withdraw / last Leave ──► gone
//
// Not thread-safe, no clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/step_costs.h"
#include "router/index/index_budget.h"
#include "router/index/prefix_index.h"
#include "router/route/worker_view.h"

namespace roost::router {

// The name of the hello's revision; equal for all workers of the revision.
[[nodiscard]] std::string RevisionKey(const wire::Hello& hello);

class Revisions {
 public:
  // The time for which a model without workers is remembered: its workers may be restarting.
  static constexpr Duration kMemoryOfModels = std::chrono::minutes(10);
  static constexpr std::size_t kMaxGoneModels = 1024;
  static constexpr std::size_t kMaxKnownNames = 4096;

  explicit Revisions(std::uint64_t index_memory_bytes)
      : index_budget_(std::make_shared<IndexBudget>(index_memory_bytes)) {}

  // A worker joins. Returns its revision's index, which the first worker creates.
  [[nodiscard]] std::shared_ptr<PrefixIndex> Join(const std::string& key, const std::string& model);
  // The costs of a revision that a worker has joined.
  [[nodiscard]] std::shared_ptr<StepCosts> StepCostsOf(const std::string& key) const {
    return revisions_.at(key).step_costs;
  }
  // A worker leaves; with the last one the revision goes too.
  void Leave(const std::string& key, Instant now);

  // A worker that had these adapters has left; called when its revision is published or withdrawn without it.
  void NoteLost(const AdapterNames& adapters, Instant now);

  // Clients may use this revision and these adapters from now on; fills in `served.index`. Keeps the existing objects
  // if nothing changed.
  void Publish(const std::string& key, ServedModel served, const AdapterNames& adapters);
  // Clients may not use it any more: none of its workers is ready.
  void Withdraw(const std::string& key);
  // Sets the number of its workers that take requests, which determines its share of the model's requests.
  void SetCapacity(const std::string& key, std::uint32_t worker_count);

  // Null when no ready worker serves it.
  [[nodiscard]] std::shared_ptr<const ServedModel> Find(std::string_view key) const;
  // The revision for one more request of a model or adapter: the one that is furthest behind its share. Counts the
  // request. Null when no worker serves it.
  [[nodiscard]] std::shared_ptr<const ServedModel> Choose(std::string_view name);
  // The revision with the most workers that take requests. Null when no worker serves the model or adapter.
  [[nodiscard]] std::shared_ptr<const ServedModel> Main(std::string_view name) const;
  // All revisions of the model or adapter that are served.
  [[nodiscard]] std::vector<std::shared_ptr<const ServedModel>> AllOf(std::string_view name) const;
  // The main revision of each model, each followed by its adapters.
  [[nodiscard]] std::vector<std::shared_ptr<const ServedModel>> Models() const;
  // Whether a worker serves the model or adapter now, will soon, or did recently. Before the first worker came, true
  // for any name.
  [[nodiscard]] bool IsExpected(std::string_view name, Instant now) const;

  // The model of a name that a worker has served since the start: the name itself, or an adapter's model.
  [[nodiscard]] std::optional<std::string> KnownModel(std::string_view name) const;

  // Frees some of the entries that lost workers left in the indexes.
  void SweepIndexes();
  [[nodiscard]] std::uint64_t indexed_block_count() const;
  [[nodiscard]] std::uint64_t index_memory_bytes() const { return index_budget_->used_bytes(); }
  [[nodiscard]] std::uint64_t shed_block_total() const;

 private:
  struct Revision {
    std::string model;
    std::shared_ptr<PrefixIndex> index;
    std::shared_ptr<StepCosts> step_costs;
    std::shared_ptr<const ServedModel> served;  // null: no worker is ready
    std::map<std::string, std::shared_ptr<const ServedModel>, std::less<>> adapters;
    std::uint32_t joined_count = 0;  // workers
    std::uint32_t capacity = 0;      // the workers that take requests
    std::uint64_t chosen_count = 0;  // since the model's revisions or their capacities changed
  };

  // The model that a client gets for a name, and the revision that serves it.
  struct Offer {
    const Revision* revision = nullptr;
    std::shared_ptr<const ServedModel> served;
  };
  [[nodiscard]] std::vector<Offer> OffersOf(std::string_view name) const;
  [[nodiscard]] std::vector<Offer> AdapterOffersOf(std::string_view name) const;
  void NoteKnown(const std::string& name, const std::string& model);
  void NoteGone(const std::vector<std::string>& names, Instant now);

  const std::shared_ptr<IndexBudget> index_budget_;
  std::uint64_t shed_before_ = 0;                           // blocks that indexes shed before they were destroyed
  std::map<std::string, Revision, std::less<>> revisions_;  // by key, so that those of one model are neighbours
  std::map<std::string, Instant, std::less<>> gone_;        // models and adapters: when the last worker left
  std::map<std::string, std::string, std::less<>> known_;   // by name of a model or adapter: the model
  bool has_begun_ = false;                                  // a worker has joined
};

}  // namespace roost::router
