#include "common/config/config.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "common/base/byte_size.h"
#include "common/base/small_file.h"
#include "common/config/nearest_name.h"

namespace roost {
namespace {

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

std::string_view WithoutComment(std::string_view text) { return Trimmed(text.substr(0, text.find('#'))); }

std::string_view Unquoted(std::string_view key) {
  const bool quoted = key.size() >= 2 && (key.front() == '"' || key.front() == '\'') && key.back() == key.front();
  return quoted ? key.substr(1, key.size() - 2) : key;
}

// The text's lines, one after the other.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  // Without spaces around it; none after the last one.
  std::optional<std::string_view> Next() {
    if (rest_.empty()) return std::nullopt;
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++number_;
    return Trimmed(line);
  }
  [[nodiscard]] std::size_t number() const { return number_; }

 private:
  std::string_view rest_;
  std::size_t number_ = 0;
};

}  // namespace

Result<ConfigFile> ConfigFile::Read(const std::string& path) {
  ROOST_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, kMaxConfigFileBytes));
  return Parse(text, path);
}

Result<ConfigFile> ConfigFile::Parse(std::string_view text, std::string path) {
  ConfigFile file(std::move(path));
  Lines lines(text);
  while (const std::optional<std::string_view> line = lines.Next()) {
    if (line->empty() || line->front() == '#' || line->front() == ';') continue;
    const std::size_t equals = line->find('=');
    const Key key{std::string(Unquoted(Trimmed(line->substr(0, equals)))), lines.number()};
    if (line->front() == '[' && equals == line->npos) {
      return InvalidArgument(file.PlaceOf(key), "{} is a section, and there are none: write the keys without it",
                             *line);
    }
    if (equals == line->npos) return InvalidArgument(file.PlaceOf(key), "'{}' has no value: write KEY = VALUE", *line);
    if (const std::optional<std::string> first = file.PlaceOf(key.name)) {
      return InvalidArgument(file.PlaceOf(key), "'{}' is given twice, first in {}", key.name, *first);
    }
    file.keys_.push_back(key);
    std::string_view value = WithoutComment(line->substr(equals + 1));
    if (value.empty() || value.front() != '[') continue;
    while (!value.ends_with(']')) {
      const std::optional<std::string_view> more = lines.Next();
      if (!more) return InvalidArgument(file.PlaceOf(key), "the list of '{}' has no end", key.name);
      value = WithoutComment(*more);
    }
  }
  return file;
}

std::string ConfigFile::PlaceOf(const Key& key) const { return fmt::format("{}:{}", path_, key.line); }

std::optional<std::string> ConfigFile::PlaceOf(std::string_view name) const {
  const auto found = std::find_if(keys_.begin(), keys_.end(), [name](const Key& key) { return key.name == name; });
  return found == keys_.end() ? std::nullopt : std::optional(PlaceOf(*found));
}

struct ConfigParser::State {
  State(std::string program, std::string description) : app(std::move(description), std::move(program)) {}

  // An argument --ALIAS or --ALIAS=VALUE with the name that it stands for; any other as it is.
  [[nodiscard]] std::string WithoutAlias(std::string argument) const {
    if (!argument.starts_with("--")) return argument;
    const std::size_t end = std::min(argument.find('='), argument.size());
    const std::string name = argument.substr(2, end - 2);
    const auto alias = aliases.find(name);
    const bool is_option = std::find(names.begin(), names.end(), name) != names.end();
    return alias == aliases.end() || is_option ? argument : "--" + alias->second + argument.substr(end);
  }

  CLI::App app;
  std::string section = "Options";
  std::vector<std::string> names;
  std::map<std::string, std::string, std::less<>> aliases;  // of another word for an option
  bool print_config = false;
};

