// Writes the tool calls of one choice into deltas. Each call has an index, and an id that depends only on the answer's
// id, the choice and the index.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "router/api/answer.h"

namespace roost::router {

// The inputs of ids. Some templates require a certain form of id.
struct CallIds {
  enum class Form : std::uint8_t {
    kUsual,  // call_ and 24 letters and digits
    kNine,   // nine letters and digits: Mistral's templates accept nothing else
  };
  std::string answer_id;
  std::uint32_t choice = 0;
  Form form = Form::kUsual;
};

class CallWriter {
 public:
  explicit CallWriter(CallIds ids) : ids_(std::move(ids)) {}

  void Begin(std::string name, AnswerDelta& delta);
  // Adds to the last call's arguments.
  void Arguments(std::string_view text, AnswerDelta& delta);
  [[nodiscard]] std::uint32_t count() const { return count_; }

 private:
  [[nodiscard]] std::string IdOf(std::uint32_t index) const;

  const CallIds ids_;
  std::uint32_t count_ = 0;
};

}  // namespace roost::router
