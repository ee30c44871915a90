#include "common/text/token_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "common/base/utf8.h"
#include "common/text/byte_level.h"
#include "common/text/normalizer.h"
#include "common/text/vocabulary.h"

namespace roost::text {
namespace {

// Appends the ids that "special_tokens" assigns to `name`.
Result<void> AppendSpecialIds(const JsonNode& processor, std::string_view name, std::vector<TokenId>& ids) {
  ROOST_ASSIGN_OR_RETURN(const JsonNode specials, processor.Get("special_tokens"));
  ROOST_ASSIGN_OR_RETURN(const JsonNode special, specials.Get(name));
  ROOST_ASSIGN_OR_RETURN(const std::vector<JsonNode> nodes, special.Get<std::vector<JsonNode>>("ids"));
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
      ROOST_ASSIGN_OR_RETURN(const std::string_view name, special->Get<std::string_view>("id"));
      ROOST_RETURN_IF_ERROR(AppendSpecialIds(processor, name, after_text ? frame.after : frame.before));
      continue;
    }
    ROOST_ASSIGN_OR_RETURN(const JsonNode sequence, piece.Get("Sequence"));
    ROOST_ASSIGN_OR_RETURN(const std::string_view name, sequence.Get<std::string_view>("id"));
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
    ROOST_ASSIGN_OR_RETURN(const std::vector<JsonNode> parts, node.Get<std::vector<JsonNode>>("processors"));
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

namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();  // AddReplace limits the growth by all rules
                                                                           // together
constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

std::optional<unsigned> HexDigit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10U;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10U;
  return std::nullopt;
}

// The byte of "<0x0A>" and the like.
std::optional<char> ByteOfToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const std::optional<unsigned> high = HexDigit(token[3]);
  const std::optional<unsigned> low = HexDigit(token[4]);
  if (!high || !low) return std::nullopt;
  return static_cast<char>(*high * 16 + *low);
}

// The length of the run of `character` at the front, at most `most` of them, in bytes.
std::size_t LeadingRun(std::string_view text, std::string_view character, std::size_t most) {
  std::size_t length = 0;
  while (most-- > 0 && text.substr(length).starts_with(character)) length += character.size();
  return length;
}

std::size_t TrailingRun(std::string_view text, std::string_view character, std::size_t most) {
  std::size_t length = 0;
  while (most-- > 0 && text.substr(0, text.size() - length).ends_with(character)) length += character.size();
  return length;
}

}  // namespace

Result<TokenDecoder> TokenDecoder::FromJson(const std::optional<JsonNode>& node) {
  TokenDecoder decoder;
  Phase phase = Phase::kTokens;
  decoder.joins_with_spaces_ = !node;
  if (node) ROOST_RETURN_IF_ERROR(decoder.Add(*node, phase));
  return decoder;
}

Result<void> TokenDecoder::Add(const JsonNode& node, Phase& phase) {
  ROOST_ASSIGN_OR_RETURN(const JsonNode type, node.Get("type"));
  ROOST_ASSIGN_OR_RETURN(const std::string_view name, type.AsString());
  if (name == "Sequence") {
    ROOST_ASSIGN_OR_RETURN(const std::vector<JsonNode> parts, node.Get<std::vector<JsonNode>>("decoders"));
    for (const JsonNode& part : parts) ROOST_RETURN_IF_ERROR(Add(part, phase));
    return {};
  }
  if (name == "Replace") return AddReplace(node, phase);
  if (name == "Strip") return AddStrip(node, phase);
  if (name == "Fuse") {
    phase = Phase::kText;
    return {};
  }
  const bool is_known = name == "Metaspace" || name == "ByteLevel" || name == "ByteFallback";
  if (!is_known) return type.Complain(fmt::format("'{}' is not supported", name));
  if (phase != Phase::kTokens) return type.Complain(fmt::format("'{}' is not supported at this place", name));
  if (name == "Metaspace") {
    ROOST_ASSIGN_OR_RETURN(Metaspace options, Metaspace::FromJson(node));
    token_steps_.emplace_back(std::move(options));
    return {};
  }
  bytes_ = name == "ByteLevel" ? Bytes::kByteLevel : Bytes::kByteFallback;
  // ByteLevel joins all tokens into one text.
  phase = name == "ByteLevel" ? Phase::kText : Phase::kBytes;
  return {};
}