namespace {

// Sets what all kinds of options have in common.
void Finish(CLI::Option* option, const std::string& section, const std::string& name) {
  option->group(section)->envname(EnvironmentName(name))->capture_default_str();
}

// For options with one value: the last one counts, so that an argument can override one that a wrapper script gave.
void FinishSingle(CLI::Option* option, const std::string& section, const std::string& name) {
  Finish(option, section, name);
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

template <typename T>
CLI::Option* AddNumber(CLI::App& app, const std::string& name, T& target, const std::string& help, NumberRange range) {
  const auto low = static_cast<T>(range.low);
  const auto high = static_cast<T>(std::min(range.high, static_cast<double>(std::numeric_limits<T>::max()) / 2));
  return app.add_option("--" + name, target, help)->check(CLI::Range(low, high));
}

bool IsGiven(const std::string& name, const std::vector<std::string>& arguments) {
  const std::string flag = "--" + name;
  for (const std::string& argument : arguments) {
    if (argument == flag || argument.rfind(flag + "=", 0) == 0) return true;
  }
  return false;
}

// Does the error speak of the option?
bool Names(const std::string& message, const std::string& name) {
  const std::string flag = "--" + name;
  for (std::size_t at = message.find(flag); at != message.npos; at = message.find(flag, at + 1)) {
    const std::size_t end = at + flag.size();
    const bool goes_on =
        end < message.size() && (std::isalnum(static_cast<unsigned char>(message[end])) != 0 || message[end] == '-');
    if (!goes_on) return true;
  }
  return false;
}

// Turns a size with a unit into bytes.
CLI::Validator ByteSize(NumberRange range) {
  const auto check = [range](std::string& value) -> std::string {
    const Result<std::uint64_t> bytes = ParseByteSize(value);
    if (!bytes.ok()) return bytes.error().message;
    const auto low = static_cast<std::uint64_t>(range.low);
    const auto high = static_cast<std::uint64_t>(range.high);
    if (*bytes < low || *bytes > high) {
      return fmt::format("'{}' is not from {} to {}", value, ByteSizeText(low), ByteSizeText(high));
    }
    value = std::to_string(*bytes);
    return "";
  };
  return CLI::Validator(check, "");
}

// The value of the last --config.
std::string ConfigPathIn(const std::vector<std::string>& arguments) {
  constexpr std::string_view kFlag = "--config";
  std::string path;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == kFlag && i + 1 < arguments.size()) path = arguments[i + 1];
    if (argument.starts_with("--config=")) path = argument.substr(kFlag.size() + 1);
  }
  return path;
}

// The arguments that are left when all that is declared has been taken.
std::string UnknownText(const std::vector<std::string>& arguments, std::span<const std::string> names) {
  std::string text;
  for (const std::string& argument : arguments) {
    if (!argument.starts_with("--")) continue;
    const std::string name = argument.substr(2, argument.find('=') - 2);
    text += fmt::format("{}unknown option --{}{}", text.empty() ? "" : "; ", name, DidYouMean(name, names, "--"));
  }
  return text.empty() ? fmt::format("unexpected argument '{}'", arguments.front()) : text;
}

}  // namespace

ConfigParser::ConfigParser(std::string program, std::string description)
    : state_(std::make_unique<State>(std::move(program), std::move(description))) {
  CLI::App& app = state_->app;
  app.set_config("--config", "", "Read options from this TOML or INI file")->group("General");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.set_version_flag("--version", std::string(Version()))->group("General");
  app.get_formatter()->column_width(44);
  app.set_help_flag("--help", "Print this help and exit")->group("General");
  app.add_flag("--print-config", state_->print_config, "Print the values in force as a configuration file and exit")
      ->group("General")
      ->configurable(false);
}

ConfigParser::~ConfigParser() = default;

ConfigParser& ConfigParser::Section(std::string heading) {
  state_->section = std::move(heading);
  return *this;
}

ConfigParser& ConfigParser::Add(const std::string& name, std::string& target, const std::string& help) {
  state_->names.push_back(name);
  FinishSingle(state_->app.add_option("--" + name, target, help), state_->section, name);
  return *this;
}

ConfigParser& ConfigParser::Add(const std::string& name, std::uint32_t& target, const std::string& help,
                                NumberRange range) {
  state_->names.push_back(name);
  FinishSingle(AddNumber(state_->app, name, target, help, range), state_->section, name);
  return *this;
}

ConfigParser& ConfigParser::Add(const std::string& name, std::uint64_t& target, const std::string& help,
                                NumberRange range) {
  state_->names.push_back(name);
  FinishSingle(AddNumber(state_->app, name, target, help, range), state_->section, name);
  return *this;
}

ConfigParser& ConfigParser::Add(const std::string& name, double& target, const std::string& help, NumberRange range) {
  state_->names.push_back(name);
  FinishSingle(AddNumber(state_->app, name, target, help, range), state_->section, name);
  return *this;
}

ConfigParser& ConfigParser::AddBytes(const std::string& name, std::uint64_t& target, const std::string& help,
                                     NumberRange range) {
  state_->names.push_back(name);
  CLI::Option* const option = state_->app.add_option("--" + name, target, help);
  option->transform(ByteSize(range))->type_name("SIZE");
  FinishSingle(option, state_->section, name);
  return *this;
}

ConfigParser& ConfigParser::AddChoice(const std::string& name, std::string& target,
                                      const std::vector<std::string>& choices, const std::string& help) {
  state_->names.push_back(name);
  FinishSingle(state_->app.add_option("--" + name, target, help)->check(CLI::IsMember(choices)), state_->section, name);
  return *this;
}

