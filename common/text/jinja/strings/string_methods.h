// Functions that the files of string methods share. FindStringMethod is in methods.h.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/text/jinja/methods.h"
#include "common/text/jinja/runtime.h"
#include "common/text/jinja/value.h"

namespace roost::jinja {

// The tables behind FindStringMethod, one per file; null for another name.
[[nodiscard]] MethodFunction FindPartMethod(std::string_view name);    // takes apart or joins: split, partition, join
[[nodiscard]] MethodFunction FindSearchMethod(std::string_view name);  // searches: find, count, startswith, replace
[[nodiscard]] MethodFunction FindShapeMethod(std::string_view name);   // case and margins: upper, strip, center

// Methods of marked text return marked text.
Result<Value> Made(Runtime& runtime, const Value& self, std::string text);
// The same for `part` of the bytes of `self`.
Result<Value> MadePart(Runtime& runtime, const Value& self, std::string_view part);

// From where a text is searched or split.
enum class From { kLeft, kRight };

// A backward search may compare `wanted` at every place of `text`, so it is charged for that.
Result<void> SpendOnBackwardSearch(Runtime& runtime, std::string_view text, std::string_view wanted);

}  // namespace roost::jinja
