// The common state of the parsers: the tokens and the current place, the names met so far, and the limit on nesting.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/text/jinja/ast.h"
#include "common/text/jinja/parse/lexer.h"
#include "common/text/jinja/parse/parser.h"

namespace roost::jinja {

// The names met so far, each with a number.
class Names {
 public:
  // The number of `name`.
  Symbol Intern(const std::string& name) {
    const auto [entry, is_new] = symbols_.try_emplace(name, static_cast<Symbol>(names_.size()));
    if (is_new) names_.push_back(name);
    return entry->second;
  }
  // Like Intern, for a name that an expression reads; WasUsed sees it.
  Symbol InternUse(const std::string& name) {
    const Symbol symbol = Intern(name);
    used_names_.push_back(symbol);
    return symbol;
  }
  [[nodiscard]] std::size_t use_count() const { return used_names_.size(); }
  // Was `name` read after the first `since` uses? Tells macros which names their body uses.
  [[nodiscard]] bool WasUsed(Symbol name, std::size_t since) const {
    return std::find(used_names_.begin() + static_cast<std::ptrdiff_t>(since), used_names_.end(), name) !=
           used_names_.end();
  }
  [[nodiscard]] std::vector<std::string> Take() { return std::move(names_); }

 private:
  std::map<std::string, Symbol, std::less<>> symbols_;
  std::vector<std::string> names_;
  std::vector<Symbol> used_names_;
};

class TokenStream {
 public:
  // The last token is kEnd; reading never goes past it.
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  [[nodiscard]] const Token& Peek(std::size_t ahead = 0) const {
    return tokens_[std::min(place_ + ahead, tokens_.size() - 1)];
  }
  Token Next() {
    Token token = Peek();
    if (place_ + 1 < tokens_.size()) ++place_;
    return token;
  }
  [[nodiscard]] int line() const { return Peek().line; }

  [[nodiscard]] bool Is(TokenKind kind, std::size_t ahead = 0) const { return Peek(ahead).kind == kind; }
  [[nodiscard]] bool IsOperator(std::string_view text, std::size_t ahead = 0) const {
    return Is(TokenKind::kOperator, ahead) && Peek(ahead).text == text;
  }
  [[nodiscard]] bool IsName(std::string_view text, std::size_t ahead = 0) const {
    return Is(TokenKind::kName, ahead) && Peek(ahead).text == text;
  }

  // Each consumes the token if it is there.
  bool SkipOperator(std::string_view text) { return IsOperator(text) && (Next(), true); }
  bool SkipName(std::string_view text) { return IsName(text) && (Next(), true); }

  Result<void> ExpectOperator(std::string_view text) {
    if (!SkipOperator(text)) return Unexpected(fmt::format("'{}'", text));
    return {};
  }
  Result<void> ExpectKeyword(std::string_view text) {
    if (!SkipName(text)) return Unexpected(fmt::format("'{}'", text));
    return {};
  }
  Result<std::string> ExpectName() {
    if (!Is(TokenKind::kName)) return Unexpected("a name");
    return Next().text;
  }
  Result<void> ExpectKind(TokenKind kind, std::string_view what) {
    if (!Is(kind)) return Unexpected(what);
    Next();
    return {};
  }

  [[nodiscard]] Error Fail(std::string_view what) const { return InvalidArgument("", "line {}: {}", line(), what); }
  [[nodiscard]] Error Unexpected(std::string_view wanted) const {
    return Fail(fmt::format("expected {}, found {}", wanted, Describe(Peek())));
  }

  [[nodiscard]] Names& names() { return names_; }

  // Limits the parsers' recursion: hold one while inside a bracket, operator or block.
  class Nested {
   public:
    explicit Nested(TokenStream& stream) : stream_(stream) { ++stream_.nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    ~Nested() { --stream_.nesting_; }
    [[nodiscard]] Result<void> Check() const {
      if (stream_.nesting_ <= kMaxParseNesting) return {};
      return stream_.Fail(fmt::format("nested more than {} deep", kMaxParseNesting));
    }

   private:
    TokenStream& stream_;
  };

 private:
  static std::string Describe(const Token& token) {
    switch (token.kind) {
      case TokenKind::kText: return "text";
      case TokenKind::kPrintBegin: return "'{{'";
      case TokenKind::kPrintEnd: return "'}}'";
      case TokenKind::kBlockBegin: return "'{%'";
      case TokenKind::kBlockEnd: return "'%}'";
      case TokenKind::kString: return "a string";
      case TokenKind::kNumber: return "a number";
      case TokenKind::kName:
      case TokenKind::kOperator: return fmt::format("'{}'", token.text);
      case TokenKind::kEnd: return "the end of the template";
    }
    return "something else";
  }

  std::vector<Token> tokens_;
  std::size_t place_ = 0;
  int nesting_ = 0;
  Names names_;
};

}  // namespace roost::jinja
