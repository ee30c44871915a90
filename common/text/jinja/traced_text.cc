#include "common/text/jinja/traced_text.h"

#include <algorithm>
#include <utility>

#include "common/text/jinja/value.h"

namespace roost::jinja {

TracedText TracedText::Written(std::string text) {
  TracedText traced;
  traced.bytes = std::move(text);
  traced.Mark(0, traced.bytes.size());
  return traced;
}

void TracedText::Mark(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!written.empty() && written.back().end == begin) {
    written.back().end = end;
  } else {
    written.push_back({begin, end});
  }
}

void TracedText::Truncate(std::size_t size) {
  bytes.resize(size);
  while (!written.empty() && written.back().begin >= size) written.pop_back();
  if (!written.empty()) written.back().end = std::min(written.back().end, size);
}

void TracedText::AppendWritten(std::string_view text) {
  bytes += text;
  Mark(bytes.size() - text.size(), bytes.size());
}

void TracedText::Append(const Value& string) { AppendPart(string, string.AsString()); }

void TracedText::AppendPart(const Value& string, std::string_view part) {
  if (part.empty()) return;
  const std::size_t to = bytes.size();
  bytes += part;
  const WrittenRanges& source = string.written();
  if (source.empty()) return;
  const auto begin = static_cast<std::size_t>(part.data() - string.AsString().data());
  const std::size_t end = begin + part.size();
  auto range =
      std::partition_point(source.begin(), source.end(), [&](const auto& known) { return known.end <= begin; });
  for (; range != source.end() && range->begin < end; ++range) {
    Mark(to + std::max(range->begin, begin) - begin, to + std::min(range->end, end) - begin);
  }
}

}  // namespace roost::jinja
