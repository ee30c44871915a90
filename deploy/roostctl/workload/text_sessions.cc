#include "deploy/roostctl/workload/source.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/rng.h"
#include "deploy/roostctl/workload/json_lines.h"

namespace roost::workload {
namespace {

constexpr std::size_t kTokenChars = 4;
constexpr std::uint32_t kTextBlockTokens = 16;
constexpr std::size_t kBlockChars = kTokenChars * kTextBlockTokens;

struct Turn {
  double gap_seconds = 0;  // after the previous turn
  std::string prompt;
  std::string answer;
};

// Hash of `text` behind the text of hash `before`. Never zero, so that an empty text differs from no text.
ContentId HashText(ContentId before, std::string_view text) {
  ContentId hash = before + 1;
  for (std::size_t i = 0; i < text.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, std::min(sizeof word, text.size() - i));
    hash = Mix64(hash ^ word) + i;
  }
  return hash;
}

TraceRequest RequestOf(const Turn& turn) {
  const std::string text = turn.prompt + turn.answer;
  TraceRequest request;
  request.input_token_count = static_cast<std::uint32_t>(std::max<std::size_t>(1, turn.prompt.size() / kTokenChars));
  const auto token_count = static_cast<std::uint32_t>(text.size() / kTokenChars);
  request.output_token_count = std::max(1U, token_count - std::min(token_count, request.input_token_count));
  const std::uint32_t block_count = (request.input_token_count + request.output_token_count) / kTextBlockTokens;
  ContentId content = 0;
  for (std::size_t i = 0; i < block_count; ++i) {
    const std::size_t begin = std::min(text.size(), i * kBlockChars);
    content = HashText(content, std::string_view(text).substr(begin, kBlockChars));
    request.blocks.push_back(content);
  }
  return request;
}

// Assigns times to sessions, and puts their turns into one trace.
class TextComposer {
 public:
  explicit TextComposer(const TextSessionOptions& options) : options_(options), rng_(options.seed) {}

  void Add(const std::vector<Turn>& turns) {
    ++session_count_;
    double arrival = rng_.Uniform() * options_.start_span_seconds;
    for (const Turn& turn : turns) {
      arrival += std::clamp(turn.gap_seconds, 0.0, options_.longest_gap_seconds);
      TraceRequest request = RequestOf(turn);
      request.arrival_seconds = arrival;
      request.session = session_count_;
      trace_.requests.push_back(std::move(request));
    }
  }

  Trace Take() {
    SortByArrival(trace_);
    return std::move(trace_);
  }

 private:
  const TextSessionOptions& options_;
  Rng rng_;
  std::uint64_t session_count_ = 0;
  Trace trace_{.block_tokens = kTextBlockTokens, .requests = {}, .pacing = Pacing::kTurnByTurn};
};

// ---- tau-bench ----

std::string Render(json::Element message, std::string_view role) {
  std::string text = "<|" + std::string(role) + "|>\n";
  std::string_view content;
  if (message.at_key("content").get(content) == simdjson::SUCCESS) text += content;
  json::Array calls;
  if (message.at_key("tool_calls").get(calls) == simdjson::SUCCESS) text += simdjson::minify(calls);
  return text + "\n";
}

Result<std::vector<Turn>> TurnsOf(json::Element chat, double gap_seconds) {
  json::Array messages;
  if (chat.at_key("messages").get(messages) != simdjson::SUCCESS) {
    return InvalidArgument("messages", "there are no messages");
  }
  std::vector<Turn> turns;
  std::string so_far;
  for (const json::Element message : messages) {
    std::string_view role;
    if (message.at_key("role").get(role) != simdjson::SUCCESS) return InvalidArgument("role", "a message has no role");
    std::string text = Render(message, role);
    if (role == "assistant" && !so_far.empty()) {
      turns.push_back({.gap_seconds = turns.empty() ? 0 : gap_seconds, .prompt = so_far, .answer = text});
    }
    so_far += text;
  }
  return turns;
}

// ---- mini-SWE ----

struct RecordedTurn {
  std::uint64_t microseconds = 0;
  std::string prompt;
  std::string answer;
};

Result<RecordedTurn> ReadTurn(json::Element object) {
  RecordedTurn turn;
  std::string_view input;
  std::string_view output;
  if (object.at_key("timestamp").get(turn.microseconds) != simdjson::SUCCESS ||
      object.at_key("input").get(input) != simdjson::SUCCESS ||
      object.at_key("output").get(output) != simdjson::SUCCESS) {
    return InvalidArgument("turn", "a turn needs timestamp, input and output");
  }
  turn.prompt = input;
  turn.answer = output;
  return turn;
}

std::vector<Turn> InOrder(std::vector<RecordedTurn> recorded) {
  constexpr double kMicrosecond = 1e-6;
  std::stable_sort(recorded.begin(), recorded.end(),
                   [](const RecordedTurn& a, const RecordedTurn& b) { return a.microseconds < b.microseconds; });
  std::vector<Turn> turns;
  std::uint64_t before = recorded.front().microseconds;
  for (RecordedTurn& turn : recorded) {
    turns.push_back({.gap_seconds = static_cast<double>(turn.microseconds - before) * kMicrosecond,
                     .prompt = std::move(turn.prompt),
                     .answer = std::move(turn.answer)});
    before = turn.microseconds;
  }
  return turns;
}

}  // namespace

Result<Trace> LoadTauBench(const std::filesystem::path& path, const TextSessionOptions& options) {
  TextComposer composer(options);
  ROOST_RETURN_IF_ERROR(ForEachJsonLine(path, [&](json::Element chat) -> Result<void> {
    ROOST_ASSIGN_OR_RETURN(const std::vector<Turn> turns, TurnsOf(chat, options.turn_seconds));
    composer.Add(turns);
    return {};
  }));
  return composer.Take();
}

Result<Trace> LoadMiniSwe(const std::filesystem::path& path, const TextSessionOptions& options) {
  std::map<std::string, std::vector<RecordedTurn>> sessions;
  ROOST_RETURN_IF_ERROR(ForEachJsonLine(path, [&](json::Element object) -> Result<void> {
    std::string_view session;
    if (object.at_key("session_id").get(session) != simdjson::SUCCESS) {
      return InvalidArgument("session_id", "a turn needs a session_id");
    }
    ROOST_ASSIGN_OR_RETURN(RecordedTurn turn, ReadTurn(object));
    sessions[std::string(session)].push_back(std::move(turn));
    return {};
  }));
  TextComposer composer(options);
  for (auto& [name, turns] : sessions) composer.Add(InOrder(std::move(turns)));
  return composer.Take();
}

}  // namespace roost::workload
