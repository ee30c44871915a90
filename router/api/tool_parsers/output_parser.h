// Splits the output of one choice into content, reasoning and tool calls. Each family of models has its own parser,
// because each writes these in its own way.
//
// Text comes in pieces as it was decoded; their borders mean nothing. Text that may begin a marker is held back until
// more text decides. Text that looks like a call but is not becomes content: nothing that a model wrote is lost, and no
// text is an error. Pure; not thread-safe; one for each choice.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/output_family.h"
#include "router/api/answer.h"
#include "router/api/tool_set.h"

namespace roost::router {

class CallForm;

// The model stopped by itself, or the text was cut off (max_tokens).
enum class TextEnd : std::uint8_t { kStopped, kCut };

class OutputParser {
 public:
  virtual ~OutputParser() = default;

  // Appends what became certain to `delta`.
  virtual void Push(std::string_view text, AnswerDelta& delta) = 0;
  // The text has ended: appends what was held back.
  virtual void Finish(AnswerDelta& delta, TextEnd end) = 0;

  // True if the next text is reasoning. Its tokens count as reasoning tokens.
  [[nodiscard]] virtual bool is_reasoning() const { return false; }
};

// Treats everything as content.
class PlainOutput final : public OutputParser {
 public:
  void Push(std::string_view text, AnswerDelta& delta) override { delta.content += text; }
  void Finish(AnswerDelta&, TextEnd) override {}
};

// Writes the tool calls of one choice into deltas. Each call has an index, and an id that depends only on the answer's
// id, the choice and the index.

// The inputs of ids. Some templates require a certain form of id.
struct CallIds {
  enum class Form : std::uint8_t {
    kUsual,     // call_ and 24 letters and digits
    kNine,      // nine letters and digits: Mistral's templates accept nothing else
    kNumbered,  // functions.NAME:N, where N counts the calls of the conversation, as Kimi writes them
  };
  std::string answer_id;
  std::uint32_t choice = 0;
  Form form = Form::kUsual;
  std::uint32_t earlier_calls = 0;  // in the conversation
};

class CallWriter {
 public:
  explicit CallWriter(CallIds ids) : ids_(std::move(ids)) {}

  void Begin(std::string name, AnswerDelta& delta);
  // Adds to the last call's arguments.
  void Arguments(std::string_view text, AnswerDelta& delta);
  [[nodiscard]] std::uint32_t count() const { return count_; }

 private:
  [[nodiscard]] std::string IdOf(std::uint32_t index, std::string_view name) const;

  const CallIds ids_;
  std::uint32_t count_ = 0;
};

enum class ReasoningStart : std::uint8_t {
  kOutside,  // its tag begins reasoning
  kInside,   // the prompt has already opened it
  kNever,    // the prompt has closed it, or a constraint sets the answer's form
};

// The part where an answer to the rendered `prompt` begins.
[[nodiscard]] ReasoningStart ReasoningStartOf(OutputFamily family, std::string_view prompt);

struct FamilyOutputOptions {
  OutputFamily family;
  ReasoningStart reasoning_start = ReasoningStart::kOutside;
  std::shared_ptr<const ToolSet> tools;    // never null
  std::vector<std::string> specials = {};  // markers that are special tokens: outside calls they are dropped
  CallIds ids;                             // MakeFamilyOutput sets its form
  CallDelivery delivery = CallDelivery::kAtOnce;
};

// The output parser that suits the model's family.
[[nodiscard]] std::unique_ptr<OutputParser> MakeFamilyOutput(FamilyOutputOptions options);

// ---- the parsers ----

// Text with markers in it: <think> in front, calls after it. `form` may be null; then it does not look for calls.
[[nodiscard]] std::unique_ptr<OutputParser> MakeTaggedOutputParser(FamilyOutputOptions options,
                                                                   std::unique_ptr<CallForm> form);
// The output of gpt-oss: messages with headers.
[[nodiscard]] std::unique_ptr<OutputParser> MakeHarmonyParser(FamilyOutputOptions options);
[[nodiscard]] std::vector<std::string_view> HarmonyMarkers();

// All markers that the family's parser looks for. If they are special tokens, the parser needs them as text.
[[nodiscard]] std::vector<std::string_view> MarkersOf(OutputFamily family);

}  // namespace roost::router
