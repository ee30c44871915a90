// Oniguruma (libonig-dev) behind the interface of text::Regex: tests compare the translation to PCRE2 with it, and the
// benchmark times both. Built only if the library is installed, with ROOST_HAS_ONIGURUMA set.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/text/regex/regex.h"

namespace roost::testing_support {

class OnigRegex {
 public:
  // Uses the syntax, encoding and options of the reference library: Oniguruma's default syntax, UTF-8, no options. The
  // error has no field.
  static Result<OnigRegex> Compile(std::string_view pattern);

  // Appends all matches in `subject`, which must be valid UTF-8, as text::Regex finds them. Fails if the match needs
  // more retries or memory than the library allows.
  Result<void> FindAll(std::string_view subject, std::vector<text::TextRange>& matches) const;

 private:
  explicit OnigRegex(std::shared_ptr<void> code) : code_(std::move(code)) {}

  // A regex_t. The C library has types of the same names, so this header names no type of Oniguruma.
  std::shared_ptr<void> code_;
};

}  // namespace roost::testing_support
