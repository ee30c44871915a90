#include "router/api/json_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/text/jinja/json.h"

namespace roost::router {
namespace {

namespace dom = simdjson::dom;

bool IsInteger(std::string_view number) { return number.find_first_of(".eE") == std::string_view::npos; }

Error WrongType(std::string_view path, std::string_view wanted, JsonElement element) {
  return InvalidArgument(std::string(path), "must be {}, not {}", wanted, TypeName(element));
}

// Keeps the last member of each name, and drops nulls.
void KeepLast(std::vector<std::pair<std::string_view, JsonElement>>& members) {
  std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const bool repeated = i + 1 < members.size() && members[i + 1].first == members[i].first;
    if (repeated || members[i].second.is_null()) continue;
    members[kept++] = members[i];
  }
  members.erase(members.begin() + static_cast<std::ptrdiff_t>(kept), members.end());
}

}  // namespace

std::string_view TypeName(JsonElement element) {
  if (const auto kept = json::KeptNumber(element)) return IsInteger(*kept) ? "an integer" : "a number";
  switch (element.type()) {
    case dom::element_type::ARRAY: return "an array";
    case dom::element_type::OBJECT: return "an object";
    case dom::element_type::INT64:
    case dom::element_type::UINT64: return "an integer";
    case dom::element_type::DOUBLE: return "a number";
    case dom::element_type::STRING: return "a string";
    case dom::element_type::BOOL: return "a boolean";
    case dom::element_type::NULL_VALUE: return "null";
  }
  return "unknown";
}

bool IsString(JsonElement element) { return json::TextOf(element).has_value(); }

Result<std::string_view> StringOf(JsonElement element, std::string_view path) {
  const std::optional<std::string_view> text = json::TextOf(element);
  if (!text) return WrongType(path, "a string", element);
  return *text;
}

Result<std::int64_t> IntegerOf(JsonElement element, std::string_view path, std::int64_t low, std::int64_t high) {
  std::int64_t value = 0;
  std::uint64_t large = 0;
  const auto out_of_range = [&](const auto& number) {
    return InvalidArgument(std::string(path), "must be between {} and {}, not {}", low, high, number);
  };
  if (const auto kept = json::KeptNumber(element); kept && IsInteger(*kept)) return out_of_range(*kept);
  if (element.is<std::uint64_t>() && !element.is<std::int64_t>() && element.get(large) == simdjson::SUCCESS) {
    return out_of_range(large);
  }
  if (element.get(value) != simdjson::SUCCESS) {
    const std::optional<double> real = json::NumberOf(element);
    if (!real || std::trunc(*real) != *real) return WrongType(path, "an integer", element);
    if (std::abs(*real) > 9e15) return out_of_range(*real);
    value = static_cast<std::int64_t>(*real);
  }
  if (value < low || value > high) return out_of_range(value);
  return value;
}

Result<std::vector<JsonElement>> ElementsOf(JsonElement array, std::string_view path) {
  dom::array elements;
  if (array.get(elements) != simdjson::SUCCESS) return WrongType(path, "an array", array);
  return std::vector<JsonElement>(elements.begin(), elements.end());
}

Result<jinja::Value> TemplateValueOf(JsonElement element, std::string_view path) {
  return jinja::FromJson(element, path);
}

Result<JsonObject> JsonObject::From(JsonElement element, std::string path) {
  dom::object object;
  if (element.get(object) != simdjson::SUCCESS) {
    if (path.empty()) return InvalidArgument("", "the request body must be a JSON object, not {}", TypeName(element));
    return WrongType(path, "an object", element);
  }
  std::vector<std::pair<std::string_view, JsonElement>> members;
  for (const dom::key_value_pair member : object) {
    if (members.size() == kMaxJsonMembers) {
      return InvalidArgument(path, "an object of the request has more than {} members", kMaxJsonMembers);
    }
    members.emplace_back(member.key, member.value);
  }
  KeepLast(members);
  return JsonObject(std::move(path), std::move(members));
}

