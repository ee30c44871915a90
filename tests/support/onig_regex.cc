#include "tests/support/onig_regex.h"

#include <oniguruma.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "common/base/check.h"
#include "common/base/utf8.h"

namespace roost::testing_support {
namespace {

// The library's own limit for one match, and ten times that for all places where a match may begin.
constexpr unsigned long kRetriesPerMatch = 10'000'000;
constexpr unsigned long kRetriesPerSearch = 100'000'000;

const OnigUChar* Bytes(std::string_view text) { return reinterpret_cast<const OnigUChar*>(text.data()); }
const OnigUChar* End(std::string_view text) { return Bytes(text) + text.size(); }

std::string MessageOf(int code, OnigErrorInfo* info) {
  std::array<OnigUChar, ONIG_MAX_ERROR_MESSAGE_LEN> buffer{};
  const int length = onig_error_code_to_str(buffer.data(), code, info);
  return {reinterpret_cast<const char*>(buffer.data()), static_cast<std::size_t>(length)};
}

void Initialize() {
  static const int done = [] {
    OnigEncoding utf8 = ONIG_ENCODING_UTF8;
    return onig_initialize(&utf8, 1);
  }();
  ROOST_CHECK(done == ONIG_NORMAL, "{}", done);
}

}  // namespace

Result<OnigRegex> OnigRegex::Compile(std::string_view pattern) {
  Initialize();
  regex_t* code = nullptr;
  OnigErrorInfo info{};
  const int made =
      onig_new(&code, Bytes(pattern), End(pattern), ONIG_OPTION_NONE, ONIG_ENCODING_UTF8, ONIG_SYNTAX_DEFAULT, &info);
  if (made != ONIG_NORMAL) return InvalidArgument("", "{}", MessageOf(made, &info));
  return OnigRegex(std::shared_ptr<void>(code, [](void* owned) { onig_free(static_cast<regex_t*>(owned)); }));
}

Result<void> OnigRegex::FindAll(std::string_view subject, std::vector<text::TextRange>& matches) const {
  const std::unique_ptr<OnigRegion, void (*)(OnigRegion*)> region(
      onig_region_new(), [](OnigRegion* owned) { onig_region_free(owned, 1); });
  auto* code = static_cast<regex_t*>(code_.get());
  const std::unique_ptr<OnigMatchParam, void (*)(OnigMatchParam*)> param(onig_new_match_param(), onig_free_match_param);
  onig_initialize_match_param(param.get());
  onig_set_retry_limit_in_match_of_match_param(param.get(), kRetriesPerMatch);
  onig_set_retry_limit_in_search_of_match_param(param.get(), kRetriesPerSearch);
  std::optional<std::size_t> last_match_end;
  for (std::size_t start = 0; start <= subject.size();) {
    const int found = onig_search_with_param(code, Bytes(subject), End(subject), Bytes(subject) + start, End(subject),
                                             region.get(), ONIG_OPTION_NONE, param.get());
    if (found == ONIG_MISMATCH) return {};
    if (found < 0) return InvalidArgument("", "{}", MessageOf(found, nullptr));
    const text::TextRange match{static_cast<std::size_t>(region->beg[0]), static_cast<std::size_t>(region->end[0])};
    start = match.end;
    if (match.begin == match.end && last_match_end == match.end) {
      start += start < subject.size() ? Utf8SequenceLength(subject.substr(start)) : 1;
      continue;
    }
    matches.push_back(match);
    last_match_end = match.end;
  }
  return {};
}

}  // namespace roost::testing_support
