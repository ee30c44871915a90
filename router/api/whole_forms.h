// Calls whose arguments are not JSON. A call is read when it is complete, and its arguments are converted to JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "router/api/call_form.h"

namespace roost::router {

// GLM:         <tool_call>f ⏎ <arg_key>k</arg_key> ⏎ <arg_value>v</arg_value> … </tool_call>
// Qwen3-Coder: <tool_call> <function=f> <parameter=k> v </parameter> … </function> </tool_call>
// What a value is, argument_value.h says.
class XmlForm final : public CallForm {
 public:
  enum class Dialect : std::uint8_t { kGlm, kQwen };
  XmlForm(Dialect dialect, const ToolSet& tools) : dialect_(dialect), tools_(tools) {}

  [[nodiscard]] std::vector<std::string_view> Begins() const override;
  [[nodiscard]] std::vector<std::string_view> Strays() const override;
  [[nodiscard]] bool is_whole() const override { return true; }
  [[nodiscard]] CallHead ReadHead(std::string_view text) override;
  [[nodiscard]] CallTail ReadTail(std::string_view text) override;

 private:
  [[nodiscard]] std::optional<ToolCall> ReadGlm(std::string_view body) const;
  [[nodiscard]] std::optional<ToolCall> ReadQwen(std::string_view body) const;
  [[nodiscard]] std::string ValueOf(const ToolFunction* function, std::string_view key, std::string_view value) const;

  const Dialect dialect_;
  const ToolSet& tools_;
  std::size_t searched_ = 0;  // bytes already searched without finding the call's end
};

// [f(a=1, b="x"), g()]
class PythonicForm final : public CallForm {
 public:
  [[nodiscard]] std::vector<std::string_view> Begins() const override;
  [[nodiscard]] std::vector<std::string_view> Strays() const override;
  [[nodiscard]] char bare_begin() const override { return '['; }
  [[nodiscard]] bool is_whole() const override { return true; }
  [[nodiscard]] CallHead ReadHead(std::string_view text) override;
  [[nodiscard]] CallTail ReadTail(std::string_view text) override;

 private:
  void Scan(std::string_view text);

  std::size_t scanned_ = 0;
  std::size_t depth_ = 0;
  char quote_ = '\0';
  bool escaped_ = false;
};

}  // namespace roost::router
