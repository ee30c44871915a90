#include "common/text/jinja/strings/string_methods.h"

#include <array>
#include <utility>

#include "common/text/jinja/lookup_table.h"
#include "common/text/jinja/percent_format.h"
#include "common/text/jinja/traced_text.h"

namespace roost::jinja {
namespace {

Result<Value> Format(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return BraceFormat(self, arguments, runtime);
}

constexpr std::array<NamedFunction<MethodFunction>, 7> kOtherStringMethods = {{
    {"encode", UnsupportedMethod},
    {"expandtabs", UnsupportedMethod},
    {"format", Format},
    {"format_map", UnsupportedMethod},
    {"isidentifier", UnsupportedMethod},
    {"maketrans", UnsupportedMethod},
    {"translate", UnsupportedMethod},
}};

}  // namespace

Result<Value> Made(Runtime& runtime, const Value& self, std::string text) {
  return runtime.NewString(std::move(text), self.IsMarkup() ? Markup::kYes : Markup::kNo);
}

Result<Value> MadePart(Runtime& runtime, const Value& self, std::string_view part) {
  TracedText text;
  text.AppendPart(self, part);
  return runtime.NewString(std::move(text), self.IsMarkup() ? Markup::kYes : Markup::kNo);
}

Result<void> SpendOnBackwardSearch(Runtime& runtime, std::string_view text, std::string_view wanted) {
  return runtime.Spend((text.size() / 64) * (wanted.size() / 64 + 1));
}

MethodFunction FindStringMethod(std::string_view name) {
  for (const auto find : {FindPartMethod, FindSearchMethod, FindShapeMethod, FindCharacterTest}) {
    if (const MethodFunction function = find(name); function != nullptr) return function;
  }
  return FindIn(kOtherStringMethods, name);
}

}  // namespace roost::jinja
