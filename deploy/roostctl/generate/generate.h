// `roostctl generate`: a list of prompts in, JSON lines out. The engine runs in this process.
#pragma once

#include <cstdint>
#include <istream>
#include <ostream>
#include <string>

#include "common/config/config.h"
#include "deploy/roostctl/command.h"
#include "deploy/roostctl/generate/live_line.h"
#include "worker/options.h"

namespace roost::roostctl {

struct GenerateOptions {
  worker::WorkerOptions worker;
  std::string prompts;  // a file, or - for the standard input
  std::string scheduler = "online";
  std::uint32_t max_tokens = 0;
  std::string temperature = "auto";
  std::uint64_t seed = 0;
  bool ignore_eos = false;
  LiveOutput live = LiveOutput::kLines;
};

// `options` must outlive the parse.
void Declare(GenerateOptions& options, ConfigParser& parser);

// Reads `in` when the prompts are "-". Writes a line of JSON per choice to `out`, in the order of the prompts:
//
//   {"index":0,"choice":0,"prompt_tokens":9,"cached_tokens":0,"output_tokens":2,"finish_reason":"stop","text":"…","tokens":[…]}
//   {"index":1,"prompt_tokens":7,"error":"…"}
//
// and the progress to `err`. Returns the exit code: 0 when every prompt has its answer, 1 when some failed or `out` did
// not take everything, 64 for a wrong flag, 65 for a wrong prompt, 66 for a missing file; for others see
// worker::ExitCodeOf.
int RunGenerate(const GenerateOptions& options, std::istream& in, std::ostream& out, std::ostream& err);

extern const Command kGenerateCommand;

}  // namespace roost::roostctl
