// Random values for the fields of messages, and the rules between the fields of one message (common/wire/made_codec.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/rng.h"
#include "common/wire/made_codec.h"
#include "common/wire/messages.h"

namespace roost::wire::testing {

class RandomValues {
 public:
  explicit RandomValues(std::uint64_t seed) : rng_(seed) {}

 protected:
  std::uint64_t Below(std::uint64_t bound) { return rng_.Below(bound); }
  bool Coin() { return rng_.Below(2) == 0; }

  template <typename T>
  T Number() {
    return static_cast<T>(rng_());
  }
  template <typename T>
  T Number(std::uint64_t least, std::uint64_t most) {
    const std::uint64_t count = most - least;
    return static_cast<T>(least +
                          (count == std::numeric_limits<std::uint64_t>::max() ? rng_() : rng_.Below(count + 1)));
  }
  // One of the bounds now and then.
  template <typename T>
  T Real(T least, T most) {
    if (rng_.Below(8) == 0) return Coin() ? least : most;
    return std::clamp(least + (most - least) * static_cast<T>(rng_.Uniform()), least, most);
  }
  // Most lists are short.
  std::uint64_t Length(std::uint64_t least, std::uint64_t most) {
    const std::uint64_t usual = rng_.Below(4) == 0 ? 40 : 5;
    return least + rng_.Below(std::min(most - least, usual) + 1);
  }
  std::string Text(TextKind kind, std::uint64_t most) {
    static constexpr std::string_view kPieces[] = {"a", "Z", "/", "é", "€", "😀", "\"", "roost", "\n", "\x01"};
    const std::size_t pieces = std::size(kPieces) - (kind == TextKind::kAny ? 0 : 2);
    std::string text;
    for (std::uint64_t n = rng_.Below(12) + (kind == TextKind::kLabel ? 1 : 0); n > 0; --n) {
      const std::string_view piece = kPieces[rng_.Below(pieces)];
      if (text.size() + piece.size() <= most) text += piece;
    }
    return text.empty() && kind == TextKind::kLabel ? "a" : text;
  }

  // A few, with any values.
  std::string Bytes() {
    std::string bytes(rng_.Below(40), '\0');
    for (char& byte : bytes) byte = static_cast<char>(rng_.Below(256));
    return bytes;
  }

  std::string HexDigits(std::size_t count) {
    std::string digits(count, '0');
    for (char& digit : digits) digit = "0123456789abcdef"[rng_.Below(16)];
    return digits;
  }
  std::string Address() { return Coin() ? "10.1.2.3:7100" : "[fe80::1]:65535"; }

  void Fit(Hello& hello) {
    hello.version.major = kProtocolMajor;
    hello.block_tokens = kMinBlockTokens << rng_.Below(7);
    hello.engine_block_tokens = hello.block_tokens * static_cast<std::uint32_t>(rng_.Below(200));
    if (!hello.transfer.address.empty()) hello.transfer.address = Address();
    hello.transfer.secret = Coin() ? "" : HexDigits(kTransferSecretBytes);
  }
  void Fit(Hold& hold) {
    hold.first_position = Coin() ? 0 : Number<std::uint32_t>(1, 1000);
    if (hold.first_position == 0) hold.parent = hold.root;
    hold.source.address = Address();
    hold.source.ticket = Coin() ? "" : HexDigits(kTransferTicketBytes);
  }
  void Fit(TokenEvent& event) {
    if (!event.logprobs.empty()) event.tokens.resize(event.logprobs.size());
    if (event.finish != FinishReason::kStop) event.stop_token.reset();
    if (event.finish != FinishReason::kError) event.error.reset();
    if (event.finish == FinishReason::kError && !event.error) event.error.emplace();
  }
  void Fit(Load& load) {
    load.step_prefill_tokens %= 100'000;
    load.step_decode_tokens %= 1000;
    load.step_seconds = Coin() ? 0 : 0.001 + rng_.Uniform();
  }
  static void Fit(Snapshot&) {}
  static void Fit(UsedPrefix& prefix) {
    if (prefix.hashes.empty()) return;
    prefix.block_count = static_cast<std::uint32_t>(prefix.hashes.size());
    prefix.hash = prefix.hashes.back();
    if (prefix.own) prefix.own->first_block %= prefix.block_count;
    if (prefix.own && prefix.own->first_block == 0) prefix.own.reset();
  }
  static void Fit(Prefixes&) {}
  void Fit(Generate& generate) {
    FitHashes(generate.block_hashes, generate.prompt.size());
    TokenId token = 0;
    for (LogitBias& bias : generate.sampling.logit_bias) bias.token = token += Number<TokenId>(1, 1000);
    generate.trace_parent = Coin() ? "" : "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  }
  static void Fit(PromptToEvict& prompt) { FitHashes(prompt.block_hashes, prompt.tokens.size()); }

 private:
  static void FitHashes(std::vector<BlockHash>& hashes, std::size_t tokens) {
    hashes.resize(std::min(hashes.size(), tokens / kMinBlockTokens));
  }

  Rng rng_;
};

}  // namespace roost::wire::testing
