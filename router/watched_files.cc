#include "router/watched_files.h"

#include <string>
#include <utility>
#include <vector>

#include "router/api/key_file.h"

namespace roost::router {
namespace {

Result<std::shared_ptr<KeyRing>> OpenKeys(const std::string& path, const std::string& what,
                                          std::shared_ptr<ByteBudget> memory, Reloader& reloader) {
  if (path.empty()) return std::shared_ptr<KeyRing>();
  auto ring = std::make_shared<KeyRing>(std::vector<ApiKey>(), std::move(memory));
  const auto reload = [ring, path]() -> Result<void> {
    ROOST_ASSIGN_OR_RETURN(std::vector<ApiKey> keys, ReadKeyFile(path));
    ring->Replace(std::move(keys));
    return {};
  };
  ROOST_RETURN_IF_ERROR(reloader.Add({.what = what, .paths = {path}, .reload = reload}));
  return ring;
}

Result<std::shared_ptr<SharedPrefixes>> OpenSharedPrefixes(const std::string& path, Reloader& reloader) {
  if (path.empty()) return std::shared_ptr<SharedPrefixes>();
  auto shared = std::make_shared<SharedPrefixes>();
  const auto reload = [shared, path]() -> Result<void> {
    ROOST_ASSIGN_OR_RETURN(std::vector<SharedPrefix> prefixes, ReadSharedPrefixes(path));
    shared->Replace(std::move(prefixes));
    return {};
  };
  ROOST_RETURN_IF_ERROR(reloader.Add({.what = "the shared prefixes", .paths = {path}, .reload = reload}));
  return shared;
}

}  // namespace

Result<WatchedFiles> OpenFiles(const RouterOptions& options, std::shared_ptr<ByteBudget> client_memory,
                               Reloader& reloader) {
  WatchedFiles files;
  ROOST_ASSIGN_OR_RETURN(files.api_keys,
                         OpenKeys(options.api_keys, "the API keys", std::move(client_memory), reloader));
  ROOST_ASSIGN_OR_RETURN(files.admin_keys, OpenKeys(options.admin_keys, "the admin keys", nullptr, reloader));
  ROOST_ASSIGN_OR_RETURN(files.shared_prefixes, OpenSharedPrefixes(options.shared_prefixes, reloader));
  return files;
}

}  // namespace roost::router
