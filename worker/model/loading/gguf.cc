// The text of a GGUF file, as that of a model's folder: llama.cpp's format has all in one file, the tokenizer
// as lists of tokens and merges, and the name of a rule instead of the pattern by which texts are cut into words.
//
//   "GGUF" version tensors n │ n × (key, type, value) │ tensors …
//
// Read are SentencePiece's BPE, and byte-level BPE whose rule is known here; a file with another tokenizer is refused
// by name.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/json_writer.h"
#include "worker/model/loading/fingerprint.h"
#include "worker/model/loading/generation_config.h"
#include "worker/model/loading/model_text.h"

namespace roost::worker {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint32_t kOldestVersion = 2;
constexpr std::uint32_t kNewestVersion = 3;
constexpr std::uint64_t kMaxEntries = 65'536;
constexpr std::uint64_t kMaxKeyBytes = 65'536;
constexpr std::uint64_t kMaxStringBytes = std::uint64_t{16} << 20U;
constexpr std::uint64_t kMaxListItems = std::uint64_t{16} << 20U;
constexpr std::uint64_t kMaxTextBytes = std::uint64_t{256} << 20U;  // of all

using Value = std::variant<std::int64_t, double, bool, std::string, std::vector<std::string>, std::vector<std::int64_t>,
                           std::vector<double>>;
using Entries = std::map<std::string, Value>;

enum class Type : std::uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kList, kU64, kI64, kF64 };

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path), file_(path, std::ios::binary) {}

  Result<Entries> Read() {
    if (!file_) return Error{ErrorCode::kNotFound, "can not be opened", path_.string()};
    std::array<char, 4> magic{};
    file_.read(magic.data(), magic.size());
    if (!file_ || std::string_view(magic.data(), magic.size()) != "GGUF")
      return DataLoss(path_.string(), "is no GGUF file");
    ROOST_ASSIGN_OR_RETURN(const std::uint32_t version, Number<std::uint32_t>());
    if (version < kOldestVersion || version > kNewestVersion) {
      return InvalidArgument(path_.string(), "has version {} of the format, not 2 or 3", version);
    }
    ROOST_RETURN_IF_ERROR(Number<std::uint64_t>());  // tensors
    ROOST_ASSIGN_OR_RETURN(const std::uint64_t count, Number<std::uint64_t>());
    if (count > kMaxEntries) return Damaged("has too many entries");
    Entries entries;
    for (std::uint64_t i = 0; i < count; ++i) {
      ROOST_ASSIGN_OR_RETURN(std::string key, Text(kMaxKeyBytes));
      ROOST_ASSIGN_OR_RETURN(const std::uint32_t type, Number<std::uint32_t>());
      ROOST_ASSIGN_OR_RETURN(entries[std::move(key)], ReadValue(Type{type}));
    }
    return entries;
  }

 private:
  Error Damaged(std::string_view what) const { return DataLoss(path_.string(), "{}", what); }

  template <typename T>
  Result<T> Number() {
    std::array<char, sizeof(T)> bytes{};
    file_.read(bytes.data(), bytes.size());
    if (!file_) return Damaged("ends too early");
    return std::bit_cast<T>(bytes);
  }

  Result<std::string> Text(std::uint64_t most) {
    ROOST_ASSIGN_OR_RETURN(const std::uint64_t size, Number<std::uint64_t>());
    text_bytes_ += std::min(size, kMaxTextBytes);
    if (size > most || text_bytes_ > kMaxTextBytes) return Damaged("has too long a text");
    std::string text(size, '\0');
    file_.read(text.data(), static_cast<std::streamsize>(size));
    if (!file_) return Damaged("ends too early");
    return text;
  }

  template <typename T>
  Result<Value> As() {
    ROOST_ASSIGN_OR_RETURN(const T number, Number<T>());
    if constexpr (std::is_floating_point_v<T>) {
      return Value(static_cast<double>(number));
    } else {
      return Value(static_cast<std::int64_t>(number));
    }
  }

  Result<Value> ReadValue(Type type) {
    switch (type) {
      case Type::kU8: return As<std::uint8_t>();
      case Type::kI8: return As<std::int8_t>();
      case Type::kU16: return As<std::uint16_t>();
      case Type::kI16: return As<std::int16_t>();
      case Type::kU32: return As<std::uint32_t>();
      case Type::kI32: return As<std::int32_t>();
      case Type::kU64: return As<std::uint64_t>();
      case Type::kI64: return As<std::int64_t>();
      case Type::kF32: return As<float>();
      case Type::kF64: return As<double>();
      case Type::kBool: {
        ROOST_ASSIGN_OR_RETURN(const std::uint8_t is, Number<std::uint8_t>());
        return Value(is != 0);
      }
      case Type::kString: {
        ROOST_ASSIGN_OR_RETURN(std::string text, Text(kMaxStringBytes));
        return Value(std::move(text));
      }
      case Type::kList: return ReadList();
    }
    return Damaged("has a value of an unknown type");
  }

  // Lists of flags are read and not kept.
  Result<Value> ReadList() {
    ROOST_ASSIGN_OR_RETURN(const std::uint32_t type, Number<std::uint32_t>());
    ROOST_ASSIGN_OR_RETURN(const std::uint64_t count, Number<std::uint64_t>());
    if (count > kMaxListItems || Type{type} == Type::kList) return Damaged("has too long or too deep a list");
    std::vector<std::string> texts;
    std::vector<std::int64_t> numbers;
    std::vector<double> fractions;
    for (std::uint64_t i = 0; i < count; ++i) {
      ROOST_ASSIGN_OR_RETURN(Value value, ReadValue(Type{type}));
      if (auto* const text = std::get_if<std::string>(&value)) texts.push_back(std::move(*text));
      if (const auto* const number = std::get_if<std::int64_t>(&value)) numbers.push_back(*number);
      if (const auto* const fraction = std::get_if<double>(&value)) fractions.push_back(*fraction);
    }
    if (Type{type} == Type::kString) return Value(std::move(texts));
    return fractions.empty() ? Value(std::move(numbers)) : Value(std::move(fractions));
  }

  const std::filesystem::path& path_;
  std::ifstream file_;
  std::uint64_t text_bytes_ = 0;
};

