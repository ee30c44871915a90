#include "worker/adapters/slots/slot_shelf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <string>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <variant>

#include "worker/adapters/engine_protocol.h"

namespace roost::worker::adapters {
namespace {

// No model has fewer bytes of a block.
constexpr std::uint64_t kLeastBlockBytes = std::uint64_t{16} << 10U;
constexpr std::uint64_t kMostBlocks = std::uint64_t{1} << 18U;
constexpr std::size_t kMaxEntries = 4096;
// Before anything was saved or restored.
constexpr double kFirstRate = 500e6;  // bytes/s
constexpr double kKept = 0.75;        // of the older samples, with each one
constexpr double kMaxSlower = 4;
// Then the disk may have become quicker.
constexpr Duration kBelieved = std::chrono::minutes(10);
constexpr std::size_t kMaxDiskHashes = 1024;  // of an event

}  // namespace

std::size_t CommonBlocks(std::span<const BlockHash> a, std::span<const BlockHash> b) {
  std::size_t common = 0;
  std::size_t beyond = std::min(a.size(), b.size());
  while (common < beyond) {
    const std::size_t middle = (common + beyond) / 2;
    (a[middle] == b[middle] ? common : beyond) = a[middle] == b[middle] ? middle + 1 : middle;
  }
  return common;
}

// ---- orders to evict ----

BlockHash SlotTenant(std::string_view tenant) {
  return RootHash({.fingerprint = "", .adapter = "", .tenant = std::string(tenant), .salt = "", .kv_dtype = ""});
}

SlotErasure::SlotErasure(const wire::Evict& order) {
  if (const auto* const tenant = std::get_if<wire::TenantToEvict>(&order.what)) {
    tenant_ = SlotTenant(tenant->tenant);
  } else if (const auto* const block = std::get_if<wire::BlockToEvict>(&order.what)) {
    last_ = block->hash;
  } else if (const auto* const prompt = std::get_if<wire::PromptToEvict>(&order.what)) {
    root_ = prompt->root;
    chain_ = prompt->block_hashes.size() == prompt->tokens.size() / kGrainTokens
                 ? prompt->block_hashes
                 : HashBlocks(prompt->root, prompt->own, prompt->tokens, kGrainTokens);
    if (!chain_.empty()) last_ = chain_.back();
  }
}

void SlotErasure::Learn(std::span<const BlockHash> hashes) {
  if (!last_ || !chain_.empty()) return;
  const auto found = std::find(hashes.begin(), hashes.end(), *last_);
  if (found != hashes.end()) chain_.assign(hashes.begin(), found + 1);
}

bool SlotErasure::Names(BlockHash root, BlockHash tenant, std::span<const BlockHash> hashes) const {
  if (tenant_) return tenant == *tenant_;
  if (!last_) return root == *root_;
  if (std::find(hashes.begin(), hashes.end(), *last_) != hashes.end()) return true;
  const bool is_front = CommonBlocks(hashes, chain_) == hashes.size();
  return is_front && (root_ ? root == *root_ : root != BlockHash());
}

// ---- the shelf ----

BlockHash OriginOf(const SlotDirectory& directory, BlockHash model, const EngineFacts& facts) {
  std::error_code unknown;
  std::filesystem::path file = facts.model_file;
  if (!std::filesystem::exists(file, unknown)) file = directory.model;
  const std::uintmax_t bytes = std::filesystem::is_regular_file(file, unknown) ? file_size(file, unknown) : 0;
  const auto written = std::filesystem::last_write_time(file, unknown).time_since_epoch().count();
  return RootHash({.fingerprint = model.ToHex(),
                   .adapter = "",
                   .tenant = "",
                   .salt = fmt::format("{}\n{}\n{}\n{}\n{}", facts.model_file, bytes, unknown ? 0 : written,
                                       facts.max_context_tokens, facts.version),
                   .kv_dtype = ""});
}

// One that takes much longer than expected was disturbed.
void SlotShelf::Rate::Note(std::uint64_t more_bytes, Duration time, Instant now) {
  const double expected = static_cast<double>(more_bytes) / bytes_per_second(now);
  const bool is_known = seconds > 0 && now - noted < kBelieved;
  bytes = kKept * bytes + static_cast<double>(more_bytes);
  seconds = kKept * seconds + (is_known ? std::min(ToSeconds(time), kMaxSlower * expected) : ToSeconds(time));
  noted = now;
}

double SlotShelf::Rate::bytes_per_second(Instant now) const {
  return seconds > 0 && now - noted < kBelieved ? bytes / seconds : kFirstRate;
}

SlotShelf::SlotShelf(Options options, std::unique_ptr<SlotFiles> files, BlockHash origin, std::vector<SavedSlot> there)
    : options_(options), files_(std::move(files)), origin_(origin) {
  for (SavedSlot& saved : there) Add(std::move(saved));
  events_.clear();
}

Result<std::unique_ptr<SlotShelf>> SlotShelf::Open(const SlotDirectory& directory, bool goes_on_at_points,
                                                   BlockHash origin, std::function<void()> on_done) {
  auto files = std::make_unique<SlotFiles>(directory.folder);
  ROOST_ASSIGN_OR_RETURN(std::vector<SavedSlot> there, files->ReadAll());
  files->Start(std::move(on_done));
  const Options options{
      .bytes = directory.bytes, .save_after = directory.save_after, .goes_on_at_points = goes_on_at_points};
  return std::make_unique<SlotShelf>(options, std::move(files), origin, std::move(there));
}

std::uint32_t SlotShelf::MostBlocks(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(bytes / kLeastBlockBytes, 1024, kMostBlocks));
}

