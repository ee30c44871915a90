#include "deploy/roostctl/remote/json_members.h"

#include <fmt/format.h>

#include <cctype>

namespace roost::roostctl {

std::vector<simdjson::dom::element> ListAt(simdjson::dom::element object, const char* pointer) {
  simdjson::dom::array list;
  if (object.at_pointer(pointer).get(list) != simdjson::SUCCESS) return {};
  std::vector<simdjson::dom::element> items;
  for (const simdjson::dom::element item : list) items.push_back(item);
  return items;
}

std::string PercentEncode(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.';
    encoded += is_plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return encoded;
}

}  // namespace roost::roostctl
