#include <fmt/format.h>
#include <simdjson.h>

#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "common/base/check.h"
#include "common/json/json_node.h"
#include "common/text/tokenizer.h"
#include "common/text/tokenizer_parts.h"

namespace roost {

namespace {

Error TooLarge(std::uintmax_t bytes, std::string source_name) {
  return InvalidArgument(std::move(source_name), "{} bytes are over the limit of {}", bytes, kMaxTokenizerJsonBytes);
}

Result<void> CheckVersion(const JsonNode& root) {
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonNode> version, root.Find("version"));
  if (!version) return {};
  ROOST_ASSIGN_OR_RETURN(const std::string_view name, version->AsString());
  if (name != "1.0") return version->Complain(fmt::format("'{}' is not supported", name));
  return {};
}

}  // namespace

// Ignores "truncation" and "padding": they are defaults for training, and servers override them.
Result<std::shared_ptr<const Tokenizer>> Tokenizer::FromJson(std::string_view tokenizer_json, std::string source_name) {
  if (tokenizer_json.size() > kMaxTokenizerJsonBytes) {
    return TooLarge(tokenizer_json.size(), std::move(source_name));
  }
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  simdjson::error_code code = parser.allocate(tokenizer_json.size() + 1, kMaxTokenizerJsonDepth);
  if (code == simdjson::SUCCESS) code = parser.parse(simdjson::padded_string(tokenizer_json)).get(document);
  if (code != simdjson::SUCCESS) {
    return DataLoss(std::move(source_name), "is not valid JSON: {}", simdjson::error_message(code));
  }
  const JsonNode root(document, "", source_name);
  ROOST_RETURN_IF_ERROR(CheckVersion(root));
  ROOST_ASSIGN_OR_RETURN(const JsonNode model_node, root.Get("model"));
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonNode> normalizer_node, root.Find("normalizer"));
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonNode> added_node, root.Find("added_tokens"));
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonNode> pre_tokenizer_node, root.Find("pre_tokenizer"));
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonNode> post_processor_node, root.Find("post_processor"));
  ROOST_ASSIGN_OR_RETURN(const std::optional<JsonNode> decoder_node, root.Find("decoder"));

  ROOST_ASSIGN_OR_RETURN(text::BpeModel model, text::BpeModel::FromJson(model_node));
  ROOST_ASSIGN_OR_RETURN(text::Normalizer normalizer, text::Normalizer::FromJson(normalizer_node));
  text::RegexScratch scratch;
  ROOST_ASSIGN_OR_RETURN(text::AddedTokens added,
                         text::AddedTokens::FromJson(added_node, model.vocabulary(), normalizer, scratch));
  ROOST_ASSIGN_OR_RETURN(text::PreTokenizer pre_tokenizer, text::PreTokenizer::FromJson(pre_tokenizer_node));
  ROOST_ASSIGN_OR_RETURN(text::SpecialTokenFrame frame, text::SpecialTokenFrame::FromJson(post_processor_node));
  ROOST_ASSIGN_OR_RETURN(text::TokenDecoder decoder, text::TokenDecoder::FromJson(decoder_node));
  if (pre_tokenizer.NeedsStart() && normalizer.MayDropFront()) {
    return pre_tokenizer_node->Complain("prepend_scheme 'first' is not supported with a normalizer that deletes text");
  }
  model.SetSpecialIds(added.SpecialIds());
  return std::shared_ptr<const Tokenizer>(
      new Tokenizer(Parts{std::move(model), std::move(normalizer), std::move(added), std::move(pre_tokenizer),
                          std::move(frame), std::move(decoder)}));
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::FromFile(const std::filesystem::path& path) {
  std::error_code failure;
  const std::uintmax_t size = std::filesystem::file_size(path, failure);
  if (failure) return Error{ErrorCode::kNotFound, "can not be opened: " + failure.message(), path.string()};
  if (size > kMaxTokenizerJsonBytes) return TooLarge(size, path.string());
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (size > 0 && !(bytes << file.rdbuf())) return DataLoss(path.string(), "can not be read");
  return FromJson(bytes.view(), path.string());
}

}  // namespace roost
