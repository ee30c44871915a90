// Texts that make a careless tokenizer slow: endless words, and texts that almost match something else.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace roost::testing_support {

struct HostileText {
  std::string_view name;
  std::string text;
};

// Each text has about `bytes` bytes.
inline std::vector<HostileText> HostileTexts(std::size_t bytes) {
  struct Unit {
    std::string_view name;
    std::string_view text;
  };
  static constexpr Unit kUnits[] = {
      {"spaces", " "},
      {"letters", "a"},
      {"capitals", "A"},
      {"capitals_behind_small", "\u00aaAAAAAAAA"},
      {"digits", "7"},
      {"apostrophes", "'"},
      {"symbols", "!"},
      {"blank_lines", " \n "},
      {"joined_emoji", "\U0001F469\u200d\U0001F467\u200d"},
      {"marks", "\u0301"},
      {"special_token_fronts", "<|im_end|"},
      {"special_token_openings", "<|"},
      {"special_token_spaces", "<|endoftext |> "},
  };
  std::vector<HostileText> texts;
  for (const auto& [name, unit] : kUnits) {
    std::string text;
    while (text.size() < bytes) text += unit;
    texts.push_back({name, std::move(text)});
  }
  return texts;
}

}  // namespace roost::testing_support
