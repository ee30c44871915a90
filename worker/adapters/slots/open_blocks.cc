#include "worker/adapters/slots/open_blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "worker/adapters/engine_protocol.h"
#include "worker/adapters/slots/slot_shelf.h"

namespace roost::worker::adapters {
namespace {

constexpr std::size_t kNoSlot = std::numeric_limits<std::size_t>::max();

bool ComesBefore(const HeldSequence& one, const HeldSequence& other) {
  if (one.root != other.root) return one.root < other.root;
  const std::size_t common = CommonBlocks(one.hashes, other.hashes);
  const std::size_t end = std::min(one.hashes.size(), other.hashes.size());
  return common < end ? one.hashes[common] < other.hashes[common] : one.hashes.size() < other.hashes.size();
}

std::size_t CommonOf(const HeldSequence& one, const HeldSequence& other) {
  return one.root == other.root ? CommonBlocks(one.hashes, other.hashes) : 0;
}

std::vector<BlockRun> FrontOf(std::vector<BlockRun> runs, std::size_t blocks) {
  while (!runs.empty() && runs.back().first > blocks) runs.pop_back();
  if (!runs.empty()) runs.back().last = std::min(runs.back().last, blocks);
  return runs;
}

class OpenSearch {
 public:
  explicit OpenSearch(const SlotChoice& choice);
  [[nodiscard]] std::vector<std::vector<BlockRun>> Run();

 private:
  struct Entry {
    const HeldSequence* held = nullptr;
    std::size_t slot = kNoSlot;  // none: in memory
    std::size_t number = 0;      // in the result
  };

  void LookAt(std::size_t entry);
  // The question itself.
  [[nodiscard]] bool IsOpen(std::size_t blocks) const;
  // The most that is found in memory, in the sequences that share at least so many of the blocks.
  [[nodiscard]] std::uint32_t Remembered(std::size_t blocks, std::size_t least) const;
  [[nodiscard]] std::vector<BlockRun> OpenEnds();
  [[nodiscard]] std::vector<BlockRun> OpenAnywhere(std::vector<BlockRun> front) const;
  [[nodiscard]] std::vector<std::size_t> TurningBlocks() const;

  const SlotChoice& choice_;
  std::vector<Entry> order_;
  std::vector<std::size_t> shared_;  // blocks of each entry with the one before it; 0 behind the last
  std::vector<std::size_t> asked_;   // slots that count