Result<void> TokenDecoder::AddReplace(const JsonNode& node, Phase phase) {
  ROOST_ASSIGN_OR_RETURN(const Pattern pattern, Pattern::FromJson(node));
  ROOST_ASSIGN_OR_RETURN(const std::string_view content, node.Get<std::string_view>("content"));
  if (pattern.kind == Pattern::Kind::kRegex) return pattern.node.Complain("is not supported in a decoder");
  if (pattern.text.empty()) return pattern.node.Complain("must not be empty");
  // The factor by which all rules together may lengthen a text. Files have few rules, and those seen shorten.
  constexpr std::size_t kMaxTokenGrowth = 64;
  growth_ *= std::max<std::size_t>(1, (content.size() + pattern.text.size() - 1) / pattern.text.size());
  if (growth_ > kMaxTokenGrowth) {
    return node.Complain(
        fmt::format("with the rules before it, it may make a text over {} times as long", kMaxTokenGrowth));
  }
  Replace replace{std::string(pattern.text), std::string(content)};
  if (phase == Phase::kTokens) {
    token_steps_.emplace_back(std::move(replace));
    return {};
  }
  if (Utf8SequenceLength(pattern.text) != pattern.text.size()) {
    return pattern.node.Complain("at this place only one character is supported");
  }
  text_steps_.emplace_back(std::move(replace));
  return {};
}

Result<void> TokenDecoder::AddStrip(const JsonNode& node, Phase phase) {
  ROOST_ASSIGN_OR_RETURN(const JsonNode content, node.Get("content"));
  ROOST_ASSIGN_OR_RETURN(const std::string_view character, content.AsCharacter());
  ROOST_ASSIGN_OR_RETURN(const JsonNode start, node.Get("start"));
  ROOST_ASSIGN_OR_RETURN(const JsonNode stop, node.Get("stop"));
  constexpr auto kLimit = std::numeric_limits<std::uint32_t>::max();
  Strip strip{std::string(character), 0, 0};
  ROOST_ASSIGN_OR_RETURN(strip.start, start.AsCount(kLimit));
  ROOST_ASSIGN_OR_RETURN(strip.stop, stop.AsCount(kLimit));
  if (phase == Phase::kBytes) return node.Complain("a Strip between ByteFallback and Fuse is not supported");
  if (phase == Phase::kTokens) {
    token_steps_.emplace_back(std::move(strip));
  } else {
    text_steps_.emplace_back(std::move(strip));
  }
  return {};
}

TokenDecoder::State TokenDecoder::Begin(Start start) const {
  State state;
  state.at_first_token = start == Start::kText;
  for (const TextStep& step : text_steps_) {
    const Strip* strip = std::get_if<Strip>(&step);
    state.strips.push_back({strip != nullptr && start == Start::kText ? strip->start : 0, {}});
  }
  return state;
}

void TokenDecoder::StripToken(const Strip& strip, std::string& token) {
  token.erase(0, LeadingRun(token, strip.content, strip.start));
  token.resize(token.size() - TrailingRun(token, strip.content, strip.stop));
}

void TokenDecoder::StripStream(const Strip& strip, State::Strip& state, std::string& text) {
  if (text.empty()) return;
  const std::size_t dropped = LeadingRun(text, strip.content, state.front_left);
  state.front_left = dropped == text.size() ? state.front_left - dropped / strip.content.size() : 0;
  text.erase(0, dropped);
  text.insert(0, state.held);
  state.held.clear();
  const std::size_t held = TrailingRun(text, strip.content, strip.stop);
  state.held = text.substr(text.size() - held);
  text.erase(text.size() - held);
}

std::string TokenDecoder::AfterTokenSteps(std::string_view token, Place place) const {
  std::string text(token);
  for (const TokenStep& step : token_steps_) {
    if (const auto* replace = std::get_if<Replace>(&step)) {
      ReplaceAll(replace->pattern, replace->content, kNoLimit, text);
    } else if (const auto* strip = std::get_if<Strip>(&step)) {
      StripToken(*strip, text);
    } else {
      const Metaspace& options = std::get<Metaspace>(step);
      const bool drops = place == Place::kFirst && options.scheme != PrependScheme::kNever;
      ReplaceAll(options.replacement, drops ? "" : " ", kNoLimit, text);
    }
  }
  return text;
}