std::string JsonObject::PathOf(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

std::optional<JsonElement> JsonObject::Find(std::string_view name) const {
  const auto found = std::lower_bound(members_.begin(), members_.end(), name,
                                      [](const auto& member, std::string_view key) { return member.first < key; });
  if (found == members_.end() || found->first != name) return std::nullopt;
  return found->second;
}

Result<std::optional<std::string_view>> JsonObject::String(std::string_view name) const {
  const std::optional<JsonElement> element = Find(name);
  if (!element) return std::optional<std::string_view>();
  ROOST_ASSIGN_OR_RETURN(const std::string_view text, StringOf(*element, PathOf(name)));
  return std::optional<std::string_view>(text);
}

Result<std::optional<bool>> JsonObject::Bool(std::string_view name) const {
  const std::optional<JsonElement> element = Find(name);
  if (!element) return std::optional<bool>();
  bool value = false;
  if (element->get(value) != simdjson::SUCCESS) return WrongType(PathOf(name), "a boolean", *element);
  return std::optional<bool>(value);
}

Result<std::optional<std::int64_t>> JsonObject::Integer(std::string_view name, std::int64_t low,
                                                        std::int64_t high) const {
  const std::optional<JsonElement> element = Find(name);
  if (!element) return std::optional<std::int64_t>();
  ROOST_ASSIGN_OR_RETURN(const std::int64_t value, IntegerOf(*element, PathOf(name), low, high));
  return std::optional<std::int64_t>(value);
}

Result<std::optional<double>> JsonObject::Number(std::string_view name) const {
  const std::optional<JsonElement> element = Find(name);
  if (!element) return std::optional<double>();
  const std::optional<double> value = json::NumberOf(*element);
  if (!value) return WrongType(PathOf(name), "a number", *element);
  return value;
}

Result<std::optional<JsonObject>> JsonObject::Object(std::string_view name) const {
  const std::optional<JsonElement> element = Find(name);
  if (!element) return std::optional<JsonObject>();
  ROOST_ASSIGN_OR_RETURN(JsonObject object, From(*element, PathOf(name)));
  return std::optional<JsonObject>(std::move(object));
}

Result<std::optional<std::vector<JsonElement>>> JsonObject::Array(std::string_view name) const {
  const std::optional<JsonElement> element = Find(name);
  if (!element) return std::optional<std::vector<JsonElement>>();
  ROOST_ASSIGN_OR_RETURN(std::vector<JsonElement> elements, ElementsOf(*element, PathOf(name)));
  return std::optional<std::vector<JsonElement>>(std::move(elements));
}

JsonBody::JsonBody(std::string body) : body_(std::move(body)) {}

namespace {

bool IsHex4(std::string_view text) {
  return text.size() >= 4 && text.substr(0, 4).find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}
// True if \uHHHH begins here, with a surrogate of the half whose second digit is one of `digits`.
bool IsSurrogate(std::string_view text, std::string_view digits) {
  return text.starts_with("\\u") && IsHex4(text.substr(2)) && (text[2] | 0x20) == 'd' &&
         digits.find(text[3]) != std::string_view::npos;
}

// Makes halves of characters U+FFFD, in place: programs that cut texts by UTF-16 units send them, again in every later
// turn. Backslashes stand in strings alone. True if there was one.
bool ReplaceLoneSurrogates(std::string& json) {
  constexpr std::string_view kFirst = "89abAB";
  constexpr std::string_view kSecond = "cdefCDEF";
  constexpr std::size_t kEscape = 6;
  bool found = false;
  const std::string_view text = json;
  for (std::size_t at = text.find('\\'); at < text.size(); at = text.find('\\', at)) {
    const std::string_view rest = text.substr(at);
    const bool is_first = IsSurrogate(rest, kFirst);
    if (is_first && IsSurrogate(rest.substr(kEscape), kSecond)) {
      at += 2 * kEscape;
    } else if (is_first || IsSurrogate(rest, kSecond)) {
      json.replace(at + 2, 4, "FFFD");
      found = true;
      at += kEscape;
    } else {
      at += 2;
    }
  }
  return found;
}

}  // namespace

Result<JsonObject> JsonBody::Parse() {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (body_.starts_with(kByteOrderMark)) body_.erase(0, kByteOrderMark.size());
  JsonElement root;
  const auto parse = [&] {
    const std::size_t size = body_.size();
    // The parser reads whole SIMD vectors, so also bytes after the end.
    body_.resize(size + kPadding);
    simdjson::error_code error = parser_.allocate(size, kMaxJsonDepth);
    if (!error) error = parser_.parse(body_.data(), size, false).get(root);
    if (error == simdjson::STRING_ERROR && ReplaceLoneSurrogates(body_)) {
      error = parser_.parse(body_.data(), size, false).get(root);
    }
    return error;
  };
  const bool is_kept = json::HasLongNumber(body_);
  if (is_kept) body_ = json::WithKeptNumbers(body_);
  simdjson::error_code error = parse();
  if (error == simdjson::NUMBER_ERROR && !is_kept) {
    body_ = json::WithKeptNumbers(Release());
    error = parse();
  }
  if (error == simdjson::EMPTY) return InvalidArgument("", "the request body is empty");
  if (error) return InvalidArgument("", "the request body is not valid JSON: {}", simdjson::error_message(error));
  return JsonObject::From(root, "");
}

std::size_t JsonBody::node_count() const {
  // The first word of the parser's tape says where the tape ends.
  return static_cast<std::size_t>(parser_.doc.tape[0] & simdjson::internal::JSON_VALUE_MASK);
}

}  // namespace roost::router
