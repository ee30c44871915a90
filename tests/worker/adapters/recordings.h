// Recorded exchanges with vLLM (tests/engines/recordings), without HTTP's own bytes.
#pragma once

#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "tests/support/source_dir.h"

namespace roost::worker::adapters::testing_support {

struct Recording {
  int status = 0;
  bool is_stream = false;
  bool is_whole = true;  // its last chunk is there
  std::string body;
};

inline std::filesystem::path RecordingFolder() {
  return std::filesystem::path(roost::testing_support::SourceDir()) / "tests/engines/recordings/vllm-0.32.0";
}

inline std::string ReadRecording(const std::string& name) {
  std::ifstream file(RecordingFolder() / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The body of chunks. `is_whole` becomes false if the last one is missing.
inline std::string Dechunked(std::string_view rest, bool& is_whole) {
  std::string body;
  is_whole = false;
  while (!is_whole) {
    const std::size_t line = rest.find("\r\n");
    if (line == std::string_view::npos) return body;
    std::size_t size = 0;
    std::from_chars(rest.data(), rest.data() + line, size, 16);
    is_whole = size == 0;
    body += rest.substr(line + 2, size);
    rest.remove_prefix(std::min(line + 2 + size + 2, rest.size()));
  }
  return body;
}

// NAME of http/NAME.response, or death/NAME.
inline Recording ReadAnswer(const std::string& name) {
  const std::string folder =
      std::filesystem::exists(RecordingFolder() / ("death/" + name + ".response")) ? "death/" : "http/";
  const std::string bytes = ReadRecording(folder + name + ".response");
  const std::size_t head_end = bytes.find("\r\n\r\n");
  const std::string_view head = std::string_view(bytes).substr(0, head_end);
  const std::string_view rest = std::string_view(bytes).substr(head_end + 4);
  Recording recording;
  recording.status = std::stoi(std::string(head.substr(head.find(' ') + 1, 3)));
  recording.is_stream = head.find("text/event-stream") != std::string_view::npos;
  const bool is_chunked = head.find("transfer-encoding: chunked") != std::string_view::npos;
  recording.body = is_chunked ? Dechunked(rest, recording.is_whole) : std::string(rest);
  return recording;
}

}  // namespace roost::worker::adapters::testing_support