void TokenDecoder::Push(std::string_view token, State& state, std::string& out) const {
  const bool is_first = std::exchange(state.at_first_token, false);
  std::string text = AfterTokenSteps(token, is_first ? Place::kFirst : Place::kLater);
  if (joins_with_spaces_ && !is_first) text.insert(0, " ");
  if (bytes_ == Bytes::kNone) return PushText(std::move(text), state, out);
  std::string decoded;
  PushBytes(text, state, decoded);
  PushText(std::move(decoded), state, out);
}

std::string TokenDecoder::BytesOf(std::string_view token) const {
  if (bytes_ == Bytes::kByteLevel && token_steps_.empty() && text_steps_.empty()) {  // as most tokenizers have it
    std::optional<std::string> decoded = DecodeByteLevel(token);
    return decoded ? *std::move(decoded) : std::string(token);
  }
  std::string text = AfterTokenSteps(token, Place::kLater);
  if (bytes_ == Bytes::kByteLevel) {
    if (std::optional<std::string> decoded = DecodeByteLevel(text)) text = *std::move(decoded);
  } else if (bytes_ == Bytes::kByteFallback) {
    if (const std::optional<char> byte = ByteOfToken(text)) return std::string(1, *byte);
  }
  for (const TextStep& step : text_steps_) {
    if (const auto* replace = std::get_if<Replace>(&step)) {
      ReplaceAll(replace->pattern, replace->content, kNoLimit, text);
    }
  }
  return text;
}

void TokenDecoder::PushBytes(std::string_view token, State& state, std::string& text) const {
  if (bytes_ == Bytes::kByteLevel) {
    // A token with characters outside the alphabet, as an added one may have, stands for itself.
    state.bytes += DecodeByteLevel(token).value_or(std::string(token));
    const std::size_t certain = state.bytes.size() - IncompleteUtf8Suffix(state.bytes);
    text += ReplaceInvalidUtf8(std::string_view(state.bytes).substr(0, certain));
    state.bytes.erase(0, certain);
    return;
  }
  if (const std::optional<char> byte = ByteOfToken(token)) {
    state.bytes += *byte;
    FlushByteRun(state, Ending::kOpen, text);
  } else {
    FlushByteRun(state, Ending::kFinal, text);
    text += token;
  }
}

// Moves whole characters from a run of byte tokens to `text`, and U+FFFD for each byte that belongs to none. While the
// run is open, bytes that others could complete stay.
void TokenDecoder::FlushByteRun(State& state, Ending ending, std::string& text) const {
  const std::string_view bytes = state.bytes;
  const std::size_t held = ending == Ending::kOpen ? IncompleteUtf8Suffix(bytes) : 0;
  std::size_t done = 0;
  while (done < bytes.size() - held) {
    const std::size_t length = Utf8SequenceLength(bytes.substr(done));
    text += length == 0 ? kReplacementCharacter : bytes.substr(done, length);
    done += length == 0 ? 1 : length;
  }
  state.bytes.erase(0, done);
}

void TokenDecoder::PushText(std::string text, State& state, std::string& out) const {
  for (std::size_t i = 0; i < text_steps_.size(); ++i) {
    if (const auto* strip = std::get_if<Strip>(&text_steps_[i])) {
      StripStream(*strip, state.strips[i], text);
    } else {
      const Replace& replace = std::get<Replace>(text_steps_[i]);
      ReplaceAll(replace.pattern, replace.content, kNoLimit, text);
    }
  }
  out += text;
}

void TokenDecoder::Finish(State& state, std::string& out) const {
  std::string text;
  if (bytes_ == Bytes::kByteLevel) text = ReplaceInvalidUtf8(state.bytes);
  if (bytes_ == Bytes::kByteFallback) FlushByteRun(state, Ending::kFinal, text);
  state.bytes.clear();
  PushText(std::move(text), state, out);
  // Text that a Strip still holds is dropped at the end.
}

}  // namespace roost::text
