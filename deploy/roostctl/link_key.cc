#include "deploy/roostctl/link_key.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ostream>
#include <string_view>

#include "common/base/result.h"
#include "common/wire/link_keys.h"

namespace roost::roostctl {
namespace {

Error NotWritten(const std::string& path) {
  return {ErrorCode::kUnavailable,
          errno == EEXIST ? "is there already; a key is never overwritten"
                          : fmt::format("can not be written: {}", std::strerror(errno)),
          path};
}

// With the rights of a secret from its first byte on.
Result<void> WriteSecret(const std::string& path, std::string_view text) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) return NotWritten(path);
  const bool is_written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  Result<void> written = is_written ? Result<void>() : NotWritten(path);
  close(file);
  if (!is_written) unlink(path.c_str());
  return written;
}

}  // namespace

int RunLinkKey(const LinkKeyOptions& options, std::ostream& out, std::ostream& err) {
  const wire::LinkKeyPair pair = wire::MakeLinkKeyPair();
  const std::string path = options.out.empty() ? options.name + ".key" : options.out;
  if (const Result<void> written = WriteSecret(path, wire::LinkKeyFile(pair, options.name)); !written.ok()) {
    err << "roostctl key link: " << written.error().ToString() << '\n';
    return 1;
  }
  wire::LinkPeer peer{pair.public_key, {}, {}};
  if (options.role == "worker") {
    peer.workers = options.workers.empty() ? std::vector<std::string>{options.name} : options.workers;
    peer.models = options.models.empty() ? std::vector<std::string>{"*"} : options.models;
  }
  out << wire::LinkPeerLine(peer) << '\n';
  return 0;
}

}  // namespace roost::roostctl
