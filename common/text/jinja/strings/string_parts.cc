#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/jinja/lookup_table.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/python_strings.h"
#include "common/text/jinja/strings/string_methods.h"
#include "common/text/jinja/text.h"

namespace roost::jinja {
namespace {

// MadePart of each of `parts`.
Result<Value> MadeList(Runtime& runtime, const Value& self, const std::vector<std::string_view>& parts,
                       SequenceKind kind = SequenceKind::kList) {
  ROOST_RETURN_IF_ERROR(runtime.Spend(parts.size()));
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) {
    ROOST_ASSIGN_OR_RETURN(Value item, MadePart(runtime, self, part));
    items.push_back(std::move(item));
  }
  return runtime.NewSequence(kind, std::move(items));
}

// The largest number of cuts.
constexpr std::size_t kNoLimit = std::string_view::npos;

// At most `limit` cuts, from the left.
std::vector<std::string_view> SplitBySeparator(std::string_view text, std::string_view separator, std::size_t limit) {
  std::vector<std::string_view> parts;
  while (parts.size() < limit) {
    const std::size_t place = FindText(text, separator, 0);
    if (place == std::string_view::npos) break;
    parts.push_back(text.substr(0, place));
    text.remove_prefix(place + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> SplitBySeparatorFromRight(std::string_view text, std::string_view separator,
                                                        std::size_t limit) {
  std::vector<std::string_view> parts;
  while (parts.size() < limit) {
    const std::size_t place = text.rfind(separator);
    if (place == std::string_view::npos) break;
    parts.push_back(text.substr(place + separator.size()));
    text = text.substr(0, place);
  }
  parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::size_t WordLength(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    const std::size_t next = length + ByteOffset(text.substr(length), 1);
    if (StripSpace(text.substr(length, next - length), Side::kLeft).empty()) break;
    length = next;
  }
  return length;
}

std::vector<std::string_view> SplitWords(std::string_view text, std::size_t limit) {
  std::vector<std::string_view> parts;
  text = StripSpace(text, Side::kLeft);
  while (!text.empty() && (parts.size() < limit)) {
    const std::size_t length = WordLength(text);
    parts.push_back(text.substr(0, length));
    text = StripSpace(text.substr(length), Side::kLeft);
  }
  if (!text.empty()) parts.push_back(text);
  return parts;
}

std::vector<std::string_view> SplitWordsFromRight(std::string_view text, std::size_t limit) {
  std::vector<std::string_view> all = SplitWords(text, kNoLimit);
  if (all.size() <= limit) return all;
  // The first words stay one part, with the space between and before them.
  const std::size_t joined = all.size() - limit;
  const char* const end = all[joined - 1].data() + all[joined - 1].size();
  std::vector<std::string_view> parts = {text.substr(0, static_cast<std::size_t>(end - text.data()))};
  parts.insert(parts.end(), all.begin() + static_cast<std::ptrdiff_t>(joined), all.end());
  return parts;
}

Result<Value> SplitFrom(Runtime& runtime, const Value& self, const Arguments& arguments, From from) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("split", {"sep", "maxsplit"}, 0));
  ROOST_ASSIGN_OR_RETURN(const std::int64_t max_split, bound.Int(1, -1));
  const std::size_t limit = max_split < 0 ? kNoLimit : static_cast<std::size_t>(max_split);
  const std::string& text = self.AsString();
  ROOST_RETURN_IF_ERROR(runtime.SpendPerCharacter(text));
  if (!bound.HasNotNone(0)) {
    return MadeList(runtime, self, from == From::kLeft ? SplitWords(text, limit) : SplitWordsFromRight(text, limit));
  }
  ROOST_ASSIGN_OR_RETURN(const std::string separator, bound.String(0, ""));
  if (separator.empty()) return InvalidArgument("", "empty separator");
  if (from == From::kRight) ROOST_RETURN_IF_ERROR(SpendOnBackwardSearch(runtime, text, separator));
  return MadeList(runtime, self,
                  from == From::kLeft ? SplitBySeparator(text, separator, limit)
                                      : SplitBySeparatorFromRight(text, separator, limit));
}
Result<Value> Split(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return SplitFrom(runtime, self, arguments, From::kLeft);
}
Result<Value> RSplit(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return SplitFrom(runtime, self, arguments, From::kRight);
}

Result<Value> SplitLinesMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("splitlines", {"keepends"}, 0));
  ROOST_RETURN_IF_ERROR(runtime.SpendPerCharacter(self.AsString()));
  return MadeList(runtime, self, SplitLines(self.AsString(), bound.IsTrue(0) ? LineEnds::kKeep : LineEnds::kDrop));
}

// (before, separator, after); the whole text at one end when the separator does not occur.
Result<Value> PartitionFrom(Runtime& runtime, const Value& self, const Arguments& arguments, From from) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("partition", {"sep"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::string separator, bound.String(0, ""));
  if (separator.empty()) return InvalidArgument("", "empty separator");
  const std::string_view text = self.AsString();
  if (from == From::kRight) ROOST_RETURN_IF_ERROR(SpendOnBackwardSearch(runtime, text, separator));
  const std::size_t place = from == From::kLeft ? FindText(text, separator, 0) : text.rfind(separator);
  std::vector<std::string_view> parts = {text, "", ""};
  if (place != std::string_view::npos) {
    parts = {text.substr(0, place), text.substr(place, separator.size()), text.substr(place + separator.size())};
  } else if (from == From::kRight) {
    parts = {"", "", text};
  }
  return MadeList(runtime, self, parts, SequenceKind::kTuple);
}
Result<Value> Partition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return PartitionFrom(runtime, self, arguments, From::kLeft);
}
Result<Value> RPartition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return PartitionFrom(runtime, self, arguments, From::kRight);
}

Result<Value> Join(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("join", {"iterable"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::shared_ptr<Sequence> items, AsIterable(bound[0], runtime));
  TracedText out;
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    ROOST_RETURN_IF_ERROR(runtime.Spend(1));
    const Value& item = items->items[i];
    if (!item.is(Kind::kString)) {
      return InvalidArgument("", "sequence item {}: expected str instance, {} found", i, item.TypeName());
    }
    if (i > 0) out.Append(self);
    out.Append(item);
    ROOST_RETURN_IF_ERROR(runtime.AllowText(out.size()));
  }
  return runtime.NewString(std::move(out), self.IsMarkup() ? Markup::kYes : Markup::kNo);
}

constexpr std::array<NamedFunction<MethodFunction>, 6> kPartMethods = {{
    {"join", Join},
    {"partition", Partition},
    {"rpartition", RPartition},
    {"rsplit", RSplit},
    {"split", Split},
    {"splitlines", SplitLinesMethod},
}};

}  // namespace

MethodFunction FindPartMethod(std::string_view name) { return FindIn(kPartMethods, name); }

}  // namespace roost::jinja
