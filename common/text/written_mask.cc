#include "common/text/written_mask.h"

#include <algorithm>
#include <utility>

namespace roost::text {

WrittenMask::WrittenMask(PromptText text, ByteRange part) : written_(part.end - part.begin, 0) {
  const auto at = [&](std::size_t place) {
    return written_.begin() + static_cast<std::ptrdiff_t>(std::clamp(place, part.begin, part.end) - part.begin);
  };
  auto range = std::partition_point(text.written.begin(), text.written.end(),
                                    [&](const ByteRange& known) { return known.end <= part.begin; });
  for (; range != text.written.end() && range->begin < part.end; ++range) {
    std::fill(at(range->begin), at(range->end), char{1});
  }
  for (std::size_t i = part.begin; i < part.end; ++i) {
    if (text.bytes[i] == ' ') *at(i) = 1;
  }
}

void WrittenMask::Carry(const Rewrites& rewrites) {
  if (rewrites.empty()) return;
  std::vector<char> carried;
  carried.reserve(written_.size());
  auto done = written_.begin();
  for (const Rewrite& rewrite : rewrites) {
    const auto begin = written_.begin() + static_cast<std::ptrdiff_t>(rewrite.from.begin);
    const auto end = written_.begin() + static_cast<std::ptrdiff_t>(rewrite.from.end);
    carried.insert(carried.end(), done, begin);
    const bool is_written = std::all_of(begin, end, [](char was_written) { return was_written != 0; });
    carried.insert(carried.end(), rewrite.size, is_written ? 1 : 0);
    done = end;
  }
  carried.insert(carried.end(), done, written_.end());
  written_ = std::move(carried);
}

std::vector<ByteRange> WrittenMask::Ranges() const {
  std::vector<ByteRange> ranges;
  for (auto begin = written_.begin(); begin != written_.end();) {
    const auto end = std::find(begin, written_.end(), char{0});
    if (begin != end) {
      ranges.push_back(
          {static_cast<std::size_t>(begin - written_.begin()), static_cast<std::size_t>(end - written_.begin())});
    }
    begin = std::find(end, written_.end(), char{1});
  }
  return ranges;
}

}  // namespace roost::text