// ---- the set ----

SlotShelf::Match SlotShelf::Find(BlockHash root, std::span<const BlockHash> hashes, std::uint32_t prompt_tokens) const {
  Match best;
  for (const SavedSlot& saved : entries_) {
    if (saved.origin != origin_ || saved.root != root) continue;
    const std::size_t common = CommonBlocks(hashes, saved.hashes);
    if (options_.goes_on_at_points && (common < saved.hashes.size() || saved.tokens >= prompt_tokens)) continue;
    const auto tokens = std::min(static_cast<std::uint32_t>(common) * kGrainTokens, prompt_tokens - 1);
    // The shorter of two is read sooner.
    const bool is_shorter = best.saved != nullptr && tokens == best.tokens && saved.bytes < best.saved->bytes;
    if (tokens > best.tokens || is_shorter) best = {&saved, tokens};
  }
  return best;
}

SlotShelf::Entries::iterator SlotShelf::At(const std::string& name) {
  return std::find_if(entries_.begin(), entries_.end(), [&name](const SavedSlot& saved) { return saved.name == name; });
}

const SavedSlot* SlotShelf::Named(const std::string& name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&name](const SavedSlot& saved) { return saved.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

std::uint32_t SlotShelf::Holds(BlockHash root, std::span<const BlockHash> hashes, std::uint32_t tokens) const {
  std::uint32_t most = 0;
  for (const SavedSlot& saved : entries_) {
    if (saved.origin != origin_ || saved.root != root) continue;
    const std::size_t common = CommonBlocks(hashes, saved.hashes);
    const bool is_all = common == hashes.size();
    if (options_.goes_on_at_points && (!is_all || saved.tokens != tokens)) continue;
    most = std::max(most, is_all ? tokens : static_cast<std::uint32_t>(common) * kGrainTokens);
  }
  return most;
}

std::optional<SavedSlot> SlotShelf::Announce(BlockHash root, std::span<const BlockHash> hashes, std::uint32_t tokens,
                                             double seconds_per_token) {
  const std::uint64_t bytes = BytesOf(tokens);
  if (bytes > options_.bytes || hashes.size() > MostBlocks(options_.bytes)) return std::nullopt;
  MakeRoom(bytes, hashes.size());
  const std::array<TokenId, 9> parts{static_cast<TokenId>(origin_.high),
                                     static_cast<TokenId>(origin_.high >> 32U),
                                     static_cast<TokenId>(origin_.low),
                                     static_cast<TokenId>(origin_.low >> 32U),
                                     static_cast<TokenId>(root.high),
                                     static_cast<TokenId>(root.high >> 32U),
                                     static_cast<TokenId>(root.low),
                                     static_cast<TokenId>(root.low >> 32U),
                                     tokens};
  return SavedSlot{.name = ChainHash(hashes.empty() ? root : hashes.back(), parts).ToHex(),
                   .origin = origin_,
                   .root = root,
                   .hashes = {hashes.begin(), hashes.end()},
                   .tokens = tokens,
                   .compute_seconds = seconds_per_token * tokens};
}

void SlotShelf::Add(SavedSlot saved) {
  if (At(saved.name) != entries_.end()) return;
  if (saved.bytes > options_.bytes || saved.hashes.size() > MostBlocks(options_.bytes)) {
    files_->Remove(saved.name);
    return;
  }
  MakeRoom(saved.bytes, saved.hashes.size());
  used_bytes_ += saved.bytes;
  used_blocks_ += saved.hashes.size();
  const auto entry = entries_.insert(entries_.end(), std::move(saved));
  Enter(*entry);
  for (auto next = entries_.begin(); next != entry;) {
    const auto other = next++;
    const bool is_within = other->origin == entry->origin && other->root == entry->root &&
                           CommonBlocks(other->hashes, entry->hashes) == other->hashes.size();
    if (is_within) Drop(other);
  }
}

void SlotShelf::MakeRoom(std::uint64_t bytes, std::size_t blocks) {
  const std::size_t most_blocks = MostBlocks(options_.bytes);
  while (!entries_.empty() && (used_bytes_ + bytes > options_.bytes || used_blocks_ + blocks > most_blocks ||
                               entries_.size() >= kMaxEntries)) {
    Drop(entries_.begin());
  }
}

void SlotShelf::Drop(Entries::iterator entry) {
  files_->Remove(entry->name);
  TakeOut(entry);
}

void SlotShelf::TakeOut(Entries::iterator entry) {
  Leave(*entry);
  used_bytes_ -= entry->bytes;
  used_blocks_ -= entry->hashes.size();
  entries_.erase(entry);
}

SlotShelf::Erased SlotShelf::Erase(const SlotErasure& erasure) {
  Erased erased;
  std::unordered_set<BlockHash, BlockHashHasher> blocks;
  for (auto next = entries_.begin(); next != entries_.end();) {
    const auto entry = next++;
    if (!erasure.Names(*entry)) continue;
    erased.names.push_back(entry->name);
    blocks.insert(entry->hashes.begin(), entry->hashes.end());
    TakeOut(entry);
  }
  for (const SavedSlot& saved : entries_) {
    for (const BlockHash hash : saved.hashes) blocks.erase(hash);
  }
  erased.block_count = static_cast<std::uint32_t>(blocks.size());
  return erased;
}

void SlotShelf::Teach(SlotErasure& erasure) const {
  for (const SavedSlot& saved : entries_) erasure.Learn(saved.hashes);
}

void SlotShelf::PauseSaves(Instant now) { paused_until_ = now + std::chrono::minutes(1); }

void SlotShelf::Remove(const std::string& name) {
  if (const auto entry = At(name); entry != entries_.end()) Drop(entry);
}

void SlotShelf::Use(const std::string& name) {
  if (const auto entry = At(name); entry != entries_.end()) entries_.splice(entries_.end(), entries_, entry);
}

void SlotShelf::SetOrigin(BlockHash origin) {
  if (origin == origin_) return;
  for (const SavedSlot& saved : entries_) Leave(saved);
  origin_ = origin;
  for (const SavedSlot& saved : entries_) Enter(saved);
  saves_ = {};
  restores_ = {};
  bytes_per_token_ = 0;
}

// ---- speeds ----

void SlotShelf::NoteSaved(std::uint32_t tokens, std::uint64_t bytes, Duration time, Instant now) {
  saves_.Note(bytes, time, now);
  if (tokens > 0) bytes_per_token_ = static_cast<double>(bytes) / tokens;
}

void SlotShelf::NoteRestored(std::uint64_t bytes, Duration time, Instant now) { restores_.Note(bytes, time, now); }

double SlotShelf::SaveSeconds(std::uint32_t tokens, Instant now) const {
  return static_cast<double>(BytesOf(tokens)) / saves_.bytes_per_second(now);
}

double SlotShelf::RestoreSeconds(std::uint64_t bytes, Instant now) const {
  return static_cast<double>(bytes) / restores_.bytes_per_second(now);
}

// ---- what routers are told ----

bool SlotShelf::IsTold(const SavedSlot& saved) const { return !options_.goes_on_at_points && saved.origin == origin_; }

void SlotShelf::Enter(const SavedSlot& saved) {
  if (!IsTold(saved)) return;
  std::size_t first = saved.hashes.size();
  for (std::size_t i = 0; i < saved.hashes.size(); ++i) {
    if (blocks_[saved.hashes[i]]++ > 0) continue;
    first = std::min(first, i);
    digest_ = digest_ ^ saved.hashes[i];
  }
  // An entry that has a block has all before it, so the new ones are the last.
  for (std::size_t begin = first; begin < saved.hashes.size(); begin += kMaxDiskHashes) {
    const auto part = std::span(saved.hashes).subspan(begin, std::min(kMaxDiskHashes, saved.hashes.size() - begin));
    wire::CacheEvent& event = events_.emplace_back();
    event.kind = wire::CacheEvent::Kind::kDiskStored;
    event.disk_stored = {.first_position = static_cast<std::uint32_t>(begin), .hashes = {part.begin(), part.end()}};
  }
}

void SlotShelf::Leave(const SavedSlot& saved) {
  if (!IsTold(saved)) return;
  std::vector<BlockHash> removed;
  for (std::size_t i = saved.hashes.size(); i-- > 0;) {
    const auto block = blocks_.find(saved.hashes[i]);
    if (--block->second > 0) continue;
    digest_ = digest_ ^ saved.hashes[i];
    removed.push_back(saved.hashes[i]);
    blocks_.erase(block);
  }
  for (std::size_t begin = 0; begin < removed.size(); begin += kMaxDiskHashes) {
    const auto part = std::span(removed).subspan(begin, std::min(kMaxDiskHashes, removed.size() - begin));
    wire::CacheEvent& event = events_.emplace_back();
    event.kind = wire::CacheEvent::Kind::kDiskRemoved;
    event.disk_removed = {part.begin(), part.end()};
  }
}

DiskView SlotShelf::view(Instant now) const {
  if (options_.goes_on_at_points) return {};
  double bytes = bytes_per_token_ * kGrainTokens;
  if (bytes == 0 && used_blocks_ > 0) bytes = static_cast<double>(used_bytes_) / static_cast<double>(used_blocks_);
  return {.blocks = static_cast<std::uint32_t>(blocks_.size()),
          .digest = digest_,
          .bytes_per_second = restores_.bytes_per_second(now),
          .block_bytes = std::max<std::uint64_t>(static_cast<std::uint64_t>(bytes), 1)};
}

DiskStart SlotShelf::start() const {
  const DiskView told = view({});
  return {.runs = Snapshot(),
          .most_blocks = MostBlocks(options_.bytes),
          .bytes_per_second = told.bytes_per_second,
          .block_bytes = told.block_bytes};
}

std::vector<wire::StoredRun> SlotShelf::Snapshot() const {
  std::vector<wire::StoredRun> runs;
  std::unordered_set<BlockHash, BlockHashHasher> told;
  for (const SavedSlot& saved : entries_) {
    if (!IsTold(saved)) continue;
    std::size_t first = 0;
    while (first < saved.hashes.size() && told.contains(saved.hashes[first])) ++first;
    if (first == saved.hashes.size()) continue;
    runs.push_back({.first_position = static_cast<std::uint32_t>(first),
                    .hashes = {saved.hashes.begin() + static_cast<std::ptrdiff_t>(first), saved.hashes.end()}});
    told.insert(saved.hashes.begin(), saved.hashes.end());
  }
  return runs;
}

std::vector<wire::CacheEvent> SlotShelf::TakeEvents() { return std::exchange(events_, {}); }

}  // namespace roost::worker::adapters
