// TLS of a daemon's listeners, as its flags tls-cert, tls-key and tls-client-ca have it.
#pragma once

#include <functional>
#include <memory>

#include "common/base/reload.h"
#include "common/base/result.h"
#include "common/http/tls_context.h"

namespace roost {

// The errors that OpenTls would return for these files; does not watch them.
[[nodiscard]] Result<void> CheckTls(const TlsFiles& files);

// Null without certificate and key, of which there must be both or none; errors name the flag. The files are watched
// from here on. `on_certificate` is called for each certificate that comes into use, here and on the reloader's thread.
[[nodiscard]] Result<std::shared_ptr<const TlsContext>> OpenTls(const TlsFiles& files, Reloader& reloader,
                                                                std::function<void(const TlsValidity&)> on_certificate);

}  // namespace roost
