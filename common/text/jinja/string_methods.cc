#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/jinja/lookup_table.h"
#include "common/text/jinja/methods.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/percent_format.h"
#include "common/text/jinja/text.h"
#include "common/text/jinja/unicode.h"

namespace roost::jinja {
namespace {

// Methods of marked text return marked text.
Result<Value> Made(Runtime& runtime, const Value& self, std::string text) {
  return runtime.NewString(std::move(text), self.IsMarkup() ? Markup::kYes : Markup::kNo);
}

// The same for `part` of the bytes of `self`.
Result<Value> MadePart(Runtime& runtime, const Value& self, std::string_view part) {
  TracedText text;
  text.AppendPart(self, part);
  return runtime.NewString(std::move(text), self.IsMarkup() ? Markup::kYes : Markup::kNo);
}

// The same for several `parts`.
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

Result<Value> StripSide(Runtime& runtime, const Value& self, const Arguments& arguments, Side side) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("strip", {"chars"}, 0));
  if (!bound.HasNotNone(0)) return MadePart(runtime, self, StripSpace(self.AsString(), side));
  ROOST_ASSIGN_OR_RETURN(const std::string chars, bound.String(0, ""));
  ROOST_RETURN_IF_ERROR(runtime.Spend(chars.size()));
  return MadePart(runtime, self, StripChars(self.AsString(), chars, side));
}
Result<Value> Strip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return StripSide(runtime, self, arguments, Side::kBoth);
}
Result<Value> LStrip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return StripSide(runtime, self, arguments, Side::kLeft);
}
Result<Value> RStrip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return StripSide(runtime, self, arguments, Side::kRight);
}

// A backward search may compare `wanted` at every place of `text`, so it is charged for that.
Result<void> SpendOnBackwardSearch(Runtime& runtime, std::string_view text, std::string_view wanted) {
  return runtime.Spend((text.size() / 64) * (wanted.size() / 64 + 1));
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

enum class From { kLeft, kRight };

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

// An empty `old` matches before every code point and at the end.
Result<Value> ReplaceEmpty(Runtime& runtime, const Value& self, const std::string& fresh, std::size_t limit) {
  const std::vector<std::string_view> points = SplitCodePoints(self.AsString());
  const std::size_t times = std::min(limit, points.size() + 1);
  ROOST_RETURN_IF_ERROR(runtime.Spend(points.size()));
  ROOST_RETURN_IF_ERROR(runtime.AllowText(static_cast<std::uint64_t>(times) * fresh.size()));
  std::string out;
  for (std::size_t i = 0; i <= points.size(); ++i) {
    if (i < times) out += fresh;
    if (i < points.size()) out += points[i];
  }
  return Made(runtime, self, std::move(out));
}

// A string argument, escaped if `self` is marked, so that the result may be marked.
Result<std::string> TextArgument(Runtime& runtime, const Value& self, const BoundArguments& bound, std::size_t i) {
  ROOST_ASSIGN_OR_RETURN(std::string text, bound.String(i, ""));
  if (!self.IsMarkup()) return text;
  ROOST_ASSIGN_OR_RETURN(const Value escaped, EscapeMarkup(bound[i], runtime));
  return escaped.AsString();
}

Result<Value> Replace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("replace", {"old", "new", "count"}, 2));
  ROOST_ASSIGN_OR_RETURN(const std::string old, TextArgument(runtime, self, bound, 0));
  ROOST_ASSIGN_OR_RETURN(const std::string fresh, TextArgument(runtime, self, bound, 1));
  ROOST_ASSIGN_OR_RETURN(const std::int64_t count, bound.Int(2, -1));
  const std::size_t limit = count < 0 ? std::string::npos : static_cast<std::size_t>(count);
  const std::string_view text = self.AsString();
  if (old.empty()) return ReplaceEmpty(runtime, self, fresh, limit);
  const Value replacement = self.IsMarkup() ? Value::String(fresh) : bound[1];
  TracedText out;
  std::size_t begin = 0;
  for (std::size_t replaced = 0; replaced < limit; ++replaced) {
    const std::size_t place = FindText(text, old, begin);
    if (place == std::string_view::npos) break;
    out.AppendPart(self, text.substr(begin, place - begin));
    out.Append(replacement);
    begin = place + old.size();
    ROOST_RETURN_IF_ERROR(runtime.AllowText(out.size()));
  }
  out.AppendPart(self, text.substr(begin));
  return runtime.NewString(std::move(out), self.IsMarkup() ? Markup::kYes : Markup::kNo);
}

Result<Value> Upper(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("upper", {}, 0));
  ROOST_RETURN_IF_ERROR(runtime.SpendPerCharacter(self.AsString()));
  return Made(runtime, self, ToUpper(self.AsString()));
}
Result<Value> Lower(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("lower", {}, 0));
  ROOST_RETURN_IF_ERROR(runtime.SpendPerCharacter(self.AsString()));
  return Made(runtime, self, ToLower(self.AsString()));
}
Result<Value> CapitalizeMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("capitalize", {}, 0));
  ROOST_RETURN_IF_ERROR(runtime.SpendPerCharacter(self.AsString()));
  return Made(runtime, self, Capitalize(self.AsString()));
}

