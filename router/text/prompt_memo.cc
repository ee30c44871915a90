#include "router/text/prompt_memo.h"

#include <xxhash.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/utf8.h"
#include "common/text/tokenizer.h"

namespace roost::router {
namespace {

// The size of an entry in list and table, including the allocator's overhead.
constexpr std::size_t kEntryBytes = 320;

void AppendHashes(const PromptMemo::Scope& scope, HashedTokens& prompt) {
  const BlockHash parent = prompt.block_hashes.empty() ? scope.root : prompt.block_hashes.back();
  const std::size_t done = prompt.block_hashes.size() * scope.block_tokens;
  const std::vector<BlockHash> more = HashBlocks(parent, std::span(prompt.tokens).subspan(done), scope.block_tokens);
  prompt.block_hashes.insert(prompt.block_hashes.end(), more.begin(), more.end());
}

std::uint64_t Pack(std::size_t high, std::size_t low) { return (std::uint64_t{high} << 32U) | low; }

}  // namespace

struct PromptMemo::Piece {
  ByteRange range;
  std::size_t segment_end = 0;
  ByteRange shape;  // in Reading::shapes
  std::uint64_t hash = 0;
};

struct PromptMemo::Stretch {
  std::string text;
  std::vector<std::uint64_t> shape;
  std::vector<TokenId> tokens;
  std::vector<BlockHash> block_hashes;  // of the blocks that end in the piece
  std::size_t rewritten_bytes = 0;      // of the text up to the end of the piece

  // Compares pieces after an equal beginning. If text and shape are equal, so are tokens and hashes.
  [[nodiscard]] bool operator==(const Stretch& other) const {
    return this == &other || (text == other.text && shape == other.shape);
  }
  [[nodiscard]] std::size_t bytes() const {
    return kEntryBytes + text.capacity() + shape.capacity() * sizeof(std::uint64_t) +
           tokens.capacity() * sizeof(TokenId) + block_hashes.capacity() * sizeof(BlockHash);
  }
};

struct PromptMemo::Reading {
  Reading(PromptText whole, TextReading in_segments) : text(whole), text_reading(std::move(in_segments)) {}

  // The shape distinguishes a piece from others with the same bytes: for the first piece the scope, then the added
  // tokens and their places, then the written ranges. The number of added tokens precedes them, so a shape is
  // unambiguous.
  void AppendShape(const Piece& piece, std::size_t segment_begin) {
    const auto segments = text_reading.segments().subspan(segment_begin, piece.segment_end - segment_begin);
    const std::size_t count_at = shapes.size();
    shapes.push_back(0);
    for (const TextReading::Segment& segment : segments) {
      if (!segment.token) continue;
      shapes.push_back(Pack(segment.range.begin - piece.range.begin, segment.range.end - piece.range.begin));
      shapes.push_back(*segment.token);
    }
    shapes[count_at] = shapes.size() - count_at;
    while (written < text.written.size() && text.written[written].end <= piece.range.begin) ++written;
    for (std::size_t i = written; i < text.written.size() && text.written[i].begin < piece.range.end; ++i) {
      const std::size_t begin = std::max(text.written[i].begin, piece.range.begin);
      const std::size_t end = std::min(text.written[i].end, piece.range.end);
      shapes.push_back(Pack(begin - piece.range.begin, end - piece.range.begin));
    }
  }

  void Cut(std::uint64_t seed) {
    std::size_t begin = 0;
    std::size_t segment_begin = 0;
    const std::span<const TextReading::Segment> segments = text_reading.segments();
    for (std::size_t i = 0; i < segments.size(); ++i) {
      if (!segments[i].token || segments[i].range.end - begin < kMinPieceBytes) continue;
      Piece piece;
      piece.range = {begin, segments[i].range.end};
      piece.segment_end = i + 1;
      piece.shape.begin = pieces.empty() ? 0 : shapes.size();  // the first shape includes the scope
      AppendShape(piece, segment_begin);
      piece.shape.end = shapes.size();
      const XXH64_hash_t of_text = XXH3_64bits_withSeed(TextOf(piece).data(), TextOf(piece).size(), seed);
      piece.hash = XXH3_64bits_withSeed(ShapeOf(piece).data(), ShapeOf(piece).size_bytes(), of_text);
      pieces.push_back(piece);
      begin = piece.range.end;
      segment_begin = piece.segment_end;
    }
  }

  [[nodiscard]] std::string_view TextOf(const Piece& piece) const {
    return text.bytes.substr(piece.range.begin, piece.range.end - piece.range.begin);
  }
  [[nodiscard]] std::span<const std::uint64_t> ShapeOf(const Piece& piece) const {
    return std::span(shapes).subspan(piece.shape.begin, piece.shape.end - piece.shape.begin);
  }
  [[nodiscard]] bool Is(const Piece& piece, const Stretch& stretch) const {
    const std::span<const std::uint64_t> shape = ShapeOf(piece);
    return TextOf(piece) == stretch.text &&
           std::equal(shape.begin(), shape.end(), stretch.shape.begin(), stretch.shape.end());
  }

