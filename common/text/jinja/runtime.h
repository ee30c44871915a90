// The limits of one render, and the containers that it has created. Every part of the interpreter that loops or
// allocates asks here first, so the cost of any template is limited:
//
//   steps   one for each expression evaluated, statement run, item visited or written, and 64 bytes of text read (4
//           where each character is processed)
//   bytes   of all strings and containers created, including dropped ones, and of all output, including that of nested
//           macros and blocks; so memory in use is limited too
//   length  of each string, and of the output
//
// For one render, on one thread. Containers that the template changes can contain each other in a cycle. They are kept
// here and emptied one by one at the end, so nothing leaks and destruction does not recurse deep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/text/jinja/value.h"

namespace roost::jinja {

struct Limits {
  std::uint64_t steps = 20'000'000;           // about a second
  std::uint64_t value_bytes = 256ULL << 20U;  // all values created
  std::size_t text_bytes = 8ULL << 20U;       // the output, or any one string
  int depth = 400;                            // nesting of statements, expressions and macro calls
};

class Runtime {
 public:
  // `now` is the local time for strftime_now.
  Runtime(const Limits& limits, const std::tm& now) : limits_(limits), now_(now) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime();

  [[nodiscard]] const std::tm& now() const { return now_; }
  [[nodiscard]] const Limits& limits() const { return limits_; }

  // False when the steps are used up; SpentSteps() is the error then. The hot path of the interpreter.
  [[nodiscard]] bool TrySpend(std::uint64_t steps) {
    if (steps > limits_.steps - steps_) return false;
    steps_ += steps;
    return true;
  }
  [[nodiscard]] Error SpentSteps() const;
  Result<void> Spend(std::uint64_t steps);
  // Charges one use of `value`: a step, and more for a long string, because it may be read from end to end.
  Result<void> SpendOn(const Value& value) { return Spend(1 + (value.is(Kind::kString) ? TextSteps(value) : 0)); }
  // Charges a use of `value` that is free unless it is a string: then the steps for reading or copying it.
  Result<void> SpendOnCopy(const Value& value) { return Spend(value.is(Kind::kString) ? TextSteps(value) : 0); }
  // Charges work on each character, which takes about ten times longer than reading.
  Result<void> SpendPerCharacter(std::string_view text) { return Spend(1 + text.size() / kBytesPerCharacterStep); }

  // Call it before multiplying, joining, padding or replacing makes a string of `size` bytes.
  Result<void> AllowText(std::uint64_t size) const;
  // Counts as given. The interpreter marks it as written when all its inputs were.
  Result<Value> NewString(std::string text, Markup markup = Markup::kNo);
  Result<Value> NewString(TracedText text, Markup markup = Markup::kNo);
  // A container that the template may change.
  Result<Value> NewSequence(SequenceKind kind, std::vector<Value> items);
  Result<Value> NewDict(Dict dict);
  // For memory other than values.
  Result<void> SpendBytes(std::uint64_t bytes);

  // Call it before a list or dict changes; an error says why it may not. `adding` is the new value that it will hold.
  Result<void> BeginChange(const std::shared_ptr<Sequence>& list, const Value& adding);
  Result<void> BeginChange(const std::shared_ptr<Dict>& dict, const Value& adding);
  // Objects live until the render ends.
  Result<Value> NewObject(std::shared_ptr<Object> object);

 private:
  static constexpr std::uint64_t kBytesPerStep = 64;  // bytes that a filter or method reads per step
  static constexpr std::uint64_t kBytesPerCharacterStep = 4;

  [[nodiscard]] static std::uint64_t TextSteps(const Value& text) { return text.AsString().size() / kBytesPerStep; }

  Limits limits_;
  std::tm now_;
  std::uint64_t steps_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<std::shared_ptr<Sequence>> changed_lists_;
  std::vector<std::shared_ptr<Dict>> changed_dicts_;
  std::vector<std::shared_ptr<Object>> objects_;
};

}  // namespace roost::jinja
