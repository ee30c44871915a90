#include "worker/foreign/dialect.h"

namespace roost::worker::foreign {

Result<void> CheckSameEngine(const EngineFacts& before, const EngineFacts& now) {
  if (now.model != before.model) {
    return InvalidArgument("engine-url", "the engine serves '{}' now, not '{}' as before", now.model, before.model);
  }
  if (now.block_tokens != before.block_tokens) {
    return InvalidArgument("engine-url", "the engine's blocks have {} tokens now, not {} as before", now.block_tokens,
                           before.block_tokens);
  }
  if (now.block_count < before.block_count) {
    return InvalidArgument("engine-url", "the engine has {} blocks now, not {} as before", now.block_count,
                           before.block_count);
  }
  if (now.max_context_tokens < before.max_context_tokens) {
    return InvalidArgument("engine-url", "the engine's context has {} tokens now, not {} as before",
                           now.max_context_tokens, before.max_context_tokens);
  }
  return {};
}

const Dialect* DialectOf(std::string_view name) {
  for (const Dialect* const dialect : {&VllmDialect(), &SglangDialect()}) {
    if (dialect->name() == name) return dialect;
  }
  return nullptr;
}

}  // namespace roost::worker::foreign
