#include "router/fleet/workers/text_bundle.h"

#include <cstddef>

#include "common/base/log.h"
#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"

namespace roost::router {

namespace {

constexpr std::size_t kDigestDigits = 12;

}  // namespace

Result<TextBundle> ReadTextBundle(const wire::Tokenizer& bundle) {
  TextBundle text{
      .tokenizer = nullptr, .chat_template = nullptr, .bos_token = bundle.bos_token, .eos_token = bundle.eos_token};
  ROOST_ASSIGN_OR_RETURN(text.tokenizer, Tokenizer::FromJson(bundle.tokenizer_json, "tokenizer.json"));
  if (bundle.chat_template.empty()) return text;
  ROOST_ASSIGN_OR_RETURN(text.chat_template, ChatTemplate::Parse(bundle.chat_template, ""));
  for (const std::string& loss : LossesOf(text.chat_template->traits(), text.chat_template->family())) {
    LogInfo("a model's chat template " + loss, {{"bundle", bundle.digest.substr(0, kDigestDigits)}});
  }
  return text;
}

}  // namespace roost::router
