// A model whose "KV" shows where it came from. The value stored for a position depends on all earlier tokens as they
// were read through the block table, and so do the logits: a wrong block table, a wrong position, a block that was
// overwritten or wrongly shared changes the output. It also checks that the engine keeps the Model contract.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/rng.h"
#include "kernels/arithmetic.h"
#include "kernels/device.h"
#include "worker/model/model.h"

namespace roost::testing_support {

class FakeModel final : public worker::Model {
 public:
  struct Options {
    std::uint32_t block_tokens = 16;
    std::uint32_t block_count = 1024;
    std::uint32_t vocab_size = 97;
    std::uint32_t max_context_tokens = 4096;
    std::optional<TokenId> poison_token = std::nullopt;  // logits after it are NaN
    ManualClock* clock = nullptr;                        // advanced by step_duration in every batch
    Duration step_duration = std::chrono::milliseconds(10);
    std::function<Duration(const worker::Batch&)> duration_of = {};  // instead of step_duration
    std::function<void()> before_forward = {};                       // called first in every batch; may wait
    kernels::Arithmetic arithmetic = {};
    float rounding = 0;  // part by which logits are larger when a slice begins behind other tokens
    std::size_t most_counted = std::numeric_limits<std::size_t>::max();  // in a batch
  };

  explicit FakeModel(Options options)
      : options_(std::move(options)), slots_(std::size_t{options_.block_count} * options_.block_tokens) {
    shape_.vocab_size = options_.vocab_size;
    shape_.max_context_tokens = options_.max_context_tokens;
  }

  [[nodiscard]] const worker::ModelShape& shape() const override { return shape_; }
  [[nodiscard]] std::uint32_t block_tokens() const override { return options_.block_tokens; }
  [[nodiscard]] std::uint32_t block_count() const override { return options_.block_count; }

  [[nodiscard]] kernels::Arithmetic arithmetic() const override { return options_.arithmetic; }
  [[nodiscard]] bool MakeRoomFor(const worker::DrawLists& lists) override {
    return lists.counted_count <= options_.most_counted;
  }

  // Tokens wait until they are asked for, as on a device.
  void Compute(const worker::Batch& batch, const worker::Draws& draws) override {
    const std::vector<TokenId> tokens = TokensOf(batch);
    Compute(batch, tokens);
    Draw(draws, tokens);
  }
  [[nodiscard]] std::span<const kernels::SampledToken> AwaitSampled() override {
    ROOST_CHECK(!begun_.empty(), "no batch has begun");
    ended_ = std::move(begun_.front());
    begun_.pop_front();
    return ended_.sampled;
  }
  [[nodiscard]] worker::Scores AwaitedScores() const override { return {ended_.scored, ended_.top}; }

  [[nodiscard]] std::span<const float> Logits() override { return logits_; }

  // A slot of a block is its value and its position plus 1; 0: not written.
  [[nodiscard]] std::unique_ptr<worker::BlockReader> MakeBlockReader() const override {
    return std::make_unique<Reader>(*this);
  }

  // The logits after `tokens`, from the definition, without blocks.
  [[nodiscard]] std::vector<float> ReferenceLogits(std::span<const TokenId> tokens) const {
    std::uint64_t state = kStart;
    for (const TokenId token : tokens) state = Fold(state, ValueOf(state, token));
    std::vector<float> logits;
    AppendLogits(state, tokens.back(), logits);
    return logits;
  }

  // Changes the stored values of all positions, as a broken device would.
  void CorruptKv() {
    for (Slot& slot : slots_) slot.value += 1;
  }

  // Makes the stored values of all positions no numbers: neither are the logits and values of what reads them.
  void BreakKv() {
    for (Slot& slot : slots_) slot.value = kNoNumber;
  }

  [[nodiscard]] std::uint64_t computed_token_count() const { return computed_token_count_; }
  // Counted tokens that were sent for penalties.
  [[nodiscard]] std::uint64_t counted_token_count() const { return counted_token_count_; }
  // Rows of logits that were scored.
  [[nodiscard]] std::uint64_t scored_row_count() const { return scored_row_count_; }
  [[nodiscard]] std::size_t largest_batch() const { return largest_batch_; }

 private:
  struct Slot {
    std::uint64_t value = 0;
    std::optional<std::uint32_t> position;  // empty until written
  };
  using SlotBytes = std::array<std::uint64_t, 2>;

  class Reader final : public worker::BlockReader {
   public:
    explicit Reader(const FakeModel& model) : model_(model) {}

    [[nodiscard]] std::size_t block_bytes() const override { return model_.BlockBytes(); }
    void Read(BlockId block, std::span<std::byte> to, const std::function<void()>& may_change) const override {
      ROOST_CHECK(to.size() == block_bytes());
      for (std::uint32_t row = 0; row < model_.options_.block_tokens; ++row) {
        const Slot& slot = model_.slots_[std::size_t{block.value()} * model_.options_.block_tokens + row];
        const SlotBytes bytes{slot.value, slot.position ? *slot.position + std::uint64_t{1} : 0};
        std::memcpy(to.data() + row * sizeof(bytes), bytes.data(), sizeof(bytes));
      }
      may_change();
    }

