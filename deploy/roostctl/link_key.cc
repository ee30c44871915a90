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

int RunLinkKeyCommand(Arguments arguments, const Console& console) {
  LinkKeyOptions options;
  ConfigParser parser("roostctl key link",
                      "Makes a key for one end of the link between routers and workers: writes the secret key to a "
                      "file, and prints the line for the peers file of the other end.");
  parser.AddPositional("NAME", options.name, "Whose key it is")
      .AddChoice("role", options.role, {"worker", "router"}, "What has that name")
      .Add("out", options.out, "File for the secret key, which must not be there yet; NAME.key when empty")
      .AddList("workers", options.workers,
               "Names that a worker with the key may have, like w1 or gpu-*; by default NAME")
      .AddList("models", options.models, "Models that it may serve; by default all");
  if (const auto code = Ended(parser, arguments, console)) return *code;
  if (options.name.empty()) {
    console.err << "roostctl key link: give a name\n";
    return kExitUsage;
  }
  return RunLinkKey(options, console.out, console.err);
}

}  // namespace

const Command kLinkKeyCommand{"link", "make a key of the link", &RunLinkKeyCommand};

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
