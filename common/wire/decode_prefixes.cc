#include "common/wire/decode_prefixes.h"

#include <utility>

#include "common/wire/codec.h"
#include "common/wire/decode_values.h"

namespace roost::wire {
namespace {

// Reads the prefix of a pin or an unpin: at least one block.
Result<std::vector<BlockHash>> ReadPrefix(capnp::List<schema::BlockHash>::Reader list) {
  if (list.size() == 0) return DataLoss("hashes", "empty");
  return ReadHashes(list, "hashes", WireLimits::kMaxPromptHashes);
}

Result<PromptToEvict> ReadPromptToEvict(schema::Evict::What::Prompt::Reader in) {
  PromptToEvict prompt;
  prompt.root = ReadHash(in.getRoot());
  if (in.getOwnFirstBlock() > 0) prompt.own = OwnScope{in.getOwnFirstBlock(), ReadHash(in.getOwnRoot())};
  ROOST_ASSIGN_OR_RETURN(prompt.tokens, ReadTokens(in.getTokens(), "tokens", WireLimits::kMaxPromptTokens));
  if (prompt.tokens.empty()) return DataLoss("tokens", "empty");
  ROOST_ASSIGN_OR_RETURN(prompt.block_hashes,
                         ReadHashes(in.getBlockHashes(), "blockHashes", WireLimits::kMaxPromptHashes));
  if (prompt.block_hashes.size() > prompt.tokens.size() / kMinBlockTokens) {
    return DataLoss("blockHashes", "{} for {} tokens", prompt.block_hashes.size(), prompt.tokens.size());
  }
  return prompt;
}

Result<UsedPrefix> ReadUsedPrefix(schema::UsedPrefix::Reader in) {
  UsedPrefix prefix;
  prefix.hash = ReadHash(in.getHash());
  prefix.block_count = in.getBlockCount();
  ROOST_RETURN_IF_ERROR(ReadNonZero(prefix.block_count, "prefixes.blockCount"));
  ROOST_ASSIGN_OR_RETURN(prefix.hits, ReadNonZero(in.getHits(), "prefixes.hits"));
  ROOST_ASSIGN_OR_RETURN(prefix.first_tokens, ReadTokens(in.getFirstTokens(), "prefixes.firstTokens", kMaxBlockTokens));
  ROOST_ASSIGN_OR_RETURN(prefix.last_tokens, ReadTokens(in.getLastTokens(), "prefixes.lastTokens", kMaxBlockTokens));
  return prefix;
}

}  // namespace

Result<Pin> ReadPin(schema::Pin::Reader in) {
  Pin pin;
  pin.root = ReadHash(in.getRoot());
  ROOST_ASSIGN_OR_RETURN(pin.hashes, ReadPrefix(in.getHashes()));
  ROOST_ASSIGN_OR_RETURN(pin.duration_ms, ReadKeepMs(in.getDurationMs(), "durationMs"));
  pin.answer_id = in.getAnswerId();
  return pin;
}

Result<Unpin> ReadUnpin(schema::Unpin::Reader in) {
  Unpin unpin;
  unpin.root = ReadHash(in.getRoot());
  ROOST_ASSIGN_OR_RETURN(unpin.hashes, ReadPrefix(in.getHashes()));
  unpin.answer_id = in.getAnswerId();
  return unpin;
}

PinAnswer ReadPinAnswer(schema::PinAnswer::Reader in) {
  return {.answer_id = in.getAnswerId(),
          .kept_block_count = in.getKeptBlocks(),
          .awaited_block_count = in.getAwaitedBlocks(),
          .refused_block_count = in.getRefusedBlocks()};
}

Result<std::optional<Evict>> ReadEvict(schema::Evict::Reader in) {
  Evict evict;
  evict.answer_id = in.getAnswerId();
  const auto what = in.getWhat();
  switch (what.which()) {
    case schema::Evict::What::PROMPT: {
      ROOST_ASSIGN_OR_RETURN(evict.what, ReadPromptToEvict(what.getPrompt()));
      return std::optional(std::move(evict));
    }
    case schema::Evict::What::TENANT: {
      ROOST_ASSIGN_OR_RETURN(std::string tenant, ReadText(what.getTenant(), "tenant", WireLimits::kMaxTenantBytes));
      evict.what = TenantToEvict{std::move(tenant)};
      return std::optional(std::move(evict));
    }
    case schema::Evict::What::BLOCK: {
      evict.what = BlockToEvict{ReadHash(what.getBlock())};
      return std::optional(std::move(evict));
    }
  }
  return std::optional<Evict>();
}

EvictAnswer ReadEvictAnswer(schema::EvictAnswer::Reader in) {
  return {.answer_id = in.getAnswerId(),
          .evicted_block_count = in.getEvictedBlocks(),
          .busy_block_count = in.getBusyBlocks(),
          .outcome = in.getRefused() ? EvictOutcome::kRefused : EvictOutcome::kDone};
}

Result<WantPrefixes> ReadWantPrefixes(schema::WantPrefixes::Reader in) {
  WantPrefixes want;
  ROOST_ASSIGN_OR_RETURN(want.answer_id, ReadNonZero(in.getAnswerId(), "answerId"));
  want.most = in.getMost();
  if (want.most == 0 || want.most > kMaxUsedPrefixes) {
    return DataLoss("most", "{} is not from 1 to {}", want.most, kMaxUsedPrefixes);
  }
  want.tokens = in.getWithTokens() ? PrefixTokens::kTell : PrefixTokens::kOmit;
  return want;
}

Result<Prefixes> ReadPrefixes(schema::Prefixes::Reader in) {
  Prefixes answer;
  answer.answer_id = in.getAnswerId();
  const auto prefixes = in.getPrefixes();
  ROOST_RETURN_IF_ERROR(CheckCount(prefixes, "prefixes", kMaxUsedPrefixes));
  answer.prefixes.reserve(prefixes.size());
  for (const auto prefix : prefixes) {
    ROOST_ASSIGN_OR_RETURN(UsedPrefix read, ReadUsedPrefix(prefix));
    answer.prefixes.push_back(std::move(read));
  }
  return answer;
}

}  // namespace roost::wire
