#include "worker/engine/engine_state.h"

#include "worker/cache/cache_travel.h"

namespace roost::worker {

namespace {

// So few that their descriptions and all that is written of them stay in the processor's nearest cache.
constexpr std::size_t kPublishedAtOnce = 16;

}  // namespace

BlockPublisher::BlockPublisher(PrefixCache& cache, ReadableBlocks* readable) : cache_(cache), readable_(readable) {
  if (readable_ != nullptr) cache_.NoteChanges(changes_);
}

// Blocks that were committed since the last look have arrived: the step that begins writes them.
void BlockPublisher::OnBegin() {
  ++begun_count_;
  if (readable_ != nullptr) TakeChanges();
}

// A block that was committed since the last look is written by the step that began last, or was by one before it.
void BlockPublisher::TakeChanges() {
  readable_->Retract(changes_.removed);
  for (const BlockRef block : changes_.stored) stored_.push_back({block, begun_count_});
  changes_.Clear();
}

void BlockPublisher::Publish() {
  if (readable_ == nullptr) return;
  TakeChanges();
  for (; !stored_.empty() && stored_.front().step <= finished_count_; stored_.pop_front()) {
    const BlockRef ref = stored_.front().block;
    if (cache_.pool().generation(ref.block) != ref.generation || !cache_.IsReady(ref.block)) continue;
    const ReadyBlock block = Describe(cache_.tree(), ref.block);
    published_.push_back({.block = ref.block,
                          .about = {.position = block.position,
                                    .hash = block.hash,
                                    .parent = block.parent,
                                    .root = block.root,
                                    .tenant = TenantHash(cache_.tenants().name(block.tenant))},
                          .tokens = block.tokens});
    if (published_.size() == kPublishedAtOnce) PublishDescribed();
  }
  PublishDescribed();
}

void BlockPublisher::PublishDescribed() {
  readable_->Publish(published_);
  published_.clear();
}

}  // namespace roost::worker
