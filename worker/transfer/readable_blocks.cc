#include "worker/transfer/readable_blocks.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/base/check.h"
#include "common/base/prefetch.h"

namespace roost::worker {

ReadableBlocks::ReadableBlocks(std::unique_ptr<BlockReader> reader, std::uint32_t block_count,
                               std::uint32_t block_tokens)
    : reader_(std::move(reader)),
      sizes_{.block_tokens = block_tokens, .data_bytes = reader_->block_bytes(), .dtype = reader_->dtype()},
      first_(std::bit_ceil(std::size_t{std::max(1U, block_count)})),
      entries_(block_count),
      tokens_(std::size_t{block_count} * block_tokens) {
  std::fill(first_.begin(), first_.end(), kNone);
}

std::span<TokenId> ReadableBlocks::TokensOf(std::uint32_t block) {
  return std::span(tokens_).subspan(std::size_t{block} * sizes_.block_tokens, sizes_.block_tokens);
}

void ReadableBlocks::PrefetchPublish(const PublishedBlock& block) {
  const Entry* const entry = &entries_[block.block.value()];
  Prefetch(entry);
  Prefetch(entry + 1);  // an entry is longer than a line
  const std::span<const TokenId> tokens = TokensOf(block.block.value());
  Prefetch(tokens.data());
  Prefetch(tokens.data() + tokens.size() - 1);
  Prefetch(&FirstOf(block.about.hash));
}

void ReadableBlocks::Publish(std::span<const PublishedBlock> blocks) {
  if (blocks.empty()) return;
  for (const PublishedBlock& published : blocks) PrefetchPublish(published);
  const std::lock_guard lock(mutex_);
  for (const PublishedBlock& published : blocks) {
    const std::uint32_t block = published.block.value();
    Entry& entry = entries_[block];
    ROOST_CHECK(!entry.is_published && entry.copy_count == 0 && published.tokens.size() == sizes_.block_tokens,
                "block {} is published", block);
    entry.about = published.about;
    std::copy(published.tokens.begin(), published.tokens.end(), TokensOf(block).begin());
    entry.next = std::exchange(FirstOf(published.about.hash), block);
    entry.is_published = true;
    ++count_;
  }
  if (follower_count_ > 0) published_.notify_all();
}

void ReadableBlocks::Retract(std::span<const BlockId> blocks) {
  if (blocks.empty()) return;
  std::unique_lock lock(mutex_);
  awaited_.clear();
  for (const BlockId block : blocks) {
    if (TakeOut(block.value()) && entries_[block.value()].copy_count > 0) awaited_.push_back(block.value());
  }
  for (const std::uint32_t block : awaited_) {
    copied_.wait(lock, [&] { return entries_[block].copy_count == 0; });
  }
}

bool ReadableBlocks::TakeOut(std::uint32_t block) {
  Entry& entry = entries_[block];
  if (!entry.is_published) return false;
  std::uint32_t* link = &FirstOf(entry.about.hash);
  while (*link != block) link = &entries_[*link].next;
  *link = entry.next;
  entry.is_published = false;
  --count_;
  return true;
}

std::optional<std::uint32_t> ReadableBlocks::Find(BlockHash hash, std::uint64_t tenant) const {
  std::uint32_t block = first_[hasher_(hash) & (first_.size() - 1)];
  while (block != kNone && entries_[block].about.hash != hash) block = entries_[block].next;
  if (block == kNone) return std::nullopt;
  const std::uint64_t owner = entries_[block].about.tenant;
  if (owner != 0 && owner != tenant) return std::nullopt;
  return block;
}

bool ReadableBlocks::Read(BlockHash hash, std::uint64_t tenant, FrameBuffer& to) {
  ROOST_CHECK(to.sizes() == sizes_, "a buffer of another size");
  std::optional<std::uint32_t> block;
  FrameBlock about;
  std::vector<TokenId> tokens;
  {
    const std::lock_guard lock(mutex_);
    block = Find(hash, tenant);
    if (!block) return false;
    about = entries_[*block].about;
    const std::span<const TokenId> stored = TokensOf(*block);
    tokens.assign(stored.begin(), stored.end());
    ++entries_[*block].copy_count;
  }
  reader_->Read(BlockId(*block), to.data(), [this, block] { EndCopy(*block); });
  SealFrame(about, tokens, to);
  return true;
}

bool ReadableBlocks::AwaitPublished(BlockHash hash, std::uint64_t tenant, std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  const std::uint64_t woken = wake_count_;
  ++follower_count_;
  published_.wait_for(lock, time, [&] { return wake_count_ != woken || Find(hash, tenant).has_value(); });
  --follower_count_;
  return Find(hash, tenant).has_value();
}

void ReadableBlocks::WakeFollowers() {
  {
    const std::lock_guard lock(mutex_);
    ++wake_count_;
  }
  published_.notify_all();
}

void ReadableBlocks::EndCopy(std::uint32_t block) {
  bool is_awaited = false;
  {
    const std::lock_guard lock(mutex_);
    is_awaited = --entries_[block].copy_count == 0 && !entries_[block].is_published;
  }
  if (is_awaited) copied_.notify_all();
}

std::uint32_t ReadableBlocks::CountFront(const FrameChain& chain) const {
  const std::lock_guard lock(mutex_);
  std::uint32_t count = 0;
  while (count < chain.size() && Find(chain.hashes[count], chain.tenant)) ++count;
  return count;
}

std::uint32_t ReadableBlocks::size() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

}  // namespace roost::worker
