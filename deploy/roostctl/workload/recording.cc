#include "deploy/roostctl/workload/source.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <unordered_map>

#include "common/prefix/block_hash.h"
#include "deploy/roostctl/workload/json_lines.h"

namespace roost::workload {
namespace {

constexpr std::uint32_t kBlockTokens = 512;
// Ids of answers' blocks; those in the file are far below.
constexpr ContentId kFirstOwnId = ContentId{1} << 40U;

Result<std::uint32_t> Count(json::Element object, std::string_view key) {
  const auto value = json::At<std::uint32_t>(object, key);
  if (!value) return InvalidArgument(std::string(key), "{} must be an integer of 0 to 4294967295", key);
  return *value;
}

// The ids of the prompt's full blocks.
Result<std::vector<ContentId>> PromptBlocks(json::Element object, std::uint32_t block_count) {
  json::Array ids;
  if (object.at_key("hash_ids").get(ids) != simdjson::SUCCESS || ids.size() < block_count) {
    return InvalidArgument("hash_ids", "hash_ids must have an id for each of {} blocks", block_count);
  }
  std::vector<ContentId> blocks;
  for (const json::Element id : ids) {
    if (blocks.size() == block_count) break;
    std::uint64_t value = 0;
    if (id.get(value) != simdjson::SUCCESS || value >= kFirstOwnId) {
      return InvalidArgument("hash_ids", "hash_ids must be integers below 2^40");
    }
    blocks.push_back(value);
  }
  return blocks;
}

Result<TraceRequest> ReadRequest(json::Element object) {
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
  ROOST_RETURN_IF_ERROR(ForEachJsonLine(path, [&](json::Element object) -> Result<void> {
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

namespace {

constexpr int kHexadecimal = 16;

Result<std::uint64_t> Hash(json::Element value, std::string_view key) {
  std::string_view text;
  std::uint64_t hash = 0;
  if (value.get(text) == simdjson::SUCCESS) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), hash, kHexadecimal);
    if (error == std::errc() && end == text.data() + text.size()) return hash;
  }
  return InvalidArgument(std::string(key), "{} must be 64 bits in hexadecimal", key);
}

Result<std::uint64_t> HashAt(json::Element object, std::string_view key) {
  const auto value = json::At<json::Element>(object, key);
  if (!value) return InvalidArgument(std::string(key), "{} is missing", key);
  return Hash(*value, key);
}

// Makes a trace from lines; tenants are numbered in order of appearance.
class Reader {
 public:
  Result<void> Add(json::Element object) {
    ROOST_RETURN_IF_ERROR(CheckModel(object));
    TraceRequest request;
    if (object.at_key("arrival").get(request.arrival_seconds) != simdjson::SUCCESS) {
      return InvalidArgument("arrival", "arrival must be a number");
    }
    ROOST_ASSIGN_OR_RETURN(request.input_token_count, Count(object, "input"));
    ROOST_ASSIGN_OR_RETURN(request.output_token_count, Count(object, "output"));
    ROOST_ASSIGN_OR_RETURN(request.session, HashAt(object, "session"));
    ROOST_ASSIGN_OR_RETURN(const std::uint64_t tenant, HashAt(object, "tenant"));
    if (tenant != 0) request.tenant = tenants_.emplace(tenant, tenants_.size() + 1).first->second;
    ROOST_RETURN_IF_ERROR(ReadBlocks(object, request));
    trace_.requests.push_back(std::move(request));
    return {};
  }

  Trace Take() {
    SortByArrival(trace_);
    GuessSessions(trace_);
    return std::move(trace_);
  }

 private:
  Result<void> CheckModel(json::Element object) {
    ROOST_ASSIGN_OR_RETURN(const std::uint32_t block_tokens, Count(object, "block_tokens"));
    std::string_view model;
    if (object.at_key("model").get(model) != simdjson::SUCCESS) return InvalidArgument("model", "model is missing");
    if (!IsValidBlockTokens(block_tokens)) return InvalidArgument("block_tokens", "{} tokens", block_tokens);
    if (trace_.requests.empty()) {
      model_ = model;
      trace_.block_tokens = block_tokens;
    }
    if (model != model_ || block_tokens != trace_.block_tokens) {
      return InvalidArgument("model", "a recording is of one model; the first line's is {}", model_);
    }
    return {};
  }

  Result<void> ReadBlocks(json::Element object, TraceRequest& request) const {
    const std::uint64_t token_count = std::uint64_t{request.input_token_count} + request.output_token_count;
    json::Array blocks;
    if (object.at_key("blocks").get(blocks) != simdjson::SUCCESS ||
        blocks.size() != token_count / trace_.block_tokens) {
      return InvalidArgument("blocks", "blocks must name the {} full blocks", token_count / trace_.block_tokens);
    }
    for (const json::Element block : blocks) {
      ROOST_ASSIGN_OR_RETURN(const ContentId id, Hash(block, "blocks"));
      request.blocks.push_back(id);
    }
    return {};
  }

  Trace trace_;
  std::string model_;
  std::unordered_map<std::uint64_t, std::uint32_t> tenants_;
};

}  // namespace

Result<Trace> LoadRecording(const std::filesystem::path& path) {
  Reader reader;
  ROOST_RETURN_IF_ERROR(ForEachJsonLine(path, [&](json::Element object) { return reader.Add(object); }));
  return reader.Take();
}

}  // namespace roost::workload
