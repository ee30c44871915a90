// Tells clients and operators about keys: the headers about limits, and GET /admin/v1/usage.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/http/http_message.h"
#include "router/access/key_account.h"
#include "router/access/key_ring.h"

namespace roost::router {

// x-ratelimit-{limit,remaining,reset}-{requests,tokens}, as OpenAI's API has them, of the limits that the key has. With
// several routers they are this router's part.
void AddLimitHeaders(const Admission& admission, Instant now, std::vector<HttpHeader>& headers);

// "0s", "350ms", "12s", "6m0s".
[[nodiscard]] std::string ResetText(Duration duration);

// {"keys":[…]}: what each key has used since this router began.
[[nodiscard]] std::string UsageBody(std::span<const NamedAccount> accounts);

}  // namespace roost::router
