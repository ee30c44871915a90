// llama.cpp's server as its slot table sees it, for prompts of token ids that are computed one at a time: where it goes
// on in a slot, and its checkpoints (server-context.cpp: pre_decode, create_checkpoint). llama_double.py does the same,
// and is held to the real one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "worker/adapters/engine_protocol.h"

namespace roost::worker::adapters {

class SlotServerDouble {
 public:
  enum class Kind { kFull, kWindows, kHybrid };
  struct Options {
    Kind kind = Kind::kFull;
    std::size_t slot_count = 3;
    std::size_t window = 64;
    bool has_memory = false;
  };
  explicit SlotServerDouble(Options options)
      : options_(options), window_(options.kind == Kind::kWindows ? options.window : 0), slots_(options.slot_count) {}

  // Computes a prompt and its output, in the slot that is named or in one that the server chooses. So much was found.
  std::size_t Answer(const std::vector<TokenId>& prompt, const std::vector<TokenId>& output,
                     std::optional<std::size_t> named = {}, bool finds_prefix = true) {
    const std::size_t index = named.value_or(Own(prompt));
    Slot& slot = slots_[index];
    if (options_.has_memory) Swap(slot.held, prompt);
    if (!finds_prefix) slot.held = {};
    slot.task = ++tasks_;
    slot.found = GoOn(slot.held, prompt);
    Compute(slot.held, prompt, slot.task);
    slot.held.tokens.insert(slot.held.tokens.end(), output.begin(), output.end() - 1);
    slot.held.first = std::max(slot.held.first, Cut(slot.held.tokens.size(), kCells));
    return slot.found;
  }
  [[nodiscard]] std::vector<SlotState> Page() const {
    std::vector<SlotState> states;
    for (const Slot& slot : slots_) {
      states.push_back({.task = slot.task, .held_tokens = static_cast<std::uint32_t>(slot.held.tokens.size())});
    }
    return states;
  }

 private:
  static constexpr std::size_t kBatch = 2048;
  static constexpr std::size_t kPhysicalBatch = 512;
  static constexpr std::size_t kCells = 768;  // of a window: it and a physical batch
  static constexpr std::size_t kMostPoints = 32;
  static constexpr std::size_t kMinStep = 256;

  struct Point {
    std::size_t tokens = 0;
    std::size_t first = 0;  // where its windows begin
    std::uint32_t task = 0;
  };
  struct Sequence {
    std::vector<TokenId> tokens;
    std::vector<Point> points;
    std::size_t first = 0;  // of which windows still have the keys and values
  };
  struct Slot {
    Sequence held;
    std::uint32_t task = 0;
    std::size_t found = 0;
  };

  static std::size_t Cut(std::size_t a, std::size_t b) { return a > b ? a - b : 0; }
  static std::size_t Common(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
    const auto end = a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
    return static_cast<std::size_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin());
  }

  // The slot that is most alike, or the one that was used least recently.
  std::size_t Own(const std::vector<TokenId>& prompt) const {
    std::size_t best = 0;
    std::size_t oldest = 0;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (Common(slots_[i].held.tokens, prompt) > Common(slots_[best].held.tokens, prompt)) best = i;
      if (slots_[i].task < slots_[oldest].task) oldest = i;
    }
    return 10 * Common(slots_[best].held.tokens, prompt) > prompt.size() ? best : oldest;
  }
  // A sequence of which the slot would lose most goes to memory, and a better one comes from there.
  void Swap(Sequence& held, const std::vector<TokenId>& prompt) {
    const std::size_t mine = Common(held.tokens, prompt);
    if (2 * mine >= held.tokens.size()) return;
    const auto has = [&](const Sequence& other) { return Common(other.tokens, held.tokens) == held.tokens.size(); };
    if (std::none_of(memory_.begin(), memory_.end(), has)) {
      std::erase_if(memory_,
                    [&](const Sequence& other) { return Common(other.tokens, held.tokens) == other.tokens.size(); });
      memory_.push_back(held);
    }
    double keep = static_cast<double>(mine) / static_cast<double>(held.tokens.size());
    std::size_t most = mine;
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const std::size_t common = Common(memory_[i].tokens, prompt);
      const double share = static_cast<double>(common) / static_cast<double>(memory_[i].tokens.size());
      if (share < 0.25 || share <= keep || common <= most) continue;
      keep = share;
      most = common;
      best = i;
    }
    if (!best) return;
    held = memory_[*best];
    memory_.erase(memory_.begin() + static_cast<std::ptrdiff_t>(*best));
  }
  std::size_t FirstOf(const Sequence& held) const {
    if (options_.kind == Kind::kHybrid) return Cut(held.tokens.size(), 1);
    return options_.kind == Kind::kFull ? 0 : held.first;
  }
  std::size_t GoOn(Sequence& held, const std::vector<TokenId>& prompt) const {
    std::size_t past = Common(held.tokens, prompt);
    std::size_t following = past;
    const std::size_t threshold = Cut(following, window_ + (past == prompt.size() ? 1 : 0));
    if (options_.kind != Kind::kFull && past > 0 && FirstOf(held) >= threshold) {
      const auto usable = std::find_if(held.points.rbegin(), held.points.rend(), [&](const Point& point) {
        return point.tokens <= following + 1 && (point.first < threshold || point.first == 0);
      });
      past = following =
          usable == held.points.rend() ? 0 : std::min(following, std::max(usable->first + 1, usable->tokens - 1));
      if (usable != held.points.rend()) {
        past = std::min(following, usable->tokens);
        held.first = std::max(usable->first, Cut(usable->tokens, window_));
      }
    }
    if (past == 0) held.first = 0;
    std::erase_if(held.points, [&](const Point& point) { return point.tokens > following + 1; });
    past = std::min(past, prompt.size() - 1);
    held.tokens.resize(past);
    return past;
  }
  void Compute(Sequence& held, const std::vector<TokenId>& prompt, std::uint32_t task) const {
    const std::size_t end = prompt.size();
    for (std::size_t at = held.tokens.size(); at < end;) {
      const std::size_t begin = at;
      at = std::min(end, begin + kBatch);
      for (const std::size_t before : {4 + kPhysicalBatch, std::size_t{4}}) {
        if (begin + before < end) at = std::min(at, end - before);
      }
      if (options_.kind != Kind::kFull && begin > 0 && end < at + kPhysicalBatch) {
        held.tokens.assign(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(begin));
        AddPoint(held.points, {.tokens = begin, .first = FirstOf(held), .task = task});
      }
      held.tokens.assign(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(at));
      held.first = std::max(held.first, Cut(at, kCells));
    }
  }
  static void AddPoint(std::vector<Point>& points, Point added) {
    std::optional<std::size_t> last;
    for (auto point = points.begin(); point != points.end() && points.size() + 1 >= kMostPoints;) {
      const bool is_close = point->task != added.task && last && point->tokens <= *last + kMinStep;
      if (!is_close) last = point->tokens;
      point = is_close ? points.erase(point) : point + 1;
    }
    if (points.size() >= kMostPoints) points.erase(points.begin());
    std::erase_if(points, [&](const Point& point) { return point.tokens == added.tokens; });
    points.push_back(added);
  }

  const Options options_;
  const std::size_t window_;
  std::vector<Slot> slots_;
  std::vector<Sequence> memory_;
  std::uint32_t tasks_ = 0;
};

}  // namespace roost::worker::adapters
