#include "deploy/roostctl/prefix_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>
#include <vector>

#include "common/prefix/block_hash.h"
#include "deploy/roostctl/block_tree.h"

namespace roost::roostctl {
namespace {

namespace fs = std::filesystem;

// The length of the text that is shown before and behind the place.
constexpr std::size_t kTokensBefore = 12;
constexpr std::size_t kTokensBehind = 24;

struct Side {
  const PromptBody& body;
  std::vector<TokenId> tokens;
};

std::string Counted(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

Result<std::string> Quoted(PromptTokenizer& tokenizer, std::span<const TokenId> tokens) {
  ROOST_ASSIGN_OR_RETURN(const std::string text, tokenizer.Decode(tokens));
  return fmt::format("\"{}\"", Printable(text));
}

// The text before the place, and each side's text behind it.
Result<std::string> TextAt(PromptTokenizer& tokenizer, std::uint64_t place, const Side& first, const Side& second) {
  std::string text;
  const std::size_t width = std::max<std::size_t>({4, first.body.name.size(), second.body.name.size()});
  if (place > 0) {
    const std::size_t begin = place > kTokensBefore ? place - kTokensBefore : 0;
    ROOST_ASSIGN_OR_RETURN(const std::string shown,
                           Quoted(tokenizer, std::span(first.tokens).subspan(begin, place - begin)));
    text += fmt::format("  {:<{}}  {}{}\n", "both", width, begin > 0 ? "…" : "", shown);
  }
  for (const Side* side : {&first, &second}) {
    const std::span<const TokenId> rest = std::span(side->tokens).subspan(place);
    const std::size_t count = std::min(rest.size(), kTokensBehind);
    std::string shown = "(ends here)";
    if (count > 0) {
      ROOST_ASSIGN_OR_RETURN(shown, Quoted(tokenizer, rest.subspan(0, count)));
    }
    text += fmt::format("  {:<{}}  {}{}\n", side->body.name, width, shown, count < rest.size() ? "…" : "");
  }
  return text;
}

// "both begin with the same 40 blocks (640 tokens) and 4 tokens more".
std::string SharedLine(const PrefixDiff& diff, std::uint32_t block_tokens, bool salts_differ) {
  const std::uint64_t more = diff.shared_tokens - diff.shared_blocks * block_tokens;
  if (salts_differ) {
    return fmt::format("their cache_salt differs, so they share no block; their first {} are the same",
                       Counted(diff.shared_tokens, "token"));
  }
  std::string line = fmt::format("both begin with the same {} ({})", Counted(diff.shared_blocks, "block"),
                                 Counted(diff.shared_blocks * block_tokens, "token"));
  if (more > 0) line += fmt::format(" and {} more of the next", Counted(more, "token"));
  return line;
}

Result<std::unique_ptr<PromptTokenizer>> TokenizerFor(const PrefixDiffOptions& options) {
  std::error_code ignored;
  if (fs::is_directory(options.model, ignored)) return FolderTokenizer(options.model, options.block_tokens);
  return RouterTokenizer(options.router, options.model);
}

Result<std::string> Diff(const PrefixDiffOptions& options) {
  ROOST_ASSIGN_OR_RETURN(const PromptBody first, ReadPromptBody(options.first));
  ROOST_ASSIGN_OR_RETURN(const PromptBody second, ReadPromptBody(options.second));
  ROOST_ASSIGN_OR_RETURN(const std::unique_ptr<PromptTokenizer> tokenizer, TokenizerFor(options));
  return DescribeDiff(*tokenizer, first, second);
}

int RunPrefixDiffCommand(Arguments arguments, const Console& console) {
  PrefixDiffOptions options;
  ConfigParser parser("roostctl prefix-diff",
                      "Prints where the blocks of two prompts diverge, and the text there. A and B are files: a "
                      "text, or the JSON body of a chat or completion request.");
  DeclareAccess("router", "URL of the router, if the model is not a folder", options.router, parser);
  parser.AddPositional("A", options.first, "File with a prompt")
      .AddPositional("B", options.second, "File with another one")
      .Add("model", options.model, "Folder of a model, or the name of one that the router serves")
      .Require("model")
      .Add("block-tokens", options.block_tokens, "--block-tokens of the workers, if the model is a folder",
           {.low = kMinBlockTokens, .high = kMaxBlockTokens});
  if (const auto code = Ended(parser, arguments, console)) return *code;
  if (options.first.empty() || options.second.empty()) {
    console.err << "roostctl prefix-diff: give two files with prompts\n";
    return kExitUsage;
  }
  return RunPrefixDiff(options, console.out, console.err);
}

}  // namespace

const Command kPrefixDiffCommand{"prefix-diff", "where two prompts diverge, and the text there", &RunPrefixDiffCommand};

PrefixDiff ComparePrompts(std::span<const TokenId> first, std::span<const TokenId> second, std::uint32_t block_tokens) {
  PrefixDiff diff;
  const auto [token, other] = std::mismatch(first.begin(), first.end(), second.begin(), second.end());
  diff.shared_tokens = static_cast<std::uint64_t>(token - first.begin());
  // Any root gives the same comparison as the model's own.
  const std::vector<BlockHash> hashes = HashBlocks(BlockHash{}, first, block_tokens);
  const std::vector<BlockHash> others = HashBlocks(BlockHash{}, second, block_tokens);
  const auto hash = std::mismatch(hashes.begin(), hashes.end(), others.begin(), others.end()).first;
  diff.shared_blocks = static_cast<std::uint64_t>(hash - hashes.begin());
  return diff;
}

Result<std::string> DescribeDiff(PromptTokenizer& tokenizer, const PromptBody& first, const PromptBody& second) {
  Side a{.body = first, .tokens = {}};
  Side b{.body = second, .tokens = {}};
  for (Side* side : {&a, &b}) {
    Result<std::vector<TokenId>> tokens = tokenizer.Tokenize(side->body);
    if (!tokens.ok()) return Error{tokens.error().code, tokens.error().ToString(), side->body.name};
    side->tokens = *std::move(tokens);
  }
  ROOST_ASSIGN_OR_RETURN(const std::uint32_t block_tokens, tokenizer.BlockTokens());
  const PrefixDiff diff = ComparePrompts(a.tokens, b.tokens, block_tokens);
  const bool salts_differ = first.cache_salt != second.cache_salt;
  std::string text;
  for (const Side* side : {&a, &b}) {
    text += fmt::format("{}: {} in {} of {}\n", side->body.name, Counted(side->tokens.size(), "token"),
                        Counted(side->tokens.size() / block_tokens, "full block"), block_tokens);
  }
  text += SharedLine(diff, block_tokens, salts_differ) + '\n';
  if (a.tokens == b.tokens) return text + "the prompts are equal\n";
  ROOST_ASSIGN_OR_RETURN(const std::string place, TextAt(tokenizer, diff.shared_tokens, a, b));
  return text +
         fmt::format("they diverge in block {}, at token {}:\n", diff.shared_tokens / block_tokens + 1,
                     diff.shared_tokens + 1) +
         place;
}

int RunPrefixDiff(const PrefixDiffOptions& options, std::ostream& out, std::ostream& err) {
  const Result<std::string> text = Diff(options);
  if (!text.ok()) {
    err << "roostctl prefix-diff: " << text.error().ToString() << '\n';
    return 1;
  }
  out << *text;
  return 0;
}

}  // namespace roost::roostctl
