#include <chrono>
#include <utility>

#include "common/json/json_node.h"
#include "common/prefix/block_hash.h"
#include "common/text/tokenizer.h"
#include "deploy/roostctl/prompt_tokenizer.h"
#include "router/api/requests/prompt_request.h"
#include "router/fleet/workers/text_bundle.h"
#include "worker/model/load_model.h"
#include "worker/model/loading/generation_config.h"

namespace roost::roostctl {
namespace {

namespace fs = std::filesystem;

// Large, because prompts need not fit the model here: only their first difference matters.
constexpr std::uint32_t kMaxTokens = std::uint32_t{1} << 26U;

class Folder final : public PromptTokenizer {
 public:
  explicit Folder(router::ServedModel model) : model_(std::move(model)) {}

  Result<std::vector<TokenId>> Tokenize(const PromptBody& body) override {
    router::JsonBody json(fmt::format("{{{}}}", body.members));
    ROOST_ASSIGN_OR_RETURN(const router::JsonObject object, json.Parse());
    ROOST_ASSIGN_OR_RETURN(const router::PromptRequest request,
                           router::ParsePromptRequest(object, router::ChatPart::kQuestion));
    ROOST_ASSIGN_OR_RETURN(router::HashedPrompt prompt,
                           router::HashPrompt(model_, request, {.unix_seconds = unix_seconds_}));
    return std::move(prompt.tokens);
  }
  Result<std::string> Decode(std::span<const TokenId> tokens) override { return model_.tokenizer->Decode(tokens); }
  Result<std::uint32_t> BlockTokens() override { return model_.block_tokens; }

 private:
  static std::int64_t UnixSecondsNow() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::seconds>(now).count();
  }

  router::ServedModel model_;
  const std::int64_t unix_seconds_ = UnixSecondsNow();  // the time for templates, the same for both prompts
};

}  // namespace

Result<std::unique_ptr<PromptTokenizer>> FolderTokenizer(const fs::path& folder, std::uint32_t block_tokens) {
  if (!IsValidBlockTokens(block_tokens)) {
    return InvalidArgument("block-tokens", "must be a power of two from {} to {}, not {}", kMinBlockTokens,
                           kMaxBlockTokens, block_tokens);
  }
  ROOST_ASSIGN_OR_RETURN(const auto tokenizer, JsonFile::Load(folder / "tokenizer.json", worker::kMaxTokenizerBytes));
  ROOST_ASSIGN_OR_RETURN(worker::ChatFormat chat, worker::LoadChatFormat(folder));
  wire::Tokenizer bundle;
  bundle.tokenizer_json = tokenizer.text();
  bundle.chat_template = std::move(chat.combined_template);
  bundle.bos_token = std::move(chat.bos_token);
  bundle.eos_token = std::move(chat.eos_token);
  ROOST_ASSIGN_OR_RETURN(router::TextBundle text, router::ReadTextBundle(bundle));
  router::ServedModel model;
  model.name = folder.filename().string();
  model.block_tokens = block_tokens;
  model.max_context_tokens = kMaxTokens;
  model.tokenizer = std::move(text.tokenizer);
  model.chat_template = std::move(text.chat_template);
  model.bos_token = std::move(text.bos_token);
  model.eos_token = std::move(text.eos_token);
  return std::unique_ptr<PromptTokenizer>(std::make_unique<Folder>(std::move(model)));
}

}  // namespace roost::roostctl
