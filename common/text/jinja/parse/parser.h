// Template text to its syntax tree. Statements: set, for, if, macro, call, filter, with, break, continue, generation
// and raw. Expressions: Jinja2's whole grammar. Templates that extend, include or import others are refused.
#pragma once

#include <cstddef>
#include <string_view>

#include "common/base/result.h"
#include "common/text/jinja/ast.h"

namespace roost::jinja {

inline constexpr std::size_t kMaxTemplateBytes = 1U << 20U;
// The most that brackets, operators and blocks may nest while parsing.
inline constexpr int kMaxParseNesting = 100;
// The depth of one expression's tree. It may be deeper than brackets nest: a + b + c is one level per operator.
inline constexpr int kMaxTreeDepth = 400;

// Errors begin with "line N: ".
Result<TemplateTree> ParseTemplate(std::string_view source);

}  // namespace roost::jinja