   private:
    const FakeModel& model_;
  };

  [[nodiscard]] std::size_t BlockBytes() const { return options_.block_tokens * sizeof(SlotBytes); }

  static constexpr std::uint64_t kStart = 0x1234567;
  static constexpr std::uint64_t kNoNumber = 0x7FF8;

  void Compute(const worker::Batch& batch, std::span<const TokenId> tokens) {
    if (options_.before_forward) options_.before_forward();
    CheckBlocks(batch);
    for (const BlockId block : batch.poisoned) Poison(block);
    for (const worker::BlockWrite& write : batch.writes) Write(write);
    for (const worker::BlockCopy& copy : batch.copies) CopyRows(copy);
    logits_.clear();
    std::size_t first_token = 0;
    for (const worker::BatchSlice& slice : batch.slices) {
      Compute(slice, tokens.subspan(first_token, slice.token_count));
      first_token += slice.token_count;
    }
    ROOST_CHECK(first_token == tokens.size());
    const std::size_t row_count = logits_.size() / options_.vocab_size;
    ROOST_CHECK(row_count <= batch.slices.size() + worker::kMaxFurtherLogits, "{} rows of logits", row_count);
    computed_token_count_ += first_token;
    largest_batch_ = std::max(largest_batch_, first_token);
    if (options_.clock == nullptr) return;
    options_.clock->Advance(options_.duration_of ? options_.duration_of(batch) : options_.step_duration);
  }

  void Draw(const worker::Draws& draws, const std::vector<TokenId>& tokens) {
    ROOST_CHECK(begun_.size() < kernels::kMaxReadbacks, "{} batches have begun", begun_.size());
    std::vector<kernels::SampledToken>& sampled = begun_.emplace_back().sampled;
    adjusted_.resize(std::size_t{draws.adjusted_count} * options_.vocab_size);
    if (counts_.size() < std::size_t{draws.counts_row_count} * options_.vocab_size) {
      counts_.resize(std::size_t{draws.counts_row_count} * options_.vocab_size, 77);
    }
    masks_.resize(std::size_t{draws.mask_count} * kernels::MaskWords(options_.vocab_size));
    if (draws.mask_count > 0) draws.fill_masks(masks_);
    const kernels::SampleArgs args{.logits = logits_.data(),
                                   .vocab_size = options_.vocab_size,
                                   .biases = draws.biases.data(),
                                   .counted = draws.counted.data(),
                                   .counts = counts_.data(),
                                   .tokens = tokens.data(),
                                   .masks = masks_.data(),
                                   .adjusted = adjusted_.data()};
    ROOST_CHECK(draws.counted.size() <= options_.most_counted, "{} counted tokens", draws.counted.size());
    counted_token_count_ += draws.counted.size();
    for (const kernels::SampleRow& draw : draws.rows) {
      ROOST_CHECK(!draw.has_newest || draw.newest < tokens.size());
      sampled.push_back(kernels::SampleOnCpu(kernels::LogitsOf(args, draw), draw, scratch_));
    }
    fed_.clear();
    if (draws.feed_next_batch) fed_ = sampled;
    Score(draws, begun_.back());
  }

  // The results of a batch.
  struct Drawn {
    std::vector<kernels::SampledToken> sampled;
    std::vector<kernels::ScoredToken> scored;
    std::vector<kernels::TopToken> top;
  };

  void Score(const worker::Draws& draws, Drawn& drawn) {
    drawn.top.resize(draws.top_count);
    scored_row_count_ += draws.scored.size();
    for (const kernels::LogprobsRow& row : draws.scored) {
      ROOST_CHECK((row.row + 1) * std::size_t{options_.vocab_size} <= logits_.size());
      const std::span<const float> logits(logits_.data() + std::size_t{row.row} * options_.vocab_size,
                                          options_.vocab_size);
      const std::span<kernels::TopToken> top = std::span(drawn.top).subspan(row.first_top, row.top_count);
      drawn.scored.push_back(
          kernels::ScoreOnCpu(logits, kernels::TokenOf(row, drawn.sampled.data()), top, tile_weights_));
    }
  }

  // With the tokens that were drawn last in their places.
  [[nodiscard]] std::vector<TokenId> TokensOf(const worker::Batch& batch) const {
    std::vector<TokenId> tokens = batch.tokens;
    for (const kernels::SampledPlace& place : batch.sampled_places) {
      tokens.at(place.index) = fed_.at(place.draw).token;
    }
    return tokens;
  }

  static std::uint64_t ValueOf(std::uint64_t state, TokenId token) {
    if (state == kNoNumber) return kNoNumber;
    return Mix64(state + 0x9e3779b97f4a7c15ULL * (token + 1));
  }
  static std::uint64_t Fold(std::uint64_t state, std::uint64_t value) {
    if (state == kNoNumber || value == kNoNumber) return kNoNumber;
    return Mix64(state ^ value) + value;
  }

  Slot& SlotAt(const worker::BatchSlice& slice, std::uint32_t position) {
    const BlockId block = slice.blocks[position / options_.block_tokens];
    return slots_[std::size_t{block.value()} * options_.block_tokens + position % options_.block_tokens];
  }

