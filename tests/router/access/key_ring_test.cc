#include "router/access/key_ring.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace roost::router {
namespace {

ApiKey KeyNamed(std::string name, std::string_view secret) {
  ApiKey key;
  key.name = std::move(name);
  key.tenant = key.name;
  key.digest = DigestOfSecret(secret);
  return key;
}

TEST(KeyRingTest, FindsTheKeyOfASecretAndNoOther) {
  std::vector<ApiKey> keys;
  for (int i = 0; i < 100; ++i) keys.push_back(KeyNamed("key-" + std::to_string(i), "secret " + std::to_string(i)));
  const KeyRing ring(std::move(keys));
  for (int i = 0; i < 100; ++i) {
    const auto found = ring.Find("secret " + std::to_string(i));
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->key->name, "key-" + std::to_string(i));
  }
  EXPECT_FALSE(ring.Find("secret 100").has_value());
  EXPECT_FALSE(ring.Find("secret 1 ").has_value());
  EXPECT_FALSE(ring.Find("").has_value());
}

TEST(KeyRingTest, ASecretBeyondTheBoundIsNoKeyEvenIfItsFrontIsOne) {
  const std::string longest(kMaxSecretBytes, 's');
  const KeyRing ring({KeyNamed("a", longest)});
  EXPECT_TRUE(ring.Find(longest).has_value());
  EXPECT_FALSE(ring.Find(longest + "s").has_value());
}

TEST(KeyRingTest, NewKeysTakeOverTheAccountsOfTheirNames) {
  KeyRing ring({KeyNamed("a", "old"), KeyNamed("b", "gone")});
  ring.Find("old")->account->CountGeneration(10, 5, 1);
  const auto held = ring.Find("gone");
  ring.Replace({KeyNamed("a", "new"), KeyNamed("c", "more")});
  EXPECT_FALSE(ring.Find("old").has_value());
  EXPECT_FALSE(ring.Find("gone").has_value());
  EXPECT_EQ(held->key->name, "b");  // a request that came with it keeps it
  EXPECT_EQ(ring.Find("new")->account->usage().prompt_tokens, 10U);
  EXPECT_EQ(ring.key_count(), 2U);
  EXPECT_EQ(ring.Accounts().size(), 3U);  // the use by b is still told
}

TEST(KeyRingTest, OneOfSeveralKeysHoldsHalfOfTheMemory) {
  const auto memory = std::make_shared<ByteBudget>(1000);
  KeyRing ring({KeyNamed("a", "a")}, memory);
  const std::shared_ptr<ByteBudget> of_a = ring.Find("a")->account->memory();
  EXPECT_EQ(of_a->most(), 1000U);  // no other key has a share
  ring.Replace({KeyNamed("a", "a"), KeyNamed("b", "b")});
  EXPECT_EQ(of_a->most(), 500U);
  ByteBudget::Guard guard(of_a);
  EXPECT_FALSE(guard.TryGrow(501));
  EXPECT_TRUE(guard.TryGrow(500));
  ByteBudget::Guard other(ring.Find("b")->account->memory());
  EXPECT_TRUE(other.TryGrow(500));
  EXPECT_EQ(memory->used(), 1000U);
  EXPECT_EQ(KeyRing({KeyNamed("a", "a")}).Find("a")->account->memory(), nullptr);
}

TEST(KeyRingTest, NewSecretsDifferAndAreKeysOfTheirDigests) {
  const std::string secret = NewKeySecret();
  EXPECT_NE(secret, NewKeySecret());
  EXPECT_EQ(secret.size(), std::string("sk-roost-").size() + 64);
  // The digest of "abc": FIPS 180-2, appendix B.1.
  EXPECT_EQ(HexOf(DigestOfSecret("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(ApiKeyTest, ModelsMayEndInAStar) {
  ApiKey key;
  EXPECT_TRUE(key.MayUse("anything"));
  key.models = {"qwen*", "demo-model"};
  EXPECT_TRUE(key.MayUse("qwen3-0.6b"));
  EXPECT_TRUE(key.MayUse("demo-model"));
  EXPECT_FALSE(key.MayUse("demo-model-2"));
  EXPECT_FALSE(key.MayUse("qw"));
}

}  // namespace
}  // namespace roost::router
