#include "common/text/jinja/parse/parser.h"

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "common/base/utf8.h"
#include "common/text/jinja/parse/expression_parser.h"
#include "common/text/jinja/parse/lexer.h"
#include "common/text/jinja/parse/token_stream.h"

namespace roost::jinja {
namespace {

using EndTags = std::initializer_list<std::string_view>;

class StatementParser {
 public:
  explicit StatementParser(TokenStream& stream) : stream_(stream), expressions_(stream) {}

  Result<Body> ParseAll() {
    ROOST_ASSIGN_OR_RETURN(Body body, ParseBody({}));
    return body;
  }

 private:
  using Inline = ExpressionParser::Inline;

  // Statements up to a tag in `ends`, whose name is then the next token; with empty `ends`, up to the end of the
  // template.
  Result<Body> ParseBody(EndTags ends) {
    const TokenStream::Nested nested(stream_);
    ROOST_RETURN_IF_ERROR(nested.Check());
    Body body;
    while (!stream_.Is(TokenKind::kEnd)) {
      Token token = stream_.Next();
      if (token.kind == TokenKind::kText) {
        body.push_back(Statement{token.line, TextOutput{std::move(token.text)}});
      } else if (token.kind == TokenKind::kPrintBegin) {
        ROOST_ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.ParseTuple());
        ROOST_RETURN_IF_ERROR(stream_.ExpectKind(TokenKind::kPrintEnd, "'}}'"));
        body.push_back(Statement{token.line, Print{std::move(value)}});
      } else {
        for (const std::string_view end : ends) {
          if (stream_.IsName(end)) return body;
        }
        ROOST_ASSIGN_OR_RETURN(Statement::Node node, ParseTag());
        body.push_back(Statement{token.line, std::move(node)});
      }
    }
    if (ends.size() > 0) return stream_.Unexpected(fmt::format("a tag '{}'", *(ends.end() - 1)));
    return body;
  }

  Result<void> ExpectTagEnd() { return stream_.ExpectKind(TokenKind::kBlockEnd, "'%}'"); }

  // The rest of a tag, the body, and the end tag `end`.
  Result<Body> ParseBlock(std::string_view end) {
    ROOST_RETURN_IF_ERROR(ExpectTagEnd());
    ROOST_ASSIGN_OR_RETURN(Body body, ParseBody({end}));
    stream_.Next();
    ROOST_RETURN_IF_ERROR(ExpectTagEnd());
    return body;
  }

  Result<Statement::Node> ParseTag() {
    ROOST_ASSIGN_OR_RETURN(const std::string tag, stream_.ExpectName());
    if (tag == "set") return ParseSet();
    if (tag == "if") return ParseIf();
    if (tag == "for") return ParseFor();
    if (tag == "macro") return ParseMacro();
    if (tag == "call") return ParseCallBlock();
    if (tag == "filter") return ParseFilterBlock();
    if (tag == "with") return ParseWith();
    if (tag == "generation") return ParseGeneration();
    if (tag == "break" || tag == "continue") return ParseJump(tag);
    return stream_.Fail(fmt::format("unknown or misplaced tag '{}'", tag));
  }

  Result<Statement::Node> ParseSet() {
    ROOST_ASSIGN_OR_RETURN(Target target, expressions_.ParseTarget());
    if (stream_.SkipOperator("=")) {
      ROOST_ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.ParseTuple());
      ROOST_RETURN_IF_ERROR(ExpectTagEnd());
      return Statement::Node(Set{std::move(target), std::move(value)});
    }
    ExpressionPtr filters;
    if (stream_.SkipOperator("|")) {
      ROOST_ASSIGN_OR_RETURN(filters, expressions_.ParseFilterChain());
    }
    ROOST_ASSIGN_OR_RETURN(Body body, ParseBlock("endset"));
    return Statement::Node(SetBlock{std::move(target), std::move(filters), std::move(body)});
  }

  Result<Statement::Node> ParseIf() {
    If node;
    while (true) {
      ROOST_ASSIGN_OR_RETURN(ExpressionPtr condition, expressions_.ParseTuple(Inline::kWithoutIf));
      ROOST_RETURN_IF_ERROR(ExpectTagEnd());
      ROOST_ASSIGN_OR_RETURN(Body body, ParseBody({"elif", "else", "endif"}));
      node.branches.push_back(If::Branch{std::move(condition), std::move(body)});
      const std::string tag = stream_.Next().text;
      if (tag == "elif") continue;
      if (tag == "else") {
        ROOST_ASSIGN_OR_RETURN(node.otherwise, ParseBlock("endif"));
        return Statement::Node(std::move(node));
      }
      ROOST_RETURN_IF_ERROR(ExpectTagEnd());
      return Statement::Node(std::move(node));
    }
  }

  Result<Statement::Node> ParseFor() {
    For node{};
    ROOST_ASSIGN_OR_RETURN(node.target, expressions_.ParseTarget());
    ROOST_RETURN_IF_ERROR(stream_.ExpectKeyword("in"));
    ROOST_ASSIGN_OR_RETURN(node.iterable, expressions_.ParseTuple(Inline::kWithoutIf));
    if (stream_.SkipName("if")) {
      ROOST_ASSIGN_OR_RETURN(node.filter, expressions_.ParseExpression());
    }
    node.form = stream_.SkipName("recursive") ? For::Form::kRecursive : For::Form::kPlain;
    ROOST_RETURN_IF_ERROR(ExpectTagEnd());
    ++loops_;
    ROOST_ASSIGN_OR_RETURN(node.body, ParseBody({"else", "endfor"}));
    --loops_;
    if (stream_.Next().text == "else") {
      ROOST_ASSIGN_OR_RETURN(node.otherwise, ParseBlock("endfor"));
      return Statement::Node(std::move(node));
    }
    ROOST_RETURN_IF_ERROR(ExpectTagEnd());
    return Statement::Node(std::move(node));
  }