  // Checks that two slices never write one block, and that none reads what another one writes.
  void CheckBlocks(const worker::Batch& batch) const {
    std::map<BlockId, std::size_t> writer;
    for (std::size_t i = 0; i < batch.slices.size(); ++i) {
      const worker::BatchSlice& slice = batch.slices[i];
      const std::uint32_t end = slice.first_position + slice.token_count;
      ROOST_CHECK(slice.token_count > 0 && end <= options_.max_context_tokens);
      ROOST_CHECK(slice.blocks.size() == (end + options_.block_tokens - 1) / options_.block_tokens,
                  "{} blocks for {} positions", slice.blocks.size(), end);
      for (std::size_t b = slice.first_position / options_.block_tokens; b < slice.blocks.size(); ++b) {
        ROOST_CHECK(writer.emplace(slice.blocks[b], i).second, "block {} is written twice", slice.blocks[b].value());
      }
    }
    for (std::size_t i = 0; i < batch.slices.size(); ++i) {
      for (const BlockId block : batch.slices[i].blocks) {
        ROOST_CHECK(block.value() < options_.block_count);
        const auto found = writer.find(block);
        ROOST_CHECK(found == writer.end() || found->second == i, "block {} is read and written", block.value());
      }
    }
  }

  void Poison(BlockId block) {
    ROOST_CHECK(block.value() < options_.block_count);
    for (std::uint32_t row = 0; row < options_.block_tokens; ++row) {
      slots_[std::size_t{block.value()} * options_.block_tokens + row].position.reset();
    }
  }

  void Write(const worker::BlockWrite& write) {
    ROOST_CHECK(write.to.value() < options_.block_count && write.bytes.size() == BlockBytes());
    for (std::uint32_t row = 0; row < options_.block_tokens; ++row) {
      SlotBytes bytes{};
      std::memcpy(bytes.data(), write.bytes.data() + row * sizeof(bytes), sizeof(bytes));
      Slot& slot = slots_[std::size_t{write.to.value()} * options_.block_tokens + row];
      slot = {bytes[0], std::nullopt};
      if (bytes[1] > 0) slot.position = static_cast<std::uint32_t>(bytes[1] - 1);
    }
  }

  void CopyRows(const worker::BlockCopy& copy) {
    ROOST_CHECK(copy.row_count > 0 && copy.row_count <= options_.block_tokens);
    for (std::uint32_t row = 0; row < copy.row_count; ++row) {
      const Slot& from = slots_[std::size_t{copy.from.value()} * options_.block_tokens + row];
      ROOST_CHECK(from.position.has_value(), "row {} of block {} is copied before it is written", row,
                  copy.from.value());
      slots_[std::size_t{copy.to.value()} * options_.block_tokens + row] = from;
    }
  }

  void Compute(const worker::BatchSlice& slice, std::span<const TokenId> tokens) {
    std::uint64_t state = kStart;
    for (std::uint32_t position = 0; position < slice.first_position; ++position) {
      const Slot& slot = SlotAt(slice, position);
      ROOST_CHECK(slot.position == position, "position {} is read before it is written", position);
      state = Fold(state, slot.value);
    }
    for (std::uint32_t i = 0; i < slice.token_count; ++i) {
      Slot& slot = SlotAt(slice, slice.first_position + i);
      slot = {ValueOf(state, tokens[i]), slice.first_position + i};
      state = Fold(state, slot.value);
      if (i + slice.logits_count < slice.token_count) continue;
      AppendLogits(state, tokens[i], logits_);
      if (slice.first_position == 0) continue;
      const auto row = logits_.end() - options_.vocab_size;
      std::transform(row, logits_.end(), row, [this](float logit) { return logit * (1 + options_.rounding); });
    }
  }

  void AppendLogits(std::uint64_t state, TokenId last, std::vector<float>& logits) const {
    for (std::uint32_t i = 0; i < options_.vocab_size; ++i) {
      const double logit = ToUnitInterval(Mix64(state + 0xd1b54a32d192ed03ULL * (i + 1))) * 8 - 4;
      logits.push_back(options_.poison_token == last || state == kNoNumber ? std::numeric_limits<float>::quiet_NaN()
                                                                           : static_cast<float>(logit));
    }
  }

  Options options_;
  worker::ModelShape shape_;
  std::vector<Slot> slots_;
  std::vector<float> logits_;
  std::vector<float> adjusted_;              // rows
  std::vector<kernels::TokenCount> counts_;  // rows; any values until they are reset
  std::vector<std::uint32_t> masks_;         // rows
  std::deque<Drawn> begun_;                  // for batches that have not ended
  Drawn ended_;
  std::vector<kernels::SampledToken> fed_;  // to the next batch
  kernels::SampleScratch scratch_;
  std::vector<std::uint64_t> tile_weights_;
  std::uint64_t computed_token_count_ = 0;
  std::uint64_t counted_token_count_ = 0;
  std::uint64_t scored_row_count_ = 0;
  std::size_t largest_batch_ = 0;
};

}  // namespace roost::testing_support
