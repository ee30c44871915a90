#include "deploy/roostctl/workload/mooncake.h"

#include <limits>

#include "deploy/roostctl/workload/json_lines.h"

namespace roost::workload {
namespace {

constexpr std::uint32_t kBlockTokens = 512;
// Ids of answers' blocks; those in the file are far below.
constexpr ContentId kFirstOwnId = ContentId{1} << 40U;

Result<std::uint32_t> Count(simdjson::dom::element object, std::string_view key) {
  std::uint64_t value = 0;
  if (object.at_key(key).get(value) != simdjson::SUCCESS || value > std::numeric_limits<std::uint32_t>::max()) {
    return InvalidArgument(std::string(key), "{} must be an integer of 0 to 4294967295", key);
  }
  return static_cast<std::uint32_t>(value);
}

// The ids of the prompt's full blocks.
Result<std::vector<ContentId>> PromptBlocks(simdjson::dom::element object, std::uint32_t block_count) {
  simdjson::dom::array ids;
  if (object.at_key("hash_ids").get(ids) != simdjson::SUCCESS || ids.size() < block_count) {
    return InvalidArgument("hash_ids", "hash_ids must have an id for each of {} blocks", block_count);
  }
  std::vector<ContentId> blocks;
  for (const simdjson::dom::element id : ids) {
    if (blocks.size() == block_count) break;
    std::uint64_t value = 0;
    if (id.get(value) != simdjson::SUCCESS || value >= kFirstOwnId) {
      return InvalidArgument("hash_ids", "hash_ids must be integers below 2^40");
    }
    blocks.push_back(value);
  }
  return blocks;
}

Result<TraceRequest> ReadRequest(simdjson::dom::element object) {
  TraceRequest request;
  ROOST_ASSIGN_OR_RETURN(const std::uint32_t milliseconds, Count(object, "timestamp"));
  request.arrival_seconds = milliseconds / 1000.0;
  ROOST_ASSIGN_OR_RETURN(request.input_token_count, Count(object, "input_length"));
  ROOST_ASSIGN_OR_RETURN(request.output_token_count, Count(object, "output_length"));
  ROOST_ASSIGN_OR_RETURN(request.blocks, PromptBlocks(object, request.input_token_count / kBlockTokens));
  return request;
}

}  // namespace

Result<Trace> LoadMooncakeTrace(const std::filesystem::path& path) {
  Trace trace{.block_tokens = kBlockTokens, .requests = {}};
  ContentId next_own = kFirstOwnId;
  ROOST_RETURN_IF_ERROR(ForEachJsonLine(path, [&](simdjson::dom::element object) -> Result<void> {
    ROOST_ASSIGN_OR_RETURN(TraceRequest request, ReadRequest(object));
    const std::uint64_t token_count = std::uint64_t{request.input_token_count} + request.output_token_count;
    while (request.blocks.size() < token_count / kBlockTokens) request.blocks.push_back(next_own++);
    trace.requests.push_back(std::move(request));
    return {};
  }));
  SortByArrival(trace);
  GuessSessions(trace);
  return trace;
}

}  // namespace roost::workload
