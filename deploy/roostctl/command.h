// A command of roostctl: `roostctl NAME …`. Each is a constant beside its work; main.cc lists them in the order of
// `roostctl --help`.
//
//   int RunStatusCommand(Arguments arguments, const Console& console) {
//     RouterAccess admin{kDefaultAdminUrl};
//     ConfigParser parser("roostctl status", "Prints …");
//     DeclareAdmin(admin, parser);
//     if (const auto code = Ended(parser, arguments, console)) return *code;
//     return RunStatus(admin, console.out, console.err);
//   }
//   const Command kStatusCommand{"status", "the workers that a router knows", &RunStatusCommand};
#pragma once

#include <iosfwd>
#include <optional>
#include <span>
#include <string_view>

#include "common/config/config.h"

namespace roost::roostctl {

inline constexpr int kExitUsage = 64;

// Those behind the command's name; the first is the name, like argv[0].
using Arguments = std::span<const char* const>;

// The streams that a command reads and writes.
struct Console {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
};

struct Command {
  std::string_view name;
  std::string_view summary;  // for the list of commands
  int (*run)(Arguments arguments, const Console& console);
};

// Parses the arguments. A value means that the command is over, with this exit code: an error was printed, or the help.
[[nodiscard]] std::optional<int> Ended(ConfigParser& parser, Arguments arguments, const Console& console);

}  // namespace roost::roostctl
