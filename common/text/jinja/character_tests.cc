#include <array>
#include <string_view>

#include "common/base/utf8.h"
#include "common/text/jinja/lookup_table.h"
#include "common/text/jinja/methods.h"
#include "common/text/jinja/python_strings.h"

namespace roost::jinja {
namespace {

using Predicate = bool (*)(char32_t c);

enum class WhenEmpty { kFalse, kTrue };

// Do all code points of the text satisfy the predicate?
template <Predicate kPredicate, WhenEmpty kWhenEmpty>
Result<Value> AllAre(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("character test", {}, 0));
  const std::string_view text = self.AsString();
  ROOST_RETURN_IF_ERROR(runtime.SpendPerCharacter(text));
  if (text.empty()) return Value::Bool(kWhenEmpty == WhenEmpty::kTrue);
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = DecodeUtf8(text.substr(i)).value_or(CodePoint{0xFFFD, 1});
    if (!kPredicate(point.value)) return Value::Bool(false);
    i += point.length;
  }
  return Value::Bool(true);
}

// At least one letter of the wanted case, and none of the other.
template <Predicate kWanted, Predicate kOther>
Result<Value> CasedAs(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("case test", {}, 0));
  const std::string_view text = self.AsString();
  ROOST_RETURN_IF_ERROR(runtime.SpendPerCharacter(text));
  bool has_wanted = false;
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = DecodeUtf8(text.substr(i)).value_or(CodePoint{0xFFFD, 1});
    if (kOther(point.value)) return Value::Bool(false);
    has_wanted = has_wanted || kWanted(point.value);
    i += point.length;
  }
  return Value::Bool(has_wanted);
}

// Upper case letters must begin words, lower case letters must continue them.
Result<Value> IsTitle(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ROOST_ASSIGN_OR_RETURN(const BoundArguments bound, arguments.Bind("istitle", {}, 0));
  const std::string_view text = self.AsString();
  ROOST_RETURN_IF_ERROR(runtime.SpendPerCharacter(text));
  bool has_letters = false;
  bool in_word = false;
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = DecodeUtf8(text.substr(i)).value_or(CodePoint{0xFFFD, 1});
    const bool is_upper = IsUpperCase(point.value);
    const bool is_lower = IsLowerCase(point.value);
    if ((is_upper && in_word) || (is_lower && !in_word)) return Value::Bool(false);
    in_word = is_upper || is_lower;
    has_letters = has_letters || in_word;
    i += point.length;
  }
  return Value::Bool(has_letters);
}

bool IsAscii(char32_t c) { return c < 0x80; }
// Superscripts and subscripts are digits too, although not decimals.
bool IsDigit(char32_t c) {
  return IsDecimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089);
}
bool IsAlphanumeric(char32_t c) { return IsAlphabetic(c) || IsNumeric(c); }

constexpr std::array<NamedFunction<MethodFunction>, 11> kTests = {{
    {"isalnum", AllAre<IsAlphanumeric, WhenEmpty::kFalse>},
    {"isalpha", AllAre<IsAlphabetic, WhenEmpty::kFalse>},
    {"isascii", AllAre<IsAscii, WhenEmpty::kTrue>},
    {"isdecimal", AllAre<IsDecimal, WhenEmpty::kFalse>},
    {"isdigit", AllAre<IsDigit, WhenEmpty::kFalse>},
    {"islower", CasedAs<IsLowerCase, IsUpperCase>},
    {"isnumeric", AllAre<IsNumeric, WhenEmpty::kFalse>},
    {"isprintable", AllAre<IsPrintable, WhenEmpty::kTrue>},
    {"isspace", AllAre<IsSpace, WhenEmpty::kFalse>},
    {"istitle", IsTitle},
    {"isupper", CasedAs<IsUpperCase, IsLowerCase>},
}};

}  // namespace

MethodFunction FindCharacterTest(std::string_view name) { return FindIn(kTests, name); }

}  // namespace roost::jinja
