// Writes the tool calls of one choice into deltas: each has its index and an id that is the same whenever the same
// answer is made.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "router/api/answer.h"

namespace roost::router {

// What ids are made of. Some templates demand a form of them.
struct CallIds {
  enum class Form : std::uint8_t {
    kUsual,  // call_ and 24 letters and digits
    kNine,   // nine letters and digits: Mistral's templates take no other
  };
  std::string answer_id;
  std::uint32_t choice = 0;
  Form form = Form::kUsual;
};

class CallWriter {
 public:
  explicit CallWriter(CallIds ids) : ids_(std::move(ids)) {}

  void Begin(std::string name, AnswerDelta& delta);
  // More of the last call's.
  void Arguments(std::string_view text, AnswerDelta& delta);
  [[nodiscard]] std::uint32_t count() const { return count_; }

 private:
  [[nodiscard]] std::string IdOf(std::uint32_t index) const;

  const CallIds ids_;
  std::uint32_t count_ = 0;
};

}  // namespace roost::router
