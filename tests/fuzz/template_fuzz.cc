// Any bytes as a chat template: parsing and rendering end with text or an error, within their limits.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/base/utf8.h"
#include "common/text/chat_template.h"
#include "common/text/jinja/json.h"

namespace {

constexpr std::string_view kContext = R"({
  "messages": [{"role": "system", "content": "Be brief."},
               {"role": "user", "content": "Hi é👋 <b>"},
               {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}],
  "tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "integer"}}}}}],
  "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true, "n": 7, "x": 2.5, "none": null})";

roost::RenderOptions SmallBudgets() {
  roost::RenderOptions options;
  options.now = roost::LocalTime(1'700'000'000);
  options.limits.steps = 20'000;
  options.limits.value_bytes = 4U << 20U;
  options.limits.text_bytes = 256U << 10U;
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const roost::jinja::Value context = roost::jinja::FromJson(kContext, "context").value();
  static const roost::RenderOptions options = SmallBudgets();
  const auto parsed = roost::ChatTemplate::Parse({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!parsed.ok()) return 0;
  const roost::Result<std::string> text = (*parsed)->Render(context, options);
  // The output is valid UTF-8 and not longer than allowed.
  if (text.ok() && (!roost::IsValidUtf8(*text) || text->size() > options.limits.text_bytes)) std::abort();
  return 0;
}
