#include "deploy/roostctl/remote/refusal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace roost::roostctl {
namespace {

using testing::HasSubstr;
using testing::Not;

HttpResponse Answer(std::string path, long status, const std::string& message, const std::string& param = "null") {
  return {.path = std::move(path),
          .status = status,
          .body = R"({"error":{"message":")" + message + R"(","param":)" + param + "}}",
          .headers = {}};
}

std::string Told(const HttpResponse& response) { return RefusalOf(response).ToString(); }

TEST(RefusalTest, NamesStatusFieldAndReason) {
  EXPECT_EQ(Told(Answer("/v1/x", 400, "is missing", R"("model")")), "the router answers 400: model: is missing");
  EXPECT_EQ(Told(Answer("/v1/x", 400, "model is bad", R"("model")")), "the router answers 400: model is bad");
  EXPECT_EQ(Told({.path = "/", .status = 502, .body = "<html>", .headers = {}}),
            "the router answers 502: (without a reason)");
}

TEST(RefusalTest, SaysWhichAddressWasMeant) {
  EXPECT_EQ(Told(Answer("/admin/v1/decisions?limit=1", 404, "there is no /admin/v1/decisions")),
            "the router answers 404: there is no /admin/v1/decisions; this looks like the API's address; --admin wants "
            "the operators', by default http://127.0.0.1:8001");
  EXPECT_THAT(Told(Answer("/v1/models", 404, "there is no /v1/models")),
              HasSubstr("this looks like the operators' address; --router wants the API's, by default "
                        "http://127.0.0.1:8000"));
}

TEST(RefusalTest, OtherRefusalsSayNothingOfAddresses) {
  EXPECT_THAT(Told(Answer("/admin/v1/decisions?request_id=x", 404, "no decision about 'x'", R"("request_id")")),
              Not(HasSubstr("looks like")));
  EXPECT_EQ(OtherAddressHint(Answer("/metrics", 404, "there is no /metrics")), "");
  EXPECT_EQ(OtherAddressHint(Answer("/v1/models", 404, "Not Found")), "");
}

}  // namespace
}  // namespace roost::roostctl
