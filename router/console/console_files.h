// The files of the operators' page /console. The build puts this folder's index.html, style.css and scripts into the
// program, so a router needs no files beside it. They are the same for everyone and hold no secret.
#pragma once

#include <span>
#include <string_view>

namespace roost::router {

struct ConsoleFile {
  std::string_view name;  // "app.js"
  std::string_view content_type;
  std::string_view etag;  // with its quotes; another content has another one
  std::string_view content;
};

// By what follows "/console/" in the path; the page itself has no name there. Null: there is no such file.
[[nodiscard]] const ConsoleFile* FindConsoleFile(std::string_view name);

// All of them.
[[nodiscard]] std::span<const ConsoleFile> ConsoleFiles();

}  // namespace roost::router
