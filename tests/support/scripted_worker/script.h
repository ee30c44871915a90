// What a scripted worker answers: a list of rules, of which the first that fits a prompt gives the answer.
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
  // `name` stands for the file in errors.
  [[nodiscard]] static Result<Script> Parse(const std::string& json, const std::string& name);

  // A rule fits a prompt that holds all of its `when` texts. Empty when none fits.
  [[nodiscard]] std::string_view AnswerTo(std::string_view prompt) const;

 private:
  struct Rule {
    std::vector<std::string> when;
    std::string answer;
  };
  std::vector<Rule> rules_;
};

}  // namespace roost::testing_support