// Every letter behind a non-letter starts a word.
Result<Value> Title(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("title", {}, 0));
  ROOST_RETURN_IF_ERROR(runtime.Spend(self.AsString().size()));
  std::string out;
  bool in_word = false;
  for (const std::string_view point : SplitCodePoints(self.AsString())) {
    out += in_word ? ToLower(point) : Capitalize(point);
    in_word = ToLower(point) != ToUpper(point);
  }
  return Made(runtime, self, std::move(out));
}

Result<Value> SwapCase(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("swapcase", {}, 0));
  ROOST_RETURN_IF_ERROR(runtime.Spend(self.AsString().size()));
  std::string out;
  for (const std::string_view point : SplitCodePoints(self.AsString())) {
    const std::string upper = ToUpper(point);
    out += upper == point ? ToLower(point) : upper;
  }
  return Made(runtime, self, std::move(out));
}

// The argument of startswith and endswith: a string or a tuple of strings.
Result<bool> HasAffix(std::string_view text, const Value& affix, Side side) {
  if (affix.is(Kind::kSequence) && affix.AsSequence().kind == SequenceKind::kTuple) {
    for (const Value& item : affix.AsSequence().items) {
      if (item.is(Kind::kSequence)) break;
      ROOST_ASSIGN_OR_RETURN(const bool has, HasAffix(text, item, side));
      if (has) return true;
    }
    return false;
  }
  if (!affix.is(Kind::kString)) {
    return InvalidArgument("", "{}with first arg must be str or a tuple of str, not {}",
                           side == Side::kLeft ? "starts" : "ends", affix.TypeName());
  }
  const std::string_view wanted = affix.AsString();
  if (wanted.size() > text.size()) return false;
  return (side == Side::kLeft ? text.substr(0, wanted.size()) : text.substr(text.size() - wanted.size())) == wanted;
}

// self[start:end] with arguments 1 and 2, as find, count, startswith and others take them.
Result<Value> Range(Runtime& runtime, const Value& self, const BoundArguments& bound) {
  if (!bound.Has(1) && !bound.Has(2)) return self;
  return GetSlice(self, SliceBounds{bound.Or(1, Value::None()), bound.Or(2, Value::None()), Value::None()}, runtime);
}

Result<Value> AffixTest(Runtime& runtime, const Value& self, const Arguments& arguments, Side side) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("startswith", {"prefix", "start", "end"}, 1));
  ROOST_ASSIGN_OR_RETURN(const Value range, Range(runtime, self, bound));
  ROOST_ASSIGN_OR_RETURN(const bool has, HasAffix(range.AsString(), bound[0], side));
  return Value::Bool(has);
}
Result<Value> StartsWith(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return AffixTest(runtime, self, arguments, Side::kLeft);
}
Result<Value> EndsWith(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return AffixTest(runtime, self, arguments, Side::kRight);
}

Result<Value> RemovePrefix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("removeprefix", {"prefix"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::string prefix, bound.String(0, ""));
  ROOST_ASSIGN_OR_RETURN(const bool has, HasAffix(self.AsString(), bound[0], Side::kLeft));
  return MadePart(runtime, self, std::string_view(self.AsString()).substr(has ? prefix.size() : 0));
}
Result<Value> RemoveSuffix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("removesuffix", {"suffix"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::string suffix, bound.String(0, ""));
  ROOST_ASSIGN_OR_RETURN(const bool has, HasAffix(self.AsString(), bound[0], Side::kRight));
  const std::string_view text = self.AsString();
  return MadePart(runtime, self, text.substr(0, text.size() - (has ? suffix.size() : 0)));
}

// Code point index of the first or last occurrence in self[start:end].
Result<std::optional<std::int64_t>> Search(Runtime& runtime, const Value& self, const Arguments& arguments, From from) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("find", {"sub", "start", "end"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::string wanted, bound.String(0, ""));
  ROOST_ASSIGN_OR_RETURN(const Value range, Range(runtime, self, bound));
  const std::string& text = range.AsString();
  if (from == From::kRight) ROOST_RETURN_IF_ERROR(SpendOnBackwardSearch(runtime, text, wanted));
  const std::size_t place = from == From::kLeft ? FindText(text, wanted, 0) : text.rfind(wanted);
  if (place == std::string::npos) return std::optional<std::int64_t>();
  const auto size = static_cast<std::int64_t>(CountCodePoints(self.AsString()));
  ROOST_ASSIGN_OR_RETURN(std::int64_t start, bound.HasNotNone(1) ? bound.Int(1, 0) : Result<std::int64_t>(0));
  if (start < 0) start = std::max<std::int64_t>(0, start + size);
  if (start > size) return std::optional<std::int64_t>();
  return std::optional(start + static_cast<std::int64_t>(CountCodePoints(std::string_view(text).substr(0, place))));
}

