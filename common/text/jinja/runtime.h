// What one render may use and what it has made. Every part of the interpreter that loops or allocates asks here first,
// so a template's cost is bounded whatever it does:
//
//   steps   one per expression evaluated, statement run, item visited or written, and 64 bytes of text read, or 4 where
//           each character is looked at by itself
//   bytes   of all strings and containers made, also those already dropped, and of all output, also that of macros and
//           blocks inside one another; so memory in use is bounded too
//   length  of any one string, and of the output
//
// Of one render, used by one thread. Containers that the template changes after making them may hold each other in a
// circle; they are kept here and emptied one by one at the end, so nothing leaks and destruction does not recurse deep.
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
  std::uint64_t value_bytes = 256ULL << 20U;  // of all values made
  std::size_t text_bytes = 8ULL << 20U;       // of the output, and of any one string
  int depth = 400;                            // of statements, expressions and macro calls inside one another
};

class Runtime {
 public:
  // `now` is the local time that strftime_now tells.
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
  // For one use of `value`: a step, and more for a long string, as it may be read from end to end.
  Result<void> SpendOn(const Value& value) { return Spend(1 + (value.is(Kind::kString) ? TextSteps(value) : 0)); }
  [[nodiscard]] static std::uint64_t TextSteps(const Value& text) { return text.AsString().size() / kBytesPerStep; }
  // For a use of `value` that may be free: nothing, but of a string what reading or copying it takes.
  Result<void> SpendOnCopy(const Value& value) { return Spend(value.is(Kind::kString) ? TextSteps(value) : 0); }
  // For work on each character by itself, which takes some ten times longer than reading.
  Result<void> SpendPerCharacter(std::string_view text) { return Spend(1 + text.size() / kBytesPerCharacterStep); }

  // Asked before a string of `size` bytes is built by multiplying, joining, padding or replacing.
  Result<void> AllowText(std::uint64_t size) const;
  // Given; the interpreter knows when all that it was made of was written.
  Result<Value> NewString(std::string text, Markup markup = Markup::kNo);
  Result<Value> NewString(TracedText text, Markup markup = Markup::kNo);
  // A container that the template may change.
  Result<Value> NewSequence(SequenceKind kind, std::vector<Value> items);
  Result<Value> NewList(std::vector<Value> items) { return NewSequence(SequenceKind::kList, std::move(items)); }
  Result<Value> NewDict(Dict dict);
  // For what is not a value.
  Result<void> SpendBytes(std::uint64_t bytes);

  // Called before a list or dict is changed; the error says why it may not be. `adding` is what it will hold more.
  Result<void> BeginChange(const std::shared_ptr<Sequence>& list, const Value& adding);
  Result<void> BeginChange(const std::shared_ptr<Dict>& dict, const Value& adding);
  // Objects are kept to the end of the render.
  Result<Value> NewObject(std::shared_ptr<Object> object);

 private:
  static constexpr std::uint64_t kBytesPerStep = 64;  // that a filter or method reads
  static constexpr std::uint64_t kBytesPerCharacterStep = 4;

  Limits limits_;
  std::tm now_;
  std::uint64_t steps_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<std::shared_ptr<Sequence>> changed_lists_;
  std::vector<std::shared_ptr<Dict>> changed_dicts_;
  std::vector<std::shared_ptr<Object>> objects_;
};

}  // namespace roost::jinja