template <typename T>
const T* Find(const Entries& entries, const std::string& key) {
  const auto found = entries.find(key);
  return found == entries.end() ? nullptr : std::get_if<T>(&found->second);
}

template <typename T>
T Get(const Entries& entries, const std::string& key, T otherwise = {}) {
  const T* const value = Find<T>(entries, key);
  return value == nullptr ? std::move(otherwise) : *value;
}

// ---- the tokenizer ----

enum class TokenKind : std::int64_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

// The texts and kinds of the tokens, by id.
struct TokenList {
  const std::vector<std::string>& texts;
  std::vector<TokenKind> kinds;
};

Result<TokenList> TokensOf(const Entries& entries) {
  const auto* const texts = Find<std::vector<std::string>>(entries, "tokenizer.ggml.tokens");
  if (texts == nullptr || texts->empty()) return InvalidArgument("tokenizer.ggml.tokens", "is missing");
  TokenList tokens{*texts, std::vector<TokenKind>(texts->size(), TokenKind::kNormal)};
  if (const auto* const types = Find<std::vector<std::int64_t>>(entries, "tokenizer.ggml.token_type")) {
    if (types->size() != texts->size())
      return InvalidArgument("tokenizer.ggml.token_type", "is not one for each token");
    std::transform(types->begin(), types->end(), tokens.kinds.begin(),
                   [](std::int64_t type) { return TokenKind{type}; });
  }
  return tokens;
}

void WriteAddedTokens(JsonWriter& json, const TokenList& tokens, std::span<const TokenKind> which,
                      const std::function<bool(const std::string&)>& takes_spaces) {
  json.Key("added_tokens").BeginArray();
  for (std::size_t id = 0; id < tokens.kinds.size(); ++id) {
    if (std::find(which.begin(), which.end(), tokens.kinds[id]) == which.end()) continue;
    json.BeginObject().Key("id").Number(id).Key("content").String(tokens.texts[id]);
    for (const char* const flag : {"single_word", "lstrip", "normalized"}) json.Key(flag).Bool(false);
    json.Key("rstrip").Bool(takes_spaces(tokens.texts[id]));
    json.Key("special").Bool(tokens.kinds[id] != TokenKind::kUserDefined).EndObject();
  }
  json.EndArray();
}

