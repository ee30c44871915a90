#include "worker/prepare_parts.h"

#include <filesystem>
#include <utility>

#include "common/text/chat_template.h"

namespace roost::worker {

Result<std::shared_ptr<const Tokenizer>> CheckText(const ModelText& text, const std::string& model) {
  const std::filesystem::path folder(model);
  ROOST_ASSIGN_OR_RETURN(std::shared_ptr<const Tokenizer> tokenizer,
                         Tokenizer::FromJson(text.tokenizer_json, (folder / "tokenizer.json").string()));
  if (text.chat_template.empty()) return tokenizer;
  ROOST_RETURN_IF_ERROR(ChatTemplate::Parse(text.chat_template, (folder / "chat_template").string()));
  return tokenizer;
}

void FillIn(const WorkerOptions& options, ModelText text, WorkerSetup& setup) {
  setup.hello.version.release = Version();
  setup.build = {.version = Version(), .revision = Revision()};
  setup.hello.worker_id = options.worker_id;
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
