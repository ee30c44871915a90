#include "deploy/roostctl/generate/prompt_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/base/rng.h"
#include "router/api/requests/chat_request.h"
#include "router/api/requests/completion_request.h"
#include "router/api/requests/prompt.h"

namespace roost::roostctl {
namespace {

using router::ServedModel;

constexpr std::size_t kLinePieceBytes = 64 * 1024;

// The request in one line.
struct ReadLine {
  std::vector<TokenId> tokens;
  router::SamplingFields fields;
  std::string_view field = "prompt";  // the field that the tokens came from
};

// Nothing at the end of the stream. An error when the line is too long; then its rest is still unread.
Result<std::optional<std::string>> NextLine(std::istream& in) {
  std::string line;
  std::vector<char> piece(kLinePieceBytes);
  while (true) {
    in.getline(piece.data(), static_cast<std::streamsize>(piece.size()));
    const auto count = static_cast<std::size_t>(in.gcount());
    if (in.bad()) return DataLoss("", "can not be read");
    const bool has_end = in.good();  // the end was read too
    line.append(piece.data(), has_end ? count - 1 : count);
    if (line.size() > kMaxPromptLineBytes) {
      return InvalidArgument("", "the line has more than {} bytes", kMaxPromptLineBytes);
    }
    if (has_end) return std::optional<std::string>(std::move(line));
    if (in.eof()) return line.empty() ? std::optional<std::string>() : std::optional<std::string>(std::move(line));
    in.clear();  // the line goes on
  }
}

Result<void> CheckModel(const ServedModel& model, const std::string& name) {
  if (name.empty() || name == model.name) return {};
  return InvalidArgument("model", "'{}' is not the model that is loaded: '{}'", name, model.name);
}

Result<ReadLine> ReadChat(const ServedModel& model, const router::JsonObject& body, std::int64_t unix_seconds) {
  ROOST_ASSIGN_OR_RETURN(router::ChatRequest chat, router::ParseChatRequest(body));
  ROOST_ASSIGN_OR_RETURN(const jinja::TracedText text, router::RenderChat(model, chat, {.unix_seconds = unix_seconds}));
  ReadLine line;
  ROOST_ASSIGN_OR_RETURN(line.tokens, router::TokenizeRendered(model, text));
  line.fields = std::move(chat.sampling);
  line.field = "messages";
  return line;
}

Result<ReadLine> ReadCompletion(const ServedModel& model, router::CompletionRequest completion) {
  ReadLine line;
  if (completion.prompts.size() > 1) return InvalidArgument("prompt", "must be one prompt");
  ROOST_ASSIGN_OR_RETURN(line.tokens, router::TokenizeCompletion(model, completion.prompts.front()));
  line.fields = std::move(completion.sampling);
  return line;
}

Result<ReadLine> ReadJson(const ServedModel& model, std::string text, std::int64_t unix_seconds) {
  router::JsonBody json(std::move(text));
  ROOST_ASSIGN_OR_RETURN(const router::JsonObject body, json.Parse());
  const bool has_messages = body.Find("messages").has_value();
  if (has_messages && body.Find("prompt")) {
    return InvalidArgument("prompt", "can not be given together with messages");
  }
  if (has_messages) return ReadChat(model, body, unix_seconds);
  ROOST_ASSIGN_OR_RETURN(router::CompletionRequest completion, router::ParseCompletionRequest(body));
  return ReadCompletion(model, std::move(completion));
}

Result<ReadLine> ReadText(const ServedModel& model, std::string text) {
  router::CompletionRequest completion;
  completion.prompts.push_back({std::move(text)});
  return ReadCompletion(model, std::move(completion));
}

void ApplyDefaults(const ServedModel& model, const PromptDefaults& defaults, ReadLine& line) {
  router::SamplingFields& fields = line.fields;
  const std::size_t context = model.max_context_tokens;
  if (!fields.max_output_tokens && defaults.max_tokens > 0 && line.tokens.size() < context) {
    const auto room = static_cast<std::uint32_t>(context - line.tokens.size());
    fields.max_output_tokens = std::min(defaults.max_tokens, room);
  }
  // Before what the line gives.
  if (defaults.temperature) {
    const auto set = [temperature = *defaults.temperature](wire::Sampling& sampling) {
      sampling.temperature = temperature;
    };
    fields.given.insert(fields.given.begin(), set);
  }
  fields.generate.ignore_eos = fields.generate.ignore_eos || defaults.ignore_eos;
}

Result<OfflineRequest> ReadRequest(std::string text, std::size_t index, const std::shared_ptr<const ServedModel>& model,
                                   const PromptDefaults& defaults) {
  const bool is_json = text.front() == '{';
  ROOST_ASSIGN_OR_RETURN(ReadLine line, is_json ? ReadJson(*model, std::move(text), defaults.unix_seconds)
                                                : ReadText(*model, std::move(text)));
  ROOST_RETURN_IF_ERROR(CheckModel(*model, line.fields.model));
  ApplyDefaults(*model, defaults, line);
  const std::uint64_t seed = Mix64(Mix64(defaults.seed) + index);
  OfflineRequest request;
  ROOST_ASSIGN_OR_RETURN(request.spec, router::MakeGenerateSpec(model, std::move(line.tokens), line.fields,
                                                                {.field = line.field, .default_seed = seed}));
  request.stop = std::move(line.fields.stop);
  return request;
}

Error At(const std::string& file, std::size_t line_number, Error error) {
  const std::string place = fmt::format("{}:{}", file, line_number);
  error.field = error.field.empty() ? place : fmt::format("{}: {}", place, error.field);
  return error;
}

}  // namespace

Result<std::vector<OfflineRequest>> ReadPrompts(std::istream& in, const std::string& file,
                                                const std::shared_ptr<const ServedModel>& model,
                                                const PromptDefaults& defaults) {
  std::vector<OfflineRequest> requests;
  std::size_t token_count = 0;
  for (std::size_t line_number = 1;; ++line_number) {
    Result<std::optional<std::string>> line = NextLine(in);
    if (!line.ok()) return At(file, line_number, line.error());
    if (!line->has_value()) break;
    std::string text = *std::move(*line);
    if (!text.empty() && text.back() == '\r') text.pop_back();
    if (text.empty()) continue;
    Result<OfflineRequest> request = ReadRequest(std::move(text), requests.size(), model, defaults);
    if (!request.ok()) return At(file, line_number, request.error());
    token_count += request->spec.generate.prompt.size();
    if (requests.size() == kMaxPrompts || token_count > kMaxPromptFileTokens) {
      return At(file, line_number,
                InvalidArgument("", "more than {} prompts or {} tokens", kMaxPrompts, kMaxPromptFileTokens));
    }
    requests.push_back(std::move(request).value());
  }
  if (requests.empty()) return InvalidArgument(file, "holds no prompt");
  return requests;
}

}  // namespace roost::roostctl
