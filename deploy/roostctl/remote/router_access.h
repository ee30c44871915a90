// A command's access to a router: its address, whom to trust, and the API key.
#pragma once

#include <string>
#include <utility>

#include "common/base/result.h"
#include "common/config/config.h"

namespace roost::roostctl {

inline constexpr const char* kDefaultRouterUrl = "http://127.0.0.1:8000";
inline constexpr const char* kDefaultAdminUrl = "http://127.0.0.1:8001";

// A value; the files are read when a client is made.
struct RouterAccess {
  RouterAccess() = default;
  RouterAccess(std::string address) : url(std::move(address)) {}  // NOLINT(google-explicit-constructor)
  RouterAccess(const char* address) : url(address) {}             // NOLINT(google-explicit-constructor)

  std::string url = kDefaultRouterUrl;  // http:, https: or unix:/path/of/a/socket
  std::string ca_file;                  // PEM: the authorities to trust; empty: the system's
  std::string client_cert;              // PEM: the client's identity, for routers with --tls-client-ca; empty: none
  std::string client_key;               // PEM; empty: in the same file
  std::string api_key;                  // empty: none
  std::string api_key_file;             // its first line is the key; goes before api_key
};

// Flag `name` for the address, and those for the rest, in a section of their own.
void DeclareAccess(const std::string& name, const std::string& help, RouterAccess& access, ConfigParser& parser);
// The flag is --admin, for what operators do; --router, for what clients do. Each command takes the other word for its
// own.
void DeclareAdmin(RouterAccess& access, ConfigParser& parser);
void DeclareRouter(RouterAccess& access, ConfigParser& parser);

// The key to send; empty for none. kInvalidArgument names the flag: the file can not be read, or the key holds what no
// header may.
[[nodiscard]] Result<std::string> KeyOf(const RouterAccess& access);

}  // namespace roost::roostctl
