// The ways in which families of models write a call. A call is
//
//   begin marker │ head: up to the arguments │ arguments: a JSON object │ tail: up to what is no part of the call
//
// The head is certain before anything of the call is told; the arguments go on as they come. Where a family's arguments
// are no JSON, the head holds them whole, made into JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/text/output_family.h"
#include "router/api/answer.h"
#include "router/api/tool_set.h"

namespace roost::router {

enum class FormVerdict : std::uint8_t { kMore, kNone, kFound };

struct CallHead {
  FormVerdict verdict = FormVerdict::kNone;
  // Bytes of the head; with kNone, those that are content without another look.
  std::size_t size = 0;
  std::string name = {};             // of the call whose arguments follow
  std::vector<ToolCall> whole = {};  // or calls with their arguments; ids are empty
};

struct CallTail {
  FormVerdict verdict = FormVerdict::kNone;
  std::size_t size = 0;
  enum class Next : std::uint8_t { kContent, kCall } next = Next::kContent;
};

// Remembers what stands open; one for each choice. Text that it is given begins where the last part ended, and is
// given again, longer, after kMore.
class CallForm {
 public:
  virtual ~CallForm() = default;

  [[nodiscard]] virtual std::vector<std::string_view> Begins() const = 0;
  // Markers that mean nothing outside of a call.
  [[nodiscard]] virtual std::vector<std::string_view> Strays() const { return {}; }
  // An answer may begin with a call without marker, by this character; '\0' for none.
  [[nodiscard]] virtual char bare_begin() const { return '\0'; }
  // May a head be of any size? Then ReadHead looks at each byte once.
  [[nodiscard]] virtual bool is_whole() const { return false; }

  [[nodiscard]] virtual CallHead ReadHead(std::string_view text) = 0;
  [[nodiscard]] virtual CallTail ReadTail(std::string_view text) = 0;
};

// Null for kNone, and for kHarmony, which is no markup within text. `tools` outlives it.
[[nodiscard]] std::unique_ptr<CallForm> MakeCallForm(ToolFamily family, const ToolSet& tools);
// For answers that were forced into calls without markers.
[[nodiscard]] std::unique_ptr<CallForm> MakeForcedCallForm();

[[nodiscard]] bool IsFunctionName(std::string_view name);

}  // namespace roost::router