  // Takes over the tokens and hashes of found pieces, up to the first that does not match or would exceed a limit.
  void TakeFound(std::size_t max_tokens, HashedTokens& prompt) {
    std::size_t count = prompt.tokens.size();
    std::size_t hash_count = 0;
    std::size_t right = 0;
    for (; right < found.size() && Is(pieces[right], *found[right]); ++right) {
      if (count + found[right]->tokens.size() > max_tokens) break;
      if (found[right]->rewritten_bytes > text_reading.most_rewritten_bytes()) break;
      count += found[right]->tokens.size();
      hash_count += found[right]->block_hashes.size();
    }
    found.resize(right);
    if (found.empty()) return;
    // Room for the rest, at about three bytes of text per token.
    const std::size_t rest = text.bytes.size() - pieces[right - 1].range.end;
    prompt.tokens.reserve(count + rest / 3 + 16);
    prompt.block_hashes.reserve(hash_count + rest / 48 + 16);
    for (const std::shared_ptr<const Stretch>& stretch : found) {
      prompt.tokens.insert(prompt.tokens.end(), stretch->tokens.begin(), stretch->tokens.end());
      prompt.block_hashes.insert(prompt.block_hashes.end(), stretch->block_hashes.begin(), stretch->block_hashes.end());
    }
    text_reading.Skip(pieces[right - 1].segment_end, found.back()->rewritten_bytes);
  }

  // The end of a piece in the prompt.
  struct Mark {
    std::size_t token_count;
    std::size_t rewritten_bytes;
  };

  // The pieces that were not found. Call it when all tokens and hashes are there.
  [[nodiscard]] std::vector<std::shared_ptr<const Stretch>> NewStretches(const Scope& scope,
                                                                         const HashedTokens& prompt) const {
    std::vector<std::shared_ptr<const Stretch>> stretches;
    stretches.reserve(marks.size());
    std::size_t begin = first_new_token;
    for (std::size_t i = 0; i < marks.size(); ++i) {
      const Piece& piece = pieces[found.size() + i];
      const std::size_t end = marks[i].token_count;
      auto stretch = std::make_shared<Stretch>();
      stretch->text = TextOf(piece);
      stretch->shape.assign(ShapeOf(piece).begin(), ShapeOf(piece).end());
      stretch->tokens.assign(prompt.tokens.data() + begin, prompt.tokens.data() + end);
      // The first piece also has the blocks that end within the frame before it.
      const std::size_t first_block = found.empty() && i == 0 ? 0 : begin / scope.block_tokens;
      stretch->block_hashes.assign(prompt.block_hashes.data() + first_block,
                                   prompt.block_hashes.data() + end / scope.block_tokens);
      stretch->rewritten_bytes = marks[i].rewritten_bytes;
      stretches.push_back(std::move(stretch));
      begin = end;
    }
    return stretches;
  }

