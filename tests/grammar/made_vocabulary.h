// A vocabulary of any size that resembles real ones: all bytes, the parts of JSON, numbers, runs of white space, and
// made words with and without a leading space.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/base/rng.h"

namespace roost::testing_support {

inline std::vector<std::string> MadeVocabulary(std::size_t size) {
  std::vector<std::string> tokens{""};  // stops
  std::set<std::string> known;
  const auto add = [&](std::string token) {
    if (tokens.size() < size && known.insert(token).second) tokens.push_back(std::move(token));
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  for (const char* token :
       {"{\"",   "\":",  "\": ", "\",", "\", \"", "\"}",  "\"]", "[\"",   "],",     "},",   "}}", "[]", "{}", "true",
        "false", "null", ":\"",  ",\"", "\":\"",  "\\\"", "\\n", "\\u00", "\":{\"", "\":[", " {", " [", " \""}) {
    add(token);
  }
  for (int number = 0; number < 1000; ++number) add(std::to_string(number));
  for (std::size_t length = 2; length <= 64; ++length) add(std::string(length, ' '));
  for (std::size_t length = 1; length <= 16; ++length) add("\n" + std::string(length, ' '));
  Rng rng(7);
  constexpr std::string_view kLetters = "etaoinshrdlucmfwypvbgkjqxz";
  constexpr std::string_view kSigns = ".,:;!?-_/()\"'";
  while (tokens.size() < size) {
    std::string word(rng.Below(2) == 0 ? " " : "");
    for (std::uint64_t left = 2 + rng.Below(8); left > 0; --left) word += kLetters[rng.Below(kLetters.size())];
    if (rng.Below(20) == 0) word += kSigns[rng.Below(kSigns.size())];
    if (rng.Below(50) == 0) word += "é\xE4\xBD\xA0";
    add(std::move(word));
  }
  return tokens;
}

}  // namespace roost::testing_support
