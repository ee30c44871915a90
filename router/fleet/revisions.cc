#include "router/fleet/revisions.h"

#include <fmt/format.h>

#include <algorithm>
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
  }
  ++revision.joined_count;
  gone_.erase(model);
  has_begun_ = true;
  return revision.index;
}

void Revisions::Leave(const std::string& key, Instant now) {
  const auto found = revisions_.find(key);
  if (--found->second.joined_count > 0) return;
  shed_before_ += found->second.index->shed_block_total();
  const std::string model = found->second.model;
  revisions_.erase(found);
  const bool is_last = std::none_of(revisions_.begin(), revisions_.end(),
                                    [&](const auto& entry) { return entry.second.model == model; });
  if (!is_last) return;
  std::erase_if(gone_, [&](const auto& entry) { return now - entry.second >= kMemoryOfModels; });
  if (gone_.size() < kMaxGoneModels) gone_.insert_or_assign(model, now);
}

void Revisions::Publish(const std::string& key, ServedModel served) {
  Revision& revision = revisions_.at(key);
  served.index = revision.index;
  served.revision = key;
  if (revision.served != nullptr) {
    served.created_unix_seconds = revision.served->created_unix_seconds;
    if (AreEqual(*revision.served, served)) return;
  }
  revision.served = std::make_shared<const ServedModel>(std::move(served));
}

void Revisions::Withdraw(const std::string& key) {
  const auto found = revisions_.find(key);
  if (found != revisions_.end()) found->second.served = nullptr;
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

void Revisions::ForEachServed(std::string_view model, const std::function<void(Revision&)>& visit) {
  for (auto next = revisions_.lower_bound(model); next != revisions_.end() && next->first.starts_with(model); ++next) {
    if (next->second.model == model && next->second.served != nullptr) visit(next->second);
  }
}

std::shared_ptr<const ServedModel> Revisions::Choose(std::string_view model) {
  Revision* chosen = nullptr;
  double least = 0;
  ForEachServed(model, [&](Revision& revision) {
    if (chosen != nullptr && revision.capacity == 0) return;  // its workers only finish the requests that they have
    const double share_used = static_cast<double>(revision.chosen_count + 1) / std::max(1U, revision.capacity);
    if (chosen != nullptr && chosen->capacity > 0 && share_used >= least) return;
    chosen = &revision;
    least = share_used;
  });
  if (chosen == nullptr) return nullptr;
  ++chosen->chosen_count;
  return chosen->served;
}

std::shared_ptr<const ServedModel> Revisions::Main(std::string_view model) const {
  const Revision* main = nullptr;
  for (const auto& [key, revision] : revisions_) {
    if (revision.model != model || revision.served == nullptr) continue;
    if (main == nullptr || revision.capacity > main->capacity) main = &revision;
  }
  return main == nullptr ? nullptr : main->served;
}

std::vector<std::shared_ptr<const ServedModel>> Revisions::AllOf(std::string_view model) const {
  std::vector<std::shared_ptr<const ServedModel>> all;
  for (const auto& [key, revision] : revisions_) {
    if (revision.model == model && revision.served != nullptr) all.push_back(revision.served);
  }
  return all;
}

std::vector<std::shared_ptr<const ServedModel>> Revisions::Models() const {
  std::vector<std::shared_ptr<const ServedModel>> models;
  std::string_view last;
  for (const auto& [key, revision] : revisions_) {
    if (revision.model == last) continue;
    last = revision.model;
    if (std::shared_ptr<const ServedModel> main = Main(revision.model)) models.push_back(std::move(main));
  }
  return models;
}

bool Revisions::IsExpected(std::string_view model, Instant now) const {
  if (!has_begun_) return true;
  const auto gone = gone_.find(model);
  if (gone != gone_.end() && now - gone->second < kMemoryOfModels) return true;
  return std::any_of(revisions_.begin(), revisions_.end(),
                     [&](const auto& entry) { return entry.second.model == model; });
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
