// Keys as text: the key file (its form: router/access/api_key.h), the headers about limits, GET /admin/v1/usage.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/http/http_message.h"
#include "router/access/api_key.h"
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

// kInvalidArgument names file, line and member: the name of a key given twice, an unknown member (a misspelt limit
// would be none), a number out of range, an empty file: an editor may be about to fill it. A file with comments alone
// has no keys: all requests are refused.
[[nodiscard]] Result<std::vector<ApiKey>> ParseKeyFile(std::string_view text, const std::string& path);
[[nodiscard]] Result<std::vector<ApiKey>> ReadKeyFile(const std::string& path);

// The line of a key.
[[nodiscard]] std::string KeyLine(const ApiKey& key);

}  // namespace roost::router
