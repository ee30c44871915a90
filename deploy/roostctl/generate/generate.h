// `roostctl generate`: a list of prompts in, JSON lines out. The engine runs in this process.
#pragma once

#include <cstdint>
#include <istream>
#include <ostream>
#include <string>

#include "common/base/clock.h"
#include "common/config/config.h"
#include "deploy/roostctl/command.h"
#include "deploy/roostctl/generate/offline_run.h"
#include "worker/options.h"

namespace roost::roostctl {

// Shows the progress of a run: `Prefill: N tok/s, Decode: N tok/s, cached N%`, over the run so far. A terminal gets one
// line that is overwritten in place; other outputs get a line per second.

enum class LiveOutput { kTerminal, kLines };

class LiveLine {
 public:
  // Both outlive it.
  LiveLine(std::ostream& out, const Clock& clock, LiveOutput output);

  // Writes a line if it is time.
  void Update(const OfflineTotals& totals);
  // Writes the last line, and one with the tokens and seconds of the whole run.
  void End(const OfflineTotals& totals);

 private:
  void Write(const OfflineTotals& totals);

  std::ostream& out_;
  const Clock& clock_;
  const LiveOutput output_;
  Instant written_;  // the time when the last line was written, or the run began
};

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
