#include "deploy/roostctl/workload/json_lines.h"

#include <fstream>
#include <string>

namespace roost::workload {

Result<void> ForEachJsonLine(const std::filesystem::path& path,
                             const std::function<Result<void>(json::Element)>& visit) {
  std::ifstream file(path);
  if (!file) return Error{ErrorCode::kNotFound, "can not be opened", path.string()};
  simdjson::dom::parser parser;
  std::string line;
  for (std::uint64_t number = 1; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    const std::string place = fmt::format("{}:{}", path.string(), number);
    json::Element value;
    if (const auto error = parser.parse(line).get(value); error != simdjson::SUCCESS) {
      return DataLoss(place, "{}", simdjson::error_message(error));
    }
    if (Result<void> visited = visit(value); !visited.ok()) return DataLoss(place, "{}", visited.error().message);
  }
  return {};
}

}  // namespace roost::workload
