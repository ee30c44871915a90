#include "deploy/roostctl/remote/router_access.h"

#include <algorithm>
#include <fstream>

namespace roost::roostctl {

void DeclareAccess(const std::string& name, const std::string& help, RouterAccess& access, ConfigParser& parser) {
  parser.Section("Router")
      .Add(name, access.url, help + ": http://, https:// or unix:/path/of/a/socket")
      .Add("ca-file", access.ca_file,
           "File with the certificates that an https router is checked with, in PEM; by "
           "default the system's")
      .Add("client-cert", access.client_cert, "File with the certificate to show to a router that asks for one, in PEM")
      .Add("client-key", access.client_key, "File with that certificate's key, in PEM; by default the same file")
      .Add("api-key-file", access.api_key_file, "File whose first line is the API key to use")
      .AddSecret("api-key", access.api_key,
                 "The API key itself. Others on this machine can see an argument: give the variable, or the file")
      .Alias(name == "admin" ? "router" : "admin", name)
      .Section("Options");
}

void DeclareAdmin(RouterAccess& access, ConfigParser& parser) {
  DeclareAccess("admin", "URL of the router's admin address", access, parser);
}

void DeclareRouter(RouterAccess& access, ConfigParser& parser) {
  DeclareAccess("router", "URL of the router", access, parser);
}

Result<std::string> KeyOf(const RouterAccess& access) {
  std::string key = access.api_key;
  std::string flag = "api-key";
  if (!access.api_key_file.empty()) {
    flag = "api-key-file";
    std::ifstream file(access.api_key_file);
    if (!std::getline(file, key)) return InvalidArgument(flag, "'{}' has no first line", access.api_key_file);
    if (!key.empty() && key.back() == '\r') key.pop_back();
  }
  const auto is_visible = [](char c) { return c > 0x20 && c < 0x7F; };
  if (!std::all_of(key.begin(), key.end(), is_visible)) {
    return InvalidArgument(flag, "the key holds a space or another character that no key has");
  }
  return key;
}

}  // namespace roost::roostctl