// The token that is put before every text, if one is.
std::optional<std::int64_t> BeginningToken(const Entries& entries, const TokenList& tokens, bool is_usual) {
  const auto bos = Get<std::int64_t>(entries, "tokenizer.ggml.bos_token_id", -1);
  const bool has_bos = bos >= 0 && static_cast<std::uint64_t>(bos) < tokens.texts.size();
  if (!has_bos || !Get<bool>(entries, "tokenizer.ggml.add_bos_token", is_usual)) return std::nullopt;
  return bos;
}

// Puts `token` before every text.
void WriteFrame(JsonWriter& json, const std::string& token, std::int64_t id) {
  const auto special = [&json, &token] {
    json.BeginObject().Key("SpecialToken").BeginObject().Key("id").String(token).Key("type_id").Number(0);
    json.EndObject().EndObject();
  };
  const auto sequence = [&json](std::string_view name, int type) {
    json.BeginObject().Key("Sequence").BeginObject().Key("id").String(name).Key("type_id").Number(type);
    json.EndObject().EndObject();
  };
  json.BeginObject().Key("type").String("TemplateProcessing").Key("single").BeginArray();
  special();
  sequence("A", 0);
  json.EndArray().Key("pair").BeginArray();
  special();
  sequence("A", 0);
  sequence("B", 1);
  json.EndArray().Key("special_tokens").BeginObject().Key(token).BeginObject().Key("id").String(token);
  json.Key("ids").BeginArray().Number(id).EndArray().Key("tokens").BeginArray().String(token).EndArray();
  json.EndObject().EndObject().EndObject();
}

// ---- byte-level BPE ----

#define ROOST_CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define ROOST_SPACES R"(\s*[\r\n]+|\s+(?!\S)|\s+)"

// The rules by which llama.cpp cuts texts into words, by `tokenizer.ggml.pre`, as the models' own files have them.
struct WordRule {
  std::string_view names;    // between commas
  std::string_view pattern;  // empty: that of ByteLevel itself
  bool splits_digits = false;
  bool ignores_merges = false;
  bool adds_bos = false;  // unless the file says otherwise
  bool composes = false;  // NFC
};

