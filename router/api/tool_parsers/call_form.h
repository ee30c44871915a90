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
  // kLate: the arguments follow, and the name behind them (ReadLateName).
  enum class Name : std::uint8_t { kEarly, kLate } name_place = Name::kEarly;
};

struct CallTail {
  FormVerdict verdict = FormVerdict::kNone;
  std::size_t size = 0;  // with kMore: bytes that belong to the tail whatever comes next
  enum class Next : std::uint8_t { kContent, kCall } next = Next::kContent;
  enum class End : std::uint8_t { kOpen, kMarked } end = End::kOpen;  // kMarked: the call's end marker is there
};

// A call that a model began without its begin marker.
struct BareCall {
  FormVerdict verdict = FormVerdict::kNone;
  enum class Needs : std::uint8_t { kNothing, kEndMarker } needs = Needs::kNothing;  // to be a call
};

enum class BarePlace : std::uint8_t { kAnswer, kLine };  // the beginning of the answer, or of a later line

// Remembers its position within nested parts; one for each choice. The text that it gets begins where the last part
// ended. After kMore it gets the same text again, with more at the end, and must give what it would have given if all
// of it had come at once.
class CallForm {
 public:
  virtual ~CallForm() = default;

  [[nodiscard]] virtual std::vector<std::string_view> Begins() const = 0;
  // Markers that have no meaning outside a call.
  [[nodiscard]] virtual std::vector<std::string_view> Strays() const { return {}; }
  // True if `text` begins a call without a marker, of a function among `tools`. Reads a bounded part of it.
  [[nodiscard]] virtual BareCall ReadBare(std::string_view, BarePlace, const ToolSet&) const { return {}; }
  // The characters with which such a call may begin.
  [[nodiscard]] virtual bool MayBeginBare(char) const { return false; }
  // True if a call that begins so is one only if the request has its function.
  [[nodiscard]] virtual bool NeedsKnownName(std::string_view begin) const { return begin.empty(); }
  // True if a head may have any size: then ReadHead reads each byte only once.
  [[nodiscard]] virtual bool is_whole() const { return false; }

  // A begin marker has been read, or a call without one begins (empty): what follows is not nested in a part that was
  // read before.
  virtual void Reset(std::string_view) {}
  [[nodiscard]] virtual CallHead ReadHead(std::string_view text) = 0;
  // The model stopped where ReadHead wanted more: a head that lacks closing tags alone.
  [[nodiscard]] virtual CallHead ReadLastHead(std::string_view) { return {}; }
  // The rest of a call whose arguments came before its name.
  [[nodiscard]] virtual CallHead ReadLateName(std::string_view) { return {}; }
  [[nodiscard]] virtual CallTail ReadTail(std::string_view text) = 0;
};

// ---- the forms: each is one file, and a row in MakeCallForm ----

// Calls whose arguments are JSON: objects with a name, or a name between markers. Null for another family.
[[nodiscard]] std::unique_ptr<CallForm> MakeJsonForm(ToolFamily family);
// For answers that a constraint forces to be calls without markers.
[[nodiscard]] std::unique_ptr<CallForm> MakeForcedCallForm();
// kQwenXml and other families with a tag for each parameter. `tools` outlives the form.
[[nodiscard]] std::unique_ptr<CallForm> MakeXmlForm(ToolFamily family, const ToolSet& tools);
// Names and values in tags of their own. `tools` outlives the form.
[[nodiscard]] std::unique_ptr<CallForm> MakeGlmForm(const ToolSet& tools);
// call:f{a:1,b:<|"|>x<|"|>}
[[nodiscard]] std::unique_ptr<CallForm> MakeGemmaForm();
// [f(a=1, b="x"), g()]
[[nodiscard]] std::unique_ptr<CallForm> MakePythonicForm();

// Null for kNone, and for kHarmony, which does not mark calls within text. `tools` outlives the form.
[[nodiscard]] std::unique_ptr<CallForm> MakeCallForm(ToolFamily family, const ToolSet& tools);

[[nodiscard]] bool IsFunctionName(std::string_view name);

}  // namespace roost::router
