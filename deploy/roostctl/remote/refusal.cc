#include "deploy/roostctl/remote/refusal.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "common/json/json_read.h"

namespace roost::roostctl {
namespace {

constexpr long kNotFound = 404;

struct Refusal {
  std::string message = "(without a reason)";
  std::string field = {};  // empty when it names none
};

Refusal Read(const HttpResponse& response) {
  Refusal refusal;
  const json::Document body(response.body);
  refusal.message = json::At<std::string_view>(body.root(), "/error/message").value_or(refusal.message);
  refusal.field = json::At<std::string_view>(body.root(), "/error/param").value_or("");
  return refusal;
}

}  // namespace

std::string OtherAddressHint(const HttpResponse& response) {
  const std::string_view path = std::string_view(response.path).substr(0, response.path.find('?'));
  if (response.status != kNotFound || !Read(response).message.starts_with(fmt::format("there is no {}", path)))
    return "";
  if (path.starts_with("/admin/")) {
    return fmt::format("this looks like the API's address; --admin wants the operators', by default {}",
                       kDefaultAdminUrl);
  }
  if (path == "/metrics") return "";
  return fmt::format("this looks like the operators' address; --router wants the API's, by default {}",
                     kDefaultRouterUrl);
}

Error RefusalOf(const HttpResponse& response) {
  const auto [message, field] = Read(response);
  std::string text = fmt::format("the router answers {}: ", response.status);
  if (!message.starts_with(field)) text += field + ": ";
  text += message;
  if (const std::string hint = OtherAddressHint(response); !hint.empty()) text += "; " + hint;
  return {ErrorCode::kInvalidArgument, std::move(text), ""};
}

}  // namespace roost::roostctl