constexpr WordRule kWordRules[] = {
    {.names = ",gpt-2,phi-2,exaone4,mellum,", .pattern = ""},
    {.names = ",smollm,starcoder,refact,codeshell,exaone,", .pattern = "", .splits_digits = true},
    {.names = ",llama3,llama-v3,llama-bpe,falcon3,falcon-h1,pixtral,lfm2,",
     .pattern = ROOST_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" ROOST_SPACES,
     .ignores_merges = true,
     .adds_bos = true},
    {.names = ",chatglm-bpe,dbrx,smaug-bpe,",
     .pattern = ROOST_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" ROOST_SPACES},
    {.names = ",glm4,glm5,",
     .pattern = ROOST_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" ROOST_SPACES,
     .ignores_merges = true},
    {.names = ",qwen2,deepseek-r1-qwen,kormo,megrez,",
     .pattern = ROOST_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" ROOST_SPACES,
     .composes = true},
    {.names = ",qwen35,",
     .pattern =
         ROOST_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" ROOST_SPACES,
     .composes = true},
    {.names = ",gpt-4o,llama4,kanana2,",
     .pattern = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" ROOST_CONTRACTIONS
                R"(?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" ROOST_CONTRACTIONS
                R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" ROOST_SPACES},
    {.names = ",tekken,",
     .pattern = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
                R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" ROOST_SPACES,
     .ignores_merges = true,
     .adds_bos = true},
};

#undef ROOST_CONTRACTIONS
#undef ROOST_SPACES

Result<const WordRule*> RuleOf(const Entries& entries) {
  const auto name = Get<std::string>(entries, "tokenizer.ggml.pre");
  for (const WordRule& rule : kWordRules) {
    if (!name.empty() && rule.names.find("," + name + ",") != std::string_view::npos) return &rule;
  }
  return InvalidArgument("tokenizer.ggml.pre", "'{}' is not supported", name);
}

void WriteByteLevel(JsonWriter& json, bool use_pattern) {
  json.BeginObject().Key("type").String("ByteLevel").Key("add_prefix_space").Bool(false);
  json.Key("trim_offsets").Bool(false).Key("use_regex").Bool(use_pattern).EndObject();
}

void WritePreTokenizer(JsonWriter& json, const WordRule& rule) {
  json.BeginObject().Key("type").String("Sequence").Key("pretokenizers").BeginArray();
  if (rule.splits_digits)
    json.BeginObject().Key("type").String("Digits").Key("individual_digits").Bool(true).EndObject();
  if (!rule.pattern.empty()) {
    json.BeginObject().Key("type").String("Split").Key("pattern");
    json.BeginObject().Key("Regex").String(rule.pattern).EndObject();
    json.Key("behavior").String("Isolated").Key("invert").Bool(false).EndObject();
  }
  WriteByteLevel(json, rule.pattern.empty());
  json.EndArray().EndObject();
}

void WriteByteLevelBpe(JsonWriter& json, const Entries& entries, const TokenList& tokens, const WordRule& rule) {
  json.BeginObject().Key("type").String("BPE").Key("ignore_merges").Bool(rule.ignores_merges);
  json.Key("vocab").BeginObject();
  for (std::size_t id = 0; id < tokens.texts.size(); ++id) {
    if (tokens.kinds[id] == TokenKind::kNormal) json.Key(tokens.texts[id]).Number(id);
  }
  json.EndObject().Key("merges").BeginArray();
  for (const std::string& merge : Get<std::vector<std::string>>(entries, "tokenizer.ggml.merges")) json.String(merge);
  json.EndArray().EndObject();
}

Result<void> WriteByteLevelTokenizer(JsonWriter& json, const Entries& entries, const TokenList& tokens) {
  ROOST_ASSIGN_OR_RETURN(const WordRule* const rule, RuleOf(entries));
  WriteAddedTokens(json, tokens, std::array{TokenKind::kControl, TokenKind::kUserDefined},
                   [](const std::string& /*token*/) { return false; });
  json.Key("normalizer");
  if (rule->composes) {
    json.BeginObject().Key("type").String("NFC").EndObject();
  } else {
    json.Null();
  }
  json.Key("pre_tokenizer");
  WritePreTokenizer(json, *rule);
  json.Key("post_processor");
  if (const auto bos = BeginningToken(entries, tokens, rule->adds_bos)) {
    WriteFrame(json, tokens.texts[static_cast<std::size_t>(*bos)], *bos);
  } else {
    WriteByteLevel(json, false);
  }
  json.Key("decoder");
  WriteByteLevel(json, false);
  json.Key("model");
  WriteByteLevelBpe(json, entries, tokens, *rule);
  return {};
}

// ---- SentencePiece ----

constexpr std::size_t kMaxPieceBytes = 1024;
constexpr std::string_view kSpace = "\u2581";  // as pieces have it

struct PieceMerge {
  std::string_view left;
  std::string_view right;
  double score = 0;  // of the piece
};

// SentencePiece merges what gives the piece of the highest score; the lists of tokenizer.json name pairs. Of the pairs
// of one piece that with the longer front goes first, as where models' files are converted. What a user has defined is
// merged as any piece is: in Gemma these are the runs of spaces. O(n · longest) for n bytes of pieces.
std::vector<PieceMerge> MergesOf(const TokenList& tokens, std::span<const double> scores) {
  const auto is_piece = [&tokens](std::size_t id) {
    return tokens.kinds[id] == TokenKind::kNormal || tokens.kinds[id] == TokenKind::kUserDefined;
  };
  std::unordered_set<std::string_view> pieces;
  for (std::size_t id = 0; id < tokens.texts.size(); ++id) {
    if (is_piece(id)) pieces.insert(tokens.texts[id]);
  }
  std::vector<PieceMerge> merges;
  for (std::size_t id = 0; id < tokens.texts.size(); ++id) {
    if (!is_piece(id)) continue;
    const std::string_view piece = tokens.texts[id];
    for (std::size_t front = std::max<std::size_t>(piece.size(), 1); --front > 0;) {
      const PieceMerge merge{piece.substr(0, front), piece.substr(front), scores[id]};
      if (pieces.contains(merge.left) && pieces.contains(merge.right)) merges.push_back(merge);
    }
  }
  std::stable_sort(merges.begin(), merges.end(),
                   [](const PieceMerge& a, const PieceMerge& b) { return a.score > b.score; });
  return merges;
}

// The special tokens of Phi-3 take the spaces behind them, which a file tells by the model's name alone.
std::function<bool(const std::string&)> SpaceTakers(const Entries& entries) {
  std::string name = Get<std::string>(entries, "general.name");
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool is_phi = name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos;
  return [is_phi](const std::string& token) {
    return is_phi && token != "<unk>" && token != "<s>" && token != "<|endoftext|>";
  };
}

void WritePieces(JsonWriter& json, const TokenList& tokens, std::span<const double> scores, std::size_t unknown) {
  json.BeginObject().Key("type").String("BPE").Key("unk_token").String(tokens.texts[unknown]);
  json.Key("fuse_unk").Bool(true).Key("byte_fallback").Bool(true).Key("vocab").BeginObject();
  for (std::size_t id = 0; id < tokens.texts.size(); ++id) {
    // Special tokens too: one that is not there would get an id behind all others.
    if (tokens.kinds[id] != TokenKind::kUnused || id == unknown) json.Key(tokens.texts[id]).Number(id);
  }
  json.EndObject().Key("merges").BeginArray();
  for (const PieceMerge& merge : MergesOf(tokens, scores)) {
    json.BeginArray().String(merge.left).String(merge.right).EndArray();
  }
  json.EndArray().EndObject();
}

void WriteReplace(JsonWriter& json, std::string_view from, std::string_view to) {
  json.BeginObject().Key("type").String("Replace").Key("pattern").BeginObject().Key("String").String(from).EndObject();
  json.Key("content").String(to).EndObject();
}

void WriteSequence(JsonWriter& json, std::string_view list, const std::function<void()>& items) {
  json.BeginObject().Key("type").String("Sequence").Key(list).BeginArray();
  items();
  json.EndArray().EndObject();
}

// A space is put before each text, and behind each special token, unless the file says otherwise.
Result<void> WritePieceTokenizer(JsonWriter& json, const Entries& entries, const TokenList& tokens) {
  const auto* const scores = Find<std::vector<double>>(entries, "tokenizer.ggml.scores");
  if (scores == nullptr || scores->size() != tokens.texts.size()) {
    return InvalidArgument("tokenizer.ggml.scores", "is not one for each token");
  }
  if (std::any_of(tokens.texts.begin(), tokens.texts.end(), [](auto& text) { return text.size() > kMaxPieceBytes; })) {
    return InvalidArgument("tokenizer.ggml.tokens", "has one of more than {} bytes", kMaxPieceBytes);
  }
  const auto unknown = static_cast<std::uint64_t>(Get<std::int64_t>(entries, "tokenizer.ggml.unknown_token_id", 0));
  if (unknown >= tokens.texts.size()) return InvalidArgument("tokenizer.ggml.unknown_token_id", "is no token");
  const bool adds_space = Get<bool>(entries, "tokenizer.ggml.add_space_prefix", true);
  WriteAddedTokens(json, tokens, std::array{TokenKind::kControl, TokenKind::kUserDefined, TokenKind::kUnknown},
                   SpaceTakers(entries));
  json.Key("normalizer");
  WriteSequence(json, "normalizers", [&] {
    if (adds_space) json.BeginObject().Key("type").String("Prepend").Key("prepend").String(kSpace).EndObject();
    WriteReplace(json, " ", kSpace);
  });
  json.Key("pre_tokenizer").Null().Key("post_processor");
  if (const auto bos = BeginningToken(entries, tokens, true)) {
    WriteFrame(json, tokens.texts[static_cast<std::size_t>(*bos)], *bos);
  } else {
    json.Null();
  }
  json.Key("decoder");
  WriteSequence(json, "decoders", [&] {
    WriteReplace(json, kSpace, " ");
    json.BeginObject().Key("type").String("ByteFallback").EndObject();
    json.BeginObject().Key("type").String("Fuse").EndObject();
    if (!adds_space) return;
    json.BeginObject().Key("type").String("Strip").Key("content").String(" ");
    json.Key("start").Number(1).Key("stop").Number(0).EndObject();
  });
  json.Key("model");
  WritePieces(json, tokens, *scores, unknown);
  return {};
}

// A tokenizer.json of the same ids.
Result<std::string> TokenizerOf(const Entries& entries) {
  const auto model = Get<std::string>(entries, "tokenizer.ggml.model");
  if (model != "gpt2" && model != "llama") {
    return InvalidArgument("tokenizer.ggml.model", "'{}' is not supported: gpt2 and llama are", model);
  }
  ROOST_ASSIGN_OR_RETURN(const TokenList tokens, TokensOf(entries));
  JsonWriter json;
  json.BeginObject().Key("version").String("1.0");
  ROOST_RETURN_IF_ERROR(model == "gpt2" ? WriteByteLevelTokenizer(json, entries, tokens)
                                        : WritePieceTokenizer(json, entries, tokens));
  json.EndObject();
  return json.Take();
}

// ---- the model ----

std::string TokenText(const Entries& entries, const std::string& key) {
  const auto id = Get<std::int64_t>(entries, key, -1);
  const auto* const tokens = Find<std::vector<std::string>>(entries, "tokenizer.ggml.tokens");
  const bool is_token = tokens != nullptr && id >= 0 && static_cast<std::uint64_t>(id) < tokens->size();
  return is_token ? (*tokens)[static_cast<std::size_t>(id)] : std::string();
}

std::vector<NamedTemplate> TemplatesOf(const Entries& entries) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  std::vector<NamedTemplate> templates;
  for (const auto& [key, value] : entries) {
    const auto* const source = std::get_if<std::string>(&value);
    if (source == nullptr || !key.starts_with(kKey)) continue;
    const std::string name = key.size() > kKey.size() ? key.substr(kKey.size() + 1) : "default";
    if (templates.size() < kMaxChatTemplates && source->size() <= kMaxChatTemplateBytes)
      templates.push_back({name, *source});
  }
  return templates;
}

// The numbers and texts of the model's architecture, and how its weights are stored.
std::string ConfigOf(const Entries& entries, const std::string& architecture) {
  std::string config;
  for (const auto& [key, value] : entries) {
    if (!key.starts_with(architecture + ".") && key != "general.architecture" && key != "general.file_type" &&
        key != "general.name")
      continue;
    if (const auto* const number = std::get_if<std::int64_t>(&value)) config += fmt::format("{}={}\n", key, *number);
    if (const auto* const number = std::get_if<double>(&value)) config += fmt::format("{}={}\n", key, *number);
    if (const auto* const text = std::get_if<std::string>(&value)) config += fmt::format("{}={}\n", key, *text);
  }
  return config;
}

bool HasLayerGroups(const Entries& entries, const std::string& architecture) {
  if (Get<std::int64_t>(entries, architecture + ".attention.sliding_window") > 0) return true;
  return std::any_of(entries.begin(), entries.end(), [&architecture](const auto& entry) {
    constexpr std::string_view kParts[] = {".ssm.", ".wkv.", ".shortconv.", ".attention.chunk_size"};
    return entry.first.starts_with(architecture) &&
           std::any_of(std::begin(kParts), std::end(kParts),
                       [&entry](auto part) { return entry.first.find(part) != std::string::npos; });
  });
}

}  // namespace

