// roostctl, the operator's command line: the list of its commands.

#include <fmt/format.h>

#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/config.h"
#include "common/config/nearest_name.h"
#include "deploy/roostctl/bench/router_bench.h"
#include "deploy/roostctl/chat.h"
#include "deploy/roostctl/command.h"
#include "deploy/roostctl/doctor/doctor.h"
#include "deploy/roostctl/explain.h"
#include "deploy/roostctl/files/file_commands.h"
#include "deploy/roostctl/generate/generate.h"
#include "deploy/roostctl/key.h"
#include "deploy/roostctl/model_memory.h"
#include "deploy/roostctl/orders/order_commands.h"
#include "deploy/roostctl/prefix_diff.h"
#include "deploy/roostctl/prefixes.h"
#include "deploy/roostctl/simulate/simulate.h"
#include "deploy/roostctl/status.h"
#include "deploy/roostctl/text_commands.h"
#include "deploy/roostctl/top/top.h"
#include "deploy/roostctl/transfers.h"

namespace roost::roostctl {
namespace {

// In the order of `roostctl --help`.
// clang-format off
constexpr const Command* kCommands[] = {
    &kStatusCommand,
    &kTopCommand,
    &kDoctorCommand,
    &kCordonCommand,
    &kUncordonCommand,
    &kDrainCommand,
    &kVictimCommand,
    &kExplainCommand,
    &kPinCommand,
    &kUnpinCommand,
    &kEvictCommand,
    &kMatchCommand,
    &kPrefixesCommand,
    &kPrefixDiffCommand,
    &kLintCommand,
    &kWarmCommand,
    &kTransfersCommand,
    &kGenerateCommand,
    &kChatCommand,
    &kBenchCommand,
    &kMemoryCommand,
    &kSimulateCommand,
    &kTokenizeCommand,
    &kKeyCommand,
    &kUsageCommand,
    &kSavingsCommand,
    &kTemplateCommand,
};
// clang-format on

int PrintUsage(std::ostream& out, int code) {
  out << fmt::format("roostctl {}: the operator's command line of Roost\n\nUsage: roostctl COMMAND [OPTIONS]\n\n",
                     Version());
  for (const Command* command : kCommands) out << fmt::format("  {:<11} {}\n", command->name, command->summary);
  out << "\nroostctl COMMAND --help lists a command's options.\n";
  return code;
}

int Main(Arguments arguments) {
  const Console console{.in = std::cin, .out = std::cout, .err = std::cerr};
  if (arguments.size() < 2) return PrintUsage(console.err, kExitUsage);
  const std::string_view name = arguments[1];
  if (name == "--help") return PrintUsage(console.out, 0);
  if (name == "--version") {
    console.out << Version() << '\n';
    return 0;
  }
  for (const Command* command : kCommands) {
    if (command->name == name) return command->run(arguments.subspan(1), console);
  }
  std::vector<std::string> names;
  for (const Command* command : kCommands) names.emplace_back(command->name);
  const std::string meant = DidYouMean(name, names, "roostctl ");
  console.err << fmt::format("roostctl: there is no command '{}'{}\n", name, meant);
  if (!meant.empty()) return kExitUsage;
  console.err << '\n';
  return PrintUsage(console.err, kExitUsage);
}

}  // namespace
}  // namespace roost::roostctl

int main(int argc, char** argv) {
  return roost::roostctl::Main(roost::roostctl::Arguments(argv, static_cast<std::size_t>(argc)));
}
