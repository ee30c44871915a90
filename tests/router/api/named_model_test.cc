// The model that a request names which an engine gets unread, and where the name stands in its body.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>

#include "tests/router/api/api_fixture.h"

namespace roost::router {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kForm = "multipart/form-data; boundary=XyZ";

class NamedModelTest : public ApiTest {
 protected:
  // Serves every name that the tests ask for.
  NamedModelTest() {
    dispatcher_.models.clear();
    for (const char* const name : {"e5", "second", "whisper-1"}) {
      ServedModel model;
      model.name = name;
      model.has_text = false;
      model.routes = {"/pooling"};
      dispatcher_.models.push_back(std::make_shared<const ServedModel>(std::move(model)));
    }
  }
  std::shared_ptr<FakeResponder> AskWith(std::string body, std::string_view type) {
    HttpRequest request;
    request.method = "POST";
    request.path = "/pooling";
    request.headers = {{"Content-Type", std::string(type)}};
    request.body = std::move(body);
    return Handle(std::move(request));
  }
  // The name, if it stands where the dispatcher is told; else the error.
  std::string NameIn(const std::string& body, std::string_view type = kJson) {
    dispatcher_.forwards.clear();
    const auto answer = AskWith(body, type);
    if (answer->response) return At(answer->response->body, "/error/message");
    const wire::Forward& head = dispatcher_.forwards.at(0).head;
    EXPECT_EQ(*dispatcher_.forwards[0].body, body);
    EXPECT_EQ(body.substr(head.model_begin, head.model_end - head.model_begin), head.model) << "without an alias";
    return head.model;
  }
};

// Several models have the route.
constexpr const char* kUnnamed = "must name the model";

TEST_F(NamedModelTest, AMemberOfTheObjectNamesIt) {
  EXPECT_EQ(NameIn(R"({"model":"e5","input":"hi"})"), "e5");
  EXPECT_EQ(NameIn(R"(  {"input": ["a", {"model": "inner"}], "model" : "e5"  , "x": 1 } )"), "e5");
  EXPECT_THAT(NameIn(R"({"input":"\"model\":\"x\""})"), HasSubstr(kUnnamed));
  EXPECT_THAT(NameIn("{}"), HasSubstr(kUnnamed));
  EXPECT_THAT(NameIn(R"({"model":null})"), HasSubstr(kUnnamed));
  EXPECT_THAT(NameIn(R"({"model":""})"), HasSubstr(kUnnamed));
}

TEST_F(NamedModelTest, TheLastOneCountsAsForEngines) {
  EXPECT_EQ(NameIn(R"({"model":"first","model":"second"})"), "second");
  EXPECT_EQ(NameIn(R"({"model":"first","\u006dodel":"second"})"), "second");
}

TEST_F(NamedModelTest, WhatIsNoObjectIsRefused) {
  for (const char* const body : {"", "[]", "3", "null", "{", R"({"model")", R"({"model":"a)", "model=e5"}) {
    EXPECT_THAT(NameIn(body), HasSubstr("not a JSON object")) << body;
  }
  EXPECT_THAT(NameIn(R"({"model":7})"), HasSubstr("must be a string"));
  EXPECT_THAT(NameIn(R"({"model":"a\u0000b"})"), HasSubstr("is no name"));
}

TEST_F(NamedModelTest, AFormHasAField) {
  const std::string body =
      "--XyZ\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a; name=\\\"model\\\".wav\"\r\n"
      "Content-Type: audio/wav\r\n\r\nRIFF\r\n--Xy\r\n\r\n--XyZ\r\n"
      "content-disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--XyZ--\r\n";
  EXPECT_EQ(NameIn(body, kForm), "whisper-1");
  EXPECT_EQ(NameIn(body, "Multipart/Form-Data; charset=utf-8; boundary=\"XyZ\""), "whisper-1");
  EXPECT_THAT(NameIn("--XyZ\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--XyZ--", kForm),
              HasSubstr(kUnnamed));
}

TEST_F(NamedModelTest, AFormThatIsNotWholeIsRefused) {
  EXPECT_THAT(NameIn("--XyZ\r\n", "multipart/form-data"), HasSubstr("form"));
  EXPECT_THAT(NameIn("hello", kForm), HasSubstr("form"));
  EXPECT_THAT(NameIn("--XyZ\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhis", kForm), HasSubstr("form"));
}

TEST_F(NamedModelTest, BodiesOfOtherTypesNameNone) {
  EXPECT_THAT(NameIn("anything", "application/octet-stream"), HasSubstr(kUnnamed));
  EXPECT_THAT(NameIn("", ""), HasSubstr(kUnnamed));
}

TEST_F(NamedModelTest, GarbageIsNoCrash) {
  std::mt19937 draw(3);
  const std::string seeds[] = {R"({"a":[1,{"b":"c"}],"model":"e5"})",
                               "--XyZ\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ne5\r\n--XyZ--"};
  for (int turn = 0; turn < 5'000; ++turn) {
    std::string body = seeds[turn % 2];
    for (std::size_t i = draw() % 6; i > 0; --i) body[draw() % body.size()] = static_cast<char>(draw() % 256);
    body.resize(draw() % (body.size() + 1));
    dispatcher_.forwards.clear();
    AskWith(body, turn % 2 == 0 ? kJson : kForm);
    for (const ForwardSpec& spec : dispatcher_.forwards) {
      ASSERT_EQ(*spec.body, body);
      ASSERT_LE(spec.head.model_end, body.size());
    }
  }
}

}  // namespace
}  // namespace roost::router