Result<DescribedModel> DescribeGguf(const std::filesystem::path& path, const TemplateChoice& choice) {
  ROOST_ASSIGN_OR_RETURN(const Entries entries, Reader(path).Read());
  DescribedModel model;
  ROOST_ASSIGN_OR_RETURN(model.text.tokenizer_json, TokenizerOf(entries));
  model.text.vocab_size =
      static_cast<std::uint32_t>(Find<std::vector<std::string>>(entries, "tokenizer.ggml.tokens")->size());
  model.text.bos_token = TokenText(entries, "tokenizer.ggml.bos_token_id");
  model.text.eos_token = TokenText(entries, "tokenizer.ggml.eos_token_id");
  if (choice.source.empty()) {
    const std::vector<NamedTemplate> templates = TemplatesOf(entries);
    ROOST_RETURN_IF_ERROR(ChooseTemplate(templates, choice.name));
    model.text.chat_template = CombineTemplates(templates, choice.name);
  } else {
    model.text.chat_template = choice.source;
  }
  const auto architecture = Get<std::string>(entries, "general.architecture");
  model.has_layer_groups = HasLayerGroups(entries, architecture);
  for (const char* const key : {".attention.sliding_window", ".attention.chunk_size"}) {
    const std::int64_t window = Get<std::int64_t>(entries, architecture + key);
    model.window = std::max(model.window, static_cast<std::uint32_t>(std::clamp<std::int64_t>(window, 0, UINT32_MAX)));
  }
  const std::string config = ConfigOf(entries, architecture);
  model.fingerprint = TextFingerprint({config, model.text.tokenizer_json}, model.text.chat_template);
  return model;
}

}  // namespace roost::worker
