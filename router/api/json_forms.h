// Calls whose arguments are JSON: objects with a name, or a name between markers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "router/api/call_form.h"
#include "router/api/partial_text.h"

namespace roost::router {

// {"name": "f", "arguments": {…}}, alone or in a list; "parameters" is accepted for "arguments".
class JsonObjectForm : public CallForm {
 public:
  struct Markers {
    std::string_view begin = {};
    std::string_view end = {};
    char bare = '\0';
    std::string_view separator = {};  // between calls outside a list
  };
  explicit JsonObjectForm(Markers markers) : markers_(markers) {}

  [[nodiscard]] std::vector<std::string_view> Begins() const override;
  [[nodiscard]] std::vector<std::string_view> Strays() const override;
  [[nodiscard]] char bare_begin() const override { return markers_.bare; }
  void Reset() override { in_list_ = false; }
  [[nodiscard]] CallHead ReadHead(std::string_view text) override;
  [[nodiscard]] CallTail ReadTail(std::string_view text) override;

 private:
  [[nodiscard]] CallHead ReadMembers(PartialText& text, bool in_list);
  [[nodiscard]] CallTail ReadSeparator(PartialText& text);

  const Markers markers_;
  bool in_list_ = false;
  bool closed_ = false;  // the last call's object is closed
};

// Mistral: [TOOL_CALLS] and a list, or [TOOL_CALLS]f[ARGS]{…}.
class MistralForm final : public JsonObjectForm {
 public:
  MistralForm() : JsonObjectForm({.begin = "[TOOL_CALLS]"}) {}

  [[nodiscard]] CallHead ReadHead(std::string_view text) override;
  [[nodiscard]] CallTail ReadTail(std::string_view text) override;

 private:
  bool named_ = false;
};

// section begin │ call begin │ f │ argument begin │ {…} │ call end │ … │ section end
class TaggedForm final : public CallForm {
 public:
  enum class Naming : std::uint8_t {
    kKimi,      // functions.f:0
    kDeepSeek,  // f, or as V3 and R1 write it: function, argument begin, f, and the arguments in a code fence
  };
  struct Markers {
    std::string_view section_begin;
    std::string_view call_begin;
    std::string_view argument_begin;
    std::string_view call_end;
    std::string_view section_end;
  };
  TaggedForm(Markers markers, Naming naming) : markers_(markers), naming_(naming) {}

  [[nodiscard]] std::vector<std::string_view> Begins() const override;
  [[nodiscard]] std::vector<std::string_view> Strays() const override;
  [[nodiscard]] CallHead ReadHead(std::string_view text) override;
  [[nodiscard]] CallTail ReadTail(std::string_view text) override;

 private:
  const Markers markers_;
  const Naming naming_;
};

}  // namespace roost::router
