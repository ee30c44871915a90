// The content of an engine's event, in terms that vLLM and SGLang share: the decoders (vllm/vllm_events.cc,
// sglang/sglang_events.cc) produce it, the book (block_book.h) follows it.
//
// A hash here is the engine's own: opaque bytes, equal or not. An integer hash is its eight bytes, big-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"

namespace roost::worker::adapters {

// The place where a block lies.
struct CachePlace {
  std::uint32_t rank = 0;   // the data-parallel rank
  std::uint32_t group = 0;  // of layers that share their blocks
  bool on_device = true;    // false: host memory, disk, or another machine

  bool operator==(const CachePlace&) const = default;
};

// The keys that the hash of a block covers beside the tokens up to its end.
enum class ExtraKeys : std::uint8_t {
  kNone,
  kSalt,   // one text
  kOther,  // images, embeddings, or several of these
};

// The attention of the group's layers to the tokens before.
enum class Attention : std::uint8_t {
  kFull,
  kWindow,     // to the last `window_tokens`
  kRecurrent,  // to a state that has read all of them
  kOther,      // of a kind that is not known, or in chunks whose size is not told
};

// The form of `token_ids`.
enum class TokenForm : std::uint8_t {
  kPlain,
  kLookahead,  // the hashes cover tokens after the blocks, too: those of a speculative head
  kOther,      // not one number per position; `token_ids` is empty
};

// A run of blocks, each the child of the one before. With other than full attention `hashes` are only those blocks of
// the run that the engine keeps, perhaps none, and say nothing of their places in it.
struct Stored {
  CachePlace place;
  Attention attention = Attention::kFull;
  std::uint32_t window_tokens = 0;    // of kWindow
  std::vector<std::string> hashes;    // one for each block
  std::optional<std::string> parent;  // of the first block; nothing: it begins a prompt
  std::vector<TokenId> token_ids;     // of all the blocks, one after another
  TokenForm token_form = TokenForm::kPlain;
  std::uint32_t block_tokens = 0;
  std::string salt;                    // of the first block
  std::vector<ExtraKeys> extra_keys;   // for each block; shorter: the others have none
  std::optional<std::string> adapter;  // LoRA; empty text: one that the event does not name

  bool operator==(const Stored&) const = default;
};

// One physical copy of each of these blocks is gone.
struct Removed {
  CachePlace place;
  std::vector<std::string> hashes;

  bool operator==(const Removed&) const = default;
};

// The rank holds no blocks.
struct Cleared {
  std::uint32_t rank = 0;

  bool operator==(const Cleared&) const = default;
};

// An event of a kind that the decoder does not know.
struct UnknownEvent {
  bool operator==(const UnknownEvent&) const = default;
};

using CacheChange = std::variant<Stored, Removed, Cleared, UnknownEvent>;

// Decodes the payload of one message. kDataLoss: it is no such message. Never throws.
using EventDecoder = Result<std::vector<CacheChange>> (*)(std::span<const std::byte> payload);

// ---- the engines' decoders ----
[[nodiscard]] Result<std::vector<CacheChange>> DecodeVllmEvents(std::span<const std::byte> payload);
[[nodiscard]] Result<std::vector<CacheChange>> DecodeSglangEvents(std::span<const std::byte> payload);

}  // namespace roost::worker::adapters
