// What is served under each model name. Workers of one name share blocks and continue each other's requests only if
// they serve the same thing: name, fingerprint, KV dtype, block size and tokenizer. Each such set of workers is a
// revision of the model, with an index of its own. Usually there is one. During a rollout to other weights there are
// two, and requests are divided between them by their numbers of workers.
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

// The name of a revision: equal for hellos that serve the same thing.
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
  // The number of its workers that take requests: its share of the model's requests.
  void SetCapacity(const std::string& key, std::uint32_t worker_count);

  // Null when no worker serves it.
  [[nodiscard]] std::shared_ptr<const ServedModel> Find(std::string_view key) const;
  // The revision for one more request of the model: the one that is furthest behind its share. Null when no worker
  // serves the model.
  [[nodiscard]] std::shared_ptr<const ServedModel> Choose(std::string_view model);
  // The same without counting a request: the revision with the most workers.
  [[nodiscard]] std::shared_ptr<const ServedModel> Main(std::string_view model) const;
  // All revisions of the model that are served.
  [[nodiscard]] std::vector<std::shared_ptr<const ServedModel>> AllOf(std::string_view model) const;
  // The main revision of each model.
  [[nodiscard]] std::vector<std::shared_ptr<const ServedModel>> Models() const;
  // Does a worker serve the model now, will one soon, or did one recently? Before the first worker came, any model may
  // be served soon.
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
    std::uint32_t capacity = 0;                 // those of them that take requests
    std::uint64_t chosen_count = 0;             // since the model's revisions or their capacities changed
  };

  void ForEachServed(std::string_view model, const std::function<void(Revision&)>& visit);

  const std::shared_ptr<IndexBudget> index_budget_;
  std::uint64_t shed_before_ = 0;                           // blocks, by indexes that are gone
  std::map<std::string, Revision, std::less<>> revisions_;  // by key, so that those of one model are neighbours
  std::map<std::string, Instant, std::less<>> gone_;        // models without a worker, by name
  bool has_begun_ = false;                                  // a worker came
};

}  // namespace roost::router
