#include "router/fleet/workers/revisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace roost::router {

namespace {

bool AreEqual(const ServedModel& a, const ServedModel& b) {
  return a.max_context_tokens == b.max_context_tokens && a.index == b.index && a.tokenizer == b.tokenizer &&
         a.routes == b.routes;
}

}  // namespace

// Names have no control characters, so different parts never give the same key.
std::string RevisionKey(const wire::Hello& hello) {
  return fmt::format("{}\n{}\n{}\n{}\n{}", hello.model, hello.fingerprint, hello.kv_dtype, hello.block_tokens,
                     hello.tokenizer_digest);
}

std::shared_ptr<PrefixIndex> Revisions::Join(const std::string& key, const std::string& model) {
  OnChange();
  Revision& revision = revisions_[key];
  if (revision.index == nullptr) {
    revision.model = model;
    revision.index = std::make_shared<PrefixIndex>(index_budget_);
    revision.step_costs = std::make_shared<StepCosts>();
  }
  ++revision.joined_count;
  NoteKnown(model, model);
  gone_.erase(model);
  has_begun_ = true;
  return revision.index;
}

void Revisions::Leave(const std::string& key, Instant now) {
  const auto found = revisions_.find(key);
  if (--found->second.joined_count > 0) return;
  OnChange();
  shed_before_ += found->second.index->shed_block_total();
  const Revision left = std::move(found->second);
  revisions_.erase(found);
  const bool is_last = std::none_of(revisions_.begin(), revisions_.end(),
                                    [&](const auto& entry) { return entry.second.model == left.model; });
  if (is_last) NoteGone({left.model}, now);
}

void Revisions::NoteLost(const AdapterNames& names, Instant now) {
  const Offers offers = OtherOffers();
  std::vector<std::string> lost;
  std::copy_if(names.begin(), names.end(), std::back_inserter(lost),
               [&offers](const std::string& name) { return !offers.contains(name); });
  NoteGone(lost, now);
}

void Revisions::NoteKnown(const std::string& name, const std::string& model) {
  if (known_.size() < kMaxKnownNames) known_.try_emplace(name, model);
}

void Revisions::NoteGone(const std::vector<std::string>& names, Instant now) {
  OnChange();
  std::erase_if(gone_, [&](const auto& entry) { return now - entry.second >= ModelDirectory::kMemoryOfModels; });
  for (const std::string& name : names) {
    if (gone_.size() < kMaxGoneModels) gone_.insert_or_assign(name, now);
  }
}

void Revisions::Publish(const std::string& key, ServedModel served, const AdapterNames& aliases,
                        const AdapterNames& adapters) {
  OnChange();
  Revision& revision = revisions_.at(key);
  served.index = revision.index;
  served.revision = key;
  const std::int64_t now = served.created_unix_seconds;
  if (revision.served != nullptr) served.created_unix_seconds = revision.served->created_unix_seconds;
  if (revision.served == nullptr || !AreEqual(*revision.served, served)) {
    revision.served = std::make_shared<const ServedModel>(std::move(served));
    revision.others.clear();
  }
  std::erase_if(revision.others, [&](const auto& entry) {
    const bool is_adapter = adapters.contains(entry.first);
    return entry.second->is_alias ? is_adapter || !aliases.contains(entry.first) : !is_adapter;
  });
  const auto add = [&](const AdapterNames& names, bool is_alias) {
    for (const std::string& name : names) {
      gone_.erase(name);
      NoteKnown(name, revision.model);
      if (name == revision.model || revision.others.contains(name)) continue;
      ServedModel other = *revision.served;
      other.base = std::exchange(other.name, name);
      other.is_alias = is_alias;
      if (!is_alias) other.created_unix_seconds = now;
      revision.others.emplace(name, std::make_shared<const ServedModel>(std::move(other)));
    }
  };
  add(adapters, false);
  add(aliases, true);
}

void Revisions::Withdraw(const std::string& key) {
  const auto found = revisions_.find(key);
  if (found == revisions_.end()) return;
  OnChange();
  found->second.served = nullptr;
  found->second.others.clear();
}

void Revisions::SetCapacity(const std::string& key, std::uint32_t worker_count) {
  const auto found = revisions_.find(key);
  if (found == revisions_.end() || found->second.capacity == worker_count) return;
  OnChange();
  found->second.capacity = worker_count;
  // The counts were made under other shares, so they start again.
  for (auto& [other_key, other] : revisions_) {
    if (other.model != found->second.model) continue;
    other.chosen_count = std::make_shared<std::atomic<std::uint64_t>>(0);
  }
}

std::shared_ptr<const ServedModel> Revisions::Find(std::string_view key) const {
  const auto found = revisions_.find(key);
  return found == revisions_.end() ? nullptr : found->second.served;
}

Revisions::Offers Revisions::ModelOffers() const {
  Offers offers;
  for (const auto& [key, revision] : revisions_) {
    if (revision.served == nullptr) continue;
    offers[revision.model].push_back({revision.served, revision.capacity, revision.chosen_count});
  }
  return offers;
}

Revisions::Offers Revisions::OtherOffers() const {
  Offers offers;
  for (const auto& [key, revision] : revisions_) {
    for (const auto& [name, other] : revision.others) {
      std::vector<ModelDirectory::Offer>& of_name = offers[name];
      if (!of_name.empty() && of_name.front().served->base != revision.model) continue;
      of_name.push_back({other, revision.capacity, revision.chosen_count});
    }
  }
  return offers;
}

std::vector<std::shared_ptr<const ServedModel>> Revisions::ListModels(const ModelDirectory& directory) const {
  std::map<std::string_view, AdapterNames> others_of;  // by model
  for (const auto& [key, revision] : revisions_) {
    AdapterNames& names = others_of[revision.model];
    for (const auto& [name, other] : revision.others) names.insert(name);
  }
  std::vector<std::shared_ptr<const ServedModel>> models;
  for (const auto& [model, others] : others_of) {
    if (std::shared_ptr<const ServedModel> main = directory.Main(model)) models.push_back(std::move(main));
    for (const std::string& name : others) {
      std::shared_ptr<const ServedModel> other = directory.Main(name);
      if (other != nullptr && other->base == model) models.push_back(std::move(other));
    }
  }
  return models;
}

ModelDirectory Revisions::MakeDirectory() const {
  ModelDirectory directory;
  directory.offers = ModelOffers();
  directory.offers.merge(OtherOffers());  // a name that a model has means the model
  directory.models = ListModels(directory);
  for (const auto& [key, revision] : revisions_) directory.joined.insert(revision.model);
  directory.gone = gone_;
  directory.known = known_;
  directory.has_begun = has_begun_;
  return directory;
}

const std::shared_ptr<const ModelDirectory>& Revisions::directory() const {
  if (directory_ == nullptr) directory_ = std::make_shared<const ModelDirectory>(MakeDirectory());
  return directory_;
}

void Revisions::SweepIndexes() {
  // Takes some tens of microseconds for each revision.
  constexpr std::size_t kBuckets = 4096;
  for (const auto& [key, revision] : revisions_) revision.index->Sweep(kBuckets);
}

std::uint64_t Revisions::indexed_block_count() const {
  std::uint64_t count = 0;
  for (const auto& [key, revision] : revisions_) count += revision.index->block_count();
  return count;
}

std::uint64_t Revisions::shed_block_total() const {
  std::uint64_t total = shed_before_;
  for (const auto& [key, revision] : revisions_) total += revision.index->shed_block_total();
  return total;
}

}  // namespace roost::router
