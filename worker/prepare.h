// From flags to a worker that is ready to start: loads the model and checks everything that comes with it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"
#include "worker/model/loading/model_text.h"
#include "worker/options.h"
#include "worker/worker.h"

namespace roost::worker {

// Preparations that every engine shares.

// Routers would refuse a worker whose text they can not handle, one after another. This check reports it once, at the
// start, and logs what the chat template leaves out. Adds the stop tokens that only the tokenizer's end token and the
// template tell. `model` names the folder in errors.
[[nodiscard]] Result<std::shared_ptr<const Tokenizer>> CompleteText(ModelText& text, const std::string& model);

// The token that ends an answer in the template's form: the added token that it writes directly behind one. Empty for
// Harmony, whose answers are several messages, and where ordinary text stands there.
[[nodiscard]] std::optional<TokenId> TurnEndOf(const ModelText& text, const Tokenizer& tokenizer,
                                               const ChatTemplate& chat_template);

// The fields of a setup that follow from the flags and the model's text alone.
void FillIn(const WorkerOptions& options, ModelText text, WorkerSetup& setup);

// The memory for weights, KV and blocks that travel, of that which a process may use, in bytes. kInvalidArgument where
// the kernel would kill the process itself.
[[nodiscard]] Result<std::uint64_t> MemoryBesideProcess(std::uint64_t available);

// With Roost's own engine. `options` must be complete. An error names the file or the flag; see ExitCodeOf for its
// code. Reading the weights takes most of the time.
[[nodiscard]] Result<WorkerSetup> PrepareWorker(const WorkerOptions& options);
// The same of all workers of the process: beside an engine with several ranks there is one for each, NAME/0 and so on.
[[nodiscard]] Result<std::vector<WorkerSetup>> PrepareWorkers(const WorkerOptions& options);

}  // namespace roost::worker
