#include "worker/foreign/dialect.h"

#include "worker/foreign/answer_json.h"

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

Result<AnswerPiece> AnswerReader::ReadEvent(simdjson::dom::parser& parser, std::string_view data) {
  if (data == "[DONE]") {
    AnswerPiece piece;
    piece.is_last = true;
    return piece;
  }
  ROOST_ASSIGN_OR_RETURN(const simdjson::dom::element document, ParseAnswer(parser, data));
  return ReadDocument(document);
}

Result<AnswerPiece> AnswerReader::ReadWhole(simdjson::dom::parser& parser, std::string_view body) {
  ROOST_ASSIGN_OR_RETURN(const simdjson::dom::element document, ParseAnswer(parser, body));
  ROOST_ASSIGN_OR_RETURN(AnswerPiece piece, ReadDocument(document));
  piece.is_last = true;
  return piece;
}

void Dialect::Claim(const EngineFacts& facts, wire::Hello& hello) const {
  hello.full_sampling = true;
  hello.logprobs = true;
  hello.min_output_tokens = true;
  hello.constrains_output = true;
  hello.max_sample_count = wire::kMaxSampleCount;
  hello.keeps_prefixes = facts.keeps_prefixes;
}

const Dialect* DialectOf(std::string_view name) {
  for (const Dialect* const dialect : {&VllmDialect(), &SglangDialect()}) {
    if (dialect->name() == name) return dialect;
  }
  return nullptr;
}

}  // namespace roost::worker::foreign
