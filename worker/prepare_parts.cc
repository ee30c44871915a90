#include "worker/prepare_parts.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "worker/worker_name.h"

namespace roost::worker {

namespace {

void AddStopToken(std::optional<TokenId> token, std::string_view source, ModelText& text) {
  if (!token || *token >= text.vocab_size) return;
  if (std::find(text.stop_tokens.begin(), text.stop_tokens.end(), *token) != text.stop_tokens.end()) return;
  text.stop_tokens.push_back(*token);
  LogInfo("another token ends answers", {{"token", *token}, {"told_by", std::string(source)}});
}

}  // namespace

std::optional<TokenId> TurnEndOf(const ModelText& text, const Tokenizer& tokenizer, const ChatTemplate& chat_template) {
  if (chat_template.family().tools == ToolFamily::kHarmony) return std::nullopt;
  std::string behind = TextBehindAnswer(chat_template, text.bos_token, text.eos_token);
  behind.erase(0, behind.find_first_not_of(" \n"));
  if (behind.empty()) return std::nullopt;
  const Result<std::vector<TokenId>> tokens = tokenizer.Encode(behind, SpecialTokens::kOmit);
  if (!tokens.ok() || tokens->empty() || !tokenizer.IsAdded(tokens->front())) return std::nullopt;
  return tokens->front();
}

Result<std::shared_ptr<const Tokenizer>> CompleteText(ModelText& text, const std::string& model) {
  const std::filesystem::path folder(model);
  ROOST_ASSIGN_OR_RETURN(std::shared_ptr<const Tokenizer> tokenizer,
                         Tokenizer::FromJson(text.tokenizer_json, (folder / "tokenizer.json").string()));
  if (!text.eos_token.empty()) AddStopToken(tokenizer->IdOf(text.eos_token), "tokenizer_config.json", text);
  if (text.chat_template.empty()) return tokenizer;
  ROOST_ASSIGN_OR_RETURN(const std::shared_ptr<const ChatTemplate> chat_template,
                         ChatTemplate::Parse(text.chat_template, (folder / "chat_template").string()));
  AddStopToken(TurnEndOf(text, *tokenizer, *chat_template), "the chat template", text);
  for (const std::string& loss : LossesOf(chat_template->traits())) LogInfo("the chat template " + loss);
  return tokenizer;
}

void FillIn(const WorkerOptions& options, ModelText text, WorkerSetup& setup) {
  setup.hello.version.release = Version();
  setup.build = {.version = Version(), .revision = Revision()};
  setup.hello.worker_id = options.worker_id;
  setup.hello.host = HostName();
  setup.hello.sends_cache_events = options.cache_events == "on";
  setup.hello.keeps_prefixes = options.prefix_cache == "on";
  setup.hello.model = options.served_model_name;
  if (setup.hello.model.empty()) setup.hello.model = std::move(text.name);
  setup.hello.sampling = text.sampling;
  setup.tokenizer.tokenizer_json = std::move(text.tokenizer_json);
  setup.tokenizer.chat_template = std::move(text.chat_template);
  setup.tokenizer.bos_token = std::move(text.bos_token);
  setup.tokenizer.eos_token = std::move(text.eos_token);
  setup.routers = options.routers;
  if (!options.link_secret_key.empty()) {
    setup.link_keys = LinkKeyFiles{options.link_secret_key, options.link_peers};
  }
  setup.listener = ListenerOf(options);
  setup.otlp_endpoint = options.otlp_endpoint;
  setup.stall_timeout = FromSeconds(options.stall_timeout_seconds);
}

}  // namespace roost::worker