  // The entry that is looked at.
  std::size_t at_ = 0;
  std::vector<std::size_t> common_;   // blocks with each slot
  std::vector<std::uint32_t> found_;  // in each slot, by a prompt that has all of these
  std::vector<std::optional<bool>>
      answers_;  // by block, where it was asked for the entry or, in what they share, before
};

OpenSearch::OpenSearch(const SlotChoice& choice)
    : choice_(choice), common_(choice.offers().size()), found_(choice.offers().size()) {
  bool any_idle = false;
  for (std::size_t i = 0; i < choice.offers().size(); ++i) {
    const SlotChoice::Offer& offer = choice.offers()[i];
    if (!offer.held->hashes.empty()) order_.push_back({.held = offer.held, .slot = i, .number = i});
    any_idle = any_idle || offer.is_idle;
  }
  for (std::size_t i = 0; i < choice.offers().size(); ++i) {
    // Whole sequences are not taken back while a request runs: a request waits for its slot, or finds as much
    // elsewhere.
    if (!choice.rules().goes_on_at_points || !any_idle || choice.offers()[i].is_idle) asked_.push_back(i);
  }
  std::size_t number = choice.offers().size();
  for (const HeldSequence& held : choice.memory().sequences) {
    if (!held.hashes.empty()) order_.push_back({.held = &held, .number = number});
    ++number;
  }
  std::sort(order_.begin(), order_.end(), [](const Entry& a, const Entry& b) { return ComesBefore(*a.held, *b.held); });
  shared_.resize(order_.size() + 1);
  for (std::size_t i = 1; i < order_.size(); ++i) shared_[i] = CommonOf(*order_[i - 1].held, *order_[i].held);
}

std::vector<std::vector<BlockRun>> OpenSearch::Run() {
  std::vector<std::vector<BlockRun>> runs(choice_.offers().size() + choice_.memory().sequences.size());
  for (std::size_t i = 0; i < order_.size(); ++i) {
    LookAt(i);
    std::vector<BlockRun>& mine = runs[order_[i].number];
    if (choice_.rules().goes_on_at_points) {
      mine = OpenEnds();
    } else {
      mine = OpenAnywhere(i == 0 ? std::vector<BlockRun>() : FrontOf(runs[order_[i - 1].number], shared_[i]));
    }
  }
  return runs;
}

void OpenSearch::LookAt(std::size_t entry) {
  at_ = entry;
  const HeldSequence& held = *order_[entry].held;
  for (const std::size_t slot : asked_) {
    const HeldSequence& other = *choice_.offers()[slot].held;
    common_[slot] = CommonOf(held, other);
    found_[slot] =
        SlotChoice::FoundAt(choice_.rules(), other, common_[slot], std::numeric_limits<std::uint32_t>::max());
  }
  answers_.resize(std::min(answers_.size(), shared_[entry] + 1));
  answers_.resize(held.hashes.size() + 1);
}

bool OpenSearch::IsOpen(std::size_t blocks) const {
  const HeldSequence& held = *order_[at_].held;
  const auto tokens = static_cast<std::uint32_t>(blocks) * kGrainTokens;
  const SlotChoice::Prompt prompt{
      .root = held.root, .hashes = std::span(held.hashes).first(blocks), .tokens = tokens + 2 * kGrainTokens};
  const auto found_in = [&](std::size_t slot) {
    if (blocks >= common_[slot]) return found_[slot];
    return SlotChoice::FoundAt(choice_.rules(), *choice_.offers()[slot].held, blocks, prompt.tokens);
  };
  // Sequences that share less have less.
  std::uint32_t remembered = Remembered(blocks, blocks);
  if (remembered < tokens) {
    if (std::none_of(asked_.begin(), asked_.end(), [&](std::size_t slot) { return found_in(slot) >= tokens; }))
      return false;
    remembered = Remembered(blocks, 1);
  }
  std::optional<SlotChoice::Best> best;
  for (const std::size_t slot : asked_) {
    const SlotChoice::Best one = choice_.Price(prompt, slot, found_in(slot), remembered);
    if (!best || one.price < best->price) best = one;
  }
  return best && best->expected >= tokens;
}

std::uint32_t OpenSearch::Remembered(std::size_t blocks, std::size_t least) const {
  if (!choice_.memory().has_shown) return 0;
  std::uint32_t most = 0;
  const auto look = [&](std::size_t entry, std::size_t common) {
    if (order_[entry].slot != kNoSlot) return;
    const HeldSequence& held = *order_[entry].held;
    const std::uint32_t found =
        SlotChoice::FoundAt(choice_.rules(), held, common, std::numeric_limits<std::uint32_t>::max());
    if (SlotChoice::IsTaken(held, found)) most = std::max(most, found);
  };
  look(at_, blocks);
  std::size_t common = blocks;
  for (std::size_t i = at_; (common = std::min(common, shared_[i])) >= least; --i) look(i - 1, common);
  common = blocks;
  for (std::size_t i = at_ + 1; (common = std::min(common, shared_[i])) >= least; ++i) look(i, common);
  return most;
}

std::vector<BlockRun> OpenSearch::OpenEnds() {
  std::vector<BlockRun> runs;
  for (const std::size_t block : EndsOf(*order_[at_].held)) {
    if (!answers_[block]) answers_[block] = IsOpen(block);
    if (*answers_[block]) AddRun(runs, {block, block});
  }
  return runs;
}

// The price of the sequences that have a block falls from one to the next, and that of the others stays.
std::vector<BlockRun> OpenSearch::OpenAnywhere(std::vector<BlockRun> front) const {
  std::size_t closed = shared_[at_];  // blocks up to here are done
  for (const std::size_t end : TurningBlocks()) {
    if (IsOpen(end)) {
      std::size_t open = closed + 1;
      if (!IsOpen(open)) {
        std::size_t last_closed = open;
        open = end;
        while (open - last_closed > 1) {
          const std::size_t middle = (last_closed + open) / 2;
          (IsOpen(middle) ? open : last_closed) = middle;
        }
      }
      AddRun(front, {open, end});
    }
    closed = end;
  }
  return front;
}

// The last blocks before which others part from the sequence, or a slot would lose most of what it holds; ascending.
std::vector<std::size_t> OpenSearch::TurningBlocks() const {
  const std::size_t begin = shared_[at_];
  std::vector<std::size_t> ends{order_[at_].held->hashes.size()};
  std::size_t common = ends.front();
  for (std::size_t i = at_ + 1; (common = std::min(common, shared_[i])) > begin; ++i) ends.push_back(common);
  for (const std::size_t slot : asked_) {
    const std::uint32_t tokens = choice_.offers()[slot].held->tokens;
    const std::size_t most = tokens > 0 ? (tokens - 1) / (2 * kGrainTokens) : 0;
    if (most > begin && most < common_[slot]) ends.push_back(most);
  }
  std::erase_if(ends, [begin](std::size_t end) { return end <= begin; });
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

}  // namespace

void AddRun(std::vector<BlockRun>& runs, BlockRun more) {
  if (!runs.empty() && runs.back().last + 1 == more.first) {
    runs.back().last = more.last;
  } else {
    runs.push_back(more);
  }
}

std::vector<std::size_t> EndsOf(const HeldSequence& held) {
  std::vector<std::size_t> ends;
  const auto add = [&](std::uint32_t tokens) {
    const std::size_t block = std::min<std::size_t>(tokens / kGrainTokens, held.hashes.size());
    if (block > 0 && (ends.empty() || ends.back() < block)) ends.push_back(block);
  };
  for (const std::uint32_t point : held.points) add(point);
  add(held.tokens);
  return ends;
}

std::vector<std::vector<BlockRun>> FindOpen(const SlotChoice& choice) { return OpenSearch(choice).Run(); }

}  // namespace roost::worker::adapters
