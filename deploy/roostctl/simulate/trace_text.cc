#include "deploy/roostctl/simulate/trace_text.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "common/base/check.h"

namespace roost::simulate {
namespace {

// Tokens with this bit do not belong to any content of the trace.
constexpr TokenId kOwnBit = TokenId{1} << 31U;

std::uint32_t LargestBlockIn(std::uint32_t trace_block_tokens) {
  const std::uint32_t block_tokens = std::gcd(trace_block_tokens, kMaxBlockTokens);
  ROOST_CHECK(IsValidBlockTokens(block_tokens), "blocks of {} tokens", trace_block_tokens);
  return block_tokens;
}

}  // namespace

TraceText::TraceText(const workload::Trace& trace)
    : trace_(trace),
      block_tokens_(LargestBlockIn(trace.block_tokens)),
      parts_(trace.block_tokens / block_tokens_),
      contents_(trace.requests.size()) {
  std::unordered_map<workload::ContentId, std::uint32_t> numbers;
  for (std::uint32_t number = 0; number < trace.requests.size(); ++number) {
    BlockHash parent = root();
    for (const workload::ContentId id : trace.requests[number].blocks) {
      const auto [known, is_new] = numbers.emplace(id, static_cast<std::uint32_t>(numbers.size()));
      contents_[number].push_back(known->second);
      if (is_new) HashContent(known->second, parent);
      parent = hashes_[std::size_t{known->second} * parts_ + parts_ - 1];
    }
    distinct_block_count_ += parts_;  // for the rest behind the last full block
  }
  distinct_block_count_ += hashes_.size();
}

void TraceText::HashContent(std::uint32_t content, BlockHash parent) {
  std::vector<TokenId> tokens(block_tokens_);
  for (std::uint32_t part = 0; part < parts_; ++part) {
    std::fill(tokens.begin(), tokens.end(), content * parts_ + part);
    hashes_.push_back(ChainHash(parent, tokens));
    parent = hashes_.back();
  }
}

std::uint32_t TraceText::PromptTokenCount(std::uint32_t number) const {
  return std::max(1U, trace_.requests[number].input_token_count);
}

double TraceText::DecodedTokenCount(std::uint32_t number) const {
  return std::max(1U, trace_.requests[number].output_token_count) - 1;
}

std::vector<TokenId> TraceText::Prompt(std::uint32_t number) const {
  return Tokens(number, 0, PromptTokenCount(number));
}

std::vector<TokenId> TraceText::Answer(std::uint32_t number) const {
  const std::uint32_t begin = PromptTokenCount(number);
  return Tokens(number, begin, begin + trace_.requests[number].output_token_count);
}

std::vector<BlockHash> TraceText::PromptHashes(std::uint32_t number) const {
  const std::uint32_t count = PromptTokenCount(number) / block_tokens_;
  std::vector<BlockHash> hashes;
  hashes.reserve(count);
  for (const std::uint32_t content : contents_[number]) {
    for (std::uint32_t part = 0; part < parts_ && hashes.size() < count; ++part) {
      hashes.push_back(hashes_[std::size_t{content} * parts_ + part]);
    }
  }
  while (hashes.size() < count) {
    const auto begin = static_cast<std::uint32_t>(hashes.size()) * block_tokens_;
    hashes.push_back(ChainHash(hashes.empty() ? root() : hashes.back(), Tokens(number, begin, begin + block_tokens_)));
  }
  return hashes;
}

std::vector<TokenId> TraceText::Tokens(std::uint32_t number, std::uint32_t begin, std::uint32_t end) const {
  std::vector<TokenId> tokens;
  tokens.reserve(end - begin);
  while (begin < end) {
    const std::uint32_t block_end = std::min(end, (begin / block_tokens_ + 1) * block_tokens_);
    tokens.insert(tokens.end(), block_end - begin, TokenAt(number, begin));
    begin = block_end;
  }
  return tokens;
}

// All tokens of one cache block are equal.
TokenId TraceText::TokenAt(std::uint32_t number, std::uint32_t position) const {
  const std::uint32_t block = position / block_tokens_;
  const std::uint32_t trace_block = block / parts_;
  const std::uint32_t part = block % parts_;
  if (trace_block < contents_[number].size()) return contents_[number][trace_block] * parts_ + part;
  return kOwnBit | (number * parts_ + part);
}

}  // namespace roost::simulate
