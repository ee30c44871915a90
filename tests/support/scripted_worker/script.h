// The answers of a scripted worker: a list of rules; the first rule that fits a prompt gives the answer.
//
//   [{"when": ["weather", "<tool_response>"], "answer": "It rains."},
//    {"when": ["weather"], "answer": "<tool_call>…</tool_call>"},
//    {"answer": "I have no line for this."}]
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace roost::testing_support {

class Script {
 public:
  // Errors name the file as `name`.
  [[nodiscard]] static Result<Script> Parse(const std::string& json, const std::string& name);

  // A rule fits a prompt that contains all of its `when` texts. Empty if none fits.
  [[nodiscard]] std::string_view AnswerTo(std::string_view prompt) const;

 private:
  struct Rule {
    std::vector<std::string> when;
    std::string answer;
  };
  std::vector<Rule> rules_;
};

}  // namespace roost::testing_support
