#include "common/text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "common/base/utf8.h"
#include "common/text/tokenizer_parts.h"

namespace roost {

using text::AddedTokens;

namespace {

struct RepairedText {
  std::string bytes;
  std::vector<ByteRange> written;
};

// Range by range: no character crosses the border of a written range.
RepairedText ReplaceInvalidUtf8(PromptText text) {
  RepairedText repaired;
  std::size_t done = 0;
  const auto append = [&](std::size_t end) {
    const std::size_t begin = repaired.bytes.size();
    repaired.bytes += roost::ReplaceInvalidUtf8(text.bytes.substr(done, end - done));
    done = end;
    return ByteRange{begin, repaired.bytes.size()};
  };
  for (const ByteRange& range : text.written) {
    append(range.begin);
    repaired.written.push_back(append(range.end));
  }
  append(text.bytes.size());
  return repaired;
}

}  // namespace

Tokenizer::Tokenizer(Parts parts)
    : model_(std::move(parts.model)),
      normalizer_(std::move(parts.normalizer)),
      added_(std::move(parts.added)),
      pre_tokenizer_(std::move(parts.pre_tokenizer)),
      words_(model_.has_all_bytes() ? pre_tokenizer_.ByteLevelWords() : nullptr),
      frame_(std::move(parts.frame)),
      decoder_(std::move(parts.decoder)),
      most_bytes_per_token_(MostBytesPerToken()),
      pool_(std::make_unique<ScratchPool>()) {}

Tokenizer::~Tokenizer() = default;

Result<std::vector<TokenId>> Tokenizer::Encode(std::string_view text, SpecialTokens special_tokens,
                                               std::size_t max_tokens) const {
  return Encode(WrittenText(text).prompt(), special_tokens, max_tokens);
}

Result<std::vector<TokenId>> Tokenizer::Encode(PromptText text, SpecialTokens special_tokens,
                                               std::size_t max_tokens) const {
  RepairedText repaired;
  if (!IsValidUtf8(text.bytes)) {
    repaired = ReplaceInvalidUtf8(text);
    text = {repaired.bytes, repaired.written};
  }
  std::vector<TokenId> ids;
  if (special_tokens == SpecialTokens::kAdd) ids = frame_.before;
  std::unique_ptr<Scratch> scratch = pool_->Take();
  scratch->Start(text.bytes.size(), max_tokens);
  const Result<void> encoded = EncodeText(text, *scratch, ids);
  pool_->GiveBack(std::move(scratch));
  if (!encoded.ok()) return encoded.error();
  if (special_tokens == SpecialTokens::kAdd) ids.insert(ids.end(), frame_.after.begin(), frame_.after.end());
  return ids;
}

Result<void> Tokenizer::SplitText(PromptText text, Scratch& scratch) const {
  scratch.raw_segments.clear();
  return added_.Split(text, AddedTokens::Stage::kRaw, scratch.regex, scratch.raw_segments);
}

Result<void> Tokenizer::EncodeText(PromptText text, Scratch& scratch, std::vector<TokenId>& ids) const {
  ROOST_RETURN_IF_ERROR(SplitText(text, scratch));
  for (const AddedTokens::Segment& segment : scratch.raw_segments) {
    if (ids.size() > scratch.max_tokens) return {};
    ROOST_RETURN_IF_ERROR(EncodeSegment(text, segment, scratch, ids));
  }
  return {};
}

Result<void> Tokenizer::EncodeSegment(PromptText text, const AddedTokens::Segment& segment, Scratch& scratch,
                                      std::vector<TokenId>& ids) const {
  if (segment.token) {
    ids.push_back(*segment.token);
    return {};
  }
  const bool needs_written = added_.has_special(AddedTokens::Stage::kNormalized);
  const bool at_start = segment.range.begin == 0;
  std::optional<text::WrittenMask> written;
  if (needs_written) written.emplace(text, segment.range);
  std::string_view part = text.bytes.substr(segment.range.begin, segment.range.end - segment.range.begin);
  if (!normalizer_.is_identity()) {
    scratch.normalized = part;
    ROOST_RETURN_IF_ERROR(
        normalizer_.Apply(scratch.normalized, scratch.rewritten_left, scratch.regex, written ? &*written : nullptr));
    part = scratch.normalized;
  }
  const std::vector<ByteRange> ranges = written ? written->Ranges() : std::vector<ByteRange>();
  return EncodeNormalized({part, ranges}, at_start, scratch, ids);
}

Result<void> Tokenizer::EncodeNormalized(PromptText text, bool at_start, Scratch& scratch,
                                         std::vector<TokenId>& ids) const {
  if (!added_.has(AddedTokens::Stage::kNormalized)) return EncodePlain(text.bytes, at_start, scratch, ids);
  scratch.normalized_segments.clear();
  ROOST_RETURN_IF_ERROR(
      added_.Split(text, AddedTokens::Stage::kNormalized, scratch.regex, scratch.normalized_segments));
  for (const AddedTokens::Segment& segment : scratch.normalized_segments) {
    if (ids.size() > scratch.max_tokens) return {};
    if (segment.token) {
      ids.push_back(*segment.token);
      continue;
    }
    const std::string_view part = text.bytes.substr(segment.range.begin, segment.range.end - segment.range.begin);
    ROOST_RETURN_IF_ERROR(EncodePlain(part, at_start && segment.range.begin == 0, scratch, ids));
  }
  return {};
}

Result<void> Tokenizer::EncodePlain(std::string_view text, bool at_start, Scratch& scratch,
                                    std::vector<TokenId>& ids) const {
  if (words_ != nullptr) return EncodeWords(text, scratch, ids);
  scratch.pre_tokenize.now.Assign(text, at_start);
  ROOST_RETURN_IF_ERROR(pre_tokenizer_.Apply(scratch.pre_tokenize, scratch.rewritten_left, scratch.regex));
  const std::string_view all = scratch.pre_tokenize.now.text;
  if (all.size() > scratch.rewritten_left) return text::GrowsOver(scratch.rewritten_left);
  scratch.rewritten_left -= all.size();
  for (const text::TextRange& piece : scratch.pre_tokenize.now.pieces) {
    if (ids.size() > scratch.max_tokens) return {};
    ROOST_RETURN_IF_ERROR(model_.Encode(all.substr(piece.begin, piece.end - piece.begin), scratch.bpe, ids));
  }
  return {};
}

Result<void> Tokenizer::EncodeWords(std::string_view text, Scratch& scratch, std::vector<TokenId>& ids) const {
  if (text.size() > scratch.rewritten_left) return text::GrowsOver(scratch.rewritten_left);
  scratch.rewritten_left -= text.size();
  for (std::size_t begin = 0; begin < text.size() && ids.size() <= scratch.max_tokens;) {
    const std::size_t end = words_->WordEnd(text, begin);
    ROOST_RETURN_IF_ERROR(model_.EncodeBytes(text.substr(begin, end - begin), scratch.bpe, ids));
    begin = end;
  }
  return {};
}

// Every byte of text is in some piece, except what normalising shortens. A piece has at least as many bytes as its
// text, and its tokens' texts together are the piece.
std::optional<std::size_t> Tokenizer::MostBytesPerToken() const {
  constexpr std::size_t kCharacterBytes = 4;  // one unknown token takes up to 4 bytes
  using Words = text::BpeModel::Words;
  const Words words = pre_tokenizer_.IsByteLevel() ? Words::kByteLevel : Words::kText;
  const std::optional<std::size_t> shrinking = normalizer_.MostShrinking();
  const std::optional<std::size_t> added = added_.MostBytes();
  if (!shrinking || !added || pre_tokenizer_.MayDrop() || model_.MayDrop(words)) return std::nullopt;
  return *shrinking * std::max({*added, model_.vocabulary().LongestText(), kCharacterBytes});
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, SpecialTokenOutput specials) const {
  std::string text;
  text::TokenDecoder::State state = decoder_.Begin(text::TokenDecoder::Start::kText);
  for (const TokenId id : ids) {
    if (specials == SpecialTokenOutput::kSkip && IsSpecial(id)) continue;
    if (const auto token = DecoderTextOf(id)) decoder_.Push(*token, state, text);
  }
  decoder_.Finish(state, text);
  return text;
}

std::size_t Tokenizer::vocab_size() const { return std::max(model_.vocabulary().id_end(), added_.id_end()); }

std::optional<TokenId> Tokenizer::IdOf(std::string_view token) const {
  const std::optional<TokenId> added = added_.IdOf(token);
  return added ? added : model_.vocabulary().IdOf(token);
}

std::optional<std::string_view> Tokenizer::TextOf(TokenId id) const {
  const text::AddedToken* added = added_.Find(id);
  return added != nullptr ? added->content : model_.vocabulary().TextOf(id);
}

// An added token that is found in normalised text decodes to its normal form ("▁<x>"), as in the reference library.
std::optional<std::string_view> Tokenizer::DecoderTextOf(TokenId id) const {
  const text::AddedToken* added = added_.Find(id);
  return added != nullptr ? added->matched : model_.vocabulary().TextOf(id);
}

std::string Tokenizer::BytesOf(TokenId id) const {
  const std::optional<std::string_view> token = DecoderTextOf(id);
  return token ? decoder_.BytesOf(*token) : std::string();
}

bool Tokenizer::IsAdded(TokenId id) const { return added_.Find(id) != nullptr; }

bool Tokenizer::IsSpecial(TokenId id) const {
  const text::AddedToken* added = added_.Find(id);
  return added != nullptr && added->special;
}

TokenStream::TokenStream(std::shared_ptr<const Tokenizer> tokenizer, SpecialTokenOutput specials, StreamStart start)
    : tokenizer_(std::move(tokenizer)),
      specials_(specials),
      state_(tokenizer_->decoder_.Begin(start == StreamStart::kText ? text::TokenDecoder::Start::kText
                                                                    : text::TokenDecoder::Start::kContinuation)) {}

std::string TokenStream::Push(TokenId id) {
  if (specials_ == SpecialTokenOutput::kSkip && tokenizer_->IsSpecial(id)) return {};
  return PushShown(id);
}

std::string TokenStream::PushShown(TokenId id) {
  std::string piece;
  if (const auto token = tokenizer_->DecoderTextOf(id)) tokenizer_->decoder_.Push(*token, state_, piece);
  return piece;
}

std::string TokenStream::Finish() {
  std::string piece;
  tokenizer_->decoder_.Finish(state_, piece);
  return piece;
}

TextReading::TextReading(const Tokenizer& tokenizer, PromptText text, std::unique_ptr<Tokenizer::Scratch> scratch)
    : tokenizer_(tokenizer), text_(text), scratch_(std::move(scratch)) {}

TextReading::TextReading(TextReading&& other) noexcept = default;

TextReading::~TextReading() {
  if (scratch_ != nullptr) tokenizer_.pool_->GiveBack(std::move(scratch_));
}

Result<TextReading> TextReading::Begin(const Tokenizer& tokenizer, PromptText text, std::size_t max_tokens) {
  TextReading reading(tokenizer, text, tokenizer.pool_->Take());
  reading.scratch_->Start(text.bytes.size(), max_tokens);
  ROOST_RETURN_IF_ERROR(tokenizer.SplitText(text, *reading.scratch_));
  return reading;
}

std::span<const TextReading::Segment> TextReading::segments() const { return scratch_->raw_segments; }

void TextReading::Skip(std::size_t segment, std::size_t rewritten_bytes) {
  next_ = segment;
  scratch_->rewritten_left = most_rewritten_bytes() - rewritten_bytes;
}

Result<void> TextReading::EncodeUpTo(std::size_t segment, std::vector<TokenId>& ids) {
  for (; next_ < segment; ++next_) {
    if (ids.size() > scratch_->max_tokens) return {};
    ROOST_RETURN_IF_ERROR(tokenizer_.EncodeSegment(text_, scratch_->raw_segments[next_], *scratch_, ids));
  }
  return {};
}

std::size_t TextReading::rewritten_bytes() const { return most_rewritten_bytes() - scratch_->rewritten_left; }

std::size_t TextReading::most_rewritten_bytes() const { return text::MaxRewrittenBytes(text_.bytes.size()); }

}  // namespace roost
