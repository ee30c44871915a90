// The ways in which model families write a tool call. A call is
//
//   begin marker │ head: up to the arguments │ arguments: a JSON object │ tail: up to the end of the call
//
// Nothing of a call is reported before its head is complete; then the arguments are passed on as they arrive. If a
// family's arguments are not JSON, they belong to the head: it is read whole, and they are converted to JSON.
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
  // Bytes of the head. With kNone: bytes that are content and need not be read again.
  std::size_t size = 0;
  std::string name = {};             // of the call, if its arguments follow
  std::vector<ToolCall> whole = {};  // otherwise: complete calls, with empty ids
};

struct CallTail {
  FormVerdict verdict = FormVerdict::kNone;
  std::size_t size = 0;  // with kMore: bytes that belong to the tail whatever comes next
  enum class Next : std::uint8_t { kContent, kCall } next = Next::kContent;
};

// Remembers its position within nested parts; one for each choice. The text that it gets begins where the last part
// ended. After kMore it gets the same text again, with more at the end, and must give what it would have given if all
// of it had come at once.
class CallForm {
 public:
  virtual ~CallForm() = default;

  [[nodiscard]] virtual std::vector<std::string_view> Begins() const = 0;
  // Markers that have no meaning outside a call.
  [[nodiscard]] virtual std::vector<std::string_view> Strays() const { return {}; }
  // The first character of a call without a marker, which may stand at the beginning of an answer; '\0' if there is
  // none.
  [[nodiscard]] virtual char bare_begin() const { return '\0'; }
  // True if a head may have any size: then ReadHead reads each byte only once.
  [[nodiscard]] virtual bool is_whole() const { return false; }

  // A begin marker has been read: what follows is not nested in a part that was read before.
  virtual void Reset() {}
  [[nodiscard]] virtual CallHead ReadHead(std::string_view text) = 0;
  [[nodiscard]] virtual CallTail ReadTail(std::string_view text) = 0;
};

// ---- the forms: each is one file, and a row in MakeCallForm ----

// Calls whose arguments are JSON: objects with a name, or a name between markers. Null for another family.
[[nodiscard]] std::unique_ptr<CallForm> MakeJsonForm(ToolFamily family);
// For answers that a constraint forces to be calls without markers.
[[nodiscard]] std::unique_ptr<CallForm> MakeForcedCallForm();
// kGlm or kQwenXml. `tools` outlives the form.
[[nodiscard]] std::unique_ptr<CallForm> MakeXmlForm(ToolFamily family, const ToolSet& tools);
// [f(a=1, b="x"), g()]
[[nodiscard]] std::unique_ptr<CallForm> MakePythonicForm();

// Null for kNone, and for kHarmony, which does not mark calls within text. `tools` outlives the form.
[[nodiscard]] std::unique_ptr<CallForm> MakeCallForm(ToolFamily family, const ToolSet& tools);

[[nodiscard]] bool IsFunctionName(std::string_view name);

// Reads the value that an argument's text means, in a family's syntax that writes strings without
// quotes (XML): the value that the parameter's schema allows, strings first.
//
//   schema                            text        value
//   string; string or null            12345       "12345"
//   string or null                    null        null
//   string or integer                 12345       "12345"
//   integer; none at all              12345       12345
//   integer                           12.5        "12.5"
//   enum of "a", "b"                  a           "a"
//   enum of "1", 2                    2           2
//   boolean                           True        true, as templates in Python write it
//   object                            {"a": 1}    {"a": 1}
//
// Schemas are followed through $ref, anyOf, oneOf and allOf.
//
// Pure. O(schema) for each argument.
//
// `schema` is that of the function's parameters, or empty. The value as JSON; a string if it is nothing else.
[[nodiscard]] std::string ArgumentJson(std::string_view schema, std::string_view name, std::string_view text);

}  // namespace roost::router
