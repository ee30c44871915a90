// Python's "text" % values, and str.format without format specifications.
#pragma once

#include <string_view>

#include "common/base/result.h"
#include "common/text/jinja/arguments.h"
#include "common/text/jinja/runtime.h"
#include "common/text/jinja/value.h"

namespace roost::jinja {

// Conversions s r d i u f F e E g G x X o c %, with flags, width and precision. `values` is one value, a tuple, or a
// dict for %(name)s.
Result<Value> PercentFormat(const Value& format, const Value& values, Runtime& runtime);

// Fields {}, {0}, {name} and the escapes {{ and }}. A field with a conversion, a specification, an attribute or an
// index is an error.
Result<Value> BraceFormat(const Value& format, const Arguments& arguments, Runtime& runtime);

}  // namespace roost::jinja
