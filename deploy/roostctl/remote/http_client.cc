#include "deploy/roostctl/remote/http_client.h"

namespace roost::roostctl {
namespace {

// A result other than 0 ends the call.
int OnProgress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return (*static_cast<const std::function<bool()>*>(user))() ? 1 : 0;
}

}  // namespace

HttpClient::HttpClient(RouterAccess access, double timeout_seconds)
    : access_(std::move(access)), key_(KeyOf(access_)), timeout_seconds_(timeout_seconds) {}

Result<HttpResponse> HttpClient::Get(const std::string& path) { return Perform({.path = path}); }

Result<HttpResponse> HttpClient::PostJson(const std::string& path, const std::string& json) {
  return Perform({.path = path, .json = &json});
}

Result<HttpResponse> HttpClient::PostForEvents(const std::string& path, const std::string& json, OnData on_data) {
  return Perform({.path = path, .json = &json, .on_data = std::move(on_data)});
}

Result<HttpResponse> HttpClient::Perform(RouterCall::Ask ask) {
  if (!key_.ok()) return key_.error();
  ask.timeout_seconds = timeout_seconds_;
  call_.Begin(access_, *key_, std::move(ask));
  if (stop_asked_) {
    curl_easy_setopt(call_.handle(), CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(call_.handle(), CURLOPT_XFERINFOFUNCTION, &OnProgress);
    curl_easy_setopt(call_.handle(), CURLOPT_XFERINFODATA, &stop_asked_);
  }
  return call_.End(call_.Perform());
}

}  // namespace roost::roostctl
