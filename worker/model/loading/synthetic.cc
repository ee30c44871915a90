#include "worker/model/loading/synthetic.h"

#include <array>
#include <utility>

#include "common/base/json_writer.h"
#include "common/base/utf8.h"

namespace roost::worker {
namespace {

HfConfig Llama31Of8B() {
  HfConfig config;
  config.architecture = "LlamaForCausalLM";
  config.vocab_size = 128256;
  config.hidden_size = 4096;
  config.intermediate_size = 14336;
  config.layer_count = 32;
  config.query_head_count = 32;
  config.kv_head_count = 8;
  config.head_dim = 128;
  config.max_positions = 131072;
  config.norm_epsilon = 1e-5F;
  config.rope = {500000, Llama3Scaling{8, 1, 4, 8192}};
  return config;
}

HfConfig Qwen3() {
  HfConfig config;
  config.architecture = "Qwen3ForCausalLM";
  config.vocab_size = 151936;
  config.head_dim = 128;
  config.kv_head_count = 8;
  config.max_positions = 40960;
  config.rope.theta = 1000000;
  config.qk_norm = QkNorm::kNormed;
  return config;
}

HfConfig Qwen3Of600M() {
  HfConfig config = Qwen3();
  config.hidden_size = 1024;
  config.intermediate_size = 3072;
  config.layer_count = 28;
  config.query_head_count = 16;
  config.tie = EmbeddingTie::kTied;
  return config;
}

HfConfig Qwen3Of8B() {
  HfConfig config = Qwen3();
  config.hidden_size = 4096;
  config.intermediate_size = 12288;
  config.layer_count = 36;
  config.query_head_count = 32;
  return config;
}

// Large enough for the synthetic tokenizer, small enough for any test.
HfConfig Tiny() {
  HfConfig config = Qwen3();
  config.vocab_size = 320;
  config.hidden_size = 64;
  config.intermediate_size = 128;
  config.layer_count = 2;
  config.query_head_count = 4;
  config.kv_head_count = 2;
  config.head_dim = 16;
  config.max_positions = 4096;
  config.tie = EmbeddingTie::kTied;
  return config;
}

// Nearly all of its ids are words.
HfConfig Small() {
  HfConfig config = Tiny();
  config.vocab_size = 8192;
  config.hidden_size = 256;
  config.intermediate_size = 512;
  config.layer_count = 4;
  config.query_head_count = 8;
  config.head_dim = 32;
  return config;
}

// The printable character that stands for a byte in byte-level vocabularies: itself, or the next unused from U+0100.
std::string ByteLetter(unsigned byte, char32_t& next_unused) {
  const bool printable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
  std::string letter;
  AppendUtf8(printable ? static_cast<char32_t>(byte) : next_unused++, letter);
  return letter;
}

constexpr std::array<std::pair<TokenId, std::string_view>, 3> kSpecialTokens{
    {{kSyntheticEndOfText, "<|endoftext|>"}, {kSyntheticTurnBegin, "<|im_start|>"}, {kSyntheticTurnEnd, "<|im_end|>"}}};

// The word of a number, with the letter that stands for a space before it: its digits in base 100, as syllables.
std::string Word(std::uint32_t number) {
  constexpr std::string_view kConsonants = "bcdfghjklmnpqrstvwxz";
  constexpr std::string_view kVowels = "aeiou";
  constexpr std::uint32_t kSyllables = kConsonants.size() * kVowels.size();
  std::string word = "\u0120";
  number += kSyllables;  // no word has one syllable
  for (; number > 0; number /= kSyllables) {
    word += kConsonants[number % kSyllables / kVowels.size()];
    word += kVowels[number % kVowels.size()];
  }
  return word;
}

void WriteSpecialToken(JsonWriter& json, TokenId id, std::string_view content) {
  json.BeginObject().Key("id").Number(id).Key("content").String(content).Key("single_word").Bool(false);
  json.Key("lstrip").Bool(false).Key("rstrip").Bool(false).Key("normalized").Bool(false).Key("special").Bool(true);
  json.EndObject();
}

void WriteByteLevel(JsonWriter& json) {
  json.BeginObject().Key("type").String("ByteLevel").Key("add_prefix_space").Bool(false);
  json.Key("trim_offsets").Bool(true).Key("use_regex").Bool(true).EndObject();
}

}  // namespace

std::optional<HfConfig> SyntheticConfig(std::string_view preset) {
  if (preset == "llama-3.1-8b") return Llama31Of8B();
  if (preset == "qwen3-0.6b") return Qwen3Of600M();
  if (preset == "qwen3-8b") return Qwen3Of8B();
  if (preset == "small") return Small();
  if (preset == "tiny") return Tiny();
  return std::nullopt;
}

std::optional<std::string_view> SyntheticPresetOf(std::string_view location) {
  constexpr std::string_view kPrefix = "synthetic:";
  if (!location.starts_with(kPrefix)) return std::nullopt;
  return location.substr(kPrefix.size());
}

Error UnknownPreset(std::string_view preset) {
  return InvalidArgument("model", "there is no synthetic model '{}'; the models are {}", preset, kSyntheticPresets);
}

std::string SyntheticTokenizerJson(std::uint32_t vocab_size) {
  JsonWriter json;
  json.BeginObject().Key("version").String("1.0").Key("truncation").Null().Key("padding").Null();
  json.Key("added_tokens").BeginArray();
  for (const auto& [id, content] : kSpecialTokens) WriteSpecialToken(json, id, content);
  json.EndArray().Key("normalizer").Null().Key("pre_tokenizer");
  WriteByteLevel(json);
  json.Key("post_processor").Null().Key("decoder");
  WriteByteLevel(json);
  json.Key("model").BeginObject().Key("type").String("BPE").Key("dropout").Null().Key("unk_token").Null();
  json.Key("continuing_subword_prefix").Null().Key("end_of_word_suffix").Null().Key("fuse_unk").Bool(false);
  json.Key("byte_fallback").Bool(false).Key("vocab").BeginObject();
  char32_t next_unused = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) json.Key(ByteLetter(byte, next_unused)).Number(byte);
  // An added token that the vocabulary lacks would get the first id behind it.
  for (const auto& [id, content] : kSpecialTokens) json.Key(content).Number(id);
  for (std::uint32_t id = kSyntheticTurnEnd + 1; id < vocab_size; ++id) {
    json.Key(Word(id - kSyntheticTurnEnd - 1)).Number(id);
  }
  json.EndObject().Key("merges").BeginArray().EndArray().EndObject().EndObject();
  return json.Take();
}

std::string_view SyntheticChatTemplate() {
  return "{%- for message in messages %}"
         "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
         "{%- endfor %}"
         "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";
}

}  // namespace roost::worker
