#include "worker/grammar/grammar_pool.h"

#include <gtest/gtest.h>

#include <memory>

namespace roost::worker {
namespace {

class Sized final : public CompiledGrammar {
 public:
  explicit Sized(std::size_t bytes) : bytes_(bytes) {}
  [[nodiscard]] std::size_t bytes() const override { return bytes_; }
  [[nodiscard]] std::unique_ptr<Automaton> Start() const override { return nullptr; }

 private:
  std::size_t bytes_;
};

TEST(GrammarCacheTest, TheOneUnusedForLongestGoesFirst) {
  GrammarCache cache(100);
  const auto a = std::make_shared<Sized>(39);
  cache.Put("a", a);
  cache.Put("b", std::make_shared<Sized>(39));
  EXPECT_EQ(cache.bytes(), 80U);
  EXPECT_EQ(cache.Find("a"), a);
  cache.Put("c", std::make_shared<Sized>(39));
  EXPECT_EQ(cache.Find("b"), nullptr);
  EXPECT_EQ(cache.Find("a"), a);
  EXPECT_NE(cache.Find("c"), nullptr);
  EXPECT_EQ(cache.bytes(), 80U);
}

TEST(GrammarCacheTest, WhatIsLargerThanAllIsNotKept) {
  GrammarCache cache(100);
  cache.Put("a", std::make_shared<Sized>(10));
  cache.Put("b", std::make_shared<Sized>(100));
  EXPECT_EQ(cache.Find("b"), nullptr);
  EXPECT_EQ(cache.size(), 1U);
}

}  // namespace
}  // namespace roost::worker
