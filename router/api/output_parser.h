// Splits the output of one choice into content, reasoning and tool calls. Each family of models has its own parser,
// because each writes these in its own way.
//
// Text comes in pieces as it was decoded; their borders mean nothing. Text that may begin a marker is held back until
// more text decides. Text that looks like a call but is not becomes content: nothing that a model wrote is lost, and no
// text is an error. Pure; not thread-safe; one for each choice.
#pragma once

#include <string_view>
#include <utility>

#include "router/api/answer.h"

namespace roost::router {

class OutputParser {
 public:
  virtual ~OutputParser() = default;

  // Appends what became certain to `delta`.
  virtual void Push(std::string_view text, AnswerDelta& delta) = 0;
  // The text has ended: appends what was held back.
  virtual void Finish(AnswerDelta& delta) = 0;

  // Whether the next text is reasoning. Its tokens count as reasoning tokens.
  [[nodiscard]] virtual bool is_reasoning() const { return false; }
};

// Treats everything as content.
class PlainOutput final : public OutputParser {
 public:
  void Push(std::string_view text, AnswerDelta& delta) override { delta.content += text; }
  void Finish(AnswerDelta&) override {}
};

}  // namespace roost::router
