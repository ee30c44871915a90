// The revisions of each model. Workers of one model name can share blocks and continue each other's requests only if
// they agree in name, fingerprint, KV dtype, block size and tokenizer. Each set of such workers is a revision of the
// model, with an index of its own. Usually there is one. During a rollout of new weights there are two, and requests
// are divided between them by their numbers of workers.
//
// A revision has the LoRA adapters that any of its ready workers serves, and the other names that they tell of the
// model. Clients ask for an adapter by its name as for a model. A name that a model has means the model; if adapters or
// other names of several models have it, the first model's by name.
//
//   hello ──► Join ──► revision (an index, no worker ready) ── Publish ──► served ── Withdraw / last Leave ──► gone
//
// Not thread-safe, no clock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "router/fleet/dispatcher.h"
#include "router/fleet/fleet_snapshot.h"
#include "router/fleet/workers/step_costs.h"
#include "router/index/index_budget.h"
#include "router/index/prefix_index.h"
#include "router/route/worker_view.h"

namespace roost::router {

// The name of the hello's revision; equal for all workers of the revision.
[[nodiscard]] std::string RevisionKey(const wire::Hello& hello);

class Revisions {
 public:
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

  // A worker that had these adapters and aliases has left; called when its revision is published or withdrawn without
  // it.
  void NoteLost(const AdapterNames& names, Instant now);

  // Clients may use this revision under these names and these adapters from now on; fills in `served.index`. Keeps the
  // existing objects if nothing changed.
  void Publish(const std::string& key, ServedModel served, const AdapterNames& aliases, const AdapterNames& adapters);
  // Clients may not use it any more: none of its workers is ready.
  void Withdraw(const std::string& key);
  // Sets the number of its workers that take requests, which determines its share of the model's requests.
  void SetCapacity(const std::string& key, std::uint32_t worker_count);
  // The same number. A worker has joined the revision.
  [[nodiscard]] std::uint32_t CapacityOf(const std::string& key) const { return revisions_.at(key).capacity; }

  // Null when no ready worker serves it.
  [[nodiscard]] std::shared_ptr<const ServedModel> Find(std::string_view key) const;
  // The models under the names that clients ask for: made anew after each change, O(names), and the same object until
  // the next one. Not null.
  [[nodiscard]] const std::shared_ptr<const ModelDirectory>& directory() const;

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
    std::shared_ptr<const ServedModel> served;                                      // null: no worker is ready
    std::map<std::string, std::shared_ptr<const ServedModel>, std::less<>> others;  // by name: aliases and adapters
    std::uint32_t joined_count = 0;                                                 // workers
    std::uint32_t capacity = 0;                                                     // the workers that take requests
    // See ModelDirectory::Offer.
    std::shared_ptr<std::atomic<std::uint64_t>> chosen_count = std::make_shared<std::atomic<std::uint64_t>>(0);
  };

  using Offers = std::map<std::string, std::vector<ModelDirectory::Offer>, std::less<>>;  // by name, never empty

  [[nodiscard]] Offers ModelOffers() const;
  // A name that adapters or aliases of several models have means that of the first model.
  [[nodiscard]] Offers OtherOffers() const;
  [[nodiscard]] std::vector<std::shared_ptr<const ServedModel>> ListModels(const ModelDirectory& directory) const;
  [[nodiscard]] ModelDirectory MakeDirectory() const;
  void OnChange() { directory_ = nullptr; }
  void NoteKnown(const std::string& name, const std::string& model);
  void NoteGone(const std::vector<std::string>& names, Instant now);

  const std::shared_ptr<IndexBudget> index_budget_;
  std::uint64_t shed_before_ = 0;                            // blocks that indexes shed before they were destroyed
  std::map<std::string, Revision, std::less<>> revisions_;   // by key, so that those of one model are neighbours
  std::map<std::string, Instant, std::less<>> gone_;         // models and adapters: when the last worker left
  std::map<std::string, std::string, std::less<>> known_;    // by name of a model or adapter: the model
  bool has_begun_ = false;                                   // a worker has joined
  mutable std::shared_ptr<const ModelDirectory> directory_;  // null: something has changed since it was made
};

}  // namespace roost::router