  const PromptText text;
  TextReading text_reading;
  std::vector<std::uint64_t> shapes;
  std::size_t written = 0;  // the first range that may reach into the next piece
  std::vector<Piece> pieces;
  std::vector<std::shared_ptr<const Stretch>> found;  // for the first pieces
  // For the pieces after those.
  std::size_t first_new_token = 0;
  std::vector<Mark> marks;
};

PromptMemo::PromptMemo(std::size_t most_bytes, std::uint64_t seed) : most_bytes_(most_bytes), seed_(seed) {}

PromptMemo::~PromptMemo() = default;

Result<HashedTokens> PromptMemo::Read(const Scope& scope, PromptText text, std::size_t max_tokens) {
  if (most_bytes_ > 0 && text.bytes.size() >= kMinPieceBytes && IsValidUtf8(text.bytes)) {
    return ReadInPieces(scope, text, max_tokens);
  }
  {
    const std::lock_guard lock(mutex_);
    counts_.read_bytes += text.bytes.size();
  }
  return ReadWhole(scope, text, max_tokens);
}

Result<HashedTokens> PromptMemo::ReadWhole(const Scope& scope, PromptText text, std::size_t max_tokens) {
  HashedTokens prompt;
  ROOST_ASSIGN_OR_RETURN(prompt.tokens, scope.tokenizer->Encode(text, scope.special_tokens, max_tokens));
  AppendHashes(scope, prompt);
  return prompt;
}

Result<HashedTokens> PromptMemo::ReadInPieces(const Scope& scope, PromptText text, std::size_t max_tokens) {
  ROOST_ASSIGN_OR_RETURN(TextReading text_reading, TextReading::Begin(*scope.tokenizer, text, max_tokens));
  Reading reading(text, std::move(text_reading));
  {
    const std::lock_guard lock(mutex_);
    reading.shapes = {NumberOf(scope.tokenizer), scope.root.high, scope.root.low, scope.block_tokens,
                      static_cast<std::uint64_t>(scope.special_tokens)};
  }
  reading.Cut(seed_);
  Find(reading);
  const bool is_framed = scope.special_tokens == SpecialTokens::kAdd;
  const text::SpecialTokenFrame& frame = scope.tokenizer->frame();
  HashedTokens prompt;
  if (is_framed) prompt.tokens = frame.before;
  reading.TakeFound(max_tokens, prompt);
  reading.first_new_token = prompt.tokens.size();
  for (std::size_t i = reading.found.size(); i < reading.pieces.size(); ++i) {
    ROOST_RETURN_IF_ERROR(reading.text_reading.EncodeUpTo(reading.pieces[i].segment_end, prompt.tokens));
    reading.marks.push_back({prompt.tokens.size(), reading.text_reading.rewritten_bytes()});
  }
  ROOST_RETURN_IF_ERROR(reading.text_reading.EncodeUpTo(reading.text_reading.segments().size(), prompt.tokens));
  const bool is_whole = prompt.tokens.size() <= max_tokens;
  if (is_framed) prompt.tokens.insert(prompt.tokens.end(), frame.after.begin(), frame.after.end());
  AppendHashes(scope, prompt);
  Keep(reading, is_whole ? reading.NewStretches(scope, prompt) : std::vector<std::shared_ptr<const Stretch>>());
  return prompt;
}

std::uint64_t PromptMemo::NumberOf(const std::shared_ptr<const Tokenizer>& tokenizer) {
  for (const auto& [known, number] : tokenizers_) {
    if (!known.owner_before(tokenizer) && !tokenizer.owner_before(known)) return number;
  }
  std::erase_if(tokenizers_, [](const auto& known) { return known.first.expired(); });
  tokenizers_.emplace_back(tokenizer, ++last_number_);
  return last_number_;
}

void PromptMemo::Find(Reading& reading) {
  const std::lock_guard lock(mutex_);
  std::uint64_t parent = 0;
  for (const Piece& piece : reading.pieces) {
    const auto known = by_key_.find({parent, piece.hash});
    if (known == by_key_.end()) return;
    parent = known->second->number;
    reading.found.push_back(known->second->stretch);
  }
}

// Makes the text's pieces the most recently used, from the last to the first, so that a piece is evicted only after
// those that continue it.
void PromptMemo::Keep(Reading& reading, std::vector<std::shared_ptr<const Stretch>> stretches) {
  Entries dropped;  // freed without the lock
  std::vector<Entries::iterator> path;
  path.reserve(reading.pieces.size());
  const std::lock_guard lock(mutex_);
  counts_.read_bytes += reading.text.bytes.size();
  if (!reading.found.empty()) counts_.known_bytes += reading.pieces[reading.found.size() - 1].range.end;
  std::uint64_t parent = 0;
  const auto place = [&](const Piece& piece, std::shared_ptr<const Stretch> stretch) {
    path.push_back(Place({parent, piece.hash}, std::move(stretch), dropped));
    parent = path.back()->number;
  };
  const std::size_t found_count = reading.found.size();
  for (std::size_t i = 0; i < found_count; ++i) place(reading.pieces[i], std::move(reading.found[i]));
  for (std::size_t i = 0; i < stretches.size(); ++i) place(reading.pieces[found_count + i], std::move(stretches[i]));
  for (auto entry = path.rbegin(); entry != path.rend(); ++entry) {
    entries_.splice(entries_.begin(), entries_, *entry);
  }
  while (counts_.held_bytes > most_bytes_) Drop(std::prev(entries_.end()), dropped);
}

PromptMemo::Entries::iterator PromptMemo::Place(Key key, std::shared_ptr<const Stretch> stretch, Entries& dropped) {
  const auto known = by_key_.find(key);
  if (known != by_key_.end()) {
    if (*known->second->stretch == *stretch) return known->second;
    Drop(known->second, dropped);  // another piece with this hash
  }
  counts_.held_bytes += stretch->bytes();
  entries_.push_front({key, ++last_number_, std::move(stretch)});
  by_key_.emplace(key, entries_.begin());
  return entries_.begin();
}

void PromptMemo::Drop(Entries::iterator entry, Entries& dropped) {
  by_key_.erase(entry->key);
  counts_.held_bytes -= entry->stretch->bytes();
  ++counts_.evicted_count;
  dropped.splice(dropped.end(), entries_, entry);
}

void PromptMemo::Clear() {
  Entries dropped;  // freed without the lock
  const std::lock_guard lock(mutex_);
  dropped.swap(entries_);
  by_key_.clear();
  counts_.held_bytes = 0;
}

PromptMemo::Counts PromptMemo::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace roost::router
