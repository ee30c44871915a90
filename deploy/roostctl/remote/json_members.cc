#include "deploy/roostctl/remote/json_members.h"

#include <fmt/format.h>

#include <cctype>

namespace roost::roostctl {

std::string PercentEncode(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = std::isalnum(byte) != 0 || std::string_view("-_.~/").find(c) != std::string_view::npos;
    encoded += is_plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return encoded;
}

}  // namespace roost::roostctl