template <From kFrom>
Result<Value> Find(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> place, Search(runtime, self, arguments, kFrom));
  return Value::Int(place.value_or(-1));
}
template <From kFrom>
Result<Value> Index(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<std::int64_t> place, Search(runtime, self, arguments, kFrom));
  if (!place) return InvalidArgument("", "substring not found");
  return Value::Int(*place);
}

Result<Value> Count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("count", {"sub", "start", "end"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::string wanted, bound.String(0, ""));
  ROOST_ASSIGN_OR_RETURN(const Value range, Range(runtime, self, bound));
  const std::string& text = range.AsString();
  if (wanted.empty()) return Value::Int(static_cast<std::int64_t>(CountCodePoints(text)) + 1);
  std::int64_t count = 0;
  for (std::size_t i = FindText(text, wanted, 0); i != std::string::npos; i = FindText(text, wanted, i)) {
    ++count;
    i += wanted.size();
  }
  return Value::Int(count);
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

Result<Value> Format(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return BraceFormat(self, arguments, runtime);
}

// Adds spaces (or `fill`) up to `width`; `text_side` decides how many go to the left.
Result<Value> Pad(Runtime& runtime, const Value& self, const Arguments& arguments, Side text_side) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("center", {"width", "fillchar"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::int64_t width, bound.Int(0, 0));
  ROOST_ASSIGN_OR_RETURN(const std::string fill, bound.String(1, " "));
  if (CountCodePoints(fill) != 1) return InvalidArgument("", "The fill character must be exactly one character long");
  const auto length = static_cast<std::int64_t>(CountCodePoints(self.AsString()));
  if (width <= length) return self;
  ROOST_RETURN_IF_ERROR(runtime.AllowText(static_cast<std::uint64_t>(width)));
  const std::int64_t total = width - length;
  std::int64_t left = 0;
  if (text_side == Side::kRight) left = total;
  if (text_side == Side::kBoth) left = total / 2 + (total & width & 1);
  std::string out;
  for (std::int64_t i = 0; i < left; ++i) out += fill;
  out += self.AsString();
  for (std::int64_t i = left; i < total; ++i) out += fill;
  return Made(runtime, self, std::move(out));
}
Result<Value> Center(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return Pad(runtime, self, arguments, Side::kBoth);
}
Result<Value> LJust(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return Pad(runtime, self, arguments, Side::kLeft);
}
Result<Value> RJust(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return Pad(runtime, self, arguments, Side::kRight);
}

Result<Value> ZFill(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("zfill", {"width"}, 1));
  ROOST_ASSIGN_OR_RETURN(const std::int64_t width, bound.Int(0, 0));
  const auto length = static_cast<std::int64_t>(CountCodePoints(self.AsString()));
  if (width <= length) return self;
  ROOST_RETURN_IF_ERROR(runtime.AllowText(static_cast<std::uint64_t>(width)));
  std::string out = self.AsString();
  const std::size_t sign = !out.empty() && (out[0] == '-' || out[0] == '+') ? 1 : 0;
  out.insert(sign, static_cast<std::size_t>(width - length), '0');
  return Made(runtime, self, std::move(out));
}

constexpr std::array<NamedFunction<MethodFunction>, 36> kMethods = {{
    {"capitalize", CapitalizeMethod},
    {"casefold", Lower},
    {"center", Center},
    {"count", Count},
    {"encode", UnsupportedMethod},
    {"endswith", EndsWith},
    {"expandtabs", UnsupportedMethod},
    {"find", Find<From::kLeft>},
    {"format", Format},
    {"format_map", UnsupportedMethod},
    {"index", Index<From::kLeft>},
    {"isidentifier", UnsupportedMethod},
    {"join", Join},
    {"ljust", LJust},
    {"lower", Lower},
    {"lstrip", LStrip},
    {"maketrans", UnsupportedMethod},
    {"partition", Partition},
    {"removeprefix", RemovePrefix},
    {"removesuffix", RemoveSuffix},
    {"replace", Replace},
    {"rfind", Find<From::kRight>},
    {"rindex", Index<From::kRight>},
    {"rjust", RJust},
    {"rpartition", RPartition},
    {"rsplit", RSplit},
    {"rstrip", RStrip},
    {"split", Split},
    {"splitlines", SplitLinesMethod},
    {"startswith", StartsWith},
    {"strip", Strip},
    {"swapcase", SwapCase},
    {"title", Title},
    {"translate", UnsupportedMethod},
    {"upper", Upper},
    {"zfill", ZFill},
}};

}  // namespace

MethodFunction FindStringMethod(std::string_view name) {
  const MethodFunction function = FindIn(kMethods, name);
  return function != nullptr ? function : FindCharacterTest(name);
}

}  // namespace roost::jinja
