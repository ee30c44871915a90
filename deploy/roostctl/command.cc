#include "deploy/roostctl/command.h"

#include <ostream>

namespace roost::roostctl {

std::optional<int> Ended(ConfigParser& parser, Arguments arguments, const Console& console) {
  const auto outcome = parser.Parse(static_cast<int>(arguments.size()), arguments.data());
  if (!outcome.ok()) {
    console.err << "roostctl " << arguments.front() << ": " << outcome.error().ToString() << '\n';
    return kExitUsage;
  }
  if (*outcome == ParseOutcome::kExit) return 0;
  return std::nullopt;
}

}  // namespace roost::roostctl