ConfigParser& ConfigParser::AddSecret(const std::string& name, std::string& target, const std::string& help) {
  state_->names.push_back(name);
  CLI::Option* const option = state_->app.add_option("--" + name, target, help);
  FinishSingle(option, state_->section, name);
  option->default_str("")->configurable(false);
  return *this;
}

ConfigParser& ConfigParser::AddList(const std::string& name, std::vector<std::string>& target,
                                    const std::string& help) {
  state_->names.push_back(name);
  Finish(state_->app.add_option("--" + name, target, help)->delimiter(','), state_->section, name);
  return *this;
}

ConfigParser& ConfigParser::AddSwitch(const std::string& name, bool& target, const std::string& help) {
  state_->names.push_back(name);
  Finish(state_->app.add_flag("--" + name, target, help), state_->section, name);
  return *this;
}

ConfigParser& ConfigParser::AddPositional(const std::string& name, std::string& target, const std::string& help) {
  state_->app.add_option(name, target, help)->group(state_->section)->configurable(false);
  return *this;
}

ConfigParser& ConfigParser::AddPositional(const std::string& name, std::vector<std::string>& target,
                                          const std::string& help) {
  state_->app.add_option(name, target, help)->group(state_->section)->configurable(false);
  return *this;
}

ConfigParser& ConfigParser::Alias(const std::string& other, const std::string& name) {
  state_->aliases[other] = name;
  return *this;
}

ConfigParser& ConfigParser::Require(const std::string& name) {
  state_->app.get_option("--" + name)->required();
  return *this;
}

Result<ParseOutcome> ConfigParser::Parse(int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  for (std::string& argument : arguments) argument = state_->WithoutAlias(std::move(argument));
  // CLI11 would let the file win over the environment. Variables become arguments here, so that they win.
  std::vector<std::string> from_environment;
  for (const std::string& name : state_->names) {
    const char* value = std::getenv(EnvironmentName(name).c_str());
    if (value == nullptr || IsGiven(name, arguments)) continue;
    arguments.push_back("--" + name + "=" + value);
    from_environment.push_back(name);
  }
  std::optional<ConfigFile> file;
  if (const std::string path = ConfigPathIn(arguments); !path.empty()) {
    ROOST_ASSIGN_OR_RETURN(file, ConfigFile::Read(path));
    ROOST_RETURN_IF_ERROR(CheckKeys(*file));
  }
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    state_->app.parse(std::move(reversed));
    if (!state_->print_config) return ParseOutcome::kRun;
    std::cout << state_->app.config_to_str(true, true);
    return ParseOutcome::kExit;
  } catch (const CLI::Success& success) {
    state_->app.exit(success, std::cout, std::cerr);
    return ParseOutcome::kExit;
  } catch (const CLI::Error& error) {
    // A misspelt option may be the reason why another one is missing.
    const std::vector<std::string> unknown = state_->app.remaining();
    if (!unknown.empty()) return Error{ErrorCode::kInvalidArgument, UnknownText(unknown, state_->names), ""};
    std::string message = error.what();
    for (const std::string& name : state_->names) {
      if (!Names(message, name)) continue;
      const bool by_variable =
          std::find(from_environment.begin(), from_environment.end(), name) != from_environment.end();
      if (by_variable) message += " (from " + EnvironmentName(name) + ")";
      const auto place = file && !by_variable && !IsGiven(name, arguments) ? file->PlaceOf(name) : std::nullopt;
      if (place) message += " (from " + *place + ")";
    }
    return Error{ErrorCode::kInvalidArgument, std::move(message), ""};
  }
}

Result<void> ConfigParser::CheckKeys(const ConfigFile& file) const {
  for (const ConfigFile::Key& key : file.keys()) {
    const CLI::Option* const option = state_->app.get_option_no_throw("--" + key.name);
    if (option != nullptr && option->get_configurable()) continue;
    if (option != nullptr) {
      return InvalidArgument(file.PlaceOf(key), "'{}' can not be set in a file: use the option or its variable",
                             key.name);
    }
    return InvalidArgument(file.PlaceOf(key), "unknown key '{}'{}", key.name, DidYouMean(key.name, state_->names, ""));
  }
  return {};
}

std::string EnvironmentName(std::string_view option_name) {
  std::string name = "ROOST_";
  for (const char c : option_name) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

std::string_view Version() { return ROOST_VERSION; }

std::string_view Revision() { return ROOST_REVISION; }

}  // namespace roost
