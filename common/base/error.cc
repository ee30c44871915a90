#include "common/base/error.h"

#include <array>
#include <cstddef>

#include "common/base/check.h"

namespace roost {
namespace {

struct Row {
  ErrorCode code;
  ErrorTraits traits;
};

// clang-format off
constexpr std::array kRows{
    Row{ErrorCode::kInvalidArgument,  {"invalid_argument",   400, "invalid_request_error", "", false}},
    Row{ErrorCode::kUnauthenticated,  {"unauthenticated",    401, "authentication_error",  "invalid_api_key", false}},
    Row{ErrorCode::kNotFound,         {"not_found",          404, "invalid_request_error", "not_found", false}},
    Row{ErrorCode::kMethodNotAllowed, {"method_not_allowed", 405, "invalid_request_error", "method_not_allowed", false}},
    Row{ErrorCode::kTimeout,          {"timeout",            408, "invalid_request_error", "request_timeout", true}},
    Row{ErrorCode::kContextTooLong,   {"context_too_long",   400, "invalid_request_error", "context_length_exceeded", false}},
    Row{ErrorCode::kBodyTooLarge,     {"body_too_large",     413, "invalid_request_error", "request_too_large", false}},
    Row{ErrorCode::kHeaderTooLarge,   {"header_too_large",   431, "invalid_request_error", "headers_too_large", false}},
    Row{ErrorCode::kOverloaded,       {"overloaded",         429, "rate_limit_error",      "overloaded", true}},
    Row{ErrorCode::kUnavailable,      {"unavailable",        503, "overloaded_error",      "unavailable", true}},
    Row{ErrorCode::kDeadlineExceeded, {"deadline_exceeded",  504, "server_error",          "deadline_exceeded", true}},
    Row{ErrorCode::kCancelled,        {"cancelled",          499, "server_error",          "cancelled", false}},
    Row{ErrorCode::kDataLoss,         {"data_loss",          500, "server_error",          "data_loss", false}},
    Row{ErrorCode::kInternal,         {"internal",           500, "server_error",          "internal", false}},
    Row{ErrorCode::kModelNotFound,    {"model_not_found",    404, "invalid_request_error", "model_not_found", false}},
    Row{ErrorCode::kUnsupportedMediaType, {"unsupported_media_type", 415, "invalid_request_error", "unsupported_media_type", false}},
    Row{ErrorCode::kPermissionDenied, {"permission_denied",  403, "permission_error",      "permission_denied", false}},
    Row{ErrorCode::kRateLimited,      {"rate_limited",       429, "rate_limit_error",      "rate_limit_exceeded", true}},
};
// clang-format on

constexpr bool RowsAreInOrder() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<std::size_t>(kRows[i].code) != i) return false;
  }
  return true;
}
static_assert(kRows.size() == kErrorCodeCount);
static_assert(RowsAreInOrder(), "the table is indexed by the code's value");

}  // namespace

const ErrorTraits& TraitsOf(ErrorCode code) {
  const auto index = static_cast<std::size_t>(code);
  ROOST_CHECK(index < kRows.size(), "error code {}", index);
  return kRows[index].traits;
}

std::string Error::ToString() const { return field.empty() ? message : field + ": " + message; }

}  // namespace roost
