#include "common/http/listener_tls.h"

#include <fmt/chrono.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"

namespace roost {
namespace {

Result<void> CheckFlags(const TlsFiles& files) {
  if (files.certificate.empty() != files.key.empty()) {
    return InvalidArgument(files.certificate.empty() ? "tls-cert" : "tls-key",
                           "TLS needs a certificate and its key: give both flags or none");
  }
  if (files.certificate.empty() && !files.client_ca.empty()) {
    return InvalidArgument("tls-client-ca", "clients show certificates over TLS alone: give tls-cert and tls-key too");
  }
  return {};
}

// Clients refuse it, but an operator who has no other may want to go on with it.
void WarnUnlessValid(const TlsValidity& validity, const std::string& file) {
  const std::int64_t now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  if (now >= validity.from_seconds && now < validity.until_seconds) return;
  const auto date = [](std::int64_t seconds) { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(seconds)); };
  LogWarning("the TLS certificate is not valid now, and clients will refuse it",
             {{"file", file}, {"from", date(validity.from_seconds)}, {"until", date(validity.until_seconds)}});
}

}  // namespace

Result<void> CheckTls(const TlsFiles& files) {
  ROOST_RETURN_IF_ERROR(CheckFlags(files));
  if (!files.certificate.empty()) ROOST_RETURN_IF_ERROR(TlsContext::Load(files));
  return {};
}

Result<std::shared_ptr<const TlsContext>> OpenTls(const TlsFiles& files, Reloader& reloader,
                                                  std::function<void(const TlsValidity&)> on_certificate) {
  ROOST_RETURN_IF_ERROR(CheckFlags(files));
  if (files.certificate.empty()) return std::shared_ptr<const TlsContext>();
  ROOST_ASSIGN_OR_RETURN(const std::shared_ptr<TlsContext> tls, TlsContext::Load(files));
  std::vector<std::string> paths = {files.certificate, files.key};
  if (!files.client_ca.empty()) paths.push_back(files.client_ca);
  const auto reload = [tls, file = files.certificate, told = std::move(on_certificate)]() -> Result<void> {
    ROOST_RETURN_IF_ERROR(tls->Reload());
    WarnUnlessValid(tls->validity(), file);
    told(tls->validity());
    return {};
  };
  ROOST_RETURN_IF_ERROR(reloader.Add({.what = "the TLS certificate", .paths = std::move(paths), .reload = reload}));
  return std::shared_ptr<const TlsContext>(tls);
}

}  // namespace roost
