// The Api's routes of the operators' page. Its files are open to everyone who reaches the admin listener; the data that
// they ask for is not.
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "router/api/routes/api_call.h"
#include "router/console/console_files.h"

namespace roost::router {
namespace {

// Scripts, styles, images and data come from this listener alone, nothing is written into the page as HTML, and no
// other page may show it in a frame.
constexpr std::string_view kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

// An entity tag holds no quote within its own, so it is not a part of another one.
bool Holds(std::string_view if_none_match, std::string_view etag) {
  return if_none_match == "*" || if_none_match.find(etag) != std::string_view::npos;
}

}  // namespace

// The page names its files and data relative to itself, so that it also works behind a proxy that adds a path.
void Api::ConsoleEntry(Call& call) {
  HttpResponse response;
  response.status = 308;
  response.content_type = "text/plain; charset=utf-8";
  response.headers.push_back({"Location", "console/"});
  response.body = "The console is at console/\n";
  Answer(call, std::move(response));
}

void Api::Console(Call& call) {
  const ConsoleFile* const file = FindConsoleFile(call.rest);
  if (file == nullptr) {
    return AnswerError(call, {ErrorCode::kNotFound, fmt::format("there is no {}", call.request.path), ""});
  }
  HttpResponse response;
  response.headers = {{"Content-Security-Policy", std::string(kContentPolicy)},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"X-Frame-Options", "DENY"},
                      {"Cross-Origin-Resource-Policy", "same-origin"},
                      {"Cache-Control", "no-cache"},
                      {"ETag", std::string(file->etag)}};
  if (Holds(call.request.FindHeader("if-none-match").value_or(""), file->etag)) {
    response.status = 304;
  } else {
    response.content_type = file->content_type;
    response.body = file->content;
  }
  Answer(call, std::move(response));
}

}  // namespace roost::router