  // "(a, b=1)" behind a macro's name or a call block's tag.
  Result<void> ParseParameters(MacroDefinition& macro) {
    ROOST_RETURN_IF_ERROR(stream_.ExpectOperator("("));
    while (!stream_.IsOperator(")")) {
      if (!macro.parameters.empty()) {
        ROOST_RETURN_IF_ERROR(stream_.ExpectOperator(","));
        if (stream_.IsOperator(")")) break;
      }
      ROOST_ASSIGN_OR_RETURN(std::string name, stream_.ExpectName());
      MacroDefinition::Parameter parameter{stream_.names().Intern(name), std::move(name), nullptr};
      if (stream_.SkipOperator("=")) {
        ROOST_ASSIGN_OR_RETURN(parameter.fallback, expressions_.ParseExpression());
      } else if (!macro.parameters.empty() && macro.parameters.back().fallback != nullptr) {
        return stream_.Fail("a parameter without default follows one with default");
      }
      macro.parameters.push_back(std::move(parameter));
    }
    stream_.Next();
    return {};
  }

  // A macro's body does not belong to a loop around the macro: break and continue are not allowed there.
  Result<void> ParseMacroBody(MacroDefinition& macro, std::string_view end) {
    const std::size_t uses_before = stream_.names().use_count();
    const int outer_loops = std::exchange(loops_, 0);
    ROOST_ASSIGN_OR_RETURN(macro.body, ParseBlock(end));
    loops_ = outer_loops;
    const auto special = [&](const char* name) {
      const Symbol symbol = stream_.names().Intern(name);
      return stream_.names().WasUsed(symbol, uses_before) ? std::optional(symbol) : std::nullopt;
    };
    macro.caller = special("caller");
    macro.more_positional = special("varargs");
    macro.more_named = special("kwargs");
    return {};
  }

  Result<Statement::Node> ParseMacro() {
    auto macro = std::make_shared<MacroDefinition>();
    ROOST_ASSIGN_OR_RETURN(macro->name, stream_.ExpectName());
    macro->symbol = stream_.names().Intern(macro->name);
    ROOST_RETURN_IF_ERROR(ParseParameters(*macro));
    ROOST_RETURN_IF_ERROR(ParseMacroBody(*macro, "endmacro"));
    return Statement::Node(DefineMacro{std::move(macro)});
  }

  Result<Statement::Node> ParseCallBlock() {
    auto caller = std::make_shared<MacroDefinition>();
    caller->name = "caller";
    if (stream_.IsOperator("(")) {
      ROOST_RETURN_IF_ERROR(ParseParameters(*caller));
    }
    ROOST_ASSIGN_OR_RETURN(ExpressionPtr call, expressions_.ParseUnary());
    if (!std::holds_alternative<Call>(call->node)) return stream_.Fail("expected a call");
    ROOST_RETURN_IF_ERROR(ParseMacroBody(*caller, "endcall"));
    return Statement::Node(CallBlock{std::move(caller), std::move(call)});
  }

  Result<Statement::Node> ParseFilterBlock() {
    FilterBlock node;
    ROOST_ASSIGN_OR_RETURN(node.filters, expressions_.ParseFilterChain());
    ROOST_ASSIGN_OR_RETURN(node.body, ParseBlock("endfilter"));
    return Statement::Node(std::move(node));
  }

  Result<Statement::Node> ParseWith() {
    With node;
    while (!stream_.Is(TokenKind::kBlockEnd)) {
      if (!node.assignments.empty()) ROOST_RETURN_IF_ERROR(stream_.ExpectOperator(","));
      ROOST_ASSIGN_OR_RETURN(Target target, expressions_.ParseTarget());
      ROOST_RETURN_IF_ERROR(stream_.ExpectOperator("="));
      ROOST_ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.ParseExpression());
      node.assignments.emplace_back(std::move(target), std::move(value));
    }
    ROOST_ASSIGN_OR_RETURN(node.body, ParseBlock("endwith"));
    return Statement::Node(std::move(node));
  }

  Result<Statement::Node> ParseGeneration() {
    With node;
    ROOST_ASSIGN_OR_RETURN(node.body, ParseBlock("endgeneration"));
    return Statement::Node(std::move(node));
  }

  Result<Statement::Node> ParseJump(std::string_view tag) {
    if (loops_ == 0) return stream_.Fail(fmt::format("'{}' outside a loop", tag));
    ROOST_RETURN_IF_ERROR(ExpectTagEnd());
    if (tag == "break") return Statement::Node(Break{});
    return Statement::Node(Continue{});
  }

  TokenStream& stream_;
  ExpressionParser expressions_;
  int loops_ = 0;  // open loops around the current statement
};

}  // namespace

Result<TemplateTree> ParseTemplate(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    return InvalidArgument("", "the template has {} bytes, more than {}", source.size(), kMaxTemplateBytes);
  }
  if (!IsValidUtf8(source)) return InvalidArgument("", "the template is not valid UTF-8");
  ROOST_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  TokenStream stream(std::move(tokens));
  TemplateTree tree;
  ROOST_ASSIGN_OR_RETURN(tree.body, StatementParser(stream).ParseAll());
  tree.names = stream.names().Take();
  return tree;
}

}  // namespace roost::jinja
