#include "router/fleet/revisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace roost::router {

namespace {

bool AreEqual(const ServedModel& a, const ServedModel& b) {
  return a.max_context_tokens == b.max_context_tokens && a.index == b.index && a.tokenizer == b.tokenizer;
}

}  // namespace

// Names have no control characters, so different parts never give the same key.
std::string RevisionKey(const wire::Hello& hello) {
  return fmt::format("{}\n{}\n{}\n{}\n{}", hello.model, hello.fingerprint, hello.kv_dtype, hello.block_tokens,
                     hello.tokenizer_digest);
}

std::shared_ptr<PrefixIndex> Revisions::Join(const std::string& key, const std::string& model) {
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
  shed_before_ += found->second.index->shed_block_total();
  const Revision left = std::move(found->second);
  revisions_.erase(found);
  const bool is_last = std::none_of(revisions_.begin(), revisions_.end(),
                                    [&](const auto& entry) { return entry.second.model == left.model; });
  if (is_last) NoteGone({left.model}, now);
}

void Revisions::NoteLost(const AdapterNames& adapters, Instant now) {
  std::vector<std::string> lost;
  std::copy_if(adapters.begin(), adapters.end(), std::back_inserter(lost),
               [this](const std::string& name) { return AdapterOffersOf(name).empty(); });
  NoteGone(lost, now);
}

void Revisions::NoteKnown(const std::string& name, const std::string& model) {
  if (known_.size() < kMaxKnownNames) known_.try_emplace(name, model);
}

std::optional<std::string> Revisions::KnownModel(std::string_view name) const {
  const auto found = known_.find(name);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

void Revisions::NoteGone(const std::vector<std::string>& names, Instant now) {
  std::erase_if(gone_, [&](const auto& entry) { return now - entry.second >= kMemoryOfModels; });
  for (const std::string& name : names) {
    if (gone_.size() < kMaxGoneModels) gone_.insert_or_assign(name, now);
  }
}

void Revisions::Publish(const std::string& key, ServedModel served, const AdapterNames& adapters) {
  Revision& revision = revisions_.at(key);
  served.index = revision.index;
  served.revision = key;
  const std::int64_t now = served.created_unix_seconds;
  if (revision.served != nullptr) served.created_unix_seconds = revision.served->created_unix_seconds;
  if (revision.served == nullptr || !AreEqual(*revision.served, served)) {
    revision.served = std::make_shared<const ServedModel>(std::move(served));
    revision.adapters.clear();
  }
  std::erase_if(revision.adapters, [&adapters](const auto& entry) { return !adapters.contains(entry.first); });
  for (const std::string& name : adapters) {
    gone_.erase(name);
    NoteKnown(name, revision.model);
    if (revision.adapters.contains(name)) continue;
    ServedModel adapter = *revision.served;
    adapter.base = std::exchange(adapter.name, name);
    adapter.created_unix_seconds = now;
    revision.adapters.emplace(name, std::make_shared<const ServedModel>(std::move(adapter)));
  }
}

void Revisions::Withdraw(const std::string& key) {
  const auto found = revisions_.find(key);
  if (found == revisions_.end()) return;
  found->second.served = nullptr;
  found->second.adapters.clear();
}

void Revisions::SetCapacity(const std::string& key, std::uint32_t worker_count) {
  const auto found = revisions_.find(key);
  if (found == revisions_.end() || found->second.capacity == worker_count) return;
  found->second.capacity = worker_count;
  // The counts were made under other shares, so they start again.
  for (auto& [other_key, other] : revisions_) {
    if (other.model == found->second.model) other.chosen_count = 0;
  }
}

std::shared_ptr<const ServedModel> Revisions::Find(std::string_view key) const {
  const auto found = revisions_.find(key);
  return found == revisions_.end() ? nullptr : found->second.served;
}

std::vector<Revisions::Offer> Revisions::OffersOf(std::string_view name) const {
  std::vector<Offer> offers;
  for (auto next = revisions_.lower_bound(name); next != revisions_.end() && next->first.starts_with(name); ++next) {
    const Revision& revision = next->second;
    if (revision.model == name && revision.served != nullptr) offers.push_back({&revision, revision.served});
  }
  return offers.empty() ? AdapterOffersOf(name) : offers;
}

std::vector<Revisions::Offer> Revisions::AdapterOffersOf(std::string_view name) const {
  std::vector<Offer> offers;
  for (const auto& [key, revision] : revisions_) {
    if (!offers.empty() && offers.front().revision->model != revision.model) break;
    const auto adapter = revision.adapters.find(name);
    if (adapter != revision.adapters.end()) offers.push_back({&revision, adapter->second});
  }
  return offers;
}

std::shared_ptr<const ServedModel> Revisions::Choose(std::string_view name) {
  const std::vector<Offer> offers = OffersOf(name);
  const Offer* chosen = nullptr;
  double least = 0;
  for (const Offer& offer : offers) {
    const Revision& revision = *offer.revision;
    if (chosen != nullptr && revision.capacity == 0) continue;  // its workers only finish the requests that they have
    const double share_used = static_cast<double>(revision.chosen_count + 1) / std::max(1U, revision.capacity);
    if (chosen != nullptr && chosen->revision->capacity > 0 && share_used >= least) continue;
    chosen = &offer;
    least = share_used;
  }
  if (chosen == nullptr) return nullptr;
  ++revisions_.find(chosen->served->revision)->second.chosen_count;
  return chosen->served;
}

std::shared_ptr<const ServedModel> Revisions::Main(std::string_view name) const {
  const std::vector<Offer> offers = OffersOf(name);
  const auto main = std::max_element(offers.begin(), offers.end(), [](const Offer& a, const Offer& b) {
    return a.revision->capacity < b.revision->capacity;
  });
  return main == offers.end() ? nullptr : main->served;
}

std::vector<std::shared_ptr<const ServedModel>> Revisions::AllOf(std::string_view name) const {
  std::vector<std::shared_ptr<const ServedModel>> all;
  for (Offer& offer : OffersOf(name)) all.push_back(std::move(offer.served));
  return all;
}

std::vector<std::shared_ptr<const ServedModel>> Revisions::Models() const {
  std::map<std::string_view, AdapterNames> adapters_of;  // by model
  for (const auto& [key, revision] : revisions_) {
    AdapterNames& names = adapters_of[revision.model];
    for (const auto& [name, adapter] : revision.adapters) names.insert(name);
  }
  std::vector<std::shared_ptr<const ServedModel>> models;
  for (const auto& [model, adapters] : adapters_of) {
    if (std::shared_ptr<const ServedModel> main = Main(model)) models.push_back(std::move(main));
    for (const std::string& name : adapters) {
      std::shared_ptr<const ServedModel> adapter = Main(name);
      if (adapter != nullptr && adapter->base == model) models.push_back(std::move(adapter));
    }
  }
  return models;
}

bool Revisions::IsExpected(std::string_view name, Instant now) const {
  if (!has_begun_) return true;
  const auto gone = gone_.find(name);
  if (gone != gone_.end() && now - gone->second < kMemoryOfModels) return true;
  return std::any_of(revisions_.begin(), revisions_.end(),
                     [&](const auto& entry) { return entry.second.model == name; });
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
