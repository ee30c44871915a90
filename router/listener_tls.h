// TLS of the router's listeners, as its flags have it.
#pragma once

#include <functional>
#include <memory>

#include "common/base/result.h"
#include "common/http/tls_context.h"
#include "router/options.h"
#include "router/reload.h"

namespace roost::router {

// Null without tls-cert and tls-key, of which there must be both or none; errors name the flag. The files are watched
// from here on. `on_certificate` is called for each certificate that comes into use, here and on the reloader's thread.
[[nodiscard]] Result<std::shared_ptr<const TlsContext>> OpenTls(const RouterOptions& options, Reloader& reloader,
                                                                std::function<void(const TlsValidity&)> on_certificate);

}  // namespace roost::router
