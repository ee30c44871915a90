// The client's names and kinds of the tools that a translation gave to the model as functions.
//
//   {"type": "function", "name": "f"}                        f              as it is
//   {"type": "custom", "name": "patch"}                      patch          a function of one text, `input`
//   {"type": "namespace", "name": "mcp__fs", "tools": […]}   mcp__fs__list  its functions and custom tools
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace roost::router {

struct ClientTool {
  enum class Kind : std::uint8_t { kFunction, kCustom } kind = Kind::kFunction;
  std::string name;
  std::string name_space;  // empty: none
};

// By the function's name in the chat; without the functions that have no other name or kind.
using ToolNames = std::map<std::string, ClientTool, std::less<>>;

// The parameter that holds a custom tool's text.
inline constexpr std::string_view kCustomToolInput = "input";

// The text within a custom tool's arguments, {"input": "…"}, which come in pieces with any borders. If a model wrote
// anything else, all of that is the text, told at the end. Of a text that was cut off, all that came counts.
class CustomInput {
 public:
  // Returns the part of the text that is certain now.
  [[nodiscard]] std::string Push(std::string_view piece);
  // The arguments have ended: returns the rest of the text.
  [[nodiscard]] std::string Finish();

 private:
  enum class State : std::uint8_t { kHead, kText, kDone, kOther };

  void ReadHead();
  void ReadText(std::string& text);

  State state_ = State::kHead;
  std::string pending_;  // not decided yet; with kOther everything
};

// The whole text.
[[nodiscard]] std::string CustomInputOf(std::string_view arguments);

// A namespace and a name as the name of one function.
[[nodiscard]] inline std::string QualifiedName(std::string_view name_space, std::string_view name) {
  std::string all(name_space);
  if (!all.empty() && !all.ends_with("__")) all += "__";
  return all.append(name);
}

}  // namespace roost::router
