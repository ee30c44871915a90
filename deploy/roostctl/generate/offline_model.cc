#include "deploy/roostctl/generate/offline_model.h"

#include <utility>

#include "router/fleet/text_bundle.h"
#include "worker/prepare.h"

namespace roost::roostctl {

Result<OfflineModel> LoadOfflineModel(const worker::WorkerOptions& options) {
  OfflineModel model;
  ROOST_ASSIGN_OR_RETURN(model.setup, worker::PrepareWorker(options));
  ROOST_ASSIGN_OR_RETURN(router::TextBundle text, router::ReadTextBundle(model.setup.tokenizer));
  const wire::Hello& hello = model.setup.hello;
  auto served = std::make_shared<router::ServedModel>();
  served->name = hello.model;
  served->fingerprint = hello.fingerprint;
  served->kv_dtype = hello.kv_dtype;
  served->block_tokens = model.setup.own.model->block_tokens();
  served->max_context_tokens = worker::ServableContext(*model.setup.own.model);
  served->sampling = hello.sampling;
  served->tokenizer = std::move(text.tokenizer);
  served->chat_template = std::move(text.chat_template);
  served->bos_token = std::move(text.bos_token);
  served->eos_token = std::move(text.eos_token);
  model.served = std::move(served);
  return model;
}

}  // namespace roost::roostctl
