#include "router/console/console_files.h"

#include <algorithm>

namespace roost::router {

const ConsoleFile* FindConsoleFile(std::string_view name) {
  const std::string_view wanted = name.empty() ? "index.html" : name;
  const std::span<const ConsoleFile> files = ConsoleFiles();
  const auto found =
      std::find_if(files.begin(), files.end(), [wanted](const ConsoleFile& file) { return file.name == wanted; });
  return found == files.end() ? nullptr : &*found;
}

}  // namespace roost::router
