// Tells apart what a model writes in one choice: what it says, how it reasons, which tools it calls. One parser for
// each family of models that writes these in its own way.
//
// Text comes as it was decoded, in pieces whose borders mean nothing. What is not certain yet, because it may begin a
// marker of the family, is held back. What looks like a call and is none becomes content: nothing that a model wrote is
// lost, and no text is an error. Pure; not thread-safe; one for each choice.
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
  // The text has ended: what was held back.
  virtual void Finish(AnswerDelta& delta) = 0;

  // Is what comes next reasoning? Its tokens are counted as such.
  [[nodiscard]] virtual bool is_reasoning() const { return false; }
};

// All that a model writes is content.
class PlainOutput final : public OutputParser {
 public:
  void Push(std::string_view text, AnswerDelta& delta) override { delta.content += text; }
  void Finish(AnswerDelta&) override {}
};

}  // namespace roost::router
