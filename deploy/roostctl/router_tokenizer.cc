#include <fmt/format.h>

#include <utility>

#include "common/base/json_writer.h"
#include "deploy/roostctl/prompt_tokenizer.h"
#include "deploy/roostctl/remote/http_client.h"
#include "deploy/roostctl/remote/json_members.h"
#include "deploy/roostctl/remote/refusal.h"

namespace roost::roostctl {
namespace {

constexpr double kSeconds = 60;

class Router final : public PromptTokenizer {
 public:
  Router(const RouterAccess& router, std::string model) : client_(router, kSeconds), model_(std::move(model)) {}

  Result<std::vector<TokenId>> Tokenize(const PromptBody& body) override {
    ROOST_ASSIGN_OR_RETURN(const std::string answer, Post("/tokenize", BodyOf(body)));
    const json::Document document(answer);
    const auto ids = json::At<json::Array>(document.root(), "tokens");
    if (!ids) return DataLoss("answer", "/tokenize returned no tokens");
    std::vector<TokenId> tokens;
    tokens.reserve(ids->size());
    for (const json::Element id : *ids) {
      std::uint64_t token = 0;
      if (id.get(token) != simdjson::SUCCESS)
        return DataLoss("answer", "/tokenize returned a token that is not a number");
      tokens.push_back(static_cast<TokenId>(token));
    }
    return tokens;
  }

  Result<std::string> Decode(std::span<const TokenId> tokens) override {
    JsonWriter json;
    json.BeginObject().Key("model").String(model_).Key("tokens").BeginArray();
    for (const TokenId token : tokens) json.Number(token);
    json.EndArray().EndObject();
    ROOST_ASSIGN_OR_RETURN(const std::string answer, Post("/detokenize", json.Take()));
    const json::Document document(answer);
    const auto text = json::At<std::string_view>(document.root(), "prompt");
    if (!text) return DataLoss("answer", "/detokenize returned no prompt");
    return std::string(*text);
  }

  Result<std::uint32_t> BlockTokens() override {
    ROOST_ASSIGN_OR_RETURN(const std::string answer, Get("/v1/models/" + PercentEncode(model_)));
    const std::uint64_t tokens = CountAt(json::Document(answer).root(), "block_tokens");
    if (tokens == 0) return DataLoss("answer", "/v1/models returned no block_tokens");
    return static_cast<std::uint32_t>(tokens);
  }

 private:
  [[nodiscard]] std::string BodyOf(const PromptBody& body) const {
    std::string model;
    AppendJsonString(model_, model);
    return fmt::format("{{\"model\":{},{}}}", model, body.members);
  }

  [[nodiscard]] Result<std::string> Get(const std::string& path) {
    ROOST_ASSIGN_OR_RETURN(HttpResponse response, client_.Get(path));
    if (response.status != 200) return RefusalOf(response);
    return std::move(response.body);
  }

  [[nodiscard]] Result<std::string> Post(const std::string& path, const std::string& body) {
    ROOST_ASSIGN_OR_RETURN(HttpResponse response, client_.PostJson(path, body));
    if (response.status != 200) return RefusalOf(response);
    return std::move(response.body);
  }

  HttpClient client_;
  const std::string model_;
};

}  // namespace

std::unique_ptr<PromptTokenizer> RouterTokenizer(const RouterAccess& router, const std::string& model) {
  return std::make_unique<Router>(router, model);
}

}  // namespace roost::roostctl
