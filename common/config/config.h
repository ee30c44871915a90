// Configuration of a program from one declaration per option: `--max-batch-tokens N` on the command line, the
// environment variable ROOST_MAX_BATCH_TOKENS, and the key `max-batch-tokens` in the file named by --config (TOML or
// INI). The command line wins over the environment, the environment over the file, the file over the default.
//
//   Options options;                                 // its initial values are the defaults
//   ConfigParser parser("roost-worker", "Serves one model …");
//   parser.Section("Model").Add("model", options.model, "Model directory").Add("threads", options.threads, "…");
//   switch (parser.Parse(argc, argv)) …
//
// An option given twice takes its last value; a list takes them all. Unknown flags, unknown keys and bad values are
// errors that name the flag, the variable, or the key with file and line; for a misspelt name they say which it may be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace roost {

// Finds the lines of a configuration file's keys, so that errors can name them. It reads the same lines as CLI11, which
// takes the values: KEY = VALUE, comments that begin with # or ;, and lists in brackets that may go over several lines.

inline constexpr std::size_t kMaxConfigFileBytes = std::size_t{1} << 20U;

class ConfigFile {
 public:
  struct Key {
    std::string name;
    std::size_t line = 0;  // from 1
  };

  // kNotFound, or kInvalidArgument, naming the file.
  [[nodiscard]] static Result<ConfigFile> Read(const std::string& path);
  // kInvalidArgument names file and line: a section, a line without a value, a key given twice.
  [[nodiscard]] static Result<ConfigFile> Parse(std::string_view text, std::string path);

  [[nodiscard]] const std::vector<Key>& keys() const { return keys_; }
  // "FILE:LINE" of the key, if the file has it.
  [[nodiscard]] std::optional<std::string> PlaceOf(std::string_view name) const;
  [[nodiscard]] std::string PlaceOf(const Key& key) const;

 private:
  explicit ConfigFile(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::vector<Key> keys_;
};

class ConfigFile;

// Inclusive bounds of a number.
struct NumberRange {
  double low = 0;
  double high = 1e18;
};

enum class ParseOutcome {
  kRun,   // go on with the values
  kExit,  // --help, --version or --print-config was printed on stdout; exit 0
};

// Not thread-safe. Targets must outlive Parse.
class ConfigParser {
 public:
  // `program` is the binary's name; `description` one paragraph for --help.
  ConfigParser(std::string program, std::string description);
  ~ConfigParser();
  ConfigParser(const ConfigParser&) = delete;
  ConfigParser& operator=(const ConfigParser&) = delete;

  // Options added from here on appear under this heading in --help.
  ConfigParser& Section(std::string heading);

  // `name` is in kebab-case without dashes in front. `help` is one sentence; default and variable are added to it.
  ConfigParser& Add(const std::string& name, std::string& target, const std::string& help);
  ConfigParser& Add(const std::string& name, std::uint32_t& target, const std::string& help, NumberRange range = {});
  ConfigParser& Add(const std::string& name, std::uint64_t& target, const std::string& help, NumberRange range = {});
  ConfigParser& Add(const std::string& name, double& target, const std::string& help, NumberRange range = {});
  // A size, in bytes or with a unit: see ParseByteSize.
  ConfigParser& AddBytes(const std::string& name, std::uint64_t& target, const std::string& help,
                         NumberRange range = {});
  // One of `choices`.
  ConfigParser& AddChoice(const std::string& name, std::string& target, const std::vector<std::string>& choices,
                          const std::string& help);
  // A value that is never shown: not by --print-config, and so not by a configuration file either.
  ConfigParser& AddSecret(const std::string& name, std::string& target, const std::string& help);
  // May be repeated; a comma separates values too.
  ConfigParser& AddList(const std::string& name, std::vector<std::string>& target, const std::string& help);
  // `--name` or `--name=false`.
  ConfigParser& AddSwitch(const std::string& name, bool& target, const std::string& help);

  // A word without dashes, anywhere among the flags; on the command line only. `name` is for --help.
  ConfigParser& AddPositional(const std::string& name, std::string& target, const std::string& help);
  // Any number of them.
  ConfigParser& AddPositional(const std::string& name, std::vector<std::string>& target, const std::string& help);

  // On the command line --`other` stands for --`name`, unless it is an option here itself.
  ConfigParser& Alias(const std::string& other, const std::string& name);

  // The command line, the environment or the file must give the value.
  ConfigParser& Require(const std::string& name);

  // kInvalidArgument with a message that names what is wrong. Prints on stdout only for kExit.
  [[nodiscard]] Result<ParseOutcome> Parse(int argc, const char* const* argv);

 private:
  // kInvalidArgument names file, line and key of one that is not declared.
  [[nodiscard]] Result<void> CheckKeys(const ConfigFile& file) const;

  struct State;
  std::unique_ptr<State> state_;
};

// ROOST_MAX_BATCH_TOKENS for max-batch-tokens.
[[nodiscard]] std::string EnvironmentName(std::string_view option_name);

// The version that --version prints and /version returns.
[[nodiscard]] std::string_view Version();

// The commit of the source, if the build was told it (ROOST_REVISION); else empty.
[[nodiscard]] std::string_view Revision();

}  // namespace roost
