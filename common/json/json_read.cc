#include "common/json/json_read.h"

#include "common/json/kept_numbers.h"

namespace roost::json {
namespace {

Element Null(simdjson::dom::parser& parser) { return parser.parse(std::string("null")).value_unsafe(); }

}  // namespace

void Document::Parse(std::string_view text) {
  error_ = parser_.parse(simdjson::padded_string(text)).get(root_);
  if (!ok()) root_ = Null(parser_);
}

Document::Document(std::string_view text, KeepNumbers options) {
  const auto parse = [&](std::string_view json) {
    error_ = parser_.allocate(json.size() + simdjson::SIMDJSON_PADDING, options.max_depth);
    if (ok()) error_ = parser_.parse(json.data(), json.size()).get(root_);
  };
  if (!HasLongNumber(text)) parse(text);
  if (HasLongNumber(text) || error_ == simdjson::NUMBER_ERROR) parse(WithKeptNumbers(text));
  if (!ok()) root_ = Null(parser_);
}

}  // namespace roost::json
