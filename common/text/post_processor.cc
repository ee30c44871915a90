#include "common/text/post_processor.h"

#include <fmt/format.h>

#include "common/text/vocabulary.h"

namespace roost::text {
namespace {

// Appends the ids that "special_tokens" assigns to `name`.
Result<void> AppendSpecialIds(const JsonNode& processor, std::string_view name, std::vector<TokenId>& ids) {
  ROOST_ASSIGN_OR_RETURN(const JsonNode specials, processor.Get("special_tokens"));
  ROOST_ASSIGN_OR_RETURN(const JsonNode special, specials.Get(name));
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonNode> nodes, special.GetArray("ids"));
  for (const JsonNode& node : nodes) {
    ROOST_ASSIGN_OR_RETURN(const TokenId id, node.AsCount(kMaxVocabularyIds));
    ids.push_back(id);
  }
  return {};
}

Result<SpecialTokenFrame> FrameFromTemplate(const JsonNode& processor) {
  ROOST_ASSIGN_OR_RETURN(const JsonNode single, processor.Get("single"));
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonNode> pieces, single.AsArray());
  SpecialTokenFrame frame;
  bool after_text = false;
  for (const JsonNode& piece : pieces) {
    ROOST_ASSIGN_OR_RETURN(const std::optional<JsonNode> special, piece.Find("SpecialToken"));
    if (special) {
      ROOST_ASSIGN_OR_RETURN(const std::string_view name, special->GetString("id"));
      ROOST_RETURN_IF_ERROR(AppendSpecialIds(processor, name, after_text ? frame.after : frame.before));
      continue;
    }
    ROOST_ASSIGN_OR_RETURN(const JsonNode sequence, piece.Get("Sequence"));
    ROOST_ASSIGN_OR_RETURN(const std::string_view name, sequence.GetString("id"));
    if (name != "A" || after_text) return piece.Complain("only one sequence, 'A', is supported");
    after_text = true;
  }
  if (!after_text) return single.Complain("must have the sequence 'A'");
  return frame;
}

// The id of "cls" or "sep": ["<s>", 0].
Result<TokenId> IdOfMember(const JsonNode& processor, std::string_view key) {
  ROOST_ASSIGN_OR_RETURN(const JsonNode member, processor.Get(key));
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonNode> pair, member.AsArray());
  if (pair.size() != 2) return member.Complain("must be a token and its id");
  return pair[1].AsCount(kMaxVocabularyIds);
}

// BertProcessing and RobertaProcessing differ only in offsets, token types, and pairs of texts.
Result<SpecialTokenFrame> FrameFromMembers(const JsonNode& processor) {
  ROOST_ASSIGN_OR_RETURN(const TokenId before, IdOfMember(processor, "cls"));
  ROOST_ASSIGN_OR_RETURN(const TokenId after, IdOfMember(processor, "sep"));
  return SpecialTokenFrame{{before}, {after}};
}

// A later part of a Sequence frames the output of the earlier ones.
Result<void> AddFrames(const JsonNode& node, SpecialTokenFrame& frame) {
  ROOST_ASSIGN_OR_RETURN(const JsonNode type, node.Get("type"));
  ROOST_ASSIGN_OR_RETURN(const std::string_view name, type.AsString());
  if (name == "ByteLevel") return {};
  if (name == "Sequence") {
    ROOST_ASSIGN_OR_RETURN(const std::vector<JsonNode> parts, node.GetArray("processors"));
    for (const JsonNode& part : parts) ROOST_RETURN_IF_ERROR(AddFrames(part, frame));
    return {};
  }
  const bool has_members = name == "BertProcessing" || name == "RobertaProcessing";
  if (!has_members && name != "TemplateProcessing") {
    return type.Complain(fmt::format("'{}' is not supported", name));
  }
  ROOST_ASSIGN_OR_RETURN(const SpecialTokenFrame outer, has_members ? FrameFromMembers(node) : FrameFromTemplate(node));
  frame.before.insert(frame.before.begin(), outer.before.begin(), outer.before.end());
  frame.after.insert(frame.after.end(), outer.after.begin(), outer.after.end());
  return {};
}

}  // namespace

Result<SpecialTokenFrame> SpecialTokenFrame::FromJson(const std::optional<JsonNode>& node) {
  SpecialTokenFrame frame;
  if (node) ROOST_RETURN_IF_ERROR(AddFrames(*node, frame));
  return frame;
}

}  // namespace roost::text
