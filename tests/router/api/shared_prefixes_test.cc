#include "router/api/requests/shared_prefixes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "router/access/key_ring.h"
#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

using ::testing::HasSubstr;

// The model's tokens are bytes and its blocks have four.
constexpr std::string_view kShared = "All hens share this.";  // five blocks, behind <s>

std::vector<SharedPrefix> Parsed(std::string_view text) {
  auto prefixes = ParseSharedPrefixes(text, "shared");
  EXPECT_TRUE(prefixes.ok()) << prefixes.error().ToString();
  return std::move(prefixes).value();
}

TEST(SharedPrefixesTest, WholeBlocksOfAPrefixAreShared) {
  const ServedModel model = ByteModel();
  SharedPrefixes shared;
  EXPECT_EQ(shared.SharedFront(model, Bytes("All hens")).size(), 0U);
  shared.Replace(Parsed(R"({"prompt":"All hens share this."})"));
  std::vector<TokenId> prompt = Bytes(kShared);
  prompt.insert(prompt.begin(), kBos);
  EXPECT_EQ(shared.SharedFront(model, prompt).size(), 5U);
  for (const TokenId more : Bytes(" And more.")) prompt.push_back(more);
  EXPECT_EQ(shared.SharedFront(model, prompt).size(), 5U);
  prompt[9] = 'x';
  EXPECT_EQ(shared.SharedFront(model, prompt).size(), 2U);
  prompt[0] = 'x';
  EXPECT_EQ(shared.SharedFront(model, prompt).size(), 0U);
}

TEST(SharedPrefixesTest, APrefixMayBeOfOneModelAndIsReplaced) {
  const ServedModel model = ByteModel();
  SharedPrefixes shared;
  shared.Replace(Parsed(R"({"model":"other","prompt":[1,2,3,4]})"));
  const std::vector<TokenId> prompt{1, 2, 3, 4, 5};
  EXPECT_EQ(shared.SharedFront(model, prompt).size(), 0U);
  shared.Replace(Parsed(R"({"model":"bytes","prompt":[1,2,3,4]})"));
  EXPECT_EQ(shared.SharedFront(model, prompt).size(), 1U);
  shared.Replace({});
  EXPECT_EQ(shared.SharedFront(model, prompt).size(), 0U);
}

TEST(SharedPrefixesTest, AModelsPrefixIsItsAdaptersTooInTheirOwnScope) {
  const ServedModel model = ByteModel();
  ServedModel adapter = model;
  adapter.base = std::exchange(adapter.name, "poet");
  SharedPrefixes shared;
  shared.Replace(Parsed(R"({"model":"bytes","prompt":[1,2,3,4]})"));
  const std::vector<TokenId> prompt{1, 2, 3, 4, 5};
  const auto of_model = shared.SharedFront(model, prompt);
  const auto of_adapter = shared.SharedFront(adapter, prompt);
  ASSERT_EQ(of_model.size(), 1U);
  ASSERT_EQ(of_adapter.size(), 1U);
  EXPECT_NE(of_model, of_adapter);
  shared.Replace(Parsed(R"({"model":"poet","prompt":[1,2,3,4]})"));
  EXPECT_EQ(shared.SharedFront(model, prompt).size(), 0U);
  EXPECT_EQ(shared.SharedFront(adapter, prompt).size(), 1U);
}

TEST(SharedPrefixesTest, ErrorsNameTheLine) {
  for (const auto& [line, member] :
       std::vector<std::pair<std::string, std::string>>{{R"({"prompt":"a","tenant":"t"})", "tenant"},
                                                        {R"({"prompt":"a","cache_salt":"t"})", "cache_salt"},
                                                        {R"({})", "prompt"},
                                                        {R"({"messages":7})", "messages"},
                                                        {"{", ""}}) {
    const auto read = ParseSharedPrefixes("\n# all\n" + line, "shared.jsonl");
    ASSERT_FALSE(read.ok()) << line;
    EXPECT_EQ(read.error().field, "shared.jsonl:3");
    EXPECT_THAT(read.error().message, HasSubstr(member));
  }
}

class SharedPrefixesApiTest : public ApiTest {
 protected:
  SharedPrefixesApiTest() {
    std::vector<ApiKey> keys;
    for (const std::string name : {"acme", "bird"}) {
      ApiKey key;
      key.name = name;
      key.tenant = name;
      key.digest = DigestOfSecret(name);
      keys.push_back(std::move(key));
    }
    keys_->Replace(std::move(keys));
    shared_->Replace(Parsed(R"({"prompt":"All hens share this."})"));
  }
  GenerateSpec SpecOf(const std::string& key, const std::string& more_members = "") {
    HttpRequest request;
    request.method = "POST";
    request.path = "/v1/completions";
    request.request_id = "req-1";
    request.headers = {{"Content-Type", "application/json"}, {"x-api-key", key}};
    request.body =
        R"({"model":"bytes","max_tokens":4,"prompt":"All hens share this. And no more.")" + more_members + "}";
    auto responder = std::make_shared<FakeResponder>();
    responders_.push_back(responder);
    api_with_keys_.Handle(Listener::kApi, std::move(request), responder);
    return dispatcher_.specs.back();
  }

  const std::shared_ptr<KeyRing> keys_ = std::make_shared<KeyRing>(std::vector<ApiKey>());
  const std::shared_ptr<SharedPrefixes> shared_ = std::make_shared<SharedPrefixes>();
  Api api_with_keys_{dispatcher_,
                     observer_,
                     clock_,
                     text_,
                     {.version = "1",
                      .prompt_memo = prompt_memo_,
                      .shared_prefixes = shared_,
                      .api_keys = keys_,
                      .metrics_text = {},
                      .unix_seconds_now = [] { return std::int64_t{1}; }}};
};

TEST_F(SharedPrefixesApiTest, TheFrontIsInTheSharedScopeAndTheRestInTheTenants) {
  const GenerateSpec acme = SpecOf("acme");
  const GenerateSpec bird = SpecOf("bird");
  ASSERT_TRUE(acme.generate.own.has_value());
  EXPECT_EQ(acme.generate.own->first_block, 5U);
  EXPECT_EQ(acme.generate.root, ScopeRoot(*acme.model, "", ""));
  EXPECT_EQ(acme.generate.own->root, OwnRoot(ScopeRoot(*acme.model, "acme", ""), acme.generate.block_hashes[4]));
  EXPECT_EQ(acme.generate.block_hashes, HashBlocks(acme.generate.root, acme.generate.own, acme.generate.prompt, 4));
  ASSERT_EQ(acme.generate.block_hashes.size(), bird.generate.block_hashes.size());
  for (std::size_t i = 0; i < acme.generate.block_hashes.size(); ++i) {
    EXPECT_EQ(acme.generate.block_hashes[i] == bird.generate.block_hashes[i], i < 5) << i;
  }
}

TEST_F(SharedPrefixesApiTest, APromptWithASaltSharesNothing) {
  const GenerateSpec salted = SpecOf("acme", R"(,"cache_salt":"s")");
  EXPECT_FALSE(salted.generate.own.has_value());
  EXPECT_EQ(salted.generate.root, ScopeRoot(*salted.model, "acme", "s"));
}

TEST_F(SharedPrefixesApiTest, ASessionIsItsTenantsAlone) {
  const std::string session = R"(,"session_id":"c-1")";
  EXPECT_NE(SpecOf("acme", session).generate.session_hash, SpecOf("bird", session).generate.session_hash);
}

}  // namespace
}  // namespace roost::router
