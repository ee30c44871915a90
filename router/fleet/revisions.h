// The revisions of each model. Workers of one model name can share blocks and continue each other's requests only if
// they agree in name, fingerprint, KV dtype, block size and tokenizer. Each set of such workers is a revision of the
// model, with an index of its own. Usually there is one. During a rollout of new weights there are two, and requests
// are divided between them by their numbers of workers.
//
//   hello ──► Join ──► revision (an index, no worker ready) ── Publish ──► served ── Withdraw / last Leave ──► gone
//
// Not thread-safe, no clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "router/fleet/dispatcher.h"
#include "router/index/index_budget.h"
#include "router/index/prefix_index.h"

namespace roost::router {

// The name of the hello's revision; equal for all workers of the revision.
[[nodiscard]] std::string RevisionKey(const wire::Hello& hello);

class Revisions {
 public:
  // How long a model without workers is remembered: its workers may be restarting.
  static constexpr Duration kMemoryOfModels = std::chrono::minutes(10);
  static constexpr std::size_t kMaxGoneModels = 1024;

  explicit Revisions(std::uint64_t index_memory_bytes)
      : index_budget_(std::make_shared<IndexBudget>(index_memory_bytes)) {}

  // A worker joins. Returns its revision's index, which the first worker creates.
  [[nodiscard]] std::shared_ptr<PrefixIndex> Join(const std::string& key, const std::string& model);
  // A worker leaves; with the last one the revision goes too.
  void Leave(const std::string& key, Instant now);

  // Clients may use this revision from now on; fills in `served.index`. Keeps the existing object if nothing changed.
  void Publish(const std::string& key, ServedModel served);
  // Clients may not use it any more: none of its workers is ready.
  void Withdraw(const std::string& key);
  // Sets the number of its workers that take requests, which determines its share of the model's requests.
  void SetCapacity(const std::string& key, std::uint32_t worker_count);

  // Null when no ready worker serves it.
  [[nodiscard]] std::shared_ptr<const ServedModel> Find(std::string_view key) const;
  // The revision for one more request of the model: the one that is furthest behind its share. Counts the request. Null
  // when no worker serves the model.
  [[nodiscard]] std::shared_ptr<const ServedModel> Choose(std::string_view model);
  // The revision with the most workers that take requests. Null when no worker serves the model.
  [[nodiscard]] std::shared_ptr<const ServedModel> Main(std::string_view model) const;
  // All revisions of the model that are served.
  [[nodiscard]] std::vector<std::shared_ptr<const ServedModel>> AllOf(std::string_view model) const;
  // The main revision of each model.
  [[nodiscard]] std::vector<std::shared_ptr<const ServedModel>> Models() const;
  // Whether a worker serves the model now, will soon, or did recently. Before the first worker came, true for any
  // model.
  [[nodiscard]] bool IsExpected(std::string_view model, Instant now) const;

  // Frees some of the entries that lost workers left in the indexes.
  void SweepIndexes();
  [[nodiscard]] std::uint64_t indexed_block_count() const;
  [[nodiscard]] std::uint64_t index_memory_bytes() const { return index_budget_->used_bytes(); }
  [[nodiscard]] std::uint64_t shed_block_total() const;

 private:
  struct Revision {
    std::string model;
    std::shared_ptr<PrefixIndex> index;
    std::shared_ptr<const ServedModel> served;  // null: no worker is ready
    std::uint32_t joined_count = 0;             // workers
    std::uint32_t capacity = 0;                 // the workers that take requests
    std::uint64_t chosen_count = 0;             // since the model's revisions or their capacities changed
  };

  void ForEachServed(std::string_view model, const std::function<void(Revision&)>& visit);

  const std::shared_ptr<IndexBudget> index_budget_;
  std::uint64_t shed_before_ = 0;                           // blocks that indexes shed before they were destroyed
  std::map<std::string, Revision, std::less<>> revisions_;  // by key, so that those of one model are neighbours
  std::map<std::string, Instant, std::less<>> gone_;        // by model: when its last worker left
  bool has_begun_ = false;                                  // a worker has joined
};

}  // namespace roost::router
