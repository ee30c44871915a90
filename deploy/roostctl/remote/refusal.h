// A router's error answer, for the commands that ask it something.
#pragma once

#include <string>

#include "common/base/error.h"
#include "deploy/roostctl/remote/http_client.h"

namespace roost::roostctl {

// If a router answers that there is no such path because it is one of its other address: which address that is, and
// which is meant. Otherwise empty.
[[nodiscard]] std::string OtherAddressHint(const HttpResponse& response);

// kInvalidArgument with the status, the field and the message of an answer in OpenAI's form, and with the hint.
[[nodiscard]] Error RefusalOf(const HttpResponse& response);

}  // namespace roost::roostctl
