// A router's error answer, for the commands that ask it something.
#pragma once

#include "common/base/error.h"
#include "deploy/roostctl/http_client.h"

namespace roost::roostctl {

// kInvalidArgument with the status, the field and the message of an answer in OpenAI's form.
[[nodiscard]] Error RefusalOf(const HttpResponse& response);

}  // namespace roost::roostctl
